"""The demo's orchestrator with every effect wrongly declared idempotent, to see that it is noticed.

    python tools/crash.py --control

The charts are the same, made after `effect` was replaced by one that is told not to care.
"""

from __future__ import annotations

import sys
from typing import Any

import machines
from machines.effects import Effect, effect


def careless(fn: Any, **options: Any) -> Effect:
    """Return an effect that is called again whatever became of its last call."""
    return effect(fn, **{"retries": 50, **options, "idempotent": True})


machines.effect = careless

from machines.demo.orchestrator import main  # noqa: E402 - the charts take the effect that is there

if __name__ == "__main__":
    main(sys.argv[1:])
