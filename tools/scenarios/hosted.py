"""What the orchestrator hosts in the scenarios of the crash tool, beside those of the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines import Machine
from machines.charts.triage import SCOPE as TICKETS
from machines.demo import hosted
from tools.scenarios.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.storage import Scope

HOSTED: Final[Mapping[str, tuple[Machine, ...]]] = {
    **hosted.HOSTED,
    "approvals": hosted.HOSTED["triage"],
    "carry": (Machine(Tally, name="tally"),),
}
APPROVALS: Final[Mapping[str, Scope]] = {**hosted.APPROVALS, "approvals": TICKETS}
