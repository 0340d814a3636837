"""Carry state under contention: runs and people add to one list at once, and all are killed.

Everybody compares and swaps the same key. Whoever is killed after a save that he heard nothing of
finds it and adds nothing a second time; whoever is overtaken begins with what is there now.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from machines.demo.moments import occasions
from machines.demo.outsiders import starting
from machines.demo.people import People
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Claim, Field, Scenario
from snapshots.opening import open_storage
from snapshots.storage.carry import CarryState
from tools.scenarios.depositor import REFERENCE
from tools.scenarios.tally import CONTRACT, KEY, SCOPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case
    from tools.scenarios.tally import Listed


class Depositors(People[str, int]):
    """One for each run, who adds an entry of his own while the runs add theirs.

    What each is told is the revision that his entry made.
    """

    module = "tools.scenarios.depositor"
    result = "revision"
    interrupted_share = 0.5

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._begun: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether everybody has come, and was told his revision."""
        return super().is_idle and len(self._begun) == len(self.field.outsiders.plan)

    def act(self) -> None:
        """Begin to add what is due, and hear what came of it."""
        outsiders = self.field.outsiders
        for planned in outsiders.plan:
            name = f"by-hand-{planned.run}"
            if name not in self._begun and planned.gates_at <= outsiders.share:
                self._begun.add(name)
                self.say(name)
        self.hear()

    def arguments(self, saying: str) -> tuple[str, ...]:
        """Return what the process of a name is started with."""
        return str(self.field.file), saying


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
