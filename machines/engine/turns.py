"""A chart's turn: the library's processing loop, with a boundary where a macrostep ends.

The library's engines loop over: run a macrostep, spawn the invokes of the states that were
entered, take the next external event. This does the same in the same order, and hands its tree
the boundary after each macrostep that did anything, and where a macrostep ends the machine.
"""

from __future__ import annotations

import threading
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from statemachine.engines.base import _processing_step, _running_engine
from statemachine.event import BoundEvent, _event_data_kwargs
from statemachine.exceptions import TransitionNotAllowed
from statemachine.orderedset import OrderedSet

from machines.engine.invokes import Invokes
from machines.engine.queues import Answer, ExternalQueue, Queued, answer, answer_waiter, apart
from machines.engine.triggers import make_trigger
from machines.errors import MicrostepLimitError
from machines.limits import MICROSTEPS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from statemachine import State, StateChart
    from statemachine.event_data import TriggerData

    from machines.engine.nodes import Node
    from machines.engine.tree import Tree

DOUBT_PREFIX = "error.indoubt"
RESERVED = frozenset({*_event_data_kwargs, "key", "on_error"})
"""Names that the library takes out of an event's data for its own, or cannot hand to a callback."""
ERROR = "error.execution"
INITIAL = "__initial__"
"""The library's name of the event that enters a chart."""


