"""Gates: answers that are taken, and answers that are refused with a reason."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import TAKEN, Parameter, child, gate
from machines.errors import (
    AmbiguousGateError,
    DefinitionError,
    EventRefusedError,
    GateClosedError,
    RunFinishedError,
)
from tests.host.charts import Door, Review, Trunk
from tests.host.world import World, at_rest, ended, settled


async def test_an_open_gate_takes_an_answer(world: World) -> None:
    """The answer is run as an event with its data, and its result comes back."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        assert await host.answer(run, "review", "approve", note="fine") == "approved: fine"
    assert world.status(run) == "done"
    assert world.blob(run)["root"]["context"]["note"] == "fine"


async def test_an_open_gate_is_listed_with_what_it_takes(world: World) -> None:
    """Key, events, state and meta, from memory and from the row."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        (listed,) = await host.gates(run)
        assert (await host.read(run)).gates == (listed,)
        assert await host.unload(run)
        assert (await host.read(run)).gates == (listed,)
    assert (listed.key, listed.state, listed.path) == ("review", "reviewing", "")
    assert listed.events == ("approve", "reject")
    assert listed.meta == {"role": "editor"}


async def test_a_gate_that_is_not_open_refuses(world: World) -> None:
    """Before its state is entered and after it is left, with what is open instead."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        with pytest.raises(GateClosedError):
            await host.answer(run, "review", "approve")
        await host.send(run, "submit")
        with pytest.raises(GateClosedError) as caught:
            await host.answer(run, "other", "approve")
        assert caught.value.open_gates == ("review (approve, reject)",)
        await host.send(run, "withdraw")
        with pytest.raises(GateClosedError):
            await host.answer(run, "review", "approve")
        assert world.configuration(run) == ["writing"]


async def test_a_gate_refuses_an_event_that_it_does_not_name(world: World) -> None:
    """An event that the chart would take by itself is not an answer to the gate."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        with pytest.raises(GateClosedError):
            await host.answer(run, "review", "withdraw")
        assert world.configuration(run) == ["reviewing"]


async def test_a_finished_run_has_no_gates(world: World) -> None:
    """An answer to a run that has ended says that it has ended."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        await host.answer(run, "review", "reject")
        with pytest.raises(RunFinishedError):
            await host.answer(run, "review", "approve")
        assert (await host.read(run)).gates == ()


async def test_a_gate_is_open_after_a_restart(world: World) -> None:
    """A gate is in the row; opening it again waits for the same answers."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        after = world.after_kill()
    async with after.host(Review) as host:
        await host.answer(run, "review", "approve", note="late")
    assert after.status(run) == "done"


async def test_several_gates_are_answered_each_by_its_key(world: World) -> None:
    """Two regions wait at once, and each takes its own answer."""

    class Both(StateChart):
        class Waiting(State.Parallel):
            class Left(State.Compound):
                left_open = State(initial=True, invoke=gate("yes", key="left"))
                left_shut = State(final=True)
                yes = left_open.to(left_shut)

            class Right(State.Compound):
                right_open = State(initial=True, invoke=gate("no"))
                right_shut = State(final=True)
                no = right_open.to(right_shut)

        over = State(final=True)
        done_state_Waiting = Waiting.to(over)  # noqa: N815 - the library's name

    async with world.host(Both) as host:
        run = await host.start(Both)
        assert [listed.key for listed in await host.gates(run)] == ["left", "right_open"]
        with pytest.raises(GateClosedError):
            await host.answer(run, "left", "no")
        await host.answer(run, "right_open", "no")
        assert [listed.key for listed in await host.gates(run)] == ["left"]
        await host.answer(run, "left", "yes")
    assert world.status(run) == "done"


async def test_a_childs_gate_is_addressed_by_its_path(world: World) -> None:
    """The gate of a nested chart has its place in the tree before its state's name."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        (listed,) = await host.gates(run)
        assert listed.key == "alive.1/growing.1/budding"
        assert listed.path == "alive.1/growing.1"
        with pytest.raises(GateClosedError):
            await host.answer(run, "budding", "bloom")
        await host.answer(run, listed.key, "bloom", colour="red")
        await at_rest(host, run)
        assert (await host.read(run)).context == {"told": 1, "seen": "red"}


