"""The shape of a chart: which edits a stored run survives, and what is said of the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from statemachine import State, StateChart
from statemachine.io import load

from machines import Machine, child, effect, gate, timeout
from machines.shape import DIGEST_HEX, digest_of, drift, shape_bytes, shape_of
from tests.house.sources import ROOT

# A chart as its author writes it. Each edit below replaces one piece of this text by another.
SOURCE = """
from enum import Enum
from statemachine import Event, HistoryState, State, StateChart
from statemachine.contrib.timeout import timeout
from statemachine.invoke import invoke_group


class Colour(Enum):
    RED = 1
    GREEN = 2


class Parcel(StateChart):
    packed = State(initial=True)
    sent = State(final=True)

    ship = packed.to(sent)


def fetch():
    return 1


def compute():
    return 2


class Order(StateChart):
    allow_event_without_transition = True
    validate_disconnected_states = False
    validate_final_reachability = False

    open = State("Open", initial=True)

    class paying(State.Compound, name="Paying"):
        asking = State(initial=True, value=1)
        waiting = State(value=2)
        back = HistoryState(type="shallow")

        ask = asking.to(waiting)
        back.to(asking)

    class work(State.Parallel):
        class left(State.Compound):
            l1 = State(initial=True)
            l2 = State(final=True)
            step = l1.to(l2)

        class right(State.Compound):
            r1 = State(initial=True, value=Colour.RED)
            r2 = State(final=True)
            turn = r1.to(r2)

    calling = State(invoke=fetch)
    grouping = State(invoke=invoke_group(fetch, compute))
    timing = State(invoke=timeout(5, on="expired"))
    shipping = State(invoke=Parcel)
    held = State()
    closed = State(final=True)

    pay = open.to(paying, cond="may_pay")
    resume = held.to(paying.back)
    hold = paying.to(held)
    start = open.to(work, on="begin")
    done_state_work = work.to(calling)
    done_invoke_calling = calling.to(grouping, calling)
    group = grouping.to(timing)
    expired = timing.to(shipping)
    close = shipping.to(closed)
    note = held.to.itself(internal=True)
    left_over = held.to(closed, cond="is_empty")
    remind = Event(held.to.itself(), delay=1000)

    is_empty = False

    def may_pay(self):
        return True

    def begin(self):
        pass

    def on_enter_open(self):
        return 1
