"""Loads of one market: many are started, one at a time is at work, and no price is written twice.

The lock, the prices and the cursor lie beside the runs, and have to agree after each kill.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from machines.charts.etl import SCOPE
from machines.demo.limits import RELEASE_SHARE
from machines.demo.moments import Occasion, occasions
from machines.demo.outside.sources import price_of
from machines.demo.outsiders import Wish, start
from machines.demo.results import LOST, REFUSED, STUCK, TWISTED
from machines.demo.scenario import Claim, Deed, Scenario
from snapshots.opening import open_storage
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun
    from machines.demo.scenario import Case
    from machines.demo.witness import Row

MARKET: Final = "xetra"
READING: Final = Occasion(
    at="read",
    weight=30,
    phrase="{what} of {subject} were read",
    after_s_max=0.02,
    nth_max=6,
)
"""A kill about a reading, in all scenarios that read."""


def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
    """Yield the start of a load; unlike other runs they go on to be started to the last life."""
    if planned.starts_at / RELEASE_SHARE <= outsiders.share:
        yield start(planned, {"market": MARKET, "service": outsiders.service})


def readings(case: Case) -> list[dict[str, Any]]:
    """Return every reading of prices, in the market's order."""
    return case.witness.log.notes("prices")


def written(case: Case) -> int:
    """Return how many prices the loads found to be new.

    A write that a kill separated from its run's row is not among them: its repeat finds it there.
    """
    return sum(row.view.context["written"] for _, row in case.rows() if row is not None)


def _two_at_work(case: Case) -> Iterator[str]:
    over: dict[str, str] = {}
    for before, after in pairwise(readings(case)):
        if before["by"] != after["by"]:
            over[before["by"]] = after["by"]
        if after["by"] in over:
            yield f"{after['by']} read on, although {over[after['by']]} had begun"
        if before["token"] > after["token"]:
            yield f"{after['by']} read under token {after['token']} after {before['token']}"
    by_token: dict[int, set[str]] = defaultdict(set)
    for entry in readings(case):
        by_token[entry["token"]].add(entry["by"])
    for token, holders in by_token.items():
        if len(holders) > 1:
            yield f"token {token} was held by {' and '.join(sorted(holders))}"


def _backward(case: Case) -> Iterator[str]:
    for before, after in pairwise(readings(case)):
        if after["after"] < before["after"]:
            yield f"{after['by']} read after {after['after']}, and {before['after']} was known"


def _not_written_once(case: Case) -> Iterator[str]:
    shown = {at for entry in readings(case) for at in entry["ats"]}
    with open_storage(case.witness.file) as backend:
        state = StateStore(backend.keyed, backend.leases, SCOPE)
        kept = {entry.key: entry.value for entry in state.list()}
        position = state.poll_cursor(MARKET).position()
    if kept != {f"{MARKET} {at}": price_of(at) for at in shown}:
        yield f"{len(shown)} prices were read, and {len(kept)} are written, or others"
    if position != max(shown, default=None):
        yield f"the cursor is at {position}, and {max(shown, default=None)} was read"
    if (counted := written(case)) > len(kept):
        yield f"{counted} prices were found to be new, and {len(kept)} are there"


def _locked(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        lease = backend.leases.read(SCOPE, MARKET)
        if lease is not None:
            yield f"{lease.holder} has the lock, and nobody works"


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield the pages that a load has read."""
    pages = [entry for entry in readings(case) if entry["by"] == row.view.run_id]
    starts = {entry["after"] for entry in pages}
    yield Deed(
        kind=row.view.configuration[0],
        about="",
        left=len(pages),
        seen=row.view.context["written"],
        is_once=None,
        note=f"{len(pages) - len(starts)} pages read again",
    )


def notes(case: Case) -> list[str]:
    """Return how many loads found another one at work."""
    ends = [row.view.configuration[0] for _, row in case.rows() if row is not None]
    loads = ends.count("loaded")
    pages = readings(case)
    shown = len({at for entry in pages for at in entry["ats"]})
    return [
        f"Loads: {loads}, that found another one at work: {ends.count('overlapped')}.",
        f"Prices: {shown}, written by what a kill cut off: {shown - written(case)}.",
    ]


ALONE: Final = Claim(text="loads at work beside another one", found=_two_at_work)
FORWARD: Final = Claim(text="readings from before the cursor", found=_backward)
WRITTEN: Final = Claim(text="prices not written exactly once", found=_not_written_once)
FREE: Final = Claim(text="locks that nobody gave back", found=_locked)

ETL: Final = Scenario(
    name="etl",
    outside="machines.demo.outside.sources",
    outside_name="market",
    machines=("etl",),
    runs_default=16,
    kills_per_run=0.5,
    occasions=occasions("market", READING),
    habits=habits,
    claims=(ALONE, FORWARD, WRITTEN, FREE, LOST, STUCK, TWISTED, REFUSED),
    control=ALONE,
    deeds=deeds,
    headings=("END", "PAGES\nREAD", "PRICES\nWRITTEN", "AFTER KILLS"),
    notes=notes,
    cyclic=frozenset({"etl"}),
)