async def test_a_childs_gate_is_answered_after_a_restart(world: World) -> None:
    """A path leads to the same chart after the tree was rebuilt."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        after = world.after_kill()
    async with after.host(Trunk) as host:
        await host.answer(run, "alive.1/growing.1/budding", "bloom", colour="blue")
        await at_rest(host, run)
        assert (await host.read(run)).context["seen"] == "blue"


async def test_a_gate_without_events_is_refused_at_definition() -> None:
    """A gate that nothing could answer never gets to run."""
    with pytest.raises(DefinitionError):
        gate()


async def test_data_that_the_library_would_replace_is_refused(world: World) -> None:
    """Names such as `state` would vanish silently, so they are refused by name."""
    async with world.host(Review, Door) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        with pytest.raises(EventRefusedError, match="state"):
            await host.answer(run, "review", "approve", state="x")
        assert world.configuration(run) == ["reviewing"]
        door = await host.start(Door)
        with pytest.raises(EventRefusedError, match="model"):
            await host.send(door, "push", model="x")


@pytest.mark.parametrize(
    "data", [{"delay": 3}, {"send_id": "x"}, {"waiter": 1}, {"path": "p"}, {"run": 1, "gate": 2}]
)
async def test_data_may_have_any_other_name(world: World, data: dict[str, Any]) -> None:
    """What sending itself has names for is data like any other."""

    class Echo(StateChart):
        only = State(initial=True)
        over = State(final=True)
        say = only.to.itself(on="echo")
        finish = only.to(over)

        def echo(self, **kwargs: Any) -> dict[str, Any]:
            return {key: kwargs[key] for key in data}

    async with world.host(Echo) as host:
        run = await host.start(Echo)
        async with asyncio.timeout(5):
            assert await host.send(run, "say", **data) == data


def slow_review(base: type[Any]) -> tuple[Any, asyncio.Event, list[str]]:
    """Return a chart whose approval takes a while, what lets it on, and who was approved."""
    release = asyncio.Event()
    approved: list[str] = []

    class SlowReview(base):
        reviewing = State(initial=True, invoke=gate("approve", "reject"))
        done = State(final=True)
        approve = reviewing.to(done)
        reject = reviewing.to(done)
        withdraw = reviewing.to.itself()

        async def on_approve(self, who: str) -> str:
            await release.wait()
            if who == "nobody":
                message = "nobody may approve"
                raise ValueError(message)
            approved.append(who)
            return who

    return SlowReview, release, approved


async def test_of_two_approvals_of_one_gate_one_wins(world: World) -> None:
    """The second comes while the first is under way: it is told that the gate is closed."""
    chart, release, approved = slow_review(StateChart)
    async with world.host(chart) as host:
        run = await host.start(chart)
        first = asyncio.create_task(host.answer(run, "reviewing", "approve", who="ann"))
        await settled()
        second = asyncio.create_task(host.answer(run, "reviewing", "approve", who="bob"))
        await settled()
        release.set()
        assert await first == "ann"
        with pytest.raises((GateClosedError, RunFinishedError)):
            await second
    assert approved == ["ann"]


async def test_a_second_answer_counts_if_the_first_fails(world: World) -> None:
    """The first approval raises, so the gate is still open for the second."""
    chart, release, approved = slow_review(StateMachine)
    async with world.host(chart) as host:
        run = await host.start(chart)
        first = asyncio.create_task(host.answer(run, "reviewing", "approve", who="nobody"))
        await settled()
        second = asyncio.create_task(host.answer(run, "reviewing", "approve", who="bob"))
        await settled()
        release.set()
        with pytest.raises(ValueError, match="nobody"):
            await first
        assert await second == "bob"
        await ended(host, run)
    assert approved == ["bob"]


async def test_an_answer_behind_an_event_that_closes_the_gate_is_refused(world: World) -> None:
    """What was sent before the answer is run before the gate is looked at."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Leaving(StateChart):
        reviewing = State(initial=True, invoke=gate("approve"))
        left = State()
        done = State(final=True)
        leave = reviewing.to(left)
        approve = reviewing.to(done) | left.to(done)

        async def on_leave(self) -> None:
            entered.set()
            await release.wait()

    async with world.host(Leaving) as host:
        run = await host.start(Leaving)
        leave = asyncio.create_task(host.send(run, "leave"))
        await entered.wait()
        answer = asyncio.create_task(host.answer(run, "reviewing", "approve"))
        await settled()
        release.set()
        await leave
        with pytest.raises(GateClosedError):
            await answer
        assert world.configuration(run) == ["left"]


async def test_a_child_machine_takes_the_answers_to_its_gate(world: World) -> None:
    """A gate may be in a StateMachine that a StateChart invokes."""

    class Inner(StateMachine):
        asking = State(initial=True, invoke=gate("yes", key="inner"))
        told = State(final=True)
        yes = asking.to(told)

    class Outer(StateChart):
        holding = State(initial=True, invoke=child(Inner))
        over = State(final=True)
        done_invoke_holding = holding.to(over)

    async with world.host(Outer) as host:
        run = await host.start(Outer)
        await at_rest(host, run)
        await host.answer(run, "inner", "yes")
        await ended(host, run)
    assert world.status(run) == "done"


# -- what an answer takes --------------------------------------------------------------------------


