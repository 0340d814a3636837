"""What a careless orchestrator does wrongly beside the runs; `tools.careless` is one.

What is wrong, by scenario: an alert that repeats opens another incident (`incident`); whoever
decided is forgotten (`triage`); each load has a lock of its own (`etl`); no item was ever seen
(`poll`); nothing is carried from wake to wake (`sentinel`); what a decision leads to is begun each
time that it is looked at, and it is looked at twice (`approvals`); a save writes over whatever is
there (`carry`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.charts import incident, triage
from machines.host import approving
from snapshots.clock import SystemClock
from snapshots.identifiers import new_run_id
from snapshots.storage.approvals import CONTINUED, Approvals, Decision
from snapshots.storage.carry import CarryState
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable


def page_again() -> None:
    """Open an incident for each alert; one that is over ends them all."""
    take = incident.take_alert

    async def take_alert(host: Any, alert: dict[str, Any], *, name: Callable[..., str]) -> Any:
        run, incidents = alert["fingerprint"], incident.state_on(host).incidents
        if alert["status"] == "resolved":
            return await host.send(run, "resolve", delivery=f"resolved {run}")
        await host.with_storage(lambda: incidents.close(run))
        known = host.is_live(run)
        return await take(host, alert, name=new_run_id if known else name)

    # The type checker is right, and it is the point; so it is for all that follow.
    incident.take_alert = take_alert  # type: ignore[assignment]  # see above


def forget_who() -> None:
    """Go on with a ticket in somebody's name."""

    def keep_name(chart: triage.Triage, by: str) -> None:
        del by
        chart.model.by = "somebody"

    triage.Triage.keep_name = keep_name  # type: ignore[method-assign, assignment]  # see above


def lock_oneself() -> None:
    """Take a lock that nobody else takes."""
    claim = StateStore.claim

    def claim_own(state: StateStore, name: str, ttl_ms: int, *, holder: str = "") -> Any:
        return claim(state, f"{name} {holder}", ttl_ms, holder=holder)

    StateStore.claim = claim_own  # type: ignore[method-assign, assignment]  # see above


def forget_items() -> None:
    """Find every item new."""
    StateStore.was_seen = lambda *_: False  # type: ignore[method-assign]  # see above


def carry_nothing() -> None:
    """Find nothing that was carried."""
    CarryState.load = lambda *_: None  # type: ignore[method-assign]  # see above


def begin_again() -> None:
    """Begin another run when a decision is found again, and settle it the second time."""
    settle, begun = Approvals.settle, set[str]()
    named, names = vars(approving)["run_after"], set[str]()

    def name_anew(token: str, event: str) -> str:
        first = named(token, event)
        is_known = first in names
        names.add(first)
        return new_run_id(SystemClock()) if is_known else first

    def settle_later(approvals: Approvals, decision: Decision, outcome: str) -> Decision:
        is_first = outcome.startswith(CONTINUED) and decision.key not in begun
        begun.add(decision.key)
        return decision if is_first else settle(approvals, decision, outcome)

    Approvals.settle = settle_later  # type: ignore[method-assign, assignment]  # see above
    vars(approving).update(run_after=name_anew)


def write_over() -> None:
    """Save over whatever revision is there."""
    save = CarryState.save

    def save_anyway(carry: CarryState, key: str, value: Any, *, expected_revision: int) -> int:
        del expected_revision
        there = carry.load(key)
        revision = there.revision if there is not None else 0
        return save(carry, key, value, expected_revision=revision)

    CarryState.save = save_anyway  # type: ignore[method-assign, assignment]  # see above


WRONGS = {
    "incident": page_again,
    "triage": forget_who,
    "etl": lock_oneself,
    "poll": forget_items,
    "sentinel": carry_nothing,
    "approvals": begin_again,
    "carry": write_over,
}