class DurableEngine:
    """What both durable engines do alike; mixed in before one of the library's engines."""

    is_async: bool
    takes_plans: ClassVar[bool] = True
    """Whether ordinary transitions are run by plans; see `machines.engine.fast`."""
    sm: StateChart[Any]
    external_queue: Any
    internal_queue: Any
    _invoke_manager: Any
    running: bool
    clear_cache: Callable[[], None]
    clear: Callable[[], None]
    _run_macrostep: Callable[[], Any]
    _take_external_event: Callable[[TriggerData], Any]
    _initial_transitions: Callable[[TriggerData], Any]
    _enter_states: Callable[..., Any]
    _check_root_final_state: Callable[[], None]
    _compute_exit_set: Callable[..., Any]
    _prepare_entry_states: Callable[..., Any]
    _debug: Callable[..., Any]
    _root_parallel_final_pending: State | None
    _sentinel: object
    _microstep_count: int
    _macrostep_count: int

    def install(self, node: Node) -> None:
        """Make this the engine of a chart of a tree."""
        self.node = node
        self.tree: Tree = node.tree
        node.engine = self
        self.events: dict[str, BoundEvent] = {}
        """The declared events that came from outside, as they are sent to this chart."""
        self.prompt: set[str] = set()
        """Those that are known to be declared without a delay."""
        self.external_queue = ExternalQueue()
        self.invokes = Invokes(cast("Any", self))
        self._invoke_manager = self.invokes
        self.current: Queued | None = None
        """The external event whose macrostep runs."""
        self.result: object = None
        self.moved = False
        """Whether anything happened since the last boundary."""
        self.between: bool | None = None
        """Set between a macrostep and what follows it: whether the macrostep took any event."""
        self._steps = 0
        self.planned = 0
        """How many events were run by plans."""
        self.asked: dict[int, Any] = {}
        """What each thread's newest caller from outside waits for, until it begins to wait."""

    def __del__(self) -> None:
        """Do nothing: a chart that is passed out of memory does not end its work."""

    @property
    def is_calling(self) -> bool:
        """Whether a callback of the chart asks, and not work outside while that waits."""
        return self.tree.running is self.node and cast("Any", _running_engine.get()) is self

    # -- what enters ----------------------------------------------------------------------------

    def start(self, **kwargs: Any) -> None:
        """Queue the entering of the initial state: it is the chart's first turn."""
        if self.tree.restoring or self.sm.current_state_value is not None:
            return
        trigger = make_trigger(self.sm, INITIAL, INITIAL, kwargs=kwargs)
        self.tree.accept(self.node, trigger, inside=True)

    def put(self, trigger_data: TriggerData, internal: bool = False) -> None:  # noqa: FBT001, FBT002 - the library's signature
        """Take an event; see the library's `BaseEngine.put`."""
        tree = self.tree
        if tree.restoring:
            return
        if not self.running and not self.sm.allow_event_without_transition:
            raise TransitionNotAllowed(trigger_data.event, self.sm.configuration)
        running = _running_engine.get()
        if internal and cast("Any", running) is self:
            self.internal_queue.put(trigger_data)
            return
        inside = running is not None and getattr(running, "tree", None) is tree
        sender = threading.get_ident()
        if tree.thread != sender:
            tree.keeper.post(lambda: self._put_from_outside(trigger_data, sender))
            return
        if not inside:
            self._ask(trigger_data)
        tree.accept(self.node, trigger_data, inside=inside)
        if trigger_data.event is not None and trigger_data.event.delay:
            self._note_timers(partial(tree.timers.drop, tree.seq))

    def _note_timers(self, undo: Callable[[], object]) -> None:
        """Have what was done to the timers saved, where no boundary follows that would save it."""
        tree = self.tree
        if not (tree.running or tree.turn or self.node.finished):
            tree.unsaved.append(undo)

    def _ask(self, trigger_data: TriggerData) -> None:
        if trigger_data.future is None:
            trigger_data.future = self.asked[threading.get_ident()] = self.new_answer()

    def _put_from_outside(self, trigger_data: TriggerData, sender: int) -> None:
        if threading.get_ident() == sender:
            self._ask(trigger_data)
        self.tree.accept(self.node, trigger_data, inside=False)
        self.tree.keeper.arrived()

    def new_answer(self) -> Any:
        """Return what a caller from outside waits for."""
        return Answer()

    def enqueue(
        self,
        event: str,
        *args: Any,
        delay: float | None = None,
        send_id: str | None = None,
        waiter: Any = None,
        **kwargs: Any,
    ) -> None:
        """Take an event whose sender does not wait here: `chart.send` for work and for charts.

        May be called from any thread. `delay` is in ms; None means the event's declaration.
        """
        if self.tree.thread != threading.get_ident():
            again = partial(self.enqueue, event, *args, delay=delay, send_id=send_id, **kwargs)
            self.tree.keeper.post(again)
            return
        known = getattr(self.sm, event, None)
        name = getattr(known, "name", None) or event
        if delay is None:
            delay = getattr(known, "delay", 0)
        bound = BoundEvent(event, name=name, delay=delay or 0, _sm=self.sm)
        running = _running_engine.get()
        inside = running is not None and getattr(running, "tree", None) is self.tree
        if inside:
            args, kwargs = tuple(map(apart, args)), {k: apart(v) for k, v in kwargs.items()}
        trigger = bound.build_trigger(*args, machine=self.sm, send_id=send_id, **kwargs)
        trigger.future = waiter
        self.tree.accept(self.node, trigger, inside=inside)
        if not inside:
            self.tree.keeper.wake()

    def takes_doubt(self, event: str) -> bool:
        """Whether a transition of an active state names the prefix `error.indoubt`."""
        return any(
            names_doubt(transition, event)
            for active in self.sm.configuration
            for transition in active.transitions
        )

    def reject_waiting(self) -> None:
        """Tell who waits for an event of this chart that it is gone."""
        for trigger in self.external_queue.drain():
            answer(trigger, None)

    def cancel_event(self, send_id: str) -> None:
        """Drop the events sent with this id, queued or waiting for their time.

        May be called from any thread; from another than the tree's they are dropped soon.
        """
        if self.tree.thread != threading.get_ident():
            self.tree.keeper.post(partial(self._cancel_from_outside, send_id))
            return
        self.external_queue.cancel(send_id)
        timers = self.tree.timers
        for timer in timers.cancel(self.node.path, send_id):
            self._note_timers(partial(timers.add, timer))
        if self.tree.unsaved:
            self.tree.keeper.wake()

    def _cancel_from_outside(self, send_id: str) -> None:
        self.external_queue.cancel(send_id)
        if self.tree.timers.cancel(self.node.path, send_id):
            self.tree.keeper.arrived()

    # -- the turn -------------------------------------------------------------------------------

    def turn_by_plans(self) -> bool:
        """Run what is ordinary of the turn; False if the rest is to be run by `turn`."""
        return False

    def rests_by_itself(self) -> bool:
        """Whether it is known that nothing happens before the next external event."""
        return False

    async def turn(self) -> None:
        """Run the chart until it has nothing to do, as the library's processing loop does.

        It returns earlier, between a macrostep and what follows it, once the tree's budget is
        spent.
        """
        took = True
        while took and self.running:
            took = await self._come_to_rest()
            if not self.running:
                break
            self.begin_what_follows()
            if self.between is not None and self.tree.budget <= 0:
                return
            self.between = None
            self._check_root_final_state()
            if not self.running:
                self.moved = True
                self.node.mark_moved()
                break
            took = await self._take() or took
        if not self.running:
            self._end()

    async def _come_to_rest(self) -> bool:
        """End the macrostep and save; return whether it took any event."""
        if self.between is not None:
            return self.between
        if self.rests_by_itself():
            took = False
            self.node.mark_moved()
        else:
            took = await self._step(self._run_macrostep)
        if self.running and (took or self.moved):
            self.between = took
            self.tree.boundary(self.node)
        return took

    def begin_what_follows(self) -> None:
        """Let what the save allows begin: invokes, then the sender's next step."""
        if self.invokes.active or self.invokes.marked:
            self.invokes.spawn()
        if self.between is not None:
            self.tree.keeper.begun(self.node)
            self.tree.budget -= 1
        self._answer()

    async def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        self.tree.running = self.node
        self.node.mark_moved()
        self._steps = 0
        shared = self.node.shared
        if shared is None:
            return await self._run(step, *args)
        async with shared.lent(self.sm, waits=self.is_async):
            return await self._run(step, *args)

    async def _run(self, step: Callable[..., Any], *args: Any) -> Any:
        with _processing_step(cast("Any", self)):
            self.clear_cache()
            result = step(*args)
            return await result if self.is_async else result

    def _answer(self) -> None:
        current, self.current = self.current, None
        if current is not None:
            result, self.result = self.result, None
            answer_waiter(current.trigger.future, result)

    async def _take(self) -> bool:
        item = self.external_queue.take()
        if item is None:
            return False
        self.node.mark_moved()
        if self.tree.keeper.ignores(item):
            return True
        self.current, self.result = item, None
        if item.invoke is not None:
            self.invokes.forget(item.trigger)  # its id is free for those who hear of its end
        self.moved = True
        self._macrostep_count += 1
        self._microstep_count = 0
        if item.trigger.event == INITIAL:
            transitions = self._initial_transitions(item.trigger)
            await self._step(
                self._enter_states, transitions, item.trigger, OrderedSet(), OrderedSet()
            )
            return True
        result = await self._step(self._take_external_event, item.trigger)
        self.invokes.forget(item.trigger)
        if result is not self._sentinel:
            self.result = result
        return True

    def _end(self) -> None:
        """Save the chart's last state, with what its parent is told, then answer."""
        if self.moved and not self.node.finished:
            self.node.finished = True
            self.tree.timers.drop_chart(self.node.path)
            self.tree.finished(self.node)
            self.tree.boundary(self.node)
        self._answer()
        self.node.mark_moved()
        self._drop_external_events()

    def _drop_external_events(self) -> None:
        for trigger in self.external_queue.drain():
            if trigger.future is None or trigger.future.done():
                continue
            if self.sm.allow_event_without_transition:
                trigger.future.set_result(None)
            else:
                refusal = TransitionNotAllowed(trigger.event, self.sm.configuration)
                trigger.future.set_exception(refusal)

    # -- what the library does in a microstep, watched ------------------------------------------

    def count_microstep(self) -> None:
        """Refuse a macrostep that never comes to rest."""
        self.moved = True
        self._steps += 1
        if self._steps > MICROSTEPS_MAX:
            raise MicrostepLimitError(type(self.sm).__name__, MICROSTEPS_MAX)

    def noticed(self, trigger_data: TriggerData, taking: OrderedSet[Any]) -> OrderedSet[Any]:
        """Return the transitions that take an event; an error that none takes is remembered."""
        if not taking and trigger_data.event == ERROR:
            error = trigger_data.kwargs.get("error")
            if isinstance(error, BaseException):
                self.node.untaken.append(error)
        return taking

    def note_output(self, target: State, results: list[Any]) -> None:
        """Keep the done data of a root final state: what the chart gives to who invoked it."""
        if target.parent is None:
            data = [item for item in results if item is not None]
            self.node.output = data[-1] if data else None


def names_doubt(transition: Any, event: str) -> bool:
    """Whether a transition takes an effect in doubt: `error` and `*` alone do not."""
    return any(
        str(named).startswith(DOUBT_PREFIX) and named.match(event) for named in transition.events
    )


def enables(transition: Any, event: Any) -> bool:
    """Whether a transition matches an event, as the library says; in doubt, only by name."""
    if event is not None and str(event).startswith(DOUBT_PREFIX):
        return names_doubt(transition, str(event))
    return bool(transition.match(event))


def run_at_once(turn: Coroutine[Any, Any, None]) -> None:
    """Run a turn that awaits nothing."""
    try:
        turn.send(None)
    except StopIteration:
        return
    turn.close()
    message = "a synchronous chart awaited something"
    raise AssertionError(message)


def outside_context() -> Context:
    """Return a context like this one in which no chart's step is running."""
    context = copy_context()
    context.run(_running_engine.set, None)
    return context
