"""The contract with python-statemachine: every private name that is used is pinned here.

The engine is subclassed, so a release of the library may move what it stands on. Then a test here
names what moved and the modules that use it, before anything stranger happens.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import statemachine
from statemachine import HistoryState, State, StateChart
from statemachine.contrib.timeout import timeout
from statemachine.contrib.weighted import _make_weighted_cond, _WeightedGroup
from statemachine.engines.async_ import AsyncEngine
from statemachine.engines.base import _processing_step, _running_engine
from statemachine.event import BoundEvent, _event_data_kwargs
from statemachine.event_data import TriggerData
from statemachine.invoke import Invocation, InvokeContext, StateChartInvoker, invoke_group
from statemachine.io import load
from statemachine.io.system_variables import (
    EventDataWrapper,
    IOProcessor,
    SessionData,
    create_invoke_init_callable,
)
from statemachine.signature import SignatureAdapter
from statemachine.state import InstanceState

from machines.binding.capturing import LIBRARY_ATTRIBUTES
from machines.engine.invokes import Invokes
from machines.engine.queues import ExternalQueue
from machines.engine.shared_state import shared_cells
from machines.engine.turns import RESERVED
from tests.house.sources import configuration
from tests.unit.machines.library_uses import Found, find, find_in, overrides, where

ENGINES = "statemachine.engines"

# What is imported, and the methods that are called or overridden, each with its parameters.
SIGNATURES = {
    f"{ENGINES}.base._processing_step": "(engine)",
    f"{ENGINES}.base.BaseEngine.__del__": "(self)",
    f"{ENGINES}.base.BaseEngine._add_state_to_configuration": "(self, target)",
    f"{ENGINES}.base.BaseEngine._check_root_final_state": "(self)",
    f"{ENGINES}.base.BaseEngine._compute_exit_set": "(self, transitions)",
    f"{ENGINES}.base.BaseEngine._drop_external_events": "(self)",
    f"{ENGINES}.base.BaseEngine._get_args_kwargs": (
        "(self, transition, trigger_data, target=None, source=None)"
    ),
    f"{ENGINES}.base.BaseEngine._handle_error": "(self, error, trigger_data)",
    f"{ENGINES}.base.BaseEngine._handle_final_state": "(self, target, on_entry_result)",
    f"{ENGINES}.base.BaseEngine._initial_transitions": "(self, trigger_data)",
    f"{ENGINES}.base.BaseEngine._on_error_handler": "(self)",
    f"{ENGINES}.base.BaseEngine._prepare_entry_states": (
        "(self, enabled_transitions, states_to_exit, previous_configuration)"
    ),
    f"{ENGINES}.base.BaseEngine.cancel_event": "(self, send_id)",
    f"{ENGINES}.base.BaseEngine.clear_cache": "(self)",
    f"{ENGINES}.base.BaseEngine.put": "(self, trigger_data, internal=False)",
    f"{ENGINES}.base.BaseEngine.start": "(self, **kwargs)",
    f"{ENGINES}.base.BaseEngine._enter_states": (
        "(self, enabled_transitions, trigger_data, states_to_exit, previous_configuration)"
    ),
    f"{ENGINES}.sync.SyncEngine._exit_states": "(self, enabled_transitions, trigger_data)",
    f"{ENGINES}.sync.SyncEngine._run_macrostep": "(self)",
    f"{ENGINES}.sync.SyncEngine._select_transitions": "(self, trigger_data, predicate)",
    f"{ENGINES}.sync.SyncEngine._take_external_event": "(self, external_event)",
    f"{ENGINES}.sync.SyncEngine.activate_initial_state": "(self, **kwargs)",
    f"{ENGINES}.sync.SyncEngine.microstep": "(self, transitions, trigger_data)",
    f"{ENGINES}.sync.SyncEngine.processing_loop": "(self)",
    f"{ENGINES}.sync.SyncEngine.select_transitions": "(self, trigger_data)",
    f"{ENGINES}.sync.SyncEngine.start": "(self, **kwargs)",
    f"{ENGINES}.async_.AsyncEngine._enter_states": (
        "(self, enabled_transitions, trigger_data, states_to_exit, previous_configuration)"
    ),
    f"{ENGINES}.async_.AsyncEngine._run_macrostep": "(self)",
    f"{ENGINES}.async_.AsyncEngine._select_transitions": "(self, trigger_data, predicate)",
    f"{ENGINES}.async_.AsyncEngine._take_external_event": "(self, external_event)",
    f"{ENGINES}.async_.AsyncEngine.activate_initial_state": "(self, **kwargs)",
    f"{ENGINES}.async_.AsyncEngine.microstep": "(self, transitions, trigger_data)",
    f"{ENGINES}.async_.AsyncEngine.processing_loop": "(self, caller_future=None)",
    f"{ENGINES}.async_.AsyncEngine.put": "(self, trigger_data, internal=False)",
    f"{ENGINES}.async_.AsyncEngine.select_transitions": "(self, trigger_data)",
    "statemachine.statemachine.StateChart._get_engine": "(self)",
    "statemachine.statemachine.StateChart._register_callbacks": "(self, listeners)",
    "statemachine.statemachine.StateChart._add_listener": (
        "(self, listeners, allowed_references=<SpecReference.NAME|CALLABLE|PROPERTY: 7>)"
    ),
    "statemachine.dispatcher.Listener": "(obj, all_attrs, resolver_id)",
    "statemachine.dispatcher.Listener.from_obj": "(obj, skip_attrs=None)",
    "statemachine.dispatcher.Listeners.from_listeners": "(listeners)",
    "statemachine.dispatcher.Listeners.build": "(self, spec)",
    "statemachine.callbacks.CallbacksExecutor.add": "(self, key, spec, builder)",
    "statemachine.callbacks.CallbacksRegistry.check": "(self, specs)",
    "statemachine.callbacks.CallbacksRegistry.async_or_sync": "(self)",
    "statemachine.callbacks.CallbackSpecList.grouper": "(self, group)",
    "statemachine.graph.iterate_states_and_transitions": "(states)",
    "statemachine.event.BoundEvent": (
        "(transitions=None, id=None, name=None, delay=0, internal=False, _sm=None)"
    ),
    "statemachine.event.BoundEvent.build_trigger": "(self, *args, machine, send_id=None, **kwargs)",
    "statemachine.event_data.TriggerData": (
        "(machine, event, send_id=None, execution_time=0.0, args=<factory>, kwargs=<factory>)"
    ),
    "statemachine.invoke.InvokeContext": (
        "(invokeid, state_id, send, machine, cancelled=<factory>, kwargs=<factory>)"
    ),
    "statemachine.invoke.InvokeGroup": "(callables)",
    "statemachine.invoke.InvokeManager": "(engine)",
    "statemachine.invoke.InvokeManager.cancel_all": "(self)",
    "statemachine.invoke.InvokeManager.cancel_for_state": "(self, state)",
    "statemachine.invoke.InvokeManager.handle_external_event": "(self, trigger_data)",
    "statemachine.invoke.InvokeManager.mark_for_invoke": "(self, state, event_kwargs=None)",
    "statemachine.invoke.InvokeManager.send_to_child": "(self, invokeid, event, **data)",
    "statemachine.invoke._InvokeCallableWrapper": "(handler)",
    "statemachine.callbacks.CallbackWrapper": "(callback, condition, meta, unique_key)",
    "statemachine.callbacks.CallbackWrapper.call": "(self, *args, **kwargs)",
    "statemachine.contrib.timeout._Timeout": "(duration, on=None)",
    "statemachine.contrib.weighted._WeightedGroup": "(weights, seed=None)",
    "statemachine.io.actions._ensure_writable_target": "(name, descriptor)",
    "statemachine.io.invoke.Invoker": "(definition, base_dir, register_child, evaluator)",
    "statemachine.io.invoke.Invoker._create_child_class": "(self, content, invokeid)",
    "statemachine.io.invoke.Invoker._eval": "(self, expr, machine)",
    "statemachine.io.invoke.Invoker._evaluate_params": "(self, machine)",
    "statemachine.io.invoke.Invoker._resolve_content": "(self, machine)",
    "statemachine.io.invoke.Invoker.on_finalize": "(self, trigger_data)",
    "statemachine.io.invoke._InvokeSession": "(parent, invokeid)",
    "statemachine.io.invoke._InvokeSession.send_to_parent": "(self, event, **data)",
    "statemachine.io.system_variables.EventDataWrapper": "(event_data=None, *, trigger_data=None)",
    "statemachine.io.system_variables.IOProcessor": "(interpreter, machine)",
    "statemachine.io.system_variables.SessionData": (
        "(machine, processor, first_event_raised=False)"
    ),
    "statemachine.model.Model": "()",
}

# What is imported for what it is, not for how it is called.
THINGS = {
    f"{ENGINES}.async_.AsyncEngine": type,
    f"{ENGINES}.base._running_engine": type(_running_engine),
    f"{ENGINES}.sync.SyncEngine": type,
    "statemachine.callbacks.CallbackSpec": type,
    "statemachine.callbacks.allways_true": FunctionType,
    "statemachine.callbacks.CallbackSpecList": type,
    "statemachine.callbacks.CallbacksRegistry": type,
    "statemachine.dispatcher.Listeners": type,
    "statemachine.event._event_data_kwargs": set,
    "statemachine.invoke.IInvoke": type,
    "statemachine.io.invoke.VALID_INVOKE_TYPES": set,
    "statemachine.io.system_variables.OriginTypeSCXML": type,
    "statemachine.orderedset.OrderedSet": type,
    "statemachine.signature.SignatureAdapter": type,
    "statemachine.state.HistoryState": type,
    "statemachine.state.InstanceState": type,
    "statemachine.transition.Transition": type,
}


class Child(StateChart):
    only = State(initial=True)
    stay = only.to.itself()


class Chart(StateChart):
    """Has one of each thing that is looked into."""

    class outer(State.Compound):  # noqa: N801 - a state is named as its id
        inner = State(initial=True, invoke=Child)
        other = State()
        back = HistoryState()
        swap = inner.to(other)
        back.to(inner)

    outside = State()
    leave = outer.to(outside)
    again = outside.to(outer.back)


DOCUMENT = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a" datamodel="python">
  <datamodel><data id="x" expr="1"/></datamodel>
  <state id="a">
    <invoke id="below"><content>
      <scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="c">
        <state id="c"/>
      </scxml>
    </content></invoke>
  </state>
</scxml>
"""


