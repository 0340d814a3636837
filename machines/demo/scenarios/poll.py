"""Feeds that show every item twice, over pages that cut pairs apart: each item is handled once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from machines.charts.poll import SCOPE
from machines.demo.limits import REPEAT_S
from machines.demo.moments import occasions
from machines.demo.outside.sources import items_of
from machines.demo.outsiders import Wish, starting
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED
from machines.demo.scenario import Bystanders, Claim, Deed, Field, Scenario
from machines.demo.scenarios.etl import READING
from snapshots.opening import open_storage
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case
    from machines.demo.witness import Row

OVER: Final = frozenset({"RunFinishedError"})
"""What is told to who wakes a poll that was stopped meanwhile."""


class Wakers(Bystanders):
    """Wake the polls every now and then, and stop each when its feed has been read to its end."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._woken: Counter[str] = Counter()
        self._due_s = 0.0

    def act(self) -> None:
        """Wake or stop every poll that has taken the last word; one that is busy ignores it."""
        outsiders, now_s = self.field.outsiders, time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + REPEAT_S
        ended = {
            entry["subject"]
            for entry in self.field.witness.log.notes("items")
            if entry["after"] == items_of(entry["subject"])[-1]["at"]
        }
        for planned in outsiders.plan:
            run = planned.run
            if not outsiders.is_started(run) or run in outsiders.ended:
                continue
            number = self._woken[run]
            if number and (run, "wake", str(number)) not in outsiders.told:
                continue
            self._woken[run] += 1
            event = "stop" if run in ended else "wake"
            line = {"do": "send", "event": event, "delivery": None}
            wish = Wish(name=("wake", str(self._woken[run])), line=line, losses=OVER)
            outsiders.want(run, wish)


def handled(case: Case) -> Counter[str]:
    """Return how often each item was really handled."""
    return Counter(
        entry["subject"]
        for entry in case.witness.log.accepted()
        if entry["what"] == "handle" and entry["happened"]
    )


def ids_of(feed: str) -> list[str]:
    """Return the items of a feed, each once."""
    return list(dict.fromkeys(item["id"] for item in items_of(feed)))


def readings(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return every reading, by feed."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in case.witness.log.notes("items"):
        found[entry["subject"]].append(entry)
    return found


def _not_handled_once(case: Case) -> Iterator[str]:
    times = handled(case)
    for run, _ in case.rows():
        for item in ids_of(run):
            if times[item] != 1:
                yield f"{item}: {times[item]} times"


def _not_noted(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        state = StateStore(backend.keyed, backend.leases, SCOPE)
        for run, _ in case.rows():
            yield from (f"{item} is not noted" for item in ids_of(run) if not state.was_seen(item))
            position, last = state.poll_cursor(run).position(), items_of(run)[-1]["at"]
            if position != last:
                yield f"{run}: its cursor is at {position}, and the feed ends at {last}"


def _backward(case: Case) -> Iterator[str]:
    for run, entries in readings(case).items():
        for before, after in pairwise(entries):
            if after["after"] < before["after"]:
                yield f"{run}: read after {after['after']}, and {before['after']} was known"


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield what a poll has handled, and how often it was shown it."""
    run, times = row.view.run_id, handled(case)
    shown = sum(len(entry["ids"]) for entry in readings(case)[run])
    ids = ids_of(run)
    yield Deed(
        kind="items",
        about="",
        left=shown,
        seen=sum(times[item] for item in ids),
        is_once=None,
        note=f"{len(ids)} different ones",
        is_bad=any(times[item] > 1 for item in ids),
    )


def notes(case: Case) -> list[str]:
    """Return how much was read."""
    pages = [entry for entries in readings(case).values() for entry in entries]
    empty = sum(not entry["ids"] for entry in pages)
    return [f"Pages read: {len(pages)}, of them empty: {empty}."]


HANDLED: Final = Claim(text="items not handled exactly once", found=_not_handled_once)
NOTED: Final = Claim(text="items handled and not noted", found=_not_noted)
FORWARD: Final = Claim(text="pages from before the cursor", found=_backward)

POLL: Final = Scenario(
    name="poll",
    outside="machines.demo.outside.sources",
    outside_name="feed",
    machines=("poll",),
    runs_default=3,
    kills_per_run=2.5,
    occasions=occasions("feed", READING),
    habits=starting(lambda run, service: {"feed": run, "service": service}),
    claims=(HANDLED, NOTED, FORWARD, LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    control=HANDLED,
    deeds=deeds,
    headings=("WHAT", "SHOWN", "HANDLED", "OF"),
    notes=notes,
    cyclic=frozenset({"poll"}),
    bystanders=Wakers,
)
