"""The machines that the orchestrator hosts, by scenario, and whose approvals it looks after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines import Machine
from machines.charts.approval import Release
from machines.charts.backlog import Backlog, Project
from machines.charts.checkout import Checkout
from machines.charts.etl import Etl
from machines.charts.fulfilment import Fulfilment
from machines.charts.incident import Incident
from machines.charts.poll import Poll
from machines.charts.rendering import Rendering, is_there
from machines.charts.sentinel import Watch, WatchBefore
from machines.charts.triage import SCOPE as TICKETS
from machines.charts.triage import Followup, Triage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.storage import Scope

HOSTED: Final[Mapping[str, tuple[Machine, ...]]] = {
    "checkout": (
        Machine(Checkout, name="checkout", failed=("refused",)),
        Machine(Fulfilment, name="fulfilment"),
    ),
    "pool": (
        Machine(Backlog, name="backlog", context=Project, failed=("deadlocked", "unreachable")),
    ),
    "reattach": (Machine(Rendering, name="rendering", failed=("abandoned",), reconcile=is_there),),
    "approval": (Machine(Release, name="release", failed=("withdrawn",)),),
    "incident": (Machine(Incident, name="incident"),),
    "triage": (
        Machine(Triage, name="mail", failed=("rejected", "duplicate")),
        Machine(Followup, name="followup"),
    ),
    "etl": (Machine(Etl, name="etl", failed=("broken",)),),
    "poll": (Machine(Poll, name="poll"),),
    "sentinel": (
        Machine(WatchBefore, name="levels-before", failed=("refused",)),
        Machine(Watch, name="levels", failed=("refused",)),
    ),
}
APPROVALS: Final[Mapping[str, Scope]] = {"triage": TICKETS}
