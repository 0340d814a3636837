"""The charts of one run as a tree that takes turns: one chart at a time runs, the others queue.

The library runs a parent's macrosteps on its children's threads. Here one loop drives every chart
of the tree, whose turn it is is part of the snapshot, and threads and tasks only enqueue.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

from machines.engine.giving_up import give_up
from machines.engine.nodes import Arrival, Keeper, MakeChild, Node
from machines.engine.nurseries import told_of
from machines.engine.queues import Queued, answer, answer_waiter
from machines.engine.triggers import make_trigger, readdress
from machines.engine.turns import run_at_once
from machines.limits import PUMP_MACROSTEPS_MAX
from snapshots.ledgers.timers import ResumePolicy, Timer, Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from statemachine import StateChart
    from statemachine.event_data import TriggerData

    from snapshots.clock import Clock


class Tree:
    """The charts of one run.

    `pump` runs every chart that has something to do until none has. It only awaits what the charts'
    own callbacks await: `pump_at_once` and `drive` do the same without an event loop.
    """

    def __init__(self, clock: Clock, keeper: Keeper, make_child: MakeChild) -> None:
        self.clock = clock
        self.keeper = keeper
        self.make_child = make_child
        self.root: Node | None = None
        self.turn: list[Node] = []
        self.timers = Timers(self._timer_moved)
        self.arrivals: list[Arrival] = []
        self.admitted: list[Arrival] = []
        """What arrived and is on the queues, until a save of the tree holds it."""
        self.stopped: list[tuple[str, str]] = []
        """Outside work to be ended once the save that says so is on disk."""
        self.seq = 0
        self.stamp = 0
        self.pumping = False
        self.restoring = False
        self.has_awaited = False
        """Whether a chart that awaits something was ever one of its charts."""
        self.thread = threading.get_ident()
        self.former: StateChart[Any] | None = None
        """The root chart that is being built anew in place, for who holds it."""
        self.running: Node | None = None
        """The chart that is inside a macrostep."""
        self.budget = 0
        """How many macrosteps may still run before others have a chance."""
        self.policies: Mapping[str, ResumePolicy] = {}
        """What a delayed event does over a restart, by its id; `deadline` by default."""
        self.moved: dict[Node, None] = {}
        """Charts that moved since the tree was saved last, and some that are its charts no more."""
        self.busy: set[Node] = set()
        """Charts that did not only wait when they were encoded last."""
        self.unsaved: list[Callable[[], object]] = []
        """Take back what was done to the timers between two macrosteps, until a save holds it."""
        self.resting: list[Callable[[], object]] = []
        """Called once the tree is at rest."""

    # -- what charts ask for ----------------------------------------------------------------

    def now(self) -> int:
        """Return the time, in ms, that orders events: it never goes back within a tree."""
        self.stamp = max(self.stamp, self.clock.now_ms())
        return self.stamp

    def number(self) -> int:
        """Return the next sequence number of the tree."""
        self.seq += 1
        return self.seq

    def accept(self, node: Node, trigger: TriggerData, *, inside: bool) -> None:
        """Take an event for a chart: at once, as a timer, or after the running macrostep."""
        if self.restoring:
            return
        delay = trigger.event.delay if trigger.event is not None and trigger.event.delay else 0
        item = Queued(self.now(), self.number(), trigger)
        if delay:
            answer(trigger, None)
            self._set_timer(node, item, ceil(delay))
        elif self.running is not None and not inside:
            self.arrivals.append(Arrival(node.path, None, item))
        else:
            self.enqueue(node, item)

    def enqueue(self, node: Node, item: Queued) -> None:
        """Put an event on a chart's queue and give the chart a turn."""
        node.mark_moved()
        node.engine.external_queue.add(item)
        self.ready(node)

    def _set_timer(self, node: Node, item: Queued, delay_ms: int) -> None:
        trigger = item.trigger
        event = trigger.event
        assert event is not None
        self.timers.add(
            Timer(
                id=f"{event.id}.{item.seq}",
                path=node.path,
                due=self.clock.now_ms() + delay_ms,
                seq=item.seq,
                event=event.id,
                name=event.name,
                send_id=trigger.send_id,
                args=trigger.args,
                kwargs=trigger.kwargs,
                policy=self.policies.get(event.id, "deadline"),
                span=delay_ms,
            )
        )

    def ready(self, node: Node) -> None:
        """Give the chart a turn after those that already wait for one."""
        if node not in self.turn:
            self.turn.append(node)

    # -- what comes from outside --------------------------------------------------------------

    def find(self, path: str) -> Node | None:
        """Return the chart at a path, if there is one."""
        node = self.root
        for part in path.split("/") if path else ():
            if node is None:
                return None
            node = node.children.get(part)
        return node

    def _timer_moved(self, path: str) -> None:
        node = self.find(path)
        if node is not None:
            node.mark_moved()

    def finish(self, path: str, invoke: str, event: str, kwargs: dict[str, Any]) -> bool:
        """Take the end of outside work: the event that says so, and the flags with it.

        Returns whether the chart was still waiting for it.
        """
        node = self.find(path)
        record = node.engine.invokes.active.get(invoke) if node is not None else None
        if node is None or record is None or not record.live:
            return False
        if any(a.path == path and a.invoke == invoke for a in self.arrivals):
            return False
        self._arrive(node, invoke, event, kwargs)
        return True

    def tell(self, path: str, event: str, kwargs: dict[str, Any]) -> None:
        """Take an event from outside that nobody waits for, and have it saved at once."""
        node = self.find(path)
        if node is not None and not node.finished:
            self._arrive(node, None, event, kwargs)

    def take_in(self, node: Node, item: Queued) -> None:
        """Take an event from outside for a chart that has not ended."""
        arrival = Arrival(node.path, None, item)
        if self.running is None and not self.arrivals and not self.timers.items:
            # What `admit` comes to where nothing else can come before it.
            self.admitted.append(arrival)
            self.enqueue(node, item)
            return
        self.arrivals.append(arrival)
        if self.running is None:
            self.admit()

    def _arrive(self, node: Node, invoke: str | None, event: str, kwargs: dict[str, Any]) -> None:
        trigger = make_trigger(node.chart, event, kwargs=kwargs)
        self.arrivals.append(Arrival(node.path, invoke, Queued(self.now(), self.number(), trigger)))
        if self.running is None:
            self.admit()
        self.keeper.arrived()

    def clear(self) -> None:
        """Forget the charts, to be built anew; what arrived since the last save is kept."""
        self.arrivals = [*self.admitted, *self.arrivals]
        self.admitted = []
        self.former = self.root.chart if self.root is not None else None
        self.root = None
        self.moved.clear()
        self.busy.clear()
        self.turn.clear()
        self.stopped.clear()
        self.timers = Timers(self._timer_moved)

    def admit(self) -> None:
        """Put what arrived, and what is due, on the queues. Only between two macrosteps."""
        if self.arrivals:
            arrivals, self.arrivals = self.arrivals, []
            self.admitted += arrivals
            for arrival in arrivals:
                self._admit(arrival)
        if self.timers.items:
            while (timer := self.timers.take_due(self.clock.now_ms())) is not None:
                self._fire(timer)

    def _admit(self, arrival: Arrival) -> None:
        node, item = self.find(arrival.path), arrival.item
        if node is None or node.finished:
            answer(item.trigger, None)
            return
        if item.trigger.machine is not node.chart:
            item = arrival.item = readdress(item, node.chart)
        if arrival.invoke is None:
            self.enqueue(node, item)
            return
        record = node.engine.invokes.active.get(arrival.invoke)
        if record is not None and record.live:
            node.engine.invokes.end(record, item)

    def _fire(self, timer: Timer) -> None:
        node = self.find(timer.path)
        if node is None or node.finished:
            return
        if timer.invoke is not None:
            node.engine.invokes.expire(timer)
            return
        trigger = make_trigger(
            node.chart,
            timer.event,
            timer.name,
            args=timer.args,
            kwargs=timer.kwargs,
            send_id=timer.send_id,
        )
        self.enqueue(node, Queued(timer.due, timer.seq, trigger))

    # -- the loop -----------------------------------------------------------------------------

    async def pump(self) -> None:
        """Run the charts of the tree, each until it has nothing to do, until none has.

        It returns earlier after PUMP_MACROSTEPS_MAX macrosteps, with charts still in `turn`, so
        that a chart which sends to itself for ever does not keep others from running.
        """
        if self.pumping:
            return
        self.pumping, self.budget = True, PUMP_MACROSTEPS_MAX
        try:
            while (node := self._next()) is not None:
                if not self._turn_by_plans(node):
                    await self._turn(node)
        finally:
            self.pumping = False
            if self.resting:
                self._rested()

    def pump_at_once(self) -> None:
        """Do what `pump` does, but for the turn of a chart with coroutines that began just now."""
        if self.pumping:
            return
        self.pumping, self.budget = True, PUMP_MACROSTEPS_MAX
        try:
            while (node := self._next()) is not None and not node.engine.is_async:
                if not self._turn_by_plans(node):
                    run_at_once(self._turn(node))
        finally:
            self.pumping = False
            if self.resting:
                self._rested()

    def _next(self) -> Node | None:
        """Return the chart whose turn it is, None if none has anything to do, or not now."""
        if self.arrivals or self.timers.items:
            self.admit()
        return self.turn[0] if self.turn and self.budget > 0 else None

    def _rested(self) -> None:
        resting, self.resting = self.resting, []
        for rested in resting:
            rested()

    def _turn_by_plans(self, node: Node) -> bool:
        """Run what of a chart's turn is ordinary; return whether the turn is over."""
        try:
            if not node.engine.turn_by_plans():
                return False
        except Exception as error:  # noqa: BLE001 - a callback may raise anything
            self._mend(node, error)
            return True
        finally:
            self.running = None
        if node.engine.between is None:
            self.rest(node)
        return True

    async def _turn(self, node: Node) -> None:
        try:
            await node.engine.turn()
        except Exception as error:  # noqa: BLE001 - as above
            self._mend(node, error)
            return
        finally:
            self.running = None
        if node.engine.between is None:
            self.rest(node)

    def _mend(self, node: Node, error: Exception) -> None:
        """Put the tree right after an exception left the engine; raise it if nobody is told."""
        self.running = None
        if self.keeper.failed(node, node.engine.current, error):
            return
        if not give_up(node, error):
            raise error

    def rest(self, node: Node) -> None:
        """End the chart's turn."""
        if self.turn and self.turn[0] is node:
            del self.turn[0]

    def finished(self, node: Node) -> None:
        """Take a chart that reached its end: its parent is told in the same save."""
        self.rest(node)
        if node.parent is None:
            return
        invokes = node.parent.engine.invokes
        record = invokes.active.get(node.id)
        if record is not None and not record.cancelled:
            data = {"data": node.output, **told_of(node)}
            trigger = make_trigger(node.parent.chart, f"done.invoke.{node.id}", kwargs=data)
            without = node.id if node.is_spawned else None
            invokes.end(record, Queued(self.now(), self.number(), trigger, without))

    async def at_rest(self) -> None:
        """Run the tree, or wait for who runs it, until it has nothing to do."""
        if self.pumping:
            rested = asyncio.get_running_loop().create_future()
            self.resting.append(partial(answer_waiter, rested, None))
            await rested
            return
        await self.pump()
        while self.turn and not self.pumping:
            await asyncio.sleep(0)
            await self.pump()

    def boundary(self, node: Node) -> None:
        """Save, then end the outside work of the states that were left."""
        self.running = None
        if self.arrivals or self.timers.items:
            self.admit()
        invokes = node.engine.invokes
        if invokes.marked or invokes.active:
            invokes.number()
        self.keeper.boundary(node)
        if self.stopped:
            stopped, self.stopped = self.stopped, []
            for path, invoke in stopped:
                self.keeper.stop(path, invoke)
        node.engine.moved = False

    @property
    def is_sync(self) -> bool:
        """Whether every chart of the tree runs without awaiting anything."""
        if not self.has_awaited or self.root is None:
            return True
        return not any(node.engine.is_async for node in self.root.walk())


def drive(tree: Tree) -> None:
    """Run a tree of synchronous charts to rest, without an event loop.

    It is left before the turn of a chart with coroutines, if one of them began such a chart.
    """
    tree.pump_at_once()
    while tree.turn and tree.is_sync:
        tree.pump_at_once()
