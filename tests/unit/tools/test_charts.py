"""Random and named charts are what they claim to be, and the library's own run of them is fixed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import statemachine.event_data
import statemachine.invoke
from statemachine.engines.base import EventQueue

from tools.charts import build, features, generate, plain
from tools.charts.children import finishes_at_once
from tools.charts.named import ROWS, NamedChart, named_charts
from tools.charts.spec import (
    Act,
    Advance,
    ChartSpec,
    Finish,
    InvokeSpec,
    Send,
    StateSpec,
    Step,
    TransitionSpec,
)
from tools.charts.trace import Trace, spawn_order

COVERED = range(300)
TWICE = range(200)
CHUNK = 25
FIVE = 5


def drawn(seed: int) -> tuple[ChartSpec, list[Step]]:
    """Return the chart and the script of a seed."""
    rng = random.Random(seed)
    spec = generate.chart(rng)
    return spec, generate.script(rng, spec)


def run_of(seed: int) -> Trace:
    """Return the trace of a seed's chart, built anew."""
    spec, script = drawn(seed)
    return plain.run(build.chart_class(spec), spec, script)


@cache
def first_run_of(seed: int) -> Trace:
    """Return the trace of a seed's chart; several tests look at it."""
    return run_of(seed)


def chart(*states: StateSpec, transitions: tuple[TransitionSpec, ...] = ()) -> ChartSpec:
    """Return a synchronous StateChart of these states."""
    return ChartSpec(
        name="Small",
        flavour="chart",
        states=states,
        transitions=transitions,
        fields={"f0": 0, "budget": 9},
    )


def go(source: str, target: str | None, *events: str) -> TransitionSpec:
    """Return a plain transition."""
    return TransitionSpec(source=source, target=target, events=events)


def trace_of(spec: ChartSpec, *script: Step) -> Trace:
    """Run a script on a chart."""
    return plain.run(build.chart_class(spec), spec, script)


def events_of(trace: Trace) -> list[str]:
    """Return the events that enabled transitions, in order, without their data."""
    return [detail.split()[1] for kind, detail in trace.entries if kind == "before"]


@pytest.mark.parametrize("start", range(TWICE.start, TWICE.stop, CHUNK))
def test_a_random_chart_runs_and_runs_alike_twice(start: int) -> None:
    """Each of 200 seeds gives a chart that runs without an error, the same way every time."""
    for seed in range(start, start + CHUNK):
        assert first_run_of(seed) == run_of(seed), f"seed {seed}"


def test_a_seed_stands_for_one_chart_and_one_script() -> None:
    """The same seed gives an equal specification and script, another seed another one."""
    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)


def test_random_charts_have_every_feature() -> None:
    """Each feature that a chart can have is in at least 5 of 300 charts."""
    found = Counter(name for seed in COVERED for name in features.declared(drawn(seed)[0]))
    rare = {name: found[name] for name in features.DECLARED if found[name] < FIVE}
    assert rare == {}


@pytest.mark.timeout(120)
def test_runs_of_random_charts_show_every_behaviour() -> None:
    """Each behaviour that the library's run can show is in at least 5 of 300 runs."""
    found = Counter(
        name for seed in COVERED for name in features.shown(drawn(seed)[0], first_run_of(seed))
    )
    rare = {name: found[name] for name in features.SHOWN if found[name] < FIVE}
    assert rare == {}


def illegal(spec: ChartSpec, active: tuple[str, ...]) -> Iterator[str]:
    """Yield the states at which a configuration is none that SCXML knows (section 3.11)."""
    here = set(active)
    if sum(state.id in here for state in spec.states) != 1:
        yield "the chart"
    for state in spec.walk():
        real = [child for child in state.children if not child.is_history]
        inside = sum(child.id in here for child in real)
        expected = (len(real) if state.kind == "parallel" else min(1, len(real))) if real else 0
        if inside != (expected if state.id in here else 0):
            yield state.id