@dataclass
class Verdict:
    """What an approval has to say; it writes over what it is given."""

    who: str
    marks: list[int]

    def __post_init__(self) -> None:
        if not self.marks:
            message = "no marks"
            raise ValueError(message)
        self.marks.clear()


class Graded(StateChart):
    """Waits for a verdict, or for somebody who gives up."""

    waiting = State(initial=True, invoke=gate("approve", "give_up", model={"approve": Verdict}))
    graded = State()
    over = State(final=True)
    approve = waiting.to(graded)
    give_up = waiting.to(over)
    close = graded.to(over)

    def on_approve(self, who: str, marks: list[int]) -> list[int]:
        self.model.marks = marks
        return marks

    def on_give_up(self, reason: str = "", *, final: bool) -> None:
        """Nothing: it is asked what it takes."""


WHO = Parameter(name="who", required=True, type="str")
MARKS = Parameter(name="marks", required=True, type="list[int]")
REASON = Parameter(name="reason", required=False, type="str")
FINAL = Parameter(name="final", required=True, type="bool")


async def test_an_open_gate_says_what_each_of_its_events_takes(world: World) -> None:
    """From its model, else from the callbacks; also after a restart, where it is built for that."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        (listed,) = await host.gates(run)
        assert listed.parameters == {"approve": (WHO, MARKS), "give_up": (REASON, FINAL)}
        after = world.after_kill()
    async with after.host(Graded) as host:
        assert run in host.waiting
        (listed,) = await host.gates(run)
        assert listed.parameters["give_up"] == (REASON, FINAL)


async def test_what_was_read_from_a_row_says_no_parameters(world: World) -> None:
    """A row holds the gate, not the code that takes the answer."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        (read,) = (await host.read(run)).gates
        assert read.parameters == {}
        assert read.events == ("approve", "give_up")


@pytest.mark.parametrize("data", [{"who": "ann"}, {"who": "ann", "marks": []}])
async def test_data_that_the_model_refuses_is_refused_before_anything_is_taken(
    world: World, data: dict[str, Any]
) -> None:
    """The error names run, gate, event and what is wrong; nothing is written, nothing is taken."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        saves = world.saves(run)
        with pytest.raises(EventRefusedError) as caught:
            await host.answer(run, "waiting", "approve", delivery="d1", **data)
        for said in (repr(run), "'waiting'", "'approve'", "Verdict", "marks"):
            assert said in str(caught.value)
        assert world.saves(run) == saves
        assert await host.answer(
            run, "waiting", "approve", delivery="d1", who="bob", marks=[1]
        ) == [1]


async def test_the_callbacks_get_the_plain_data_and_not_the_model(world: World) -> None:
    """What the model makes of its data stays with the model."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        given = [1, 2]
        assert await host.answer(run, "waiting", "approve", who="ann", marks=given) == [1, 2]
        assert given == [1, 2]
    assert world.blob(run)["root"]["context"]["marks"] == [1, 2]


async def test_an_event_without_a_model_is_not_looked_into(world: World) -> None:
    """The model of another event is not asked."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        await host.answer(run, "waiting", "give_up", final=True)
    assert world.status(run) == "done"


# -- deliveries ------------------------------------------------------------------------------------


async def test_a_repeated_answer_is_taken_and_not_run(world: World) -> None:
    """The gate has closed since, or the run has ended: the repeat is told that it was taken."""
    async with world.host(Graded, Review) as host:
        run = await host.start(Graded)
        await host.answer(run, "waiting", "approve", delivery="d1", who="ann", marks=[1])
        again = await host.answer(run, "waiting", "approve", delivery="d1", who="ann", marks=[1])
        assert again is TAKEN
        with pytest.raises(GateClosedError):
            await host.answer(run, "waiting", "approve", delivery="d2", who="ann", marks=[1])
        review = await host.start(Review)
        await host.send(review, "submit")
        await host.answer(review, "review", "approve", delivery="d1")
        assert await host.answer(review, "review", "approve", delivery="d1") is TAKEN
        with pytest.raises(RunFinishedError):
            await host.answer(review, "review", "approve", delivery="d2")


async def test_a_repeated_answer_is_known_after_a_restart(world: World) -> None:
    """The delivery is in the save of its macrostep."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        await host.answer(run, "waiting", "approve", delivery="d1", who="ann", marks=[1])
        after = world.after_kill()
    async with after.host(Graded) as host:
        assert await host.answer(run, "waiting", "approve", delivery="d1") is TAKEN


async def test_a_repeat_waits_for_the_answer_that_is_under_way(world: World) -> None:
    """Whether it comes before the first is run, or while it is, it is told once that is saved."""
    chart, release, approved = slow_review(StateChart)
    async with world.host(chart) as host:
        run = await host.start(chart)
        answers = [
            asyncio.create_task(host.answer(run, "reviewing", "approve", delivery="d1", who=who))
            for who in ("ann", "bob", "eve")
        ]
        await settled()
        late = asyncio.create_task(
            host.answer(run, "reviewing", "approve", delivery="d1", who="joe")
        )
        await settled()
        assert not any(task.done() for task in (*answers, late))
        release.set()
        assert await asyncio.gather(*answers, late) == ["ann", TAKEN, TAKEN, TAKEN]
    assert approved == ["ann"]