"""

NO_EDIT_OF_SHAPE = {
    "a guard that is another": ('cond="may_pay"', 'cond="!is_empty"'),
    "a guard that is gone": (', cond="may_pay"', ""),
    "a guard that is new": ("hold = paying.to(held)", 'hold = paying.to(held, cond="may_pay")'),
    "an action that is gone": (', on="begin"', ""),
    "an action that is new": (
        "closed = State(final=True)",
        'closed = State(final=True, enter="begin")',
    ),
    "what an action does": ("return 1\n", "return 'else'\n"),
    "a callback that is new": (
        "def begin(self):",
        "def on_exit_open(self): ...\n    def begin(self):",
    ),
    "a validator": ('cond="may_pay"', 'cond="may_pay", validators="begin"'),
    "a label of a state": ('State("Open"', 'State("Offen"'),
    "a label of a compound state": ('name="Paying"', 'name="Zahlen"'),
    "a label of an event": (
        "Event(held.to.itself(), delay=1000)",
        "Event(held.to.itself(), name='R')",
    ),
    "how long a timeout waits": ("timeout(5,", "timeout(50,"),
    "how long an event waits": ("delay=1000", "delay=9000"),
    "the function that is called": ("invoke=fetch)", "invoke=compute)"),
    "the functions of a group": ("invoke_group(fetch, compute)", "invoke_group(compute, fetch)"),
    "the class's name": ("class Order(", "class Bestellung("),
    "the name of a child's class": ("Parcel", "Paket"),
    "the name of an enumeration": ("Colour", "Farbe"),
    "an engine flag": ("allow_event_without_transition = True", "catch_errors_as_events = False"),
    "another engine flag": ("allow_event_without_transition", "atomic_configuration_update"),
    "a comment and a docstring": ("def fetch():", 'def fetch():\n    """Fetch it."""  # soon'),
    "the order of unrelated states": (
        "held = State()\n    closed = State(final=True)",
        "closed = State(final=True)\n    held = State()",
    ),
}

EDITS_OF_SHAPE = {
    "a state's id": ("closed", "shut"),
    "a state that is gone": (
        "    calling = State(invoke=fetch)\n",
        "",
        "work.to(calling)",
        "work.to(grouping)",
        "    done_invoke_calling = calling.to(grouping, calling)\n",
        "",
    ),
    "a state that is new": (
        "held = State()",
        ("held = State()\n    lost = State()\n    lose = held.to(lost)\n    find = lost.to(held)"),
    ),
    "a state's value": ("value=2", "value=3"),
    "the type of a state's value": ("value=2", "value='2'"),
    "a state's value of an enumeration": ("value=Colour.RED", "value=Colour.GREEN"),
    "a state that becomes final": (
        "l1 = State(initial=True)",
        (
            "l1 = State(initial=True)\n            l3 = State(final=True)\n"
            "            skip = l1.to(l3)"
        ),
    ),
    "a state that is not final any more": (
        "r2 = State(final=True)",
        "r2 = State()\n            again = r2.to(r1)",
    ),
    "parallel regions that become compound": (
        "class work(State.Parallel):",
        "class work(State.Compound):",
        "class left(State.Compound):",
        "class left(State.Compound, initial=True):",
        "turn = r1.to(r2)",
        "turn = r1.to(r2)\n        cross = left.to(right)",
    ),
    "the initial child": (
        "asking = State(initial=True, value=1)",
        "asking = State(value=1)",
        "waiting = State(value=2)",
        "waiting = State(initial=True, value=2)",
        "ask = asking.to(waiting)",
        "ask = waiting.to(asking)",
    ),
    "the initial state": (
        'open = State("Open", initial=True)',
        'open = State("Open")',
        "held = State()",
        "held = State(initial=True)\n    reopen = held.to(open)",
    ),
    "the kind of a history state": ('type="shallow"', 'type="deep"'),
    "the default of a history state": ("back.to(asking)", "back.to(waiting)"),
    "an invoke that is gone": ("State(invoke=fetch)", "State()"),
    "an invoke that is new": ("held = State()", "held = State(invoke=fetch)"),
    "an invoke that a method's name declares": (
        "def begin(self):",
        "def on_invoke_open(self): ...\n    def begin(self):",
    ),
    "how many a group calls": ("invoke_group(fetch, compute)", "invoke_group(fetch)"),
    "the event of a timeout": ('on="expired"', 'on="late"', "expired = ", "late = "),
    "a state of a child": (
        "sent = State(final=True)",
        "gone = State(final=True)",
        "to(sent)",
        "to(gone)",
    ),
    "a call in place of a child": ("invoke=Parcel", "invoke=fetch"),
    "the target of a transition": ("hold = paying.to(held)", "hold = paying.to(open)"),
    "the source of a transition": (
        "group = grouping.to(timing)",
        ("group = grouping.to(timing)\n    close_early = open.to(closed)"),
    ),
    "the event of a transition": ("close = shipping", "finish = shipping"),
    "a second event of a transition": (
        "close = shipping.to(closed)",
        "close = finish = shipping.to(closed)",
    ),
    "a transition that is gone": ('    left_over = held.to(closed, cond="is_empty")\n', ""),
    "a transition that becomes external": ("itself(internal=True)", "itself()"),
    "a transition that is there twice": (
        "calling.to(grouping, calling)",
        "calling.to(grouping, calling, calling)",
    ),
    "a transition without an event": ("group = grouping.to(timing)", "grouping.to(timing)"),
}


def edited(*pieces: str) -> dict[str, Any]:
    """Return the module that the source is with pieces of it replaced, in pairs."""
    text = SOURCE
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        assert old in text, f"the source has no {old!r}"
        text = text.replace(old, new)
    module: dict[str, Any] = {"__name__": "edited"}
    exec(compile(text, "edited", "exec"), module)  # noqa: S102 - the text is written above
    return module


def order(*pieces: str) -> type[StateChart[Any]]:
    """Return the chart of an edited source."""
    module = edited(*pieces)
    cls: type[StateChart[Any]] = module.get("Order") or module["Bestellung"]
    return cls


BASE = order()


@pytest.mark.parametrize("edit", NO_EDIT_OF_SHAPE)
def test_the_digest_does_not_change_with(edit: str) -> None:
    """A run may be restored under another guard, action, label, duration, name or engine flag."""
    after = order(*NO_EDIT_OF_SHAPE[edit])
    assert digest_of(after) == digest_of(BASE)
    assert drift(shape_of(BASE), shape_of(after)) == ()


@pytest.mark.parametrize("edit", EDITS_OF_SHAPE)
def test_the_digest_changes_with(edit: str) -> None:
    """A run may not be restored under other states, values, kinds, invokes or transitions."""
    after = order(*EDITS_OF_SHAPE[edit])
    assert digest_of(after) != digest_of(BASE)
    assert drift(shape_of(BASE), shape_of(after))


def test_no_two_edits_of_shape_give_one_digest() -> None:
    """Each edit changes the shape in its own way."""
    digests = [digest_of(order(*edit)) for edit in EDITS_OF_SHAPE.values()]
    assert len({*digests, digest_of(BASE)}) == len(digests) + 1


def test_a_digest_is_twelve_hexadecimal_digits() -> None:
    """A digest is short enough to be read out."""
    assert len(digest_of(BASE)) == DIGEST_HEX == 12
    int(digest_of(BASE), 16)


def test_a_shape_is_stored_as_json() -> None:
    """What is stored once per digest is JSON, and is the shape."""
    assert json.loads(shape_bytes(BASE)) == shape_of(BASE)


DIGESTS = """
from machines.shape import digest_of
from tests.unit.machines.test_shape import BASE, EDITS_OF_SHAPE, order
print(digest_of(BASE), *(digest_of(order(*edit)) for edit in EDITS_OF_SHAPE.values()))
"""


def digests_in_a_process(seed: str) -> list[str]:
    """Return the digests that a new process with this hash seed computes."""
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DIGESTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_digest_is_the_same_in_every_process() -> None:
    """Neither the process nor its hash seed has a say in a digest."""
    here = [digest_of(BASE), *(digest_of(order(*edit)) for edit in EDITS_OF_SHAPE.values())]
    assert digests_in_a_process("1") == here
    assert digests_in_a_process("2") == here


# -- drift in words ------------------------------------------------------------------------------

WORDS = {
    "a state's id": ("state 'closed' is gone", "state 'shut' is new"),
    "a state's value": ("state 'waiting' now has the value 3, it was 2",),
    "the type of a state's value": ("state 'waiting' now has the value '2', it was 2",),
    "a state's value of an enumeration": ("state 'r1' now has the value GREEN, it was RED",),
    "a state that is not final any more": ("state 'r2' now is 'atomic', it was 'final'",),
    "parallel regions that become compound": (
        "state 'work' now is 'compound', it was 'parallel'",
        "state 'right' is no longer initial",
        "the initial transition from 'work' to 'right' is gone",
    ),
    "the initial child": (
        "state 'asking' is no longer initial",
        "state 'waiting' is now initial",
        "the initial transition in 'paying' now leads to 'waiting', not 'asking'",
    ),
    "the initial state": ("state 'open' is no longer initial", "state 'held' is now initial"),
    "the kind of a history state": (
        "state 'back' now is 'history-deep', it was 'history-shallow'",
    ),
    "the default of a history state": (
        "the eventless transition in 'back' now leads to 'waiting', not 'asking'",
    ),
    "an invoke that is gone": ("state 'calling' now invokes nothing, it invoked call",),
    "an invoke that is new": ("state 'held' now invokes call, it invoked nothing",),
    "an invoke that a method's name declares": (
        "state 'open' now invokes call, it invoked nothing",
    ),
    "how many a group calls": ("state 'grouping' now invokes group:1, it invoked group:2",),
    "the event of a timeout": (
        "state 'timing' now invokes timeout:late, it invoked timeout:expired",
    ),
    "a state of a child": (
        "in the child chart of 'shipping.0': state 'sent' is gone",
        "in the child chart of 'shipping.0': 'ship' in 'packed' now leads to 'gone', not 'sent'",
    ),
    "the target of a transition": ("'hold' in 'paying' now leads to 'open', not 'held'",),
    "the source of a transition": ("'close_early' from 'open' to 'closed' is new",),
    "the event of a transition": (
        "'close' from 'shipping' to 'closed' is gone",
        "'finish' from 'shipping' to 'closed' is new",
    ),
    "a transition that is gone": ("'left_over' from 'held' to 'closed' is gone",),
    "a transition that becomes external": (
        "'note', internal, from 'held' to 'held' is gone",
        "'note' from 'held' to 'held' is new",
    ),
    "a transition without an event": (
        "'group' from 'grouping' to 'timing' is gone",
        "the eventless transition from 'grouping' to 'timing' is new",
    ),
}


@pytest.mark.parametrize("edit", WORDS)
def test_drift_says_in_words_what_changed(edit: str) -> None:
    """Who reads why a run was set aside learns which state or transition is not as it was."""
    said = drift(shape_of(BASE), shape_of(order(*EDITS_OF_SHAPE[edit])))
    assert set(WORDS[edit]) <= set(said), said


def test_a_state_that_moved_is_said_to_lie_elsewhere() -> None:
    """A state that was a child and is not any more, or the other way round, is named."""
    inside = order()
    outside = order(
        "        waiting = State(value=2)\n", "",
        "        ask = asking.to(waiting)\n", "",
        "    held = State()", "    waiting = State(value=2)\n    held = State()\n    "
        "ask = paying.to(waiting)\n    answer = waiting.to(held)",
    )  # fmt: skip
    there = drift(shape_of(inside), shape_of(outside))
    back = drift(shape_of(outside), shape_of(inside))
    assert "state 'waiting' now lies in the root, it was 'paying'" in there
    assert "state 'waiting' now lies in 'paying', it was the root" in back


def test_a_shape_that_is_not_stored_is_said_to_be_unknown() -> None:
    """Without the shape that wrote a run there is nothing to compare, and that is said."""
    assert drift(None, shape_of(BASE)) == ("the shape that wrote it is not stored",)


def test_drift_survives_the_way_through_the_file() -> None:
    """A shape read back from its bytes is compared like the one it was."""
    after = order(*EDITS_OF_SHAPE["a state's value"])
    stored = json.loads(shape_bytes(BASE))
    assert drift(stored, shape_of(after)) == drift(shape_of(BASE), shape_of(after))


# -- children ------------------------------------------------------------------------------------


class Leaf(StateChart):
    waiting = State(initial=True)
    done = State(final=True)
    finish = waiting.to(done)


class Branch(StateChart):
    holding = State(initial=True, invoke=child(Leaf))
    done = State(final=True)
    done_invoke_holding = holding.to(done)


class Tree(StateChart):
    growing = State(initial=True, invoke=child(Machine(Branch, name="branch")))
    done = State(final=True)
    done_invoke_growing = growing.to(done)


def test_child_charts_are_part_of_the_shape_down_to_the_last() -> None:
    """A chart's shape holds its children's, by state and place, and theirs."""
    branch = shape_of(Tree)["children"]["growing.0"]
    leaf = branch["children"]["holding.0"]
    assert (branch["name"], leaf["name"]) == ("Branch", "Leaf")
    assert [state["name"] for state in leaf["states"]] == ["waiting", "done"]


def test_a_child_that_is_a_class_counts_as_one_that_is_declared() -> None:
    """`invoke=Leaf` and `invoke=child(Leaf)` keep the same chart."""

    class Bare(StateChart):
        holding = State(initial=True, invoke=Leaf)
        done = State(final=True)
        done_invoke_holding = holding.to(done)

    assert digest_of(Bare) == digest_of(Branch)


def recursive() -> type[StateChart[Any]]:
    """Return a chart that invokes itself, directly and through another."""

    class Ring(StateChart):
        first = State(initial=True)
        second = State(final=True)
        step = first.to(second)

    class Other(StateChart):
        first = State(initial=True, invoke=Ring)
        second = State(final=True)
        step = first.to(second)

    # A class can name itself only once it is there.
    Ring.first.invoke.add(child(Ring))
    Ring.first.invoke.add(child(Other))
    return Ring


def test_a_chart_that_invokes_itself_is_cut_where_it_comes_round() -> None:
    """The shape of a recursive chart ends where a chart is met again."""
    shape = shape_of(recursive())
    first = next(state for state in shape["states"] if state["name"] == "first")
    assert "child:recursive" in first["invokes"]
    other = next(iter(shape["children"].values()))
    inner = next(state for state in other["states"] if state["name"] == "first")
    assert inner["invokes"] == ["child:recursive"]


# -- what a state invokes of this package's own --------------------------------------------------


def invoking(*what: Any) -> str:
    """Return the digest of a chart whose state invokes these."""

    class Invoking(StateChart):
        here = State(initial=True, invoke=list(what))
        there = State(final=True)
        go = here.to(there)

    return digest_of(Invoking)


def pay() -> None:
    """Stand for a call to the outside world."""


def refund() -> None:
    """Stand for another one."""


def test_an_effect_counts_as_an_effect_whatever_it_calls() -> None:
    """How an effect is called and repeated may change under a stored run."""
    first = invoking(effect(pay))
    assert invoking(effect(refund, idempotent=True, retries=3, kind="k", key="x")) == first
    assert invoking(pay) != first


def test_a_gate_counts_with_the_events_that_it_takes() -> None:
    """A gate that takes other events is another gate; its address and notes may change."""
    first = invoking(gate("approve", "reject"))
    assert invoking(gate("reject", "approve", key="k", meta={"for": "editors"})) == first
    assert invoking(gate("approve")) != first


def test_a_timeout_counts_with_its_event_and_not_with_its_span() -> None:
    """How long a timeout waits, and what a restart does to it, may change."""
    first = invoking(timeout(5, on="late"))
    assert invoking(timeout(50, on="late", resume="restart")) == first
    assert invoking(timeout(5)) != first


def test_the_order_of_what_a_state_invokes_counts() -> None:
    """An invocation is found by its place among what its state invokes."""
    assert invoking(effect(pay), gate("go")) != invoking(gate("go"), effect(pay))


# -- loaded documents ----------------------------------------------------------------------------

DOCUMENT = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a" datamodel="python">
  <state id="a">
    <invoke type="scxml"><content>
      <scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="x">
        <state id="x"/>
      </scxml>
    </content></invoke>
    <transition event="go" target="b"/>
    <state><state/></state>
  </state>
  <state id="b"/>
</scxml>
"""


def document(old: str = "", new: str = "") -> type[StateChart[Any]]:
    """Return the document's class, a piece of its text replaced."""
    return load(DOCUMENT.replace(old, new) if old else DOCUMENT, format="scxml", name="doc")


def test_a_document_has_the_same_shape_each_time_it_is_loaded() -> None:
    """The ids that the library generates for nameless states are not part of a shape."""
    assert digest_of(document()) == digest_of(document())
    assert {state["name"] for state in shape_of(document())["states"]} == {"a", "a#1", "a#1#1", "b"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<state id="x"/>', '<state id="y"/>'),
        ('event="go"', 'event="leave"'),
        ('target="b"', 'target="a"'),
        ('<state id="b"/>', '<final id="b"/>'),
        ("<state><state/></state>", "<state/>"),
        ('initial="a"', 'initial="b"'),
    ],
    ids=["an invoked document", "an event", "a target", "a kind", "a nesting", "the initial state"],
)
def test_a_document_that_was_edited_has_another_shape(old: str, new: str) -> None:
    """An edit of a document's states, transitions or invoked text is an edit of shape."""
    assert digest_of(document(old, new)) != digest_of(document())
