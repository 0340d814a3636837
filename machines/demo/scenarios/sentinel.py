"""Wakes, one after the other: each goes on from what the one before has saved.

The first half of them carries the first version of the contract; then the next one is deployed,
and the first wake under it finds what the last one before it saved, migrated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from machines.charts.sentinel import LEVELS, LEVELS_BEFORE
from machines.demo.moments import occasions
from machines.demo.outsiders import Wish
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED
from machines.demo.scenario import Claim, Deed, Scenario
from machines.demo.scenarios.etl import READING
from machines.sentinel import SENTINELS
from snapshots.opening import open_storage
from snapshots.storage.carry import CarryState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun
    from machines.demo.scenario import Case
    from machines.demo.witness import Row

BEFORE, NOW = LEVELS_BEFORE.contract.version, LEVELS.contract.version


def is_after_deploy(planned: PlannedRun, plan: tuple[PlannedRun, ...]) -> bool:
    """Whether a wake comes after the deploy, which is half-way."""
    return plan.index(planned) >= len(plan) // 2


def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
    """Yield a wake, once the one before it has ended and some lives have passed."""
    plan = outsiders.plan
    number = plan.index(planned)
    is_next = number == 0 or plan[number - 1].run in outsiders.ended
    if is_next and number / len(plan) <= outsiders.share:
        machine = "levels" if is_after_deploy(planned, plan) else "levels-before"
        line = {"do": "wake", "machine": machine, "input": {"service": outsiders.service}}
        yield Wish(name=("start",), line=line)


def wakes(case: Case) -> list[tuple[str, dict[str, Any]]]:
    """Return what each wake knew at its end, in their order."""
    return [(run, dict(row.view.context)) for run, row in case.rows() if row is not None]


def alerts(case: Case, run: str) -> list[str]:
    """Return what a wake has really told of."""
    return [
        entry["subject"]
        for entry in case.witness.log.accepted()
        if entry["happened"] and entry["key"].startswith(f"{run}/")
    ]


def _with_gaps(case: Case) -> Iterator[str]:
    for number, (run, wake) in enumerate(wakes(case)):
        if wake["revision"] != number:
            yield f"{run}: found revision {wake['revision']}, and {number} wakes had saved"
    with open_storage(case.witness.file) as backend:
        record = backend.carry.load(SENTINELS, LEVELS.key)
    found = None if record is None else (record.contract_version, record.revision)
    if found != (NOW, len(wakes(case))):
        yield f"what is carried has version and revision {found}, after {len(wakes(case))} wakes"


def _migrated_wrongly(case: Case) -> Iterator[str]:
    plan = case.outsiders.plan
    deployed = [planned.run for planned in plan if is_after_deploy(planned, plan)]
    for run, wake in wakes(case):
        is_first = run == deployed[0] and run != plan[0].run
        expected = [BEFORE, NOW] if is_first else None
        # As plain JSON a tuple is under the mark of its class.
        found = None if wake["migrated"] is None else wake["migrated"]["v"]
        if found != expected:
            yield f"{run}: was handed something migrated {found}, not {expected}"
    with open_storage(case.witness.file) as backend:
        carry = CarryState(backend.carry, SENTINELS, contract=LEVELS.contract)
        carried = carry.load(LEVELS.key)
    if carried is None or carried.value.wakes != len(deployed):
        yield f"{carried} is carried, after {len(deployed)} wakes that count"


def _not_handed_on(case: Case) -> Iterator[str]:
    said = [entry["levels"] for entry in case.witness.log.notes("levels")]
    before: dict[str, int] = {}
    for run, wake in wakes(case):
        levels = wake["levels"]
        changed = sorted(p for p in levels if before.get(p, levels[p]) != levels[p])
        if wake["changed"] != changed:
            yield f"{run}: found {wake['changed']} changed, from {before} to {levels}"
        if levels not in said:
            yield f"{run}: has seen {levels}, which was never shown"
        before = levels


def _not_told_once(case: Case) -> Iterator[str]:
    for run, wake in wakes(case):
        expected = [",".join(wake["changed"])] if wake["changed"] else []
        if (told := alerts(case, run)) != expected:
            yield f"{run}: told of {told}, and {expected} had changed"


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield what a wake has found and told."""
    wake, run = row.view.context, row.view.run_id
    told = alerts(case, run)
    migrated = ", migrated" if wake["migrated"] is not None else ""
    yield Deed(
        kind="alert",
        about=",".join(wake["changed"]),
        left=len(wake["changed"]),
        seen=len(told),
        is_once=None,
        note=f"{wake['revision']}{migrated}",
    )


def notes(case: Case) -> list[str]:
    """Return how many wakes there were, and what they came to."""
    known = wakes(case)
    told = sum(len(alerts(case, run)) for run, _ in known)
    read = len(case.witness.log.notes("levels"))
    return [f"Wakes: {len(known)}, readings: {read}, changes told: {told}."]


GAPS: Final = Claim(text="revisions left out, or saved twice", found=_with_gaps)
MIGRATED: Final = Claim(text="migrations left out, or made twice", found=_migrated_wrongly)
HANDED: Final = Claim(text="levels that were not handed on", found=_not_handed_on)
TOLD: Final = Claim(text="changes not told exactly once", found=_not_told_once)

SENTINEL: Final = Scenario(
    name="sentinel",
    outside="machines.demo.outside.sources",
    outside_name="gauge",
    machines=("levels",),
    runs_default=16,
    kills_per_run=0.5,
    occasions=occasions("gauge", READING),
    habits=habits,
    claims=(GAPS, MIGRATED, HANDED, TOLD, LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    control=GAPS,
    deeds=deeds,
    headings=("EFFECT", "CHANGES", "TOLD", "REVISION FOUND"),
    notes=notes,
)