async def test_a_repeat_counts_if_the_answer_under_way_fails(world: World) -> None:
    """A delivery whose macrostep raised was not taken."""
    chart, release, approved = slow_review(StateMachine)
    async with world.host(chart) as host:
        run = await host.start(chart)
        first = asyncio.create_task(
            host.answer(run, "reviewing", "approve", delivery="d1", who="nobody")
        )
        await settled()
        second = asyncio.create_task(
            host.answer(run, "reviewing", "approve", delivery="d1", who="bob")
        )
        await settled()
        release.set()
        with pytest.raises(ValueError, match="nobody"):
            await first
        assert await second == "bob"
    assert approved == ["bob"]


# -- which gate, and when it closes ----------------------------------------------------------------


async def test_of_two_answers_at_once_one_wins_and_the_other_is_told(world: World) -> None:
    """The run goes on after the first, so the second hears that the gate has closed."""
    async with world.host(Graded) as host:
        run = await host.start(Graded)
        first, second = await asyncio.gather(
            host.answer(run, "waiting", "approve", who="ann", marks=[1]),
            host.answer(run, "waiting", "approve", who="bob", marks=[2]),
            return_exceptions=True,
        )
    assert first == [1]
    assert isinstance(second, GateClosedError)
    assert world.blob(run)["root"]["context"]["marks"] == [1]


class Stubborn(StateChart):
    """Has an answer for every way of not leaving, and one for leaving."""

    waiting = State(
        initial=True, invoke=gate("never", "note", "again", "leave", "unheard", key="stubborn")
    )
    left = State()
    never = waiting.to(left, cond="no")
    note = waiting.to.itself(internal=True)
    again = waiting.to.itself()
    leave = waiting.to(left)
    back = left.to(waiting)

    def no(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("event", "is_open"),
    [("never", True), ("unheard", True), ("note", True), ("again", True), ("leave", False)],
)
async def test_an_answer_closes_the_gate_exactly_if_it_leaves_its_state(
    world: World, event: str, *, is_open: bool
) -> None:
    """A guard that says no, an event that nothing takes, an internal transition close nothing."""
    async with world.host(Stubborn) as host:
        run = await host.start(Stubborn)
        await host.answer(run, "stubborn", event)
        assert [listed.key for listed in await host.gates(run)] == ["stubborn"] * is_open
        assert (await host.read(run)).gates == tuple(await host.gates(run))


class Asking(StateChart):
    """Has a gate with a key of its own, wherever it is."""

    asking = State(initial=True, invoke=gate("yes", key="ask"))
    told = State(final=True)
    yes = asking.to(told)


class Family(StateChart):
    """Has two children that ask under one key, and takes the event itself too."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - a state is named as its id
            one = State(initial=True, invoke=child(Asking))
            one_done = State(final=True)
            done_invoke_one = one.to(one_done)

        class right(State.Compound):  # noqa: N801 - a state is named as its id
            other = State(initial=True, invoke=child(Asking))
            other_done = State(final=True)
            done_invoke_other = other.to(other_done)

    over = State(final=True)
    lost = State(final=True)
    done_state_both = both.to(over)
    yes = both.to(lost)


async def test_gates_of_one_key_in_two_charts_are_told_apart_by_their_paths(world: World) -> None:
    """The key alone is refused with the addresses that name one each."""
    async with world.host(Family) as host:
        run = await host.start(Family)
        await at_rest(host, run)
        with pytest.raises(AmbiguousGateError) as caught:
            await host.answer(run, "ask", "yes")
        addresses = tuple(listed.address for listed in await host.gates(run))
        assert caught.value.addresses == addresses == ("one.1/ask", "other.2/ask")
        await host.answer(run, "other.2/ask", "yes")
        await at_rest(host, run)
        assert [listed.address for listed in await host.gates(run)] == ["one.1/ask"]
        await host.answer(run, "ask", "yes")
        await ended(host, run)
    assert world.configuration(run) == ["over"]


async def test_an_answer_goes_to_the_chart_of_its_gate(world: World) -> None:
    """The root would take the event too, and is not asked."""
    async with world.host(Family) as host:
        run = await host.start(Family)
        await at_rest(host, run)
        await host.answer(run, "one.1/ask", "yes")
        await at_rest(host, run)
        assert "one_done" in world.configuration(run)
        assert "other" in world.configuration(run)
        await host.send(run, "yes")
    assert world.configuration(run) == ["lost"]
