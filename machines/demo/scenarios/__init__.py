"""The scenarios of the demo, each a story of its own over the one loop that kills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines.demo.scenarios.approval import APPROVAL
from machines.demo.scenarios.checkout import CHECKOUT
from machines.demo.scenarios.etl import ETL
from machines.demo.scenarios.incident import INCIDENT
from machines.demo.scenarios.poll import POLL
from machines.demo.scenarios.pool import POOL
from machines.demo.scenarios.reattach import REATTACH
from machines.demo.scenarios.sentinel import SENTINEL
from machines.demo.scenarios.triage import TRIAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.demo.scenario import Scenario

SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.name: one
    for one in (
        CHECKOUT,
        POOL,
        REATTACH,
        APPROVAL,
        INCIDENT,
        TRIAGE,
        ETL,
        POLL,
        SENTINEL,
    )
}
"""By name, in the order in which they are told of."""
