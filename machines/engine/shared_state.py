"""What the library keeps on a class although it belongs to one machine, lent to whose step runs.

A document loaded by `statemachine.io` keeps "initialised" flags in closures, and its session in
its interpreter under the class's name; weighted transitions keep their generator on the class. Two
machines of a class would share them. Each chart has a copy here, swapped in while it runs a step.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from statemachine.io.system_variables import IOProcessor, SessionData

from machines.names import every_state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from statemachine import StateChart
    from statemachine.contrib.weighted import _WeightedGroup

_INITIALISERS = (
    "create_datamodel_action_callable.<locals>.datamodel",
    "create_invoke_init_callable.<locals>.invoke_init",
)
_WEIGHTED = "_make_weighted_cond.<locals>.weighted_cond"


@dataclass(frozen=True, slots=True)
class SharedCells:
    """Where a class keeps what belongs to its machines."""

    flags: tuple[CellType, ...]
    groups: tuple[_WeightedGroup, ...]
    interpreter: Any
    locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = field(
        default_factory=WeakKeyDictionary
    )

    def lock(self) -> asyncio.Lock:
        """Return the running loop's lock: steps that await must not see each other's values."""
        return self.locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


_CACHE: WeakKeyDictionary[type[StateChart[Any]], SharedCells | None] = WeakKeyDictionary()
# A cache of a pure function of an immutable class; it holds nothing that outlives the class.


def shared_cells(chart: type[StateChart[Any]]) -> SharedCells | None:
    """Return what a class shares between its machines, None for an ordinary class."""
    if chart not in _CACHE:
        flags = [_cell(f, "initialized") for f in _functions(chart, _INITIALISERS)]
        groups: dict[int, _WeightedGroup] = {}
        for function in _functions(chart, (_WEIGHTED,)):
            group = _cell(function, "group").cell_contents
            groups.setdefault(id(group), group)
        interpreter = _interpreter(chart)
        found = SharedCells(tuple(flags), tuple(groups.values()), interpreter)
        empty = not (found.flags or found.groups) and interpreter is None
        _CACHE[chart] = None if empty else found
    return _CACHE[chart]


def _functions(chart: type[StateChart[Any]], suffixes: tuple[str, ...]) -> Iterator[FunctionType]:
    for specs in _spec_lists(chart):
        for spec in specs:
            function = spec.func
            marked = getattr(function, "__code__", None)
            name = marked.co_qualname if marked is not None else ""
            if isinstance(function, FunctionType) and name.endswith(suffixes):
                yield function


def _spec_lists(chart: type[StateChart[Any]]) -> Iterator[Any]:
    for state in every_state(list(chart.states)):
        yield state._specs
        for transition in state.transitions:
            yield transition._specs


def _cell(function: FunctionType, name: str) -> CellType:
    assert function.__closure__ is not None
    return function.__closure__[function.__code__.co_freevars.index(name)]


def _interpreter(chart: type[StateChart[Any]]) -> Any:
    prepare: Callable[..., Any] | None = chart.__dict__.get("prepare_event")
    owner = getattr(prepare, "__self__", None)
    return owner if hasattr(owner, "sessions") else None


@dataclass(slots=True)
class Shared:
    """One machine's own values of what its class shares."""

    cells: SharedCells
    flags: list[bool]
    session_id: str | None = None
    raised: bool = False
    """Whether a first event was raised: `_event` is bound from then on."""
    processor: Any = None
    """The machine's `_ioprocessors`: one object, since documents compare it."""
    generators: list[random.Random] = field(default_factory=list)
    selected: list[int | None] = field(default_factory=list)
    _lent: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, chart: type[StateChart[Any]]) -> Shared | None:
        """Return fresh values for a new machine, None if its class shares nothing."""
        cells = shared_cells(chart)
        if cells is None:
            return None
        made = cls(cells, [False] * len(cells.flags))
        for group in cells.groups:
            own = random.Random()  # noqa: S311 - it continues the chart's own generator
            own.setstate(group.rng.getstate())
            made.generators.append(own)
            made.selected.append(None)
        return made

    @asynccontextmanager
    async def lent(self, machine: StateChart[Any], *, waits: bool) -> AsyncIterator[None]:
        """Lend the values for one step; a step that awaits keeps the class's others waiting."""
        if waits:
            async with self.cells.lock():
                self.lend(machine)
                try:
                    yield
                finally:
                    self.take_back(machine)
            return
        self.lend(machine)
        try:
            yield
        finally:
            self.take_back(machine)

    def lend(self, machine: StateChart[Any]) -> None:
        """Put the machine's values where the class keeps them."""
        cells = self.cells
        self._lent = [cell.cell_contents for cell in cells.flags]
        for cell, flag in zip(cells.flags, self.flags, strict=True):
            cell.cell_contents = flag
        for place, group in enumerate(cells.groups):
            self._lent.append((group.rng, group._selected))
            group.rng = self.generators[place]
            group._selected = self.selected[place]
        if cells.interpreter is not None:
            self._lend_session(machine)

    def _lend_session(self, machine: StateChart[Any]) -> None:
        interpreter = self.cells.interpreter
        if self.processor is None or self.processor._machine is not machine:
            self.processor = IOProcessor(interpreter, machine=machine)
        session = SessionData(machine=machine, processor=self.processor)
        if self.session_id is None:
            self.session_id = session.session_id
        session.session_id = self.session_id
        session.first_event_raised = self.raised
        self._lent.append(interpreter.sessions.get(machine.name))
        interpreter.sessions[machine.name] = session

    def take_back(self, machine: StateChart[Any]) -> None:
        """Keep what the step made of the values, and restore what the class had."""
        cells = self.cells
        lent, self._lent = self._lent, []
        if cells.interpreter is not None:
            former = lent.pop()
            self.raised = cells.interpreter.sessions[machine.name].first_event_raised
            if former is None:
                del cells.interpreter.sessions[machine.name]
            else:
                cells.interpreter.sessions[machine.name] = former
        for place in reversed(range(len(cells.groups))):
            group = cells.groups[place]
            self.selected[place] = group._selected
            group.rng, group._selected = lent.pop()
        self.flags = [bool(cell.cell_contents) for cell in cells.flags]
        for cell, flag in zip(cells.flags, lent, strict=True):
            cell.cell_contents = flag

    def as_value(self) -> dict[str, Any]:
        """Return the values as a snapshot holds them."""
        value: dict[str, Any] = {}
        if self.cells.flags:
            value["flags"] = list(self.flags)
        if self.cells.interpreter is not None:
            value |= {"session": self.session_id, "raised": self.raised}
        if self.generators:
            value["weighted"] = [
                {"state": _pack(generator), "selected": selected}
                for generator, selected in zip(self.generators, self.selected, strict=True)
            ]
        return value

    def restore(self, value: dict[str, Any]) -> None:
        """Take the values out of a snapshot."""
        self.flags = [bool(flag) for flag in value.get("flags", self.flags)]
        self.session_id = value.get("session", self.session_id)
        self.raised = bool(value.get("raised", self.raised))
        for place, stored in enumerate(value.get("weighted", ())):
            self.generators[place].setstate(_unpack(stored["state"]))
            self.selected[place] = stored["selected"]


def _pack(generator: random.Random) -> dict[str, Any]:
    version, internal, gauss = generator.getstate()
    words = b"".join(word.to_bytes(4, "little") for word in internal)
    return {"version": version, "words": words, "gauss": gauss}


def _unpack(stored: dict[str, Any]) -> tuple[Any, ...]:
    words = stored["words"]
    internal = tuple(int.from_bytes(words[at : at + 4], "little") for at in range(0, len(words), 4))
    return stored["version"], internal, stored["gauss"]