@pytest.mark.timeout(120)
def test_no_random_chart_rests_in_an_illegal_configuration() -> None:
    """Charts for which the library itself leaves the legal configurations are not drawn."""
    for seed in TWICE:
        spec = drawn(seed)[0]
        for path, seen in first_run_of(seed).configurations:
            for active in seen if path == "" else ():
                assert list(illegal(spec, active)) == [], f"seed {seed} in {active}"


def test_an_illegal_configuration_is_told_from_a_legal_one() -> None:
    """The check above has teeth: a region too few, or a child too many, is seen."""
    left = StateSpec(id="l", kind="compound", children=(StateSpec(id="a"), StateSpec(id="b")))
    both = StateSpec(id="p", kind="parallel", children=(left, StateSpec(id="r")))
    spec = chart(both, StateSpec(id="x"))
    assert list(illegal(spec, ("p", "l", "a", "r"))) == []
    assert list(illegal(spec, ("p", "l", "a"))) == ["p"]
    assert list(illegal(spec, ("p", "l", "a", "b", "r"))) == ["l"]
    assert list(illegal(spec, ("x", "l", "a"))) == ["p"]
    assert list(illegal(spec, ("p", "l", "a", "r", "x"))) == ["the chart"]


@pytest.mark.parametrize("flavour", ["chart", "chart-async", "machine", "machine-async"])
def test_a_flavour_can_be_asked_for(flavour: generate.Flavour) -> None:
    """Given a flavour, the chart has it, and is asynchronous exactly where its name says so."""
    for seed in range(10):
        spec = generate.chart(random.Random(seed), flavour=flavour)
        assert spec.flavour == flavour
        assert (spec.asynchronous != "no") is flavour.endswith("async")


def test_a_comparable_chart_has_only_children_that_end_at_once() -> None:
    """The library calls a child done when it is made, so only such a child may be compared."""
    for seed in COVERED:
        spec = drawn(seed)[0]
        if spec.comparable_with_plain:
            assert all(finishes_at_once(child) for child in spec.child_charts()), f"seed {seed}"


WAITING = StateSpec(
    id="s0",
    initial=True,
    enter=(Act(verb="later", name="e0", delay_ms=3_600_000, amount=1, send_id="t0"),),
)


def test_a_delayed_event_holds_nobody_up_and_fires_at_its_time() -> None:
    """An event in an hour's time lets its sender go on, and comes when the clock gets there."""
    spec = chart(WAITING, StateSpec(id="s1"), transitions=(go("s0", "s1", "e0"),))
    start = time.monotonic()
    early = trace_of(spec, Send(event="e1"), Advance(ms=3_599_999))
    late = trace_of(spec, Send(event="e1"), Advance(ms=3_599_999), Advance(ms=1))
    assert time.monotonic() - start < 60
    assert events_of(early) == []
    assert events_of(late) == ["e0"]


def test_a_cancelled_event_never_fires() -> None:
    """`cancel_event` finds the delayed event by its send id."""
    forget = replace(go("s0", None, "e1"), on=(Act(verb="cancel", send_id="t0"),))
    spec = chart(WAITING, StateSpec(id="s1"), transitions=(go("s0", "s1", "e0"), forget))
    assert events_of(trace_of(spec, Send(event="e1"), Advance(ms=4_000_000))) == ["e1"]


def invoking(**options: object) -> StateSpec:
    """Return an initial state that invokes one thing."""
    return StateSpec(id="s0", initial=True, invokes=(InvokeSpec(**options),))  # type: ignore[arg-type] # the test chooses


@pytest.mark.parametrize("kind", ["call", "class", "instance", "group"])
def test_invoked_work_is_done_when_the_script_says_so(kind: str) -> None:
    """Nothing comes of an invoke before its step, then its end with its number."""
    spec = chart(
        invoking(kind=kind, label="w"), StateSpec(id="s1"),
        transitions=(go("s0", "s1", "done.invoke.s0"),),
    )  # fmt: skip
    assert events_of(trace_of(spec, Send(event="e0"), Advance(ms=9_999))) == []
    assert events_of(trace_of(spec, Finish(), Finish())) == ["done.invoke.s0.1"]


