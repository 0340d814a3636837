"""What a scenario adds to the loop that all of them share, and what is known when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from machines.demo.moments import Occasion
    from machines.demo.outsiders import Habits, Outsiders
    from machines.demo.witness import Doubt, Row, Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Where a scenario takes place, and what of it outlives the kills."""

    file: Path
    service: str
    """Where the process outside listens, as `host:port`."""
    outsiders: Outsiders
    witness: Witness


class Bystanders:
    """Who does something beside the commands; here nobody does."""

    def __init__(self, field: Field) -> None:
        self.field = field

    @property
    def is_idle(self) -> bool:
        """Whether the demo need not wait for them."""
        return True

    def act(self) -> None:
        """Do what is to be done now; called all the time, so that it must not take long."""

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Learn what is on disk after a kill, while nobody has the file."""

    def close(self) -> None:
        """Leave nothing behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known when a demo is over, for the claims to be judged by."""

    scenario: Scenario
    seed: int
    witness: Witness
    outsiders: Outsiders
    bystanders: Bystanders
    doubts: tuple[tuple[Doubt, str | None], ...]
    """Each doubt, with who settled it."""

    def rows(self) -> Iterator[tuple[str, Row | None]]:
        """Yield every planned run, with its row as it was found last."""
        for planned in self.outsiders.plan:
            yield planned.run, self.witness.rows.get(planned.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is to hold, told as what there is none of."""

    text: str
    found: Callable[[Case], Iterable[str]]
    """Returns everything that speaks against it, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What one run did to one thing outside, counted on both sides of the wire."""

    kind: str
    about: str
    """What it was about, if not the run as a whole."""
    left: int
    """How often it left, by what the run's row holds."""
    seen: int
    """How often it was seen outside."""
    is_once: bool | None
    """Whether each time that it is seen is one time that it happens; None if it is no effect."""
    note: str = ""
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One story that the demo tells, as data: who is outside, what they do, what must hold."""

    name: str
    outside: str
    """The module that is run as the process outside; it takes the log's path and the seed."""
    outside_name: str
    machines: tuple[str, ...]
    """The machines of the runs, in turn."""
    runs_default: int
    kills_per_run: float
    """How many kills a run lives through in a long loop, about."""
    occasions: tuple[Occasion, ...]
    habits: Habits
    claims: tuple[Claim, ...]
    control: Claim
    """The claim that a wrong orchestrator must break."""
    deeds: Callable[[Case, Row], Iterator[Deed]]
    headings: tuple[str, str, str, str] = ("EFFECT", "LEFT", "SEEN", "IN DOUBT,\nSETTLED BY")
    notes: Callable[[Case], list[str]] = lambda _: []
    """Returns counts of the scenario's own, a sentence each."""
    ending: Callable[[Case, str], str] = lambda _case, _run: "done"
    """Returns the status that a run has to end with."""
    cyclic: frozenset[str] = frozenset()
    """Machines whose root chart may be moved by one event again and again."""
    bystanders: type[Bystanders] = Bystanders
