"""What a test of charts needs: real hosts on real files, by a clock that is turned by hand.

It imports no test framework; see docs/testing.md.
"""

from machines.testing.fakes import Fake, FakeCall
from machines.testing.lab import Lab, LabHost
from machines.testing.points import POINTS, Crashed
from machines.testing.survival import assert_survives_restarts
from snapshots.testing import START_MS, ManualClock

__all__ = [
    "POINTS",
    "START_MS",
    "Crashed",
    "Fake",
    "FakeCall",
    "Lab",
    "LabHost",
    "ManualClock",
    "assert_survives_restarts",
]