def test_invocations_are_counted_by_chart() -> None:
    """The second invocation of a chart has number 2, whichever state it belongs to."""
    again = StateSpec(id="s1", invokes=(InvokeSpec(kind="call", label="v"),))
    spec = chart(
        invoking(kind="call", label="w"), again,
        transitions=(go("s0", "s1", "done.invoke.s0"), go("s1", "s0", "done.invoke.s1")),
    )  # fmt: skip
    trace = trace_of(spec, Finish(), Finish(), Finish())
    assert events_of(trace) == ["done.invoke.s0.1", "done.invoke.s1.2", "done.invoke.s0.3"]


def test_work_whose_state_was_left_never_runs() -> None:
    """Left before its work is done, a state gets neither its end nor its failure."""
    spec = chart(
        invoking(kind="call", label="w", fails=True), StateSpec(id="s1"),
        transitions=(go("s0", "s1", "e0"), go("s1", "s0", "error.execution")),
    )  # fmt: skip
    assert events_of(trace_of(spec, Send(event="e0"), Finish(every=True))) == ["e0"]
    assert events_of(trace_of(spec, Finish(every=True), Send(event="e0"))) == ["e0"]


def test_one_step_finishes_the_first_outstanding_invocation() -> None:
    """Of two invocations the first spawned ends first; the other needs a step of its own."""
    work = tuple(InvokeSpec(kind="call", label=label) for label in "ab")
    spec = chart(
        StateSpec(id="s0", initial=True, invokes=work),
        transitions=(go("s0", None, "done.invoke.s0"),),
    )
    assert events_of(trace_of(spec, Finish())) == ["done.invoke.s0.1"]
    both = ["done.invoke.s0.1", "done.invoke.s0.2"]
    assert events_of(trace_of(spec, Finish(), Finish())) == both
    assert events_of(trace_of(spec, Finish(every=True))) == both


@pytest.mark.parametrize("is_async", [False, True])
def test_a_timeout_ends_in_its_state_only(*, is_async: bool) -> None:
    """A timeout sends its event; its `done.invoke` follows only if the state is still active."""
    timeout = invoking(kind="timeout", duration_ms=50, on="x0")
    done = go("s1", "s0", "done.invoke")
    stays = chart(timeout, StateSpec(id="s1"), transitions=(go("s0", None, "x0"), done,
                  go("s0", "s1", "done.invoke.s0")))  # fmt: skip
    leaves = chart(timeout, StateSpec(id="s1"), transitions=(go("s0", "s1", "x0"), done))
    if is_async:
        stays = replace(stays, flavour="chart-async", asynchronous="callbacks")
        leaves = replace(leaves, flavour="chart-async", asynchronous="callbacks")
    assert events_of(trace_of(stays, Advance(ms=49))) == []
    assert events_of(trace_of(stays, Advance(ms=50))) == ["x0", "done.invoke.s0.1"]
    assert events_of(trace_of(leaves, Advance(ms=60))) == ["x0"]


def test_a_refusal_is_a_result() -> None:
    """What a strict machine raises is in the results, and the run goes on."""
    spec = chart(StateSpec(id="s0", initial=True), transitions=(go("s0", None, "e0"),))
    strict = replace(spec, flavour="machine", strict=True)
    trace = trace_of(strict, Send(event="e1"), Send(event="e0"))
    assert trace.results == ("raises TransitionNotAllowed", "[None, None]")


def test_a_chart_whose_first_macrostep_raises_is_run_all_the_same() -> None:
    """The exception of a constructor is a result like any other, and the script goes on."""
    failing = replace(go("s0", None, "e0"), on=(Act(verb="fail", name="f0", amount=1),))
    first = StateSpec(id="s0", initial=True, enter=(Act(verb="send", name="e0", amount=1),))
    spec = replace(chart(first, transitions=(failing,)), flavour="machine")
    assert trace_of(spec, Send(event="e1")).results == ("raises ChartError", "None")


def test_a_script_ends_with_its_chart() -> None:
    """After a final state no further step is taken."""
    final = StateSpec(id="s1", kind="final")
    spec = chart(StateSpec(id="s0", initial=True), final, transitions=(go("s0", "s1", "e0"),))
    trace = trace_of(spec, Send(event="e0"), Send(event="e0"))
    assert trace.is_terminated
    assert len(trace.results) == 1


