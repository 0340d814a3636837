"""All scenarios of the crash tool: those of the demo, and those that are too fine to be a show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines.demo.scenarios import SCENARIOS as SHOWN
from tools.scenarios.approvals import APPROVALS
from tools.scenarios.carry import CARRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.demo.scenario import Scenario

SCENARIOS: Final[Mapping[str, Scenario]] = {
    **SHOWN,
    APPROVALS.name: APPROVALS,
    CARRY.name: CARRY,
}
"""All that can be told to `tools/crash.py`, by name."""
