"""Somebody who decides by a key, knowing a file and nothing of the process that hosts its runs.

    python -m machines.demo.outside.decider FILE KEY EVENT BY

Says one line: `outcome` is `decided`, `decided before` (by the same person), `unknown` (nothing is
open under the key) or `too late`.
"""

from __future__ import annotations

import sys
from typing import Final

from machines.charts.triage import SCOPE
from machines.demo.lines import tell
from snapshots.opening import open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.refusals import AlreadyDecidedError, ApprovalNotFoundError
from snapshots.storage.state import StateStore

DECIDED: Final = "decided"
BEFORE: Final = "decided before"
UNKNOWN: Final = "unknown"
LATE: Final = "too late"


def decide(file: str, key: str, event: str, by: str) -> str:
    """Decide, and return what came of it."""
    with open_storage(file) as backend:
        approvals = Approvals(StateStore(backend.keyed, backend.leases, SCOPE))
        try:
            approvals.decide(key, event, by=by)
        except AlreadyDecidedError as error:
            return BEFORE if error.by == by else LATE
        except ApprovalNotFoundError:
            return UNKNOWN
        return DECIDED


if __name__ == "__main__":
    tell({"at": "decided", "outcome": decide(*sys.argv[1:])})
