"""The machines that the orchestrator hosts, by scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines import Machine
from machines.charts.approval import Release
from machines.charts.backlog import Backlog, Project
from machines.charts.checkout import Checkout
from machines.charts.fulfilment import Fulfilment
from machines.charts.rendering import Rendering, is_there

if TYPE_CHECKING:
    from collections.abc import Mapping

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
}
