"""What the states of one chart invoke: marked, numbered, spawned, ended and cancelled.

It stands in for the library's `InvokeManager`. Ids are `<state>.<n>` with n from a counter of the
chart, never random: they are part of idempotency keys. The outside work itself belongs to the
tree's keeper; here is only what a snapshot holds of it.
"""

from __future__ import annotations

import copy
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from statemachine import State, StateChart
from statemachine.contrib.timeout import _Timeout
from statemachine.invoke import (
    IInvoke,
    InvokeGroup,
    InvokeManager,
    _InvokeCallableWrapper,
)
from statemachine.io.invoke import Invoker

from machines.engine.invocations import Context, Invoke, Kind, Marked
from machines.engine.nodes import Call
from machines.engine.queues import Queued
from machines.engine.triggers import make_trigger
from snapshots.ledgers.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.callbacks import CallbackWrapper
    from statemachine.event_data import TriggerData

    from machines.engine.nodes import Node
    from machines.engine.turns import DurableEngine


class Invokes(InvokeManager):
    """The invocations of one chart."""

    def __init__(self, engine: DurableEngine) -> None:
        super().__init__(engine)  # type: ignore[arg-type]  # an engine by what it has
        self.engine = engine
        self.active: dict[str, Invoke] = {}
        self.marked: list[Marked] = []
        self.spawned = 0
        self.floors: dict[str, int] = {}
        """Given ids of children → the highest number that was used below one: none comes again."""
        self.left: set[str] = set()
        """States that were left and not entered again: what they invoked has ended."""

    @property
    def node(self) -> Node:
        """The chart whose invocations these are."""
        return self.engine.node

    # -- what the library's engine calls ------------------------------------------------------

    def mark_for_invoke(self, state: State, event_kwargs: dict[str, Any] | None = None) -> None:
        """Note a state that was entered."""
        name = self.node.names.name(state)
        self.marked.append(Marked(name, dict(event_kwargs or {}), state.document_order))

    def enters(self, state: State) -> None:
        """Note a state that is being entered, before what it does on entry."""
        self.left.discard(self.node.names.name(state))

    def cancel_for_state(self, state: State) -> None:
        """Cancel what a state invoked, as it is left."""
        name = self.node.names.name(state)
        self.left.add(name)
        for invoke in list(self.active.values()):
            if invoke.state == name:
                self.cancel(invoke)
        self._drop_marks(name)

    def cancel_all(self) -> None:
        """Cancel everything, as the chart ends."""
        for invoke in list(self.active.values()):
            self.cancel(invoke)
        self._drop_marks(None)
        self._cleanup()

    def _drop_marks(self, state: str | None) -> None:
        """Forget what a state, or any, is to begin; what has a number may have an intent too."""
        marked, self.marked = self.marked, []
        for mark in marked:
            if state not in (None, mark.state):
                self.marked.append(mark)
            elif mark.id is not None:
                self.node.tree.stopped.append((self.node.path, mark.id))

    def send_to_child(self, invokeid: str, event: str, **data: Any) -> bool:
        """Send an event to an invoked chart; return whether there is one that takes events."""
        invoke = self.active.get(invokeid)
        if invoke is None or not hasattr(invoke.handler, "on_event"):
            return False
        invoke.handler.on_event(event, **data)
        return True

    def handle_external_event(self, trigger_data: TriggerData) -> None:
        """Finalize for the invocation that an event comes from, and forward to the others."""
        event = str(trigger_data.event) if trigger_data.event else None
        if event is None:
            return
        if event.startswith("done.invoke."):
            trigger_data.kwargs.setdefault("_invokeid", event.removeprefix("done.invoke."))
        source = trigger_data.kwargs.get("_invokeid")
        for invoke in list(self.active.values()):
            handler = invoke.handler
            if handler is None:
                continue
            its_own = source == invoke.id
            if its_own and hasattr(handler, "on_finalize"):
                handler.on_finalize(trigger_data)
            forwards = getattr(handler, "autoforward", False) and hasattr(handler, "on_event")
            if forwards and not its_own and not invoke.terminated and not invoke.cancelled:
                handler.on_event(event, **trigger_data.kwargs)

    # -- a life ---------------------------------------------------------------------------------

    def number(self) -> list[tuple[Marked, Any]]:
        """Give every marked invoke its id, before the save that holds it.

        What lives in the snapshot alone, a timeout or a gate, is active from here on, so that its
        due time is fixed by that very save. What was cancelled is forgotten: nothing can come of
        it any more. Returns what is to be spawned after the save.
        """
        numbered: list[tuple[Marked, Any]] = []
        self._cleanup()
        if not self.marked:
            return numbered
        self.node.mark_moved()
        marked, self.marked = sorted(self.marked, key=lambda mark: mark.order), []
        for mark in marked:
            if mark.id is not None:
                self.marked.append(mark)
                continue
            for index, callback in enumerate(self.callbacks(mark.state)):
                source, kind = source_of(callback), kind_of(callback)
                if kind == "nursery" and self._is_open(mark.state, index):
                    continue
                self.spawned += 1
                name = getattr(source, "invoke_id", None) or f"{mark.state}.{self.spawned}"
                if kind in ("timeout", "gate", "nursery"):
                    # Nothing is called with what the event held: it is not kept.
                    invoke = Invoke(name, mark.state, index, kind, {})
                    self.active[name] = invoke
                    self.hold(invoke, source)
                    continue
                made = Marked(mark.state, mark.kwargs, mark.order, name, index)
                self.marked.append(made)
                numbered.append((made, source))
        return numbered

    def _is_open(self, state: str, index: int) -> bool:
        """Whether a nursery is active: some internal transitions enter a state they never left."""
        nurseries = (i for i in self.active.values() if i.kind == "nursery" and i.live)
        return any((i.state, i.index) == (state, index) for i in nurseries)

    def hold(self, invoke: Invoke, source: Any) -> None:
        """Give an invocation what it keeps in the snapshot alone: a due time, a gate's address."""
        if invoke.kind == "timeout":
            self._set_timeout(invoke, source)
        elif invoke.kind == "gate":
            invoke.extra = source.describe(self.node, invoke)

    def callbacks(self, state: str) -> list[CallbackWrapper]:
        """Return what a state invokes, in order."""
        chart = self.node.chart
        key = self.node.names.states[state].invoke.key
        registry = chart._callbacks
        return list(registry[key]) if key in registry else []

    def spawn(self) -> None:
        """Begin what is marked: the save that holds it is on disk."""
        self.number()
        if self.marked:
            self.node.mark_moved()
        while self.marked:
            mark = self.marked.pop(0)
            assert mark.id is not None
            kind = kind_of(self.callbacks(mark.state)[mark.index])
            if kind == "nursery":
                kind = "child"  # the nursery itself is active since it was numbered
            invoke = Invoke(mark.id, mark.state, mark.index, kind, mark.kwargs, mark.attempt)
            self.active[invoke.id] = invoke
            self.begin(invoke)

    def begin(self, invoke: Invoke) -> None:
        """Start the outside part of an invocation, or start it again after a restore."""
        callback = self.callbacks(invoke.state)[invoke.index]
        source = source_of(callback)
        invoke.context = self._context(invoke)
        if invoke.kind == "child":
            self._start_child(invoke, source)
        else:
            self._start_call(invoke, callback, source)

    def context_of(self, mark: Marked) -> Context:
        """Return the context that a marked invoke will have."""
        assert mark.id is not None
        return self._context(Invoke(mark.id, mark.state, mark.index, "call", mark.kwargs))

    def _context(self, invoke: Invoke) -> Context:
        state = self.node.names.states[invoke.state]
        return Context(
            invokeid=invoke.id,
            state_id=state.id,
            send=self.engine.enqueue,
            machine=self.node.chart,
            kwargs=invoke.kwargs,
            restored=invoke.attempt > 1,
            attempt=invoke.attempt,
        )

    def _set_timeout(self, invoke: Invoke, source: Any) -> None:
        tree = self.node.tree
        span = round(source.duration * 1000)
        tree.timers.add(
            Timer(
                id=invoke.id,
                path=self.node.path,
                due=tree.clock.now_ms() + span,
                seq=tree.number(),
                event=source.on,
                policy=getattr(source, "resume", "deadline"),
                span=span,
                invoke=invoke.id,
            )
        )

    def _start_child(self, invoke: Invoke, source: Any) -> None:
        try:
            invoke.handler = self.node.tree.make_child(self.node, invoke, source)
            if invoke.given_id is not None:
                invoke.kwargs = {}  # they are in the child's model now
        except Exception as error:  # noqa: BLE001 - the library tells the parent, so do we
            half_made = self.node.children.pop(invoke.id, None)
            if half_made in self.node.tree.turn:
                self.node.tree.turn.remove(half_made)
            self._fail(invoke, error)

    def _start_call(self, invoke: Invoke, callback: CallbackWrapper, source: Any) -> None:
        context = invoke.context
        assert context is not None
        try:
            handler = fresh(source)
        except Exception as error:  # noqa: BLE001 - a handler that cannot be made: told, as a child is
            self._fail(invoke, error)
            return
        spec = None
        if invoke.kind == "effect":
            spec = handler
            work, is_async = handler.bind(context)
        elif handler is not None:
            invoke.handler = handler
            is_async = iscoroutinefunction(handler.run)
            work = _later(handler.run, context)
        else:
            is_async = callback._iscoro
            call = callback if is_async else callback.call
            given = {"model": context.machine.model, **invoke.kwargs}
            work = _later(call, ctx=context, machine=context.machine, **given)
        if is_async and not self.engine.is_async and not self.node.tree.keeper.has_loop:
            self._fail(invoke, TypeError(f"{invoke.id} is a coroutine, and no event loop runs"))
            return
        started = Call(self.node.path, invoke.id, work, is_async, spec, context)
        started.on_cancel = _canceller(context, handler)
        self.node.tree.keeper.start(started)

    def _fail(self, invoke: Invoke, error: Exception) -> None:
        tree, given = self.node.tree, invoke.given_id
        told = {"error": error} if given is None else {"error": error, "child": given}
        trigger = make_trigger(self.node.chart, "error.execution", kwargs=told)
        self.end(invoke, Queued(tree.now(), tree.number(), trigger))
        invoke.cancelled = given is not None

    def end(self, invoke: Invoke, item: Queued) -> None:
        """Take the end of an invocation: its event, and the flags that say so, in one step."""
        invoke.sent = invoke.terminated = True
        self.node.tree.enqueue(self.node, item)

    def expire(self, timer: Timer) -> None:
        """Take a timeout that is due: its event if it names one, then its end."""
        invoke = self.active.get(timer.invoke or "")
        if invoke is None or not invoke.live:
            return
        tree, chart = self.node.tree, self.node.chart
        if timer.event is not None:
            trigger = make_trigger(chart, timer.event)
            tree.enqueue(self.node, Queued(timer.due, timer.seq, trigger))
        done = make_trigger(chart, f"done.invoke.{invoke.id}", kwargs={"data": None})
        self.end(invoke, Queued(timer.due, tree.number(), done, invoke.id))

    def cancel(self, invoke: Invoke) -> None:
        """End an invocation whose state is left; its outside work ends after the save."""
        if invoke.cancelled:
            return
        tree, node = self.node.tree, self.node
        node.mark_moved()
        tree.timers.drop_invoke(node.path, invoke.id)
        self.engine.external_queue.void(invoke.id)
        child = node.children.pop(invoke.id, None)
        if child is not None:
            drop(child)
        elif invoke.kind in ("call", "effect"):
            tree.stopped.append((node.path, invoke.id))
        invoke.cancelled = invoke.terminated = True

    def forget(self, trigger: TriggerData) -> None:
        """Drop a finished child once the chart has reacted to its end."""
        event = str(trigger.event or "")
        child = self.node.children.get(event.removeprefix("done.invoke."))
        if child is not None and child.finished and event.startswith("done.invoke."):
            child.keep_numbers()
            del self.node.children[child.id]
            self.node.tree.busy.discard(child)
            if child.is_spawned:
                del self.active[child.id]

    def _cleanup(self) -> None:
        if not self.active:
            return
        ended = [key for key, i in self.active.items() if i.terminated and i.cancelled]
        for key in ended:
            del self.active[key]
        if ended:
            self.node.mark_moved()