def test_timers_that_are_due_together_are_counted() -> None:
    """A timeout and a delayed event of one moment are a tie, two moments are none."""
    both = replace(
        invoking(kind="timeout", duration_ms=50),
        enter=(Act(verb="later", name="e0", delay_ms=50, amount=1),),
    )
    spec = chart(both, transitions=(go("s0", None, "e0"),))
    assert trace_of(spec, Advance(ms=60)).ties == 1
    apart = replace(both, enter=(replace(both.enter[0], delay_ms=40),))
    assert trace_of(replace(spec, states=(apart,)), Advance(ms=60)).ties == 0


def test_a_run_leaves_the_library_as_it_was() -> None:
    """Clock, threads, ids and queues are the library's own again after a run."""
    before = (EventQueue.is_empty, statemachine.invoke.threading, statemachine.invoke.uuid)
    run_of(0)
    after = (EventQueue.is_empty, statemachine.invoke.threading, statemachine.invoke.uuid)
    assert after == before
    assert statemachine.event_data.monotonic is time.monotonic


def test_a_difference_names_its_first_place() -> None:
    """Two traces are compared entry by entry, and the first that differs is told."""
    one = Trace(entries=(("enter", "a"), ("exit", "a")), results=("None",))
    assert one.difference(replace(one, guards=(("g", True),), ties=3)) is None
    other = replace(one, entries=(("enter", "a"), ("exit", "b")))
    assert one.difference(other) == "entries[1]: ('exit', 'a') and ('exit', 'b')"
    shorter = replace(one, entries=one.entries[:1])
    assert "missing in the second" in str(one.difference(shorter))
    assert "missing in the first" in str(shorter.difference(one))
    assert "results" in str(one.difference(replace(one, results=("1",))))
    assert "is_terminated" in str(one.difference(replace(one, is_terminated=True)))


def test_invocations_are_ordered_by_place_and_number() -> None:
    """Numbers count as numbers, and a child's work comes before what its parent invoked later."""
    keys = [("", "b.10"), ("", "a.2"), ("a.3", "z.7"), ("a.3/z.1", "y.1"), ("", "a.11")]
    ordered = sorted(keys, key=lambda key: spawn_order(*key))
    assert ordered == [
        ("", "a.2"), ("a.3/z.1", "y.1"), ("a.3", "z.7"), ("", "b.10"), ("", "a.11"),
    ]  # fmt: skip


NAMED = named_charts()


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
def test_a_named_chart_runs_alike_twice(named: NamedChart) -> None:
    """Built anew, a named chart does the same, and more than nothing."""
    first, second = (plain.run(named.build(), named, named.script) for _ in range(2))
    assert first.difference(second) is None
    assert sum(len(seen) for _, seen in first.configurations) > 0


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
def test_a_named_chart_says_what_it_guards(named: NamedChart) -> None:
    """Its description names a row that a snapshot must hold and how its absence shows."""
    assert named.row in ROWS
    assert named.guards.startswith("Guards ")
    assert named.guards.count(". ") >= 1


def test_every_row_has_a_named_chart() -> None:
    """Nothing that a snapshot must hold is left without a chart that misses it."""
    assert {named.row for named in NAMED.values()} == set(ROWS)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("configuration_order", "by_right"),
        ("history", "second"),
        ("deep_history", "inner2"),
        ("model_fields", "opened"),
        ("own_attributes", "given_up"),
        ("external_queue", "done"),
        ("timers", "expired"),
        ("send_ids", "stopped"),
        ("timeouts", "given_up"),
        ("pending_invokes", "done"),
        ("active_invokes", "done"),
        ("invoke_counter", "done"),
        ("session_id", "same"),
    ],
)
def test_a_named_chart_ends_where_its_description_says(name: str, last: str) -> None:
    """Uninterrupted, the chart ends in the state that its description promises."""
    named = NAMED[name]
    trace = plain.run(named.build(), named, named.script)
    assert last in dict(trace.configurations)[""][-1]