def document() -> type[StateChart[Any]]:
    """Return a loaded document with a data model and an invoke."""
    return load(DOCUMENT, format="scxml", name="document")


def invoker() -> Any:
    """Return what a state of a loaded document invokes."""
    wrapper = next(spec.func for spec in document().states[0].invoke if not spec.is_convention)
    return wrapper._invoke_handler


def interpreter() -> Any:
    """Return what runs a loaded document."""
    return document().prepare_event.__self__


def trigger() -> TriggerData:
    """Return an event of a chart."""
    return TriggerData(machine=Child(), event=BoundEvent("go", name="Go"))


def child_spec() -> Any:
    """Return how a state keeps a chart that it invokes."""
    return next(spec for spec in Chart.outer.inner.invoke if not spec.is_convention)


def callback() -> Any:
    """Return how a chart keeps what a state invokes."""
    chart = Chart()
    return next(iter(chart._callbacks[Chart.outer.inner.invoke.key]))


def invocation() -> Any:
    """Return how the library keeps what a state invoked."""
    context = InvokeContext("inner.1", "inner", send=print, machine=Child())
    return Invocation(invokeid="inner.1", state_id="inner", ctx=context)


def async_engine() -> Any:
    """Return the library's engine of a chart with coroutines."""
    return AsyncEngine(Child())