def drop(node: Node) -> None:
    """Take a chart and those below it out of the tree, its outside work included."""
    tree = node.tree
    node.keep_numbers()
    for below in node.walk():
        below.finished = True
        below.engine.running = False
        below.engine.invokes.cancel_all()
        below.engine.reject_waiting()
        if below in tree.turn:
            tree.turn.remove(below)
        tree.busy.discard(below)
    tree.timers.drop_chart(node.path)


def source_of(callback: CallbackWrapper) -> Any:
    """Return what a state invokes: a spec, a handler, a chart class, or None for a callable."""
    function = callback.meta.func
    if isinstance(function, _InvokeCallableWrapper):
        return function._invoke_handler
    if isinstance(function, IInvoke):
        return function
    if isinstance(function, type) and issubclass(function, StateChart):
        return function
    return None


def kind_of(callback: CallbackWrapper) -> Kind:
    """Return how the tree treats an invoke."""
    source = source_of(callback)
    declared: Kind | None = getattr(source, "durable_kind", None)
    if declared is not None:
        return declared
    if isinstance(source, _Timeout):
        return "timeout"
    if isinstance(source, Invoker) or _is_chart(source):
        return "child"
    return "call"


def _is_chart(source: Any) -> bool:
    return isinstance(source, type) and issubclass(source, StateChart)


def fresh(source: Any) -> Any:
    """Return a handler that no other invocation shares, where the library would share one."""
    if isinstance(source, InvokeGroup):
        return InvokeGroup(list(source._callables))
    if isinstance(source, type):
        return source()
    return copy.copy(source) if isinstance(source, Invoker) else source


def _later(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: function(*args, **kwargs)


def _canceller(context: Context, handler: Any) -> Callable[[], None]:
    def cancel() -> None:
        context.cancelled.set()
        on_cancel = getattr(handler, "on_cancel", None)
        if on_cancel is not None:
            on_cancel()

    return cancel
