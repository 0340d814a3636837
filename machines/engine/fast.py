"""A synchronous chart's turn by its plans: the library's microstep without what is empty in it.

It does what the library does, in the same order: `before`, exit, `on`, enter, `after`, an error of
a callback sent as an event or raised, and the configuration put back. Whatever is out of the
ordinary is left to the library, before anything of it is done.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from statemachine.engines.base import _running_engine
from statemachine.exceptions import InvalidDefinition
from statemachine.orderedset import OrderedSet

from machines.engine.plans import MUTATED, Plan
from machines.engine.routes import IGNORED, SLOW
from machines.engine.turns import RESERVED, DurableEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine import State
    from statemachine.event_data import TriggerData

    from machines.engine.direct import Extra
    from machines.engine.engines import DurableSyncEngine
    from machines.engine.plans import Found, Group, Plans
    from machines.engine.queues import Queued
    from machines.engine.routes import Route

UNCALLABLE: Final = RESERVED | {"self"}
"""Names of data that the library's own calls stumble over, or that it replaces."""


@contextmanager
def enabled(on: bool) -> Iterator[None]:  # noqa: FBT001 - a switch
    """Have every engine of the process take its plans, or leave all to the library, for a while."""
    before = DurableEngine.takes_plans
    DurableEngine.takes_plans = on
    try:
        yield
    finally:
        DurableEngine.takes_plans = before


def rests(engine: DurableSyncEngine) -> bool:
    """Whether a chart does nothing by itself: no event was raised, and no transition needs none."""
    if not engine.takes_plans or engine.internal_queue.queue.queue:
        return False
    plans = engine.plans
    return plans.find(None, plans.read()) is IGNORED


def turn(engine: DurableSyncEngine) -> bool:
    """Run the events of a chart by its plans until none waits or the tree's budget is spent.

    Returns False where the rest is for the library's loop: it goes on from the same point.
    """
    while _is_at_rest(engine):
        items = engine.external_queue.items
        if not items:
            return True
        found, raw = _known(engine, items[0])
        if found is SLOW or not _take(engine, found, raw):
            return False
        engine.between = False
        engine.tree.boundary(engine.node)
        engine.begin_what_follows()
        if engine.tree.budget <= 0:
            return True
        engine.between = None
        if not engine.external_queue.items:
            return engine.running
    return False


def _is_at_rest(engine: DurableSyncEngine) -> bool:
    """Whether the chart is between two macrosteps and nothing of it is to begin or to end."""
    if not (engine.takes_plans and engine.running) or engine.moved or engine.between is not None:
        return False
    if engine.invokes.marked or engine._root_parallel_final_pending is not None:
        return False
    return not engine.internal_queue.queue.queue


def _known(engine: DurableSyncEngine, item: Queued) -> tuple[Found, Any]:
    """Return what is known of an event, and what the model holds before it."""
    trigger, plans = item.trigger, engine.plans
    if item.invoke is not None or item.epoch is not None or trigger.args:
        return SLOW, None
    if trigger.kwargs and not UNCALLABLE.isdisjoint(trigger.kwargs):
        return SLOW, None
    raw = plans.read()
    found = plans.find(trigger.event, raw)
    if found is IGNORED and not engine.sm.allow_event_without_transition:
        return SLOW, None
    return found, raw


def _take(engine: DurableSyncEngine, found: Found, raw: Any) -> bool:
    """Run the event at the head of the queue; return whether the macrostep is over with it."""
    invokes, node = engine.invokes, engine.node
    if invokes.active:
        invokes.spawn()
    engine.current, engine.result = engine.external_queue.items.pop(0), None
    trigger = engine.current.trigger
    engine.moved = True
    engine._macrostep_count += 1
    engine._microstep_count = engine._steps = 0
    engine.planned += 1
    node.mark_moved()
    engine.tree.running = node
    running: Any = engine
    token = _running_engine.set(running)
    try:
        if invokes.active:
            invokes.handle_external_event(trigger)
        if isinstance(found, Plan):
            engine.result = _microstep(engine, found, trigger, raw)
    except Exception:
        engine.clear()
        raise
    finally:
        _running_engine.reset(token)
    if engine.internal_queue.queue.queue:
        return False
    return not isinstance(found, Plan) or _went_as_planned(engine.plans, found.route, raw)


def _went_as_planned(plans: Plans, route: Route, raw: Any) -> bool:
    """Whether the chart is where its route leads, and stays there by itself."""
    now, after = plans.read(), route.after
    if route.may_follow:
        return False
    if route.entered is None and now is raw:  # what lies there is never changed in place
        return True
    return now is after[0] if len(after) == 1 else type(now) is OrderedSet and tuple(now) == after


# -- the microstep --------------------------------------------------------------------------------


def _microstep(engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, raw: Any) -> Any:
    """Take a transition; see the library's `SyncEngine.microstep`."""
    engine._microstep_count = engine._steps = 1
    if plan.is_bare:
        if plan.left is not None:
            engine.plans.write(plan.route.after)
        return None
    engine._cache.clear()
    results: list[Any] = []
    try:
        plan = _cross(engine, plan, trigger, raw, results)
    except InvalidDefinition:
        engine.plans.write(plan.route.before)
        raise
    except Exception as error:  # noqa: BLE001 - a callback may raise anything, and the chart is told
        engine.plans.write(plan.route.before)
        engine._handle_error(error, trigger)
        return None
    if plan.after.calls:
        _call_after(engine, plan, trigger)
    if len(results) > 1:
        return results
    return results[0] if results else None


