"""Somebody who adds to the stock list by hand, from a process without a chart.

    python -m tools.scenarios.depositor FILE NAME

Says one line: the revision that his entry has made, whether he saved it now or finds it there.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from machines.demo.lines import tell
from snapshots.errors import RevisionConflictError, StorageBusyError
from snapshots.opening import open_storage
from snapshots.storage.carry import CarryState
from tools.scenarios.tally import CONTRACT, KEY, SCOPE, place_of

REFERENCE: Final = "by hand"
ATTEMPTS_MAX: Final = 200
THOUGHT_S: Final = 0.01
"""How long it takes him to write down what he adds: others come in between."""


def deposit(file: str, name: str) -> int:
    """Add an entry, and return its revision."""
    with open_storage(file) as backend:
        carry = CarryState(backend.carry, SCOPE, contract=CONTRACT)
        for _ in range(ATTEMPTS_MAX):
            try:
                carried = carry.load(KEY)
                listed, revision = (carried.value, carried.revision) if carried else ([], 0)
                if place := place_of(name, listed):
                    return place
                time.sleep(THOUGHT_S)
                added = [*listed, [name, REFERENCE]]
                return carry.save(KEY, added, expected_revision=revision)
            except (RevisionConflictError, StorageBusyError):
                continue
    message = f"{name!r} was overtaken {ATTEMPTS_MAX} times"
    raise TimeoutError(message)


if __name__ == "__main__":
    tell({"at": "deposited", "revision": deposit(*sys.argv[1:])})
