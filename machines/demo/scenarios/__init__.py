"""The scenarios of the demo, each a story of its own over the one loop that kills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines.demo.scenarios.approval import APPROVAL
from machines.demo.scenarios.checkout import CHECKOUT
from machines.demo.scenarios.pool import POOL
from machines.demo.scenarios.reattach import REATTACH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.demo.scenario import Scenario

SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.name: one for one in (CHECKOUT, POOL, REATTACH, APPROVAL)
}
"""By name, in the order in which they are told of."""
