"""Grows the states of a random chart: how they nest, which are final, what history they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tools.charts.spec import Act, InvokeSpec, StateKind, StateSpec

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

DEPTH_MAX = 4
STATES_MAX = 16
"""About how many states a chart has at most; a compound that was begun is completed."""


@dataclass(slots=True, eq=False)
class Draft:
    """A state that is still being worked on."""

    id: str
    kind: StateKind
    parent: Draft | None = None
    children: list[Draft] = field(default_factory=list)
    initial: bool = False
    value: int | str | None = None
    grade: str | None = None
    enter: list[Act] = field(default_factory=list)
    exit: list[Act] = field(default_factory=list)
    invokes: list[InvokeSpec] = field(default_factory=list)
    donedata: Literal["", "fields", "value"] = ""

    @property
    def is_history(self) -> bool:
        """Whether this is a pseudo-state."""
        return self.kind.startswith("history")

    @property
    def siblings(self) -> list[Draft]:
        """The real states with the same parent, this one left out; none for a top-level state."""
        beside = self.parent.children if self.parent is not None else []
        return [state for state in beside if state is not self and not state.is_history]

    def walk(self) -> Iterator[Draft]:
        """This state and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def ancestors(self) -> Iterator[Draft]:
        """The states that this one is nested in, the innermost first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def freeze(self) -> StateSpec:
        """The finished state."""
        return StateSpec(
            id=self.id,
            kind=self.kind,
            value=self.value,
            grade=self.grade,
            initial=self.initial,
            children=tuple(child.freeze() for child in self.children),
            enter=tuple(self.enter),
            exit=tuple(self.exit),
            invokes=tuple(self.invokes),
            donedata=self.donedata,
        )


class Growth:
    """Makes the states of one chart, numbering them as they come."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made = 0

    def _new(self, kind: StateKind, parent: Draft | None) -> Draft:
        letter = "h" if kind.startswith("history") else "s"
        state = Draft(f"{letter}{self.made}", kind, parent)
        self.made += 1
        if parent is not None:
            parent.children.append(state)
        return state

    def states(self, *, parallel_root: bool, has_final: bool) -> list[Draft]:
        """The top-level states: a single parallel one, or two to four of any kind."""
        if parallel_root:
            root = self._parallel(None, 1)
            root.initial = True
            return [root]
        top = [self._any(None, 1) for _ in range(self.rng.randint(2, 4))]
        top[0].initial = True
        if has_final:
            final = self._new("final", None)
            final.donedata = self._donedata()
            top.append(final)
        return top

    def _any(self, parent: Draft | None, depth: int) -> Draft:
        roll = self.rng.random()
        if depth >= DEPTH_MAX or self.made >= STATES_MAX or roll < 0.45:
            return self._new("atomic", parent)
        return self._compound(parent, depth) if roll < 0.8 else self._parallel(parent, depth)

    def _compound(self, parent: Draft | None, depth: int, *, final: bool = False) -> Draft:
        state = self._new("compound", parent)
        for _ in range(self.rng.randint(1, 3)):
            self._any(state, depth + 1)
        state.children[0].initial = True
        if final or self.rng.random() < 0.5:
            self._new("final", state).donedata = self._donedata()
        self._add_history(state)
        return state

    def _parallel(self, parent: Draft | None, depth: int) -> Draft:
        state = self._new("parallel", parent)
        all_end = self.rng.random() < 0.8
        for _ in range(2 if self.rng.random() < 0.8 else 3):
            self._compound(state, depth + 1, final=all_end)
        self._add_history(state)
        return state

    def _add_history(self, state: Draft) -> None:
        if self.rng.random() < 0.45:
            deep = self.rng.random() < 0.5
            self._new("history-deep" if deep else "history-shallow", state)

    def _donedata(self) -> Literal["", "fields", "value"]:
        return self.rng.choice(("", "fields", "value"))


ValueKind = Literal["int", "str", "grade", "mixed"]


def give_values(rng: random.Random, states: list[Draft], kind: ValueKind) -> None:
    """Give states values that are not their ids; history states are never a value of a model."""
    real = [state for top in states for state in top.walk() if not state.is_history]
    for number, state in enumerate(real):
        chosen = rng.choice(("int", "str", "grade", "id")) if kind == "mixed" else kind
        if chosen == "int":
            state.value = 100 + number
        elif chosen == "str":
            state.value = f"value of {state.id}"
        elif chosen == "grade":
            state.grade = f"G{number}"