def _call_after(engine: DurableSyncEngine, plan: Plan, trigger: TriggerData) -> None:
    try:
        if plan.left is None:
            # Without a target the library calls these just as those of `on`: it finds what it
            # made for them, the handler of their errors included, under the same key.
            _call(engine, plan.after, trigger, _sets(engine, plan, plan.after), [])
        else:
            _call_together(plan.after, trigger, [])
    except InvalidDefinition:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        engine._handle_error(error, trigger)


def _cross(
    engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, raw: Any, results: list[Any]
) -> Plan:
    """Leave a state and enter the other; return the plan of what is left to be called."""
    plans = engine.plans
    if plan.before.calls:
        _call_together(plan.before, trigger, results)
        plan = plan if plans.holds(plan) else plans.renewed(plan)
        if plans.read() is not raw:
            _cross_by_the_library(engine, plan, trigger, results)
            return plan
    left = plan.left
    if left is None:
        return _stay(engine, plan, trigger, results)
    if plan.invokes:
        engine.invokes.cancel_for_state(left)
    if plan.exit.calls:
        _call(engine, plan.exit, trigger, None, [])
        plan = plan if plans.holds(plan) else plans.renewed(plan)
    return _go_over(engine, plan, trigger, raw, results)


def _stay(engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, results: list[Any]) -> Plan:
    """Execute the content of a transition that leaves no state and enters none."""
    plans = engine.plans
    if plan.on.calls:
        sets = _sets(engine, plan, plan.on)
        _call(engine, plan.on, trigger, sets, results)
        plan = plan if plans.holds(plan) else plans.renewed(plan)
        if engine.sm.atomic_configuration_update:
            if sets is not None and sets.made is not None:
                engine.sm.configuration = sets.made["new_configuration"]
            else:
                plans.write(plan.route.after)
    return plan


def _cross_by_the_library(
    engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, results: list[Any]
) -> None:
    """Do the rest where a callback has set the chart's states by hand."""
    taken = [plan.route.transition]
    before = _states(engine, plan.route.before)
    left = engine._exit_states(taken, trigger)
    results += engine._enter_states(taken, trigger, left, before)


def _go_over(
    engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, raw: Any, results: list[Any]
) -> Plan:
    """Put the state out of the configuration that was left, and the other one in."""
    plans, chart, left = engine.plans, engine.sm, plan.left
    assert left is not None, "a transition without a target stays"
    at_once = chart.atomic_configuration_update
    by_hand = plans.read() is not raw
    if not at_once and by_hand:
        chart._config.discard(left)
    elif not at_once and plan.on.calls:
        plans.write(plan.route.amid)
    sets = None
    if plan.on.calls:
        amid, sets = plans.read(), _sets(engine, plan, plan.on)
        _call(engine, plan.on, trigger, sets, results)
        by_hand = by_hand or plans.read() is not amid
        plan = plan if plans.holds(plan) else plans.renewed(plan)
    if at_once and sets is not None and sets.made is not None:
        chart.configuration = sets.made["new_configuration"]
    elif at_once or not by_hand:
        plans.write(plan.route.after)
    adds = by_hand and not at_once
    return _enter(engine, plan, trigger, adds=adds) if adds or plan.greets else plan


def _enter(engine: DurableSyncEngine, plan: Plan, trigger: TriggerData, *, adds: bool) -> Plan:
    entered = plan.route.entered
    assert entered is not None, "a transition that leaves a state enters one"
    if plan.invokes:
        engine.invokes.enters(entered)
    if adds:
        engine.sm._config.add(entered)
    if plan.enter.calls:
        _call(engine, plan.enter, trigger, None, [])
        if not engine.plans.holds(plan):
            plan = engine.plans.renewed(plan)
    if plan.marks:
        engine.invokes.mark_for_invoke(entered, trigger.kwargs)
    return plan


def _call(
    engine: DurableSyncEngine,
    group: Group,
    trigger: TriggerData,
    extra: Extra,
    results: list[Any],
) -> None:
    """Call what is a block of its own each: an error of one is an event, if the chart says so."""
    for call in group.calls:
        try:
            results.append(call(trigger, extra))
        except Exception as error:
            told = engine._on_error_handler()
            if told is None:
                raise
            told(error)
        if len(group.registered) != group.count:
            raise RuntimeError(MUTATED)


def _call_together(group: Group, trigger: TriggerData, results: list[Any]) -> None:
    """Call what is one block: an error of one ends it."""
    for call in group.calls:
        results.append(call(trigger, None))
        if len(group.registered) != group.count:
            raise RuntimeError(MUTATED)


def _sets(engine: DurableSyncEngine, plan: Plan, group: Group) -> Sets | None:
    return Sets(engine, plan) if group.asks else None


class Sets:
    """The configurations before and after a transition, made if a callback asks for them."""

    __slots__ = ("_engine", "_plan", "made")

    def __init__(self, engine: DurableSyncEngine, plan: Plan) -> None:
        self._engine = engine
        self._plan = plan
        self.made: dict[str, OrderedSet[State]] | None = None

    def __call__(self) -> dict[str, OrderedSet[State]]:
        """Return them by the names of the parameters that they are given as."""
        if self.made is None:
            plan = self._plan
            before = _states(self._engine, plan.route.before)
            after = OrderedSet(state for state in before if state != plan.left)
            if plan.route.entered is not None:
                after.add(plan.route.entered)
            self.made = {"previous_configuration": before, "new_configuration": after}
        return self.made


def _states(engine: DurableSyncEngine, values: tuple[Any, ...]) -> OrderedSet[State]:
    known = engine.sm._config._instance_states
    return OrderedSet(known[value] for value in values)
