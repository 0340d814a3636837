"""The durable engines: python-statemachine's own, with turns that are saved in between."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any

from statemachine.engines.async_ import AsyncEngine
from statemachine.engines.sync import SyncEngine

from machines.engine import fast
from machines.engine.plans import Plans
from machines.engine.queues import Answer
from machines.engine.registering import registrar
from machines.engine.turns import DurableEngine, enables

if TYPE_CHECKING:
    from statemachine import State, StateChart
    from statemachine.event_data import TriggerData
    from statemachine.orderedset import OrderedSet

    from machines.engine.nodes import Node


class DurableSyncEngine(DurableEngine, SyncEngine):
    """The durable engine of a chart without coroutine callbacks."""

    is_async = False

    def install(self, node: Node) -> None:
        """Make this the engine of a chart of a tree, with plans for what is ordinary."""
        super().install(node)
        self.plans = Plans(self)

    def turn_by_plans(self) -> bool:
        """Run what is ordinary of the turn; False if the rest is to be run by `turn`."""
        try:
            return fast.turn(self)
        except StopIteration as error:
            # As it comes out of the coroutine that `turn` is: no future takes the other.
            message = "coroutine raised StopIteration"
            raise RuntimeError(message) from error

    def rests_by_itself(self) -> bool:
        """Whether it is known that nothing happens before the next external event."""
        return fast.rests(self)

    def activate_initial_state(self, **kwargs: Any) -> Any:
        """Run what is queued, the entering of the initial state first."""
        del kwargs
        return self.processing_loop()

    def processing_loop(self) -> Any:
        """Run the tree, unless it is being run; return the answer to the newest event."""
        waiting = self.asked.pop(threading.get_ident(), None)
        if self.tree.thread == threading.get_ident():
            self.tree.keeper.wake()
        return waiting.result() if waiting is not None else None

    def microstep(self, transitions: list[Any], trigger_data: TriggerData) -> Any:
        """See the library; counted."""
        self.count_microstep()
        return super().microstep(transitions, trigger_data)

    def select_transitions(self, trigger_data: TriggerData) -> OrderedSet[Any]:
        """See the library; an effect in doubt is taken only by who names it."""
        return self.noticed(trigger_data, self._select_transitions(trigger_data, enables))

    def _add_state_to_configuration(self, target: State) -> None:
        self.invokes.enters(target)
        super()._add_state_to_configuration(target)

    def _handle_final_state(self, target: State, on_entry_result: list[Any]) -> None:
        self.note_output(target, on_entry_result)
        super()._handle_final_state(target, on_entry_result)


class DurableAsyncEngine(DurableEngine, AsyncEngine):
    """The durable engine of a chart that has coroutine callbacks."""

    is_async = True

    def install(self, node: Node) -> None:
        """Make this the engine of a chart of a tree, which awaits something from here on."""
        super().install(node)
        self.tree.has_awaited = True

    def activate_initial_state(self, **kwargs: Any) -> Any:
        """Run what is queued, the entering of the initial state first."""
        del kwargs
        return self.processing_loop()

    def new_answer(self) -> Any:
        """Return a future of the running loop; without one, an answer to look at afterwards."""
        import asyncio  # noqa: PLC0415 - only where the loop is the subject

        try:
            return asyncio.get_running_loop().create_future()
        except RuntimeError:
            return Answer()

    def processing_loop(self, caller_future: Any = None) -> Any:
        """See that the tree runs; give the caller's answer, or its first rest, to be awaited."""
        if self.tree.thread != threading.get_ident():
            return NOTHING
        self.asked.pop(threading.get_ident(), None)
        first = not self.tree.pumping
        self.tree.keeper.wake()
        if caller_future is None:
            return NOTHING if self.tree.running is not None else self.tree.at_rest()
        return self._run_for(caller_future) if first else caller_future

    async def _run_for(self, waiting: Any) -> Any:
        """Give an answer when the tree rests, to who would run the loop of the library's engine."""
        if isinstance(waiting, Answer):
            await self.tree.at_rest()
            return waiting.result()
        result = await waiting
        if self.tree.pumping:
            await self.tree.at_rest()
        return result

    async def microstep(self, transitions: list[Any], trigger_data: TriggerData) -> Any:
        """See the library; counted."""
        self.count_microstep()
        return await super().microstep(transitions, trigger_data)

    async def select_transitions(self, trigger_data: TriggerData) -> OrderedSet[Any]:
        """See the library; an effect in doubt is taken only by who names it."""
        return self.noticed(trigger_data, await self._select_transitions(trigger_data, enables))

    def _add_state_to_configuration(self, target: State) -> None:
        self.invokes.enters(target)
        super()._add_state_to_configuration(target)

    def _handle_final_state(self, target: State, on_entry_result: list[Any]) -> None:
        self.note_output(target, on_entry_result)
        super()._handle_final_state(target, on_entry_result)


class _Nothing(Awaitable[None]):
    """What a callback gets that sends to its own running tree: there is nothing to wait for."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


NOTHING = _Nothing()


def construct(node: Node, *args: Any, attributes: dict[str, Any], **kwargs: Any) -> StateChart[Any]:
    """Make the node's chart, with a durable engine in place of the library's.

    The engine comes in through an instance attribute that hides `_get_engine` while the
    constructor runs, and is gone afterwards, so that a copy of the chart gets an engine of its
    own; so does what resolves the chart's callbacks. `attributes` are on the chart before these are
    resolved, since guards may name them, and again afterwards, since its constructor may set
    them anew.
    """
    former = node.tree.former if node.parent is None else None
    chart: StateChart[Any] = former if former is not None else node.cls.__new__(node.cls)
    own = vars(chart)
    own.clear()
    own.update(attributes)

    def engine() -> DurableEngine:
        kind = DurableAsyncEngine if chart._callbacks.has_async_callbacks else DurableSyncEngine
        made = kind(chart)
        node.chart = chart
        made.install(node)
        return made

    own["_get_engine"] = engine
    if (register := registrar(chart)) is not None:
        own["_register_callbacks"] = register
    try:
        chart.__init__(*args, **kwargs)  # type: ignore[misc]  # a chart made in two steps
    finally:
        own.pop("_get_engine", None)
        own.pop("_register_callbacks", None)
    own.update(attributes)
    return chart
