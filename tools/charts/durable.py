"""Runs a chart on the durable engine, by the same script and order as `tools.charts.plain`.

It is restarted wherever it is told to: at every boundary before or after what was invoked begins,
and between the steps of the script. A restart keeps nothing but bytes; the class is made anew too,
as a new process would.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.binding.capturing import tree_bytes
from machines.binding.planting import give_model, new_node
from machines.definition import Machine
from machines.engine.queues import Answer, answer
from tools.charts import build
from tools.charts.spec import Advance, Finish, Send, Step, Subject
from tools.charts.trace import Recorder, Trace, spawn_order
from tools.harness import Ablation, Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from statemachine import StateChart

    from machines.engine.tree import Tree

Key = tuple[str, str]
ROUNDS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """At which points a run is restarted."""

    before: bool = False
    after: bool = False
    between: bool = False


NOWHERE = Where()
EVERYWHERE = Where(before=True, after=True, between=True)


@dataclass
class DurableRun:
    """One run of one chart on the durable engine."""

    subject: Subject
    make: Callable[[], type[StateChart[Any]]]
    where: Where = NOWHERE
    ablate: Ablation | None = None
    remake: Callable[[], type[StateChart[Any]]] | None = None
    """Makes the class that the process after a restart has, if it is another one."""
    children: dict[str, Any] = field(default_factory=dict)
    keeps_blobs: bool = False
    blobs: list[bytes] = field(default_factory=list)
    """What was saved at each boundary, if it is kept; not of documents, whose ids are random."""
    planned: dict[str, int] = field(default_factory=dict)
    """How many events each chart ran by plans, by its path."""

    def play(self, script: Sequence[Step]) -> Trace:
        """Run the script; it ends early if the chart reaches its end."""
        return asyncio.run(self._play(script))

    async def _play(self, script: Sequence[Step]) -> Trace:
        self.recorder = Recorder()
        self.bench = Bench(
            self._machine(self.make),
            before=self.where.before,
            after=self.where.after,
            ablate=self.ablate,
            asynchronous=True,
        )
        self.bench.on_boundary = self._keep
        self.bench.on_restart = self._machine_again
        await self._guarded(self._start)
        for step in script:
            if self._root_is_finished:
                break
            if self.where.between:
                self.bench.restart()
            await self._step(step)
        root = self.bench.tree.root
        assert root is not None
        return self.recorder.finish(root.chart, self.subject, children=self.children)

    def _machine(self, make: Callable[[], type[StateChart[Any]]]) -> Machine:
        return Machine(make(), types=build.TYPES)

    def _machine_again(self) -> Machine:
        return self._machine(self.remake or self.make)

    @property
    def _root_is_finished(self) -> bool:
        root = self.bench.tree.root
        return root is None or root.finished

    @property
    def restarts(self) -> int:
        """How often the run was restarted."""
        return self.bench.restarts

    def _look(self, tree: Tree) -> None:
        """Note what is seen at a boundary; who waits is answered here, a restart forgets him."""
        assert tree.root is not None
        for node in tree.root.walk():
            self.recorder.settled(node.path, node.chart)
            if node.path:
                self.children[node.path] = node.chart.model
            current = node.engine.current
            if current is not None:
                answer(current.trigger, node.engine.result)
            self.planned[node.path] = node.engine.planned

    def _keep(self, tree: Tree) -> None:
        self._look(tree)
        assert tree.root is not None
        if self.keeps_blobs and tree.root.shared is None:
            self.blobs.append(tree_bytes(tree, self.bench.machine))

    async def _guarded(self, action: Callable[[], Any]) -> None:
        try:
            await action()
        except Exception as error:  # noqa: BLE001 - whatever a chart raises is what it shows
            self.recorder.failed(error)
        finally:
            self._look(self.bench.tree)

    async def _start(self) -> None:
        tree = self.bench.tree
        node = new_node(tree, self.bench.machine.chart)
        node.init = dict(self.subject.start)
        tree.root = node
        give_model(node, build.model(self.subject), attributes={})
        await self.bench.rest()

    async def _step(self, step: Step) -> None:
        match step:
            case Send():
                await self._guarded(lambda: self._send(step))
            case Advance():
                await self._advance(self.bench.clock.now_ms() + step.ms)
            case Finish():
                found = sorted(self.bench.calls, key=lambda key: spawn_order(*key))
                for key in found if step.every else found[:1]:
                    if key in self.bench.calls:
                        await self._guarded(lambda key=key: self.bench.complete(key))  # type: ignore[misc]  # a default binds the loop variable

    async def _send(self, step: Send) -> None:
        waiting = Answer()
        root = self.bench.tree.root
        assert root is not None
        data: dict[str, Any] = dict(step.kwargs)
        root.engine.enqueue(step.event, *step.args, waiter=waiting, **data)
        try:
            await self.bench.rest()
        finally:
            self._note(waiting)

    def _note(self, waiting: Answer) -> None:
        try:
            self.recorder.answered(waiting.result())
        except Exception as error:  # noqa: BLE001 - whatever a chart raises is what it shows
            self.recorder.failed(error)

    async def _advance(self, until_ms: int) -> None:
        clock = self.bench.clock
        for _ in range(ROUNDS_MAX):
            timers = self.bench.tree.timers.items
            if not timers or timers[0].due > until_ms or self._root_is_finished:
                clock.set(max(clock.now_ms(), until_ms))
                return
            clock.set(max(clock.now_ms(), timers[0].due))
            await self._guarded(self.bench.rest)
        message = f"{self.subject.name} sets timers without end"
        raise AssertionError(message)
