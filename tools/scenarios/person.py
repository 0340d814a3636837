"""Somebody who decides by a key, in any way that there is: in time, early, late, or wrongly.

    python -m tools.scenarios.person FILE KEY EVENT BY [EARLY_TTL_MS]

Says one line: `outcome` is one of those of `machines.demo.outside.decider`, or `refused` for an
event that is not waited for.
"""

from __future__ import annotations

import sys
from typing import Final

from machines.charts.triage import SCOPE
from machines.demo.lines import tell
from machines.demo.outside.decider import BEFORE, DECIDED, LATE, UNKNOWN
from snapshots.errors import StorageBusyError
from snapshots.opening import open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.refusals import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    DecisionRefusedError,
)
from snapshots.storage.state import StateStore

REFUSED: Final = "refused"


def decide(file: str, key: str, event: str, by: str, early_ttl_ms: int | None) -> str:
    """Decide, and return what came of it."""
    with open_storage(file) as backend:
        approvals = Approvals(StateStore(backend.keyed, backend.leases, SCOPE))
        try:
            approvals.decide(key, event, by=by, early_ttl_ms=early_ttl_ms)
        except AlreadyDecidedError as error:
            return BEFORE if (error.by, error.event) == (by, event) else LATE
        except (ApprovalNotFoundError, StorageBusyError):
            # To be tried again: it does not wait yet, or somebody else writes for long.
            return UNKNOWN
        except DecisionRefusedError:
            return REFUSED
        return DECIDED


def main(arguments: list[str]) -> None:
    """Decide as the arguments say."""
    file, key, event, by, *early = arguments
    outcome = decide(file, key, event, by, int(early[0]) if early else None)
    tell({"at": "decided", "outcome": outcome})


if __name__ == "__main__":
    main(sys.argv[1:])