# Live objects of the library, and the attributes of theirs that are read or set.
ATTRIBUTES: dict[str, tuple[Callable[[], Any], str]] = {
    "a chart's class": (
        lambda: Chart,
        "_protected_attrs _specs states name",
    ),
    "a chart": (
        Child,
        (
            "_callbacks _config _engine _listeners model state_field history_values "
            "current_state_value configuration allow_event_without_transition name"
        ),
    ),
    "a sync engine": (
        lambda: Child()._engine,
        (
            "_cache _debug _invoke_manager _macrostep_count _microstep_count "
            "_root_parallel_final_pending _processing _sentinel external_queue internal_queue "
            "running sm"
        ),
    ),
    "an async engine": (
        async_engine,
        (
            "_cache _debug _invoke_manager _macrostep_count _microstep_count "
            "_root_parallel_final_pending _processing _sentinel external_queue internal_queue "
            "running sm"
        ),
    ),
    "an engine's queue": (lambda: Child()._engine.external_queue, "queue"),
    "an invoke manager": (lambda: Child()._engine._invoke_manager, "_active _pending"),
    "an invocation": (invocation, "_handler ctx invokeid state_id terminated"),
    "an invoke's context": (lambda: invocation().ctx, "cancelled kwargs"),
    "an invoked chart's handler": (lambda: StateChartInvoker(Child), "_child"),
    "a group": (lambda: invoke_group(print), "_callables"),
    "a wrapped handler": (lambda: child_spec().func, "_invoke_handler"),
    "a callback's spec": (
        child_spec,
        "attr_name func group is_convention lookup_name may_contain_boolean_expression",
    ),
    "the callbacks of a state": (lambda: Chart.outer._specs, "conventional_specs items"),
    "a callback": (callback, "_callback _iscoro call condition expected_value meta"),
    "the callbacks of a chart": (lambda: Child()._callbacks, "_registry has_async_callbacks"),
    "a group of callbacks": (lambda: Child()._callbacks["none"], "items"),
    "a configuration": (
        lambda: Child()._config,
        "_instance_states _model _state_field add discard",
    ),
    "a state": (
        lambda: Chart.outer,
        (
            "_specs document_order final history id initial invoke parallel parent states "
            "transitions value is_history"
        ),
    ),
    "a state's proxy": (lambda: Chart().outside, "_state"),
    "a history state": (lambda: Chart.outer.back, "type is_history"),
    "a transition": (
        lambda: Chart.outer.transitions[0],
        "_specs events initial internal match source targets",
    ),
    "an event": (trigger, "args cancelled event execution_time future kwargs machine send_id"),
    "an event's name": (lambda: trigger().event, "delay id internal name"),
    "a timeout": (lambda: timeout(1), "duration on"),
    "a weighted group": (lambda: _WeightedGroup([1.0]), "_selected rng"),
    "a document's invoke": (invoker, "_definition autoforward idlocation invoke_id"),
    "a document's invoke as it was read": (
        lambda: invoker()._definition,
        "content src srcexpr type typeexpr",
    ),
    "an interpreter": (interpreter, "sessions"),
    "a document's session": (
        lambda: SessionData(machine=Child(), processor=None),
        "first_event_raised session_id",
    ),
    "a document's event": (lambda: EventDataWrapper(trigger_data=trigger()), "_trigger_data"),
    "a document's I/O processor": (lambda: IOProcessor(None, Child()), "_machine"),
}

