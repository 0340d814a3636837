"""Alerts: each fires several times and is resolved later, perhaps by another process than began it.

What may be lost is what ties them together: which run, and which message, an alert is about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from machines.charts.incident import SCOPE
from machines.demo.moments import occasions
from machines.demo.outsiders import Wish
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Claim, Scenario
from snapshots.opening import open_storage, open_store
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun
    from machines.demo.scenario import Case

REPEATS: Final = 3
"""How often an alert fires again."""
GATE_GONE: Final = frozenset({"GateClosedError", "RunFinishedError"})
"""What is told to a person who acknowledges what is over."""


def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
    """Yield an alert, its repeats, and its end once it is time to and all of them were taken."""
    run = planned.run
    fired = {"fingerprint": run, "summary": f"{run} is full", "service": outsiders.service}
    firing = {"do": "alert", "alert": {**fired, "status": "firing"}}
    yield Wish(name=("start",), line=firing)
    if not outsiders.is_started(run):
        return
    repeats = [("again", str(number)) for number in range(REPEATS)]
    for name in repeats:
        yield Wish(name=name, line=firing)
    for gate, event in outsiders.gates(run).items():
        line = {"do": "answer", "gate": gate, "event": event, "data": {"by": "ann"}}
        yield Wish(name=("gate", gate), line=line, losses=GATE_GONE)
    is_taken = all((run, *name) in outsiders.told for name in repeats)
    if is_taken and planned.gates_at <= outsiders.share:
        over = {"fingerprint": run, "status": "resolved"}
        line = {"do": "alert", "alert": over, "delivery": f"resolved {run}"}
        yield Wish(name=("resolved",), line=line)


def happened(case: Case, what: str) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of what really happened, by the alert that it was about."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in case.witness.log.accepted():
        if entry["what"] == what and entry["happened"]:
            found[entry["subject"]].append(entry)
    return found


def _not_paged_once(case: Case) -> Iterator[str]:
    pages = happened(case, "message")
    for alert, _ in case.rows():
        if len(pages[alert]) != 1:
            yield f"{alert}: {len(pages[alert])} messages"


def _not_ended_once(case: Case) -> Iterator[str]:
    pages, ends = happened(case, "message"), happened(case, "resolved")
    for alert, _ in case.rows():
        messages = [entry["reference"] for entry in pages[alert]]
        told = [entry["details"]["message"] for entry in ends[alert]]
        if len(told) != 1 or told[0] not in messages:
            yield f"{alert}: its messages are {messages}, its end was told under {told}"


def _opened_twice(case: Case) -> Iterator[str]:
    planned = {run for run, _ in case.rows()}
    with open_store(case.witness.file, read_only=True) as store:
        for header in store.headers():
            if header.run_id not in planned:
                yield f"{header.run_id} is a run that nothing but a repeat can have begun"


def _left_open(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        incidents = StateStore(backend.keyed, backend.leases, SCOPE).incidents
        for alert, _ in case.rows():
            if (found := incidents.find(alert)) is not None:
                yield f"{alert}: {found.value}"


def notes(case: Case) -> list[str]:
    """Return how many alerts there were, and how many ended while nobody had acknowledged them."""
    told = Counter(name[1] for name in case.outsiders.told)
    fired = told["start"] + told["again"]
    return [f"Alerts that fired: {fired}, that were resolved: {told['resolved']}."]


PAGED: Final = Claim(text="alerts not paged exactly once", found=_not_paged_once)
ENDED: Final = Claim(
    text="alerts whose end was not told under their message", found=_not_ended_once
)
OPENED: Final = Claim(text="incidents begun by a repeat", found=_opened_twice)
OPEN: Final = Claim(text="incidents left open", found=_left_open)

INCIDENT: Final = Scenario(
    name="incident",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=("incident",),
    runs_default=6,
    kills_per_run=1.5,
    occasions=occasions("receiver"),
    habits=habits,
    claims=(PAGED, ENDED, OPENED, OPEN, LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    control=PAGED,
    deeds=effects,
    notes=notes,
)
