"""Commands that reach a run by a chart's own entrance, and not by its id: alerts, for instance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from machines.charts import incident, sentinel, triage
from snapshots.identifiers import new_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines import Host
    from snapshots.clock import Clock

Entrance = Callable[["Host", str, dict[str, Any]], Awaitable[Any]]
"""Does what a command says that was planned for a run."""


def planned_first(run: str) -> Callable[[Clock], str]:
    """Return what names runs: the first one as planned, any more by ids of their own."""
    left = [run]
    return lambda clock: left.pop() if left else new_run_id(clock)


async def alert(host: Host, run: str, command: dict[str, Any]) -> str | None:
    """Take an alert; the run that it opens, if it does, is the planned one."""
    return await incident.take_alert(host, command["alert"], name=planned_first(run))


async def mail(host: Host, run: str, command: dict[str, Any]) -> str | None:
    """Take a mail; its id names the run."""
    del run
    return await triage.take_mail(host, command["mail"], machine="mail")


async def wake(host: Host, run: str, command: dict[str, Any]) -> str:
    """Begin a wake, unless another one is live."""
    machine = command["machine"]
    levels = sentinel.LEVELS if machine == "levels" else sentinel.LEVELS_BEFORE
    return await levels.start(host, machine, command["input"], run_id=run)


ENTRANCES: Final[Mapping[str, Entrance]] = {"alert": alert, "mail": mail, "wake": wake}
"""By the verb of the command."""