# Private names that are only keywords and texts: the tests named here show what they do.
KEYWORDS = {"_sm", "_invokeid", "_invoke_params", "_invoke_session"}
CLOSURES = {
    "create_datamodel_action_callable.<locals>.datamodel": "initialized",
    "create_invoke_init_callable.<locals>.invoke_init": "initialized",
    "_make_weighted_cond.<locals>.weighted_cond": "group",
    "callable_method.<locals>.signature_adapter": "a_callable",
}

LISTED = {
    *(name.rpartition(".")[2] for name in SIGNATURES),
    *(name.rpartition(".")[2] for name in THINGS),
    *(name for _, names in ATTRIBUTES.values() for name in names.split()),
    *KEYWORDS,
    *CLOSURES,
}


@pytest.fixture(scope="module")
def found() -> Found:
    """What the package uses."""
    return find()


def moved(name: str, users: Iterable[str]) -> str:
    """Say that a release of the library moved a name."""
    return f"python-statemachine {statemachine.__version__} moved {name}, used by {where(users)}"


def resolve(name: str) -> Any:
    """Return what a dotted name stands for; raise AttributeError or ImportError if nothing."""
    path = name.split(".")
    for end in range(len(path), 0, -1):
        try:
            thing = importlib.import_module(".".join(path[:end]))
        except ModuleNotFoundError:
            continue
        for part in path[end:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


def bare_signature(thing: Any) -> str:
    """Return the parameters of a callable, without annotations."""
    signature = inspect.signature(thing)
    empty = inspect.Parameter.empty
    plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def users_of(name: str, found: Found) -> set[str]:
    """Return the modules that a dotted name, or its last part, occurs in."""
    last = name.rpartition(".")[2]
    return found.imports.get(name, set()) | found.mentions.get(last, set())


def complaint(name: str, check: Callable[[], object], users: Iterable[str]) -> str | None:
    """Return what is wrong with a pinned name, if anything is."""
    try:
        holds = check()
    except (AttributeError, ImportError):
        holds = False
    return None if holds else moved(name, users)


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_is_called_or_overridden_takes_what_it_took(name: str, found: Found) -> None:
    """Each function and class that is used has its parameters, by name, kind and default."""
    users = users_of(name, found)
    wrong = complaint(name, lambda: resolve(name), users)
    assert not wrong, wrong
    now, pinned = bare_signature(resolve(name)), SIGNATURES[name]
    assert now == pinned, f"{moved(name, users)}: it takes {now}, not {pinned}"


@pytest.mark.parametrize("name", THINGS)
def test_what_is_imported_is_where_it_was(name: str, found: Found) -> None:
    """Each class, set and variable that is imported is there, and of its kind."""
    check = lambda: isinstance(resolve(name), THINGS[name])  # noqa: E731 - one line says it all
    wrong = complaint(name, check, users_of(name, found))
    assert not wrong, wrong


@pytest.mark.parametrize("thing", ATTRIBUTES)
def test_the_librarys_objects_have_the_attributes_that_are_used(thing: str, found: Found) -> None:
    """Each attribute that is read or set exists on a live object of the library."""
    make, names = ATTRIBUTES[thing]
    live = make()
    wrong = [
        complaint(f"{name!r} of {thing}", lambda n=name: hasattr(live, n), users_of(name, found))
        for name in names.split()
    ]
    assert not any(wrong), "; ".join(filter(None, wrong))


NAMED_TUPLES = frozenset({"_replace"})
"""How a named tuple is copied: private by its look alone, and documented."""
ASYNCIO = frozenset({"_fut_waiter", "_children"})
"""Private names of asyncio: what a task waits for, and what a gathering gathers."""


async def test_a_task_shows_what_it_waits_for() -> None:
    """The names of asyncio that tell whose macrostep a callback belongs to are still there."""
    never = asyncio.get_running_loop().create_future()

    async def gathers() -> None:
        await asyncio.gather(never)

    task = asyncio.ensure_future(gathers())
    await asyncio.sleep(0)
    assert task._fut_waiter._children == [never]
    never.set_result(None)
    await task


def test_every_use_of_a_private_name_is_pinned(found: Found) -> None:
    """A module that begins to use another private name of the library has to pin it here."""
    pinned = {*SIGNATURES, *THINGS}
    missing = [
        f"{name} is used by {where(users)}: pin it"
        for name, users in sorted(found.imports.items())
        if name not in pinned
    ]
    missing += [
        f"{name} is used by {where(users)}: pin it"
        for name, users in sorted(found.names.items())
        if name not in LISTED | ASYNCIO | NAMED_TUPLES
    ]
    assert not missing, "\n".join(missing)


def test_every_override_is_pinned() -> None:
    """A method that takes the place of one of the library's is pinned with its parameters."""
    missing = [
        f"{name} is overridden by {where({module})}: pin it"
        for name, (module, _, _) in sorted(overrides().items())
        if not any(pinned.endswith(f".{name}") for pinned in SIGNATURES)
    ]
    assert not missing, "\n".join(missing)


def test_every_override_takes_what_the_librarys_method_takes() -> None:
    """The library may call our method wherever it calls its own."""
    for name, (module, ours, theirs) in overrides().items():
        binds = inspect.signature(ours)
        for parameter in inspect.signature(theirs).parameters.values():
            named = parameter.name in binds.parameters
            open_end = any(p.kind is p.VAR_KEYWORD for p in binds.parameters.values())
            assert named or open_end, f"{name} in {module} does not take {parameter.name!r}"


def test_every_pin_is_used(found: Found) -> None:
    """A name that no module uses any more is not pinned."""
    idle = [name for name in {*SIGNATURES, *THINGS} if not users_of(name, found)]
    idle += [name for name in LISTED if name not in found.mentions]
    assert not idle, f"unpin {', '.join(sorted(idle))}: nothing uses it"


def test_a_chart_has_the_attributes_that_a_snapshot_leaves_out() -> None:
    """What the library puts on a chart is known by name: anything else is the chart's own."""
    chart = Chart()
    of_library = {k for k, v in vars(chart).items() if not isinstance(v, InstanceState)}
    of_documents = {"_invoke_params", "_invoke_session"}
    assert of_library == LIBRARY_ATTRIBUTES - of_documents - {"_get_engine"}, moved(
        "what a chart keeps in its instance", {"machines.binding.capturing"}
    )


def test_an_invoked_document_has_two_attributes_more() -> None:
    """The first entry of an invoked document puts its parameters and its session on the chart."""
    chart = Child()
    create_invoke_init_callable()(machine=chart, _invoke_params={"x": 1}, _invoke_session="s")
    assert vars(chart)["_invoke_params"] == {"x": 1}
    assert vars(chart)["_invoke_session"] == "s"


def test_an_event_says_which_invocation_it_comes_from() -> None:
    """The keyword `_invokeid` of an event is what a document reads as `_event.invokeid`."""
    event = BoundEvent("up", name="up")
    data = TriggerData(machine=Child(), event=event, kwargs={"_invokeid": "below"})
    assert EventDataWrapper(trigger_data=data).invokeid == "below"


@pytest.mark.parametrize("name", ["key", "on_error"])
def test_the_library_cannot_hand_on_what_it_calls_its_own_parameters(name: str) -> None:
    """Event data of these names are refused as reserved, as long as the library fails on them."""
    assert name in RESERVED
    with pytest.raises(TypeError, match=name):
        Child().send("stay", **{name: 1})


def test_the_library_takes_its_own_names_out_of_event_data() -> None:
    """Event data of these names would vanish, so they are refused as reserved."""
    assert set(_event_data_kwargs) < RESERVED
    event = BoundEvent("go", name="go").build_trigger(machine=Child(), state=1, amount=2)
    assert event.kwargs == {"amount": 2}


def test_an_event_knows_its_chart_by_a_private_keyword() -> None:
    """`BoundEvent(..., _sm=chart)` is sent to that chart when it is called."""
    chart = Child()
    assert BoundEvent("go", name="go", _sm=chart)._sm is chart


def functions_behind(chart: type[StateChart[Any]]) -> list[Any]:
    """Return the functions that the states of a chart call when they are entered."""
    return [spec.func for state in chart.states for spec in state._specs]


@pytest.mark.parametrize("qualified", CLOSURES)
def test_closures_keep_their_names_and_their_variables(qualified: str) -> None:
    """What the library keeps in a closure is found by the function's and the variable's name."""
    candidates = [
        create_invoke_init_callable(),
        _make_weighted_cond(0, _WeightedGroup([1.0]), 1.0, 1.0),
        *functions_behind(document()),
        callback()._callback,
    ]
    codes = [code for f in candidates if (code := getattr(f, "__code__", None)) is not None]
    code = next((code for code in codes if code.co_qualname.endswith(qualified)), None)
    assert code is not None, moved(qualified, {"machines.engine.shared_state"})
    assert CLOSURES[qualified] in code.co_freevars


def test_a_loaded_document_shares_what_is_swapped() -> None:
    """The flags and the interpreter of a document's class are found through those names."""
    cells = shared_cells(document())
    assert cells is not None
    assert [cell.cell_contents for cell in cells.flags] == [False]
    assert cells.interpreter.sessions == {}


def test_a_callback_has_the_signature_that_it_binds_to_in_its_closure() -> None:
    """What an event takes is read there, as no public name leads from a callback to it."""
    cells = [cell.cell_contents for cell in callback()._callback.__closure__]
    owners = [getattr(cell, "__self__", None) for cell in cells]
    assert any(isinstance(owner, SignatureAdapter) for owner in owners)
    held = dict(zip(callback()._callback.__code__.co_freevars, cells, strict=True))
    assert isinstance(held["sig_bind_expected"].__self__, SignatureAdapter)


def test_a_running_step_is_known_to_the_thread_that_runs_it() -> None:
    """`_running_engine` says whose step runs, and only inside `_processing_step`."""
    engine = Child()._engine
    with _processing_step(engine):
        assert _running_engine.get() is engine
    assert _running_engine.get() is None


def calls_on(attribute: str) -> set[str]:
    """Return the methods that the library calls on one attribute of its engines."""
    root = Path(statemachine.__file__).parent
    calls: set[str] = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            owner = node.value if isinstance(node, ast.Attribute) else None
            if isinstance(owner, ast.Attribute) and owner.attr == attribute:
                calls.add(node.attr)
    return calls


def test_the_external_queue_stands_in_for_the_librarys() -> None:
    """The library's engines call nothing on the external queue that ours cannot answer.

    What only the library's own loop calls is not needed: that loop is overridden.
    """
    of_the_loop = {"put", "pop_due"}
    assert calls_on("external_queue") - of_the_loop <= set(dir(ExternalQueue))
    assert of_the_loop <= calls_on("external_queue")


def test_the_invoke_manager_stands_in_for_the_librarys() -> None:
    """The library's engines call nothing on the invoke manager that ours leaves to the library.

    What only the library's own loop calls is not needed: that loop is overridden.
    """
    of_the_loop = {"spawn_pending_sync", "spawn_pending_async"}
    assert calls_on("_invoke_manager") - of_the_loop <= set(vars(Invokes))
    assert of_the_loop <= calls_on("_invoke_manager")


def test_one_minor_release_of_the_library_is_asked_for() -> None:
    """Private names may move in any minor release: the requirement ends before the next one."""
    requirements = configuration()["project"]["dependencies"]
    assert "python-statemachine>=3.2.2,<3.3" in requirements
    assert statemachine.__version__.startswith("3.2.")


USES = """
from statemachine.engines.base import _hidden
from statemachine import StateChart
import statemachine.spec_parser

def look(chart):
    chart._engine._never_pinned
    return getattr(chart, "_only_a_text", None)
"""


def test_the_walk_sees_imports_attributes_and_texts() -> None:
    """The checks above have teeth: a use that nobody listed is found, with its module."""
    seen = find_in({"machines.example": ast.parse(USES)})
    assert set(seen.imports) == {"statemachine.engines.base._hidden", "statemachine.spec_parser"}
    assert {"_engine", "_never_pinned", "_only_a_text"} <= set(seen.names)
    assert seen.names["_never_pinned"] == {"machines.example"}


def test_a_moved_name_is_named_with_who_uses_it() -> None:
    """The message says which name moved, in which release, and which module to look at."""
    name = "statemachine.engines.base.BaseEngine._gone"
    said = complaint(name, lambda: resolve(name), {"machines.engine.turns"})
    assert said == (
        f"python-statemachine {statemachine.__version__} moved {name}, "
        "used by machines/engine/turns.py"
    )
