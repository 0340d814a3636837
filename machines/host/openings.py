"""One opening of an approval's gate: how it is announced, and what is named after it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from snapshots.storage.approvals import is_same
from snapshots.storage.refusals import ApprovalTakenError

if TYPE_CHECKING:
    from snapshots.storage.approvals import Approval, Approvals

REFUSAL: Final = "error.approval"


def announce(approvals: Approvals, approval: Approval) -> None:
    """Announce an approval; what would be refused is looked at without a write."""
    found = approvals.find(approval.key)
    if found is not None and not is_same(found, approval):
        raise ApprovalTakenError(approval.key, found.file, found.run_id)
    approvals.announce(approval)


def delivery_of(token: str) -> str:
    """Return the delivery's id of an answer to one opening of a gate."""
    return f"approval-{_digest(token)}"


def run_after(token: str, event: str) -> str:
    """Return the id of the run that a decision about finished work begins: the same each time."""
    return f"decided-{_digest(f'{token} {event}')}"


def names_refusal(chart: Any, event: str) -> bool:
    """Whether a transition of an active state takes the event by its own prefix."""
    return any(
        str(named).startswith(REFUSAL) and named.match(event)
        for active in chart.configuration
        for transition in active.transitions
        for named in transition.events
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
