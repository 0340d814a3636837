"""Runs charts under the durable engine on a virtual clock, restarted wherever it is told to.

A restart is a real one but for the process: the tree's snapshot is encoded to bytes, every object
is thrown away, and new objects are built from the bytes and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.binding.capturing import tree_bytes
from machines.binding.planting import make_child, plant
from machines.binding.rebuilding import grow, resume
from machines.engine.tree import Tree, drive
from snapshots.codec import dump, load
from snapshots.testing import ManualClock

if TYPE_CHECKING:
    from machines.definition import Machine
    from machines.engine.nodes import Call, Node
    from machines.engine.queues import Queued

Ablation = Callable[[dict[str, Any]], None]


class Restart(BaseException):
    """Raised at a boundary to leave the engine as a crash would."""


@dataclass
class Bench:
    """One run of a chart: `where` says at which points it is restarted."""

    machine: Machine
    given: dict[str, Any] = field(default_factory=dict)
    before: bool = False
    """Restart at each boundary, before what was invoked begins."""
    after: bool = False
    """Restart at each boundary, after what was invoked has begun."""
    ablate: Ablation | None = None
    """Takes something out of each snapshot, to see that it is missed."""
    asynchronous: bool = False

    def __post_init__(self) -> None:
        """Make the world that outlives the restarts: a clock, and work under way."""
        self.clock = ManualClock(now_ms=1_000_000)
        self.calls: dict[tuple[str, str], Call] = {}
        self.restarts = 0
        self.boundaries = 0
        self.has_loop = self.asynchronous
        self.errors: list[Exception] = []
        self._skip: str | None = None
        self.tree = self._new_tree()
        self.on_boundary: Callable[[Tree], None] | None = None
        self.on_restart: Callable[[], Machine] | None = None
        """Gives the machine of the process after a restart."""

    def _new_tree(self) -> Tree:
        return Tree(self.clock, self, make_child)

    # -- the keeper ---------------------------------------------------------------------------

    def boundary(self, node: Node) -> None:
        """Restart here, or go on."""
        del node
        self.boundaries += 1
        if self.on_boundary is not None:
            self.on_boundary(self.tree)
        if self.before and self._skip != "before":
            self._skip = "before"
            raise Restart
        self._skip = None

    def begun(self, node: Node) -> None:
        """Restart here, or go on."""
        del node
        if self.after and self._skip != "after":
            self._skip = "after"
            raise Restart
        self._skip = None

    def start(self, call: Call) -> None:
        """Keep the work; the script says when it is done."""
        self.calls[call.key] = call

    def stop(self, path: str, invoke: str) -> None:
        """Forget work whose state was left."""
        call = self.calls.pop((path, invoke), None)
        if call is not None and call.on_cancel is not None:
            call.on_cancel()

    def post(self, function: Callable[[], object]) -> None:
        """Call it now: there is one thread."""
        function()

    def arrived(self) -> None:
        """Nothing: the script pumps."""

    def wake(self) -> None:
        """Nothing: the script pumps."""

    def ignores(self, item: Queued) -> bool:
        """Ignore nothing: what random charts send has no epoch."""
        del item
        return False

    def failed(self, node: Node, item: Queued | None, error: Exception) -> bool:
        """Let the exception out."""
        del node, item, error
        return False

    # -- the script's verbs -------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the tree as bytes, with what is to be missed taken out."""
        data = tree_bytes(self.tree, self.machine)
        if self.ablate is None:
            return data
        value = load(data)
        assert isinstance(value, dict)
        self.ablate(value)
        return dump(value)

    def restart(self) -> None:
        """Throw every object away and build the tree anew from its bytes."""
        data = self.snapshot()
        if self.on_restart is not None:
            self.machine = self.on_restart()
        self.calls = {}
        waiting = {item.seq: item.trigger.future for item in self._queued()}
        self.tree = self._new_tree()
        grow(self.tree, self.machine, self.machine.codec.decode(data))
        for item in self._queued():
            item.trigger.future = waiting.get(item.seq)
        resume(self.tree, restored=True)
        self.restarts += 1

    def _queued(self) -> list[Queued]:
        """Return every queued event: a script's sender goes on waiting over a restart."""
        nodes = self.tree.root.walk() if self.tree.root is not None else ()
        return [item for node in nodes for item in node.engine.external_queue.items]

    def run(self) -> None:
        """Run the tree to rest without a loop."""
        while True:
            try:
                drive(self.tree)
            except Restart:
                self.restart()
            else:
                return

    async def arun(self) -> None:
        """Run the tree to rest on the running loop."""
        while True:
            try:
                await self.tree.at_rest()
            except Restart:
                self.restart()
            else:
                return

    def begin(self) -> None:
        """Make the chart; nothing runs yet."""
        plant(self.tree, self.machine, self.given)

    async def rest(self) -> None:
        """Run to rest, on a loop or without one."""
        if self.asynchronous:
            await self.arun()
        else:
            self.run()

    async def settle(self, *, limit: int = 2_000) -> None:
        """Run until nothing is left: work is done in order, the clock jumps to each timer."""
        for _ in range(limit):
            await self.rest()
            if self.tree.root is not None and self.tree.root.finished:
                return
            if self.calls:
                await self.complete(next(iter(self.calls)))
            elif timers := self.tree.timers.items:
                self.clock.set(max(timers[0].due, self.clock.now_ms()))
            else:
                return
        message = f"{self.machine.name} does not come to rest"
        raise AssertionError(message)

    async def complete(self, key: tuple[str, str]) -> None:
        """Do one piece of work and hand in its outcome."""
        call = self.calls.pop(key)
        try:
            result = call.work()
            if call.is_async:
                result = await result
        except Exception as error:  # noqa: BLE001 - the chart is told, as error.execution
            self.tree.finish(*key, "error.execution", {"error": error})
        else:
            self.tree.finish(*key, f"done.invoke.{call.invoke}", {"data": result})
        await self.rest()

    def configuration(self) -> tuple[str, ...]:
        """Return the ids of the root's active states, sorted."""
        assert self.tree.root is not None
        return tuple(sorted(state.id for state in self.tree.root.chart.configuration))
