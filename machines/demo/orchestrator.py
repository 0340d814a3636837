"""The process that is killed: a host with a scenario's charts, driven by lines from the killer.

    python -m machines.demo.orchestrator FILE SCENARIO

It stands by until it is told to open the file, so that its imports cost no restart. Every save is
told once it is committed; every command is answered once its await has returned. The imports are
what a host needs and nothing more.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from machines import TAKEN, Host
from machines.demo.entrances import ENTRANCES
from machines.demo.hosted import APPROVALS, HOSTED
from machines.demo.lines import listen, tell
from machines.errors import HostStoppedError, MachinesError
from machines.run.views import view_of_row
from snapshots.codec import load
from snapshots.errors import SnapshotsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from machines import Machine
    from machines.definition import Chart
    from machines.run.run import Run
    from snapshots.storage import Scope

ANSWER_S: Final = (0.0, 0.004, 0.02)
"""How long answers are on their way, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What there is to host, by scenario, and what is done with the command that opens the file."""

    hosted: Mapping[str, tuple[Machine, ...]] = field(default_factory=lambda: HOSTED)
    approvals: Mapping[str, Scope] = field(default_factory=lambda: APPROVALS)
    prepare: Callable[[dict[str, Any]], object] = lambda _: None
    host: type[AnnouncingHost] | None = None
    """What hosts them, if it is more than a host that announces."""


class AnnouncingHost(Host):
    """A host that tells of each save as soon as it is on disk."""

    def __init__(
        self,
        path: str,
        machines: Iterable[Chart],
        *,
        verify: bool,
        approvals: Scope | None = None,
    ) -> None:
        super().__init__(path, machines, verify=verify, approvals=approvals)
        self._told: dict[str, Any] = {}
        """The newest entry of each run's trail that was told."""

    def saved(self, run: Run) -> None:
        """Tell what was saved: the killer holds us to it from here on."""
        super().saved(run)
        stored = run.as_stored()
        view, blob = view_of_row(stored), load(stored.blob)
        tell(
            {
                "at": "saved",
                "run": view.run_id,
                "revision": view.revision,
                "step": blob["step"],
                "status": view.status,
                "moves": self._new_moves(view.run_id, blob.get("trail", [])),
                "gates": [[gate.key, gate.events[0]] for gate in view.gates],
                "doubts": [
                    [row["id"], row["attempt"], row["kind"], row["key"], row.get("offered", False)]
                    for row in view.effects
                    if row["status"] == "unknown"
                ],
            }
        )
        if view.status != "live":
            self._told.pop(view.run_id, None)

    def _new_moves(self, run_id: str, trail: list[Any]) -> list[Any]:
        last = self._told.get(run_id)
        self._told[run_id] = trail[-1] if trail else None
        known = next((n for n, entry in enumerate(trail, start=1) if entry == last), 0)
        return trail[known:]


async def obey(host: Host, command: dict[str, Any]) -> dict[str, Any]:
    """Do what a command says and return what is answered.

    Raises HostStoppedError if the host has broken down: that ends the process, and is seen.
    """
    answer = {"at": "answer", "id": command["id"], "outcome": "done"}
    try:
        if await _do(host, command["do"], command["run"], command) is TAKEN:
            answer["outcome"] = "taken"
    except HostStoppedError:
        raise
    except (MachinesError, SnapshotsError) as error:
        answer |= {"outcome": "refused", "error": type(error).__name__, "message": str(error)}
    return answer


async def _do(host: Host, verb: str, run: str, command: dict[str, Any]) -> Any:
    if verb in ENTRANCES:
        return await ENTRANCES[verb](host, run, command)
    if verb == "start":
        return await host.start(command["machine"], command["input"], run_id=run)
    if verb == "send":
        given, delivery = command.get("data", {}), command["delivery"]
        return await host.send(run, command["event"], delivery=delivery, **given)
    if verb == "answer":
        given, delivery = command.get("data", {}), command.get("delivery")
        return await host.answer(run, command["gate"], command["event"], delivery=delivery, **given)
    assert verb == "resolve", f"unknown command {verb!r}"
    return await host.resolve(run, command["effect"], **command["verdict"])


async def serve(path: str, scenario: str, world: World, *, verify: bool) -> None:
    """Stand by, open the file when told to, obey until told to stop."""
    commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    listen(lambda line: loop.call_soon_threadsafe(commands.put_nowait, line))
    tell({"at": "standing by"})
    world.prepare(await commands.get())
    tell({"at": "opening"})
    approvals = world.approvals.get(scenario)
    make = world.host or AnnouncingHost
    opened = make(path, world.hosted[scenario], verify=verify, approvals=approvals)
    async with opened as host, asyncio.TaskGroup() as tasks:
        report = host.report
        tell(
            {
                "at": "open",
                "resumed": len(report.resumed),
                "set_aside": {**report.unresumed, **report.drifted},
            }
        )
        while (command := await commands.get())["do"] != "stop":
            tasks.create_task(_answer(host, command))
    tell({"at": "stopped"})


async def _answer(host: Host, command: dict[str, Any]) -> None:
    answer = await obey(host, command)
    # As on a network: a kill can come when a command has done its work and its sender cannot know.
    await asyncio.sleep(ANSWER_S[command["id"] % len(ANSWER_S)])
    tell(answer)


def main(arguments: list[str], world: World | None = None) -> None:
    """Run a host for the file and the scenario that are named; `--verify` checks every save."""
    file, scenario = arguments[:2]
    asyncio.run(serve(file, scenario, world or World(), verify="--verify" in arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
