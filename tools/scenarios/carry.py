"""Carry state under contention: runs and people add to one list at once, and all are killed.

Everybody compares and swaps the same key. Whoever is killed after a save that he heard nothing of
finds it and adds nothing a second time; whoever is overtaken begins with what is there now.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from machines.demo.moments import occasions
from machines.demo.outsiders import starting
from machines.demo.processes import Errand
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Bystanders, Claim, Field, Scenario
from snapshots.codec import load
from snapshots.opening import open_storage
from snapshots.storage.carry import CarryState
from tools.scenarios.depositor import REFERENCE
from tools.scenarios.tally import CONTRACT, KEY, SCOPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case
    from machines.demo.witness import Row
    from tools.scenarios.tally import Listed

DEPOSITOR: Final = "tools.scenarios.depositor"
WORDS_CHARS_MAX: Final = 200
INTERRUPTED_SHARE: Final = 0.5
"""The share of people who die together with the orchestrator, and come again."""


class Depositors(Bystanders):
    """One for each run, who adds an entry of his own while the runs add theirs."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.interrupted = 0
        """How many of them were killed."""
        self.told: dict[str, int] = {}
        """The revision that each was told, by name."""
        self._dice = random.Random("depositors")
        self._errands: dict[str, Errand] = {}

    @property
    def is_idle(self) -> bool:
        """Whether everybody was told his revision."""
        return len(self.told) == len(self.field.outsiders.plan)

    def act(self) -> None:
        """Begin to add what is due, and hear what came of it."""
        outsiders = self.field.outsiders
        for planned in outsiders.plan:
            name = f"by-hand-{planned.run}"
            is_new = name not in self.told and name not in self._errands
            if is_new and planned.gates_at <= outsiders.share:
                self._errands[name] = Errand((str(self.field.file), name), DEPOSITOR)
        for name in [name for name, errand in self._errands.items() if errand.poll() is not None]:
            self._hear(name, self._errands.pop(name))

    def _hear(self, name: str, errand: Errand) -> None:
        code, (output, complaint) = errand.poll(), errand.said()
        errand.close()
        self.told[name] = load(output)["revision"] if code == 0 else 0
        if code != 0:
            words = complaint.decode("utf-8", "replace").strip()[-WORDS_CHARS_MAX:]
            self.field.outsiders.refused.append(f"{name}: code {code}, {words}")

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Interrupt some of them; they come again."""
        del rows
        for name in list(self._errands):
            if self._dice.random() < INTERRUPTED_SHARE:
                self._errands.pop(name).close()
                self.interrupted += 1

    def close(self) -> None:
        """End those that are still at it."""
        for errand in self._errands.values():
            errand.close()


def found(case: Case) -> tuple[Listed, int]:
    """Return the list as it is stored, and its revision."""
    with open_storage(case.witness.file) as backend:
        carried = CarryState(backend.carry, SCOPE, contract=CONTRACT).load(KEY)
    return (carried.value, carried.revision) if carried is not None else ([], 0)


def told(case: Case) -> dict[str, list[int]]:
    """Return the revisions that each run has told the service, and each person was told."""
    assert isinstance(case.bystanders, Depositors)
    revisions = {name: [revision] for name, revision in case.bystanders.told.items()}
    for entry in case.witness.log.accepted():
        if entry["what"] == "booked":
            revisions.setdefault(entry["subject"], []).append(entry["details"]["revision"])
    return revisions


def _not_listed_once(case: Case) -> Iterator[str]:
    assert isinstance(case.bystanders, Depositors)
    log = case.witness.log
    expected = {(run, str(log.reference("count", f"count-{run}"))) for run, _ in case.rows()}
    expected |= {(name, REFERENCE) for name in case.bystanders.told}
    listed = Counter((name, reference) for name, reference in found(case)[0])
    for entry in expected | listed.keys():
        if (entry in expected, listed[entry]) != (True, 1):
            yield f"{entry[0]} with {entry[1]!r} is on the list {listed[entry]} times"


def _told_wrongly(case: Case) -> Iterator[str]:
    listed, revision = found(case)
    if revision != len(listed):
        yield f"the list has revision {revision}, and {len(listed)} entries"
    for name, revisions in told(case).items():
        places = [n for n, entry in enumerate(listed, start=1) if entry[0] == name]
        if set(revisions) != set(places):
            yield f"{name}: told revision {revisions}, and is at {places}"


def _not_begun_from(case: Case) -> Iterator[str]:
    listed, _ = found(case)
    for run, row in case.rows():
        seen = row.view.context["found"] if row is not None else []
        if seen != listed[: len(seen)]:
            yield f"{run}: found {len(seen)} entries that are no beginning of the list"


def notes(case: Case) -> list[str]:
    """Return how much they got in each other's way."""
    assert isinstance(case.bystanders, Depositors)
    contexts: list[Any] = [row.view.context for _, row in case.rows() if row is not None]
    overtaken = sum(context["conflicts"] for context in contexts)
    return [
        f"Entries: {len(found(case)[0])}, saves of runs that were overtaken: {overtaken}.",
        f"People who were killed as well: {case.bystanders.interrupted}.",
    ]


LISTED: Final = Claim(text="entries lost, or added twice", found=_not_listed_once)
REVISED: Final = Claim(text="revisions told that are another's", found=_told_wrongly)
BEGUN: Final = Claim(text="lists found that were taken back later", found=_not_begun_from)

CARRY: Final = Scenario(
    name="carry",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=("tally",),
    runs_default=6,
    kills_per_run=1.5,
    occasions=occasions("receiver"),
    habits=starting(lambda run, service: {"number": run, "service": service}),
    claims=(LISTED, REVISED, BEGUN, LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    control=LISTED,
    deeds=effects,
    notes=notes,
    cyclic=frozenset({"tally"}),
    bystanders=Depositors,
)
