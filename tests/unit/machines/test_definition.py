"""What a machine is told about a chart: names, contexts and types, and what is refused at once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from importlib import import_module
from typing import Any

import attrs
import pytest
from statemachine import HistoryState, State, StateChart, StateMachine
from statemachine.invoke import normalize_invoke_callbacks
from statemachine.mixins import MachineMixin
from statemachine.model import Model
from statemachine.states import States

from machines import Machine, capture, child, rebuild
from machines.binding import start
from machines.binding.capturing import encode_node
from machines.definition import parameters_of, takes_model
from machines.effects import effect
from machines.errors import DefinitionError
from snapshots.codec import persistent
from snapshots.errors import DecodeError, EncodeError
from snapshots.records import Secret


class Order(StateChart):
    """An order that is paid, or given up."""

    opened = State(initial=True)
    paid = State(final=True)
    refused = State(final=True)
    given_up = State(final=True)

    pay = opened.to(paid)
    refuse = opened.to(refused)
    give_up = opened.to(given_up)


@dataclass
class Basket:
    """A context that is a dataclass."""

    amount: int
    lines: list[str] = field(default_factory=list)


@attrs.define
class Parcel:
    """A context that is an attrs class, with slots."""

    amount: int
    state: Any = None
    _hidden: int = 0


class Plain:
    """A context that is a plain class."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.doubled = amount * 2


# -- names ---------------------------------------------------------------------------------------


def test_a_machine_is_named_as_its_class_unless_told_otherwise() -> None:
    """The name that rows are stored under is the class's, or the one that is given."""
    assert Machine(Order).name == "Order"
    assert Machine(Order, name="order-v2").name == "order-v2"


def test_a_machine_is_named_by_a_text() -> None:
    """Half a character has no form in a row: it is refused here, and not by the first save."""
    with pytest.raises(DefinitionError, match="surrogate"):
        Machine(Order, name="order\ud800")
    assert Machine(Order, name="Bestellung ü 中").name == "Bestellung ü 中"


def test_a_machine_of_a_machine_is_itself() -> None:
    """Where a chart is asked for, a machine does as well, and is not made anew."""
    machine = Machine(Order, name="order")
    assert Machine.of(machine) is machine
    assert Machine.of(Order) == Machine(Order)


def test_one_name_may_stand_where_several_are_asked_for() -> None:
    """A single text is one name, not the letters of it."""
    machine = Machine(Order, failed="refused", transient="client")
    assert machine.failed == ("refused",)
    assert machine.transient == frozenset({"client"})


def test_a_machine_knows_the_shape_of_its_chart() -> None:
    """Digest and shape are the chart's own, whatever else the machine was told."""
    machine = Machine(Order, name="renamed", failed=("refused",), types=(Decimal,), context=Basket)
    assert machine.digest == Machine(Order).digest
    assert [state["name"] for state in machine.shape["states"]] == [
        "opened",
        "paid",
        "refused",
        "given_up",
    ]  # fmt: skip


# -- what is refused -----------------------------------------------------------------------------


def duplicate_ids() -> type[StateChart[Any]]:
    """Return a chart whose two compound states have a child of the same id."""

    class Twice(StateChart):
        class left(State.Compound):  # noqa: N801 - a state is named as its id
            idle = State(initial=True, value="left idle")
            busy = State(value="left busy")
            work = idle.to(busy) | busy.to(idle)

        class right(State.Compound):  # noqa: N801 - a state is named as its id
            idle = State(initial=True, value="right idle")
            busy = State(value="right busy")
            work = idle.to(busy) | busy.to(idle)

        change = left.to(right) | right.to(left)

    return Twice


def history_without_default() -> type[StateChart[Any]]:
    """Return a chart that can be sent to a history state that leads nowhere."""

    class Lost(StateChart):
        class work(State.Compound):  # noqa: N801 - a state is named as its id
            first = State(initial=True)
            second = State()
            back = HistoryState()
            step = first.to(second) | second.to(first)

        outside = State(initial=True)
        leave = work.to(outside)
        again = outside.to(work.back)

    return Lost


def named_effect(name: str) -> type[StateChart[Any]]:
    """Return a chart whose effect is named."""

    class Named(StateChart):
        busy = State(initial=True, invoke=effect(name))
        over = State(final=True)
        done_invoke_busy = busy.to(over)

        def known(self) -> None:
            """Do nothing."""

    return Named


def value_of_no_known_type() -> type[StateChart[Any]]:
    """Return a chart with a state value that no snapshot could hold."""

    class Odd(StateChart):
        here = State(initial=True, value=object())
        there = State()
        move = here.to(there) | there.to(here)

    return Odd


@persistent("one")
class First:
    """Has the same stored name as the next."""


@persistent("one")
class Second:
    """Has the same stored name as the one before."""


class OwnMachine(MachineMixin):
    """A model that makes a machine of its own."""


@dataclass(slots=True)
class Slotted:
    """A model without a field for the state, and without room for another."""

    amount: int = 0


@dataclass(frozen=True)
class Frozen:
    """A model whose fields are fixed once it is made."""

    amount: int = 0
    state: Any = None


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "an instance": (
        lambda: Machine(Order()),  # type: ignore[arg-type]  # what is refused
        "it is not a StateChart class",
        "give the class, not an instance",
    ),
    "another class": (
        lambda: Machine(int),  # type: ignore[arg-type]  # what is refused
        "it is not a StateChart class",
        "give the class, not an instance",
    ),
    "a chart without states": (
        lambda: Machine(StateChart),
        "it has no states",
        "give a chart",
    ),
    "two states of one id": (
        lambda: Machine(duplicate_ids()),
        "state id 'idle' is used twice",
        "different ids",
    ),
    "a model that cannot hold the state": (
        lambda: Machine(Order, context=Slotted),
        "its context Slotted has no place for the chart's state",
        "give it a field `state: Any = None`",
    ),
    "a model that never changes": (
        lambda: Machine(Order, context=Frozen),
        "its context Frozen has no place for the chart's state",
        "leave it mutable",
    ),
    "a state value of no known type": (
        lambda: Machine(value_of_no_known_type()),
        "state 'here' has a value that cannot be stored",
        "use a str, an int or an Enum member",
    ),
    "a model with a machine of its own": (
        lambda: Machine(Order, context=OwnMachine),
        "its context OwnMachine makes a machine of its own (MachineMixin)",
        "without MachineMixin",
    ),
    "a chart among the types": (
        lambda: Machine(Order, types=(Order,)),
        "types=['Order'] are charts",
        "let a state invoke them",
    ),
    "a secret among the types": (
        lambda: Machine(Order, types=(Secret,)),
        "its types cannot all be stored",
        "store something else",
    ),
    "a type that is no class": (
        lambda: Machine(Order, types=(3,)),  # type: ignore[arg-type]  # what is refused
        "its types cannot all be stored",
        "leave that one out",
    ),
    "two types of one name": (
        lambda: Machine(Order, types=(First, Second)),
        "its types cannot all be stored",
        "leave that one out",
    ),
    "an effect that is no method": (
        lambda: Machine(named_effect("nope")),
        "state 'busy' invokes 'nope', which is no method of it",
        "name a method of the chart or of its context",
    ),
    "a policy that there is not": (
        lambda: Machine(Order, resume={"pay": "later"}),  # type: ignore[dict-item]  # what is refused
        "resume={'pay': 'later'} names no policy",
        "deadline",
    ),
    "a failure that is no state": (
        lambda: Machine(Order, failed=("refused", "lost")),
        "failed=['lost'] are not final states",
        "name some of ['given_up', 'paid', 'refused']",
    ),
    "a failure that is not final": (
        lambda: Machine(Order, failed="opened"),
        "failed=['opened'] are not final states",
        "name some of ['given_up', 'paid', 'refused']",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_kept_alive_is_refused_with_the_reason(what: str) -> None:
    """The refusal names the machine, what is wrong with it and what to do instead."""
    make, reason, hint = REFUSED[what]
    with pytest.raises(DefinitionError) as caught:
        make()
    assert reason in caught.value.reason
    assert hint in caught.value.hint
    assert repr(caught.value.machine) in str(caught.value)


def test_a_refusal_travels_between_processes() -> None:
    """A refusal keeps its message and its fields when it is pickled."""
    error = DefinitionError("Order", "it has no states", "give a chart")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this very line
    assert (str(copy), copy.reason, copy.hint) == (str(error), error.reason, error.hint)


def test_a_history_state_without_a_default_is_taken() -> None:
    """A chart may have one: it is the configuration without a leaf that is never saved."""
    assert Machine(history_without_default()).name == "Lost"


# -- contexts ------------------------------------------------------------------------------------


def test_without_a_context_the_input_becomes_attributes_of_a_plain_model() -> None:
    """The library's own model gets the input's keys."""
    model = Machine(Order).make_model({"amount": 12, "card": "visa"})
    assert type(model) is Model
    assert vars(model) == {"state": None, "amount": 12, "card": "visa"}


def test_a_dataclass_is_made_from_the_input() -> None:
    """A dataclass is called with the input; what is absent has its default."""
    assert Machine(Order, context=Basket).make_model({"amount": 3}) == Basket(3, [])


def test_an_attrs_class_is_made_from_the_input() -> None:
    """An attrs class is called with the input, private fields by their public names."""
    assert Machine(Order, context=Parcel).make_model({"amount": 3, "hidden": 1}) == Parcel(
        3, hidden=1
    )


def test_a_plain_class_is_made_from_the_input() -> None:
    """A plain class is called with the input, its constructor's own work included."""
    model = Machine(Order, context=Plain).make_model({"amount": 3})
    assert vars(model) == {"amount": 3, "doubled": 6}


def test_a_pydantic_class_is_made_from_the_input() -> None:
    """A pydantic class is called with the input, so it validates it."""
    pydantic = import_module("pydantic")
    Cart = pydantic.create_model("Cart", amount=(int, 0), state=(Any, None))  # noqa: N806 - a class
    assert Machine(Order, context=Cart).make_model({"amount": "3"}).amount == 3


def test_an_input_that_the_context_does_not_take_is_its_own_error() -> None:
    """What the context's constructor says about an input reaches who gave it."""
    with pytest.raises(TypeError, match="colour"):
        Machine(Order, context=Basket).make_model({"amount": 3, "colour": "red"})


def test_a_chart_may_name_its_context_itself() -> None:
    """`StateChart[Basket]` says what the model is; a subclass of that chart inherits it."""

    class Shop(StateChart[Basket]):
        opened = State(initial=True)
        closed = State(final=True)
        close = opened.to(closed)

    class Branch(Shop):
        pass

    assert Machine(Shop).context is Basket
    assert Machine(Branch).context is Basket


def test_a_given_context_wins_over_the_one_that_the_chart_names() -> None:
    """`Machine(context=...)` is the last word."""

    class Shop(StateChart[Basket]):
        opened = State(initial=True)
        closed = State(final=True)
        close = opened.to(closed)

    assert Machine(Shop, context=Plain).context is Plain


@pytest.mark.parametrize("anything", [Any, object, Model], ids=["Any", "object", "Model"])
def test_a_chart_that_names_no_class_of_its_own_has_a_plain_model(anything: Any) -> None:
    """`StateChart[Any]` only satisfies a type checker: there is nothing to be called."""

    class Loose(StateChart[anything]):  # type: ignore[valid-type]  # a parameter of the test
        opened = State(initial=True)
        closed = State(final=True)
        close = opened.to(closed)

    machine = Machine(Loose)
    assert machine.context is None
    assert vars(machine.make_model({"amount": 1})) == {"state": None, "amount": 1}


# -- types ---------------------------------------------------------------------------------------


def test_the_context_is_known_to_the_codec() -> None:
    """The class of the model need not be given a second time as a type."""
    machine = Machine(Order, context=Basket)
    assert machine.class_of(machine.name_of(Basket)) is Basket


def test_a_model_of_an_unknown_class_is_refused_by_name() -> None:
    """A model whose class nobody gave is refused, and the refusal says how to give it."""
    with pytest.raises(EncodeError, match=r"Plain.*context=\.\.\."):
        Machine(Order).name_of(Plain)


def test_a_stored_model_of_an_unknown_class_is_refused_by_name() -> None:
    """A name in a blob that no given class has is never imported."""
    with pytest.raises(DecodeError, match=r"os:path.*'Order'.*context=\.\.\."):
        Machine(Order).class_of("os:path")


def test_a_marked_class_is_stored_under_its_mark() -> None:
    """A class with a stored name of its own may move: its models are found by the mark."""

    @persistent("basket")
    @dataclass
    class Moved:
        amount: int = 0

    machine = Machine(Order, context=Moved)
    assert machine.name_of(Moved) == "basket"
    assert machine.class_of("basket") is Moved


def test_what_an_invoked_chart_needs_is_known_to_who_invokes_it() -> None:
    """Contexts, types and enumerations of children need not be given a second time."""

    class Grandchild(StateChart[Parcel]):
        a = State(initial=True, value=Colour.RED)
        b = State(final=True, value=Colour.GREEN)
        go = a.to(b)

    class Below(StateChart):
        a = State(initial=True, invoke=Grandchild)
        b = State(final=True)
        go = a.to(b)

    class Above(StateChart):
        a = State(initial=True, invoke=child(Machine(Below, context=Basket, types=(Level,))))
        b = State(final=True)
        go = a.to(b)

    assert set(Machine(Above).models.values()) == {Basket, Level, Parcel, Colour}


def test_a_chart_that_invokes_itself_is_looked_into_once() -> None:
    """Types of a chart that comes round to itself are gathered without end neither."""

    class Ring(StateChart[Basket]):
        a = State(initial=True)
        b = State(final=True)
        go = a.to(b)

    Ring.a.invoke.add(normalize_invoke_callbacks(Ring))
    assert list(Machine(Ring).models.values()) == [Basket]


def test_a_model_that_is_a_container_is_refused() -> None:
    """A model is kept by its attributes: items that it holds besides would be lost."""

    class Items(dict):  # type: ignore[type-arg]  # what is refused
        pass

    with pytest.raises(EncodeError, match="this one is a dict too; hold the dict in one"):
        Machine(Order, context=Items).name_of(Items)


class Colour(Enum):
    RED = 1
    GREEN = 2


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    STOP = "s"
    GO = "g"


def of_values(first: Any, second: Any) -> type[StateChart[Any]]:
    """Return a chart whose two states have these values."""

    class Valued(StateMachine):
        one = State(initial=True, value=first)
        two = State(value=second)
        move = one.to(two) | two.to(one)

    return Valued


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Colour.RED, Colour.GREEN),
        (Level.LOW, Level.HIGH),
        (Word.STOP, Word.GO),
        (1, 2),
        ("left", "right"),
        (0.5, 1.5),
        ((0, 0), (0, 1)),
    ],
    ids=["Enum", "IntEnum", "StrEnum", "int", "str", "float", "tuple"],
)
def test_states_may_have_values_of_any_kind_that_can_be_stored(first: Any, second: Any) -> None:
    """A chart with such values is taken, captured and rebuilt, the value on the model included."""
    cls = of_values(first, second)
    chart = cls()
    chart.send("move")
    again = rebuild(cls, capture(chart))
    assert again.current_state_value == second
    assert type(again.current_state_value) is type(second)


def test_states_made_from_an_enumeration_are_taken() -> None:
    """`States.from_enum` gives states whose values are the members."""

    class Lights(StateMachine):
        colours = States.from_enum(Colour, initial=Colour.RED)
        change = colours.RED.to(colours.GREEN) | colours.GREEN.to(colours.RED)

    chart = Lights()
    chart.send("change")
    assert rebuild(Lights, capture(chart)).configuration_values == {Colour.GREEN}


# -- what a chart's own constructor is given -----------------------------------------------------


class Greedy(StateChart):
    """Its constructor names two things for itself."""

    opened = State(initial=True)
    closed = State(final=True)
    close = opened.to(closed)

    def __init__(self, model: Any = None, *, region: str = "eu", limit: int = 10) -> None:
        self.region = region
        self.limit = limit
        super().__init__(model=model)


class Closed(StateChart):
    """Its constructor takes no model."""

    opened = State(initial=True)
    closed = State(final=True)
    close = opened.to(closed)

    def __init__(self, region: str = "eu") -> None:
        self.region = region
        super().__init__()


def test_the_constructor_is_given_what_it_names_of_the_input() -> None:
    """Of an input the chart's constructor gets what it names, the model gets all of it."""
    given = {"region": "us", "amount": 3}
    machine = Machine(Greedy)
    assert machine.constructor_arguments(given) == {"region": "us"}
    assert vars(machine.make_model(given)) == {"state": None} | given


def test_the_librarys_own_parameters_are_no_input() -> None:
    """An input cannot reach the parameters that the library's constructor has."""
    given = {"model": 1, "state_field": "x", "start_value": "paid", "listeners": []}
    assert Machine(Order).constructor_arguments(given) == {}
    assert Machine(Greedy).constructor_arguments(given) == {}


def test_a_constructor_is_asked_whether_it_takes_a_model() -> None:
    """By name, or by taking every keyword; a constructor that does neither gets none."""
    assert takes_model(Order)
    assert takes_model(Greedy)
    assert not takes_model(Closed)
    assert list(parameters_of(Closed)) == ["region"]


@pytest.mark.parametrize("cls", [Greedy, Closed])
def test_constructor_arguments_come_back_with_the_chart(cls: type[StateChart[Any]]) -> None:
    """A chart is made with its arguments, and rebuilt with them, its model's fields as well."""
    chart = start(cls, {"region": "us", "amount": 3})
    snapshot = capture(chart)
    again = rebuild(cls, snapshot)
    assert (again.region, again.model.amount) == ("us", 3)
    assert capture(again) == snapshot


# -- what no snapshot holds ----------------------------------------------------------------------


class Wired(StateChart):
    """Its constructor makes something that cannot be stored."""

    opened = State(initial=True)
    closed = State(final=True)
    close = opened.to(closed)

    def __init__(self, **kwargs: Any) -> None:
        self.client = open
        self.tries = 0
        super().__init__(**kwargs)


def test_an_attribute_that_cannot_be_stored_is_refused_by_its_path() -> None:
    """An attribute of the chart that could not come back is named, with its path."""
    with pytest.raises(EncodeError, match=r"root\.attributes\.client"):
        capture(Wired())


def test_a_transient_attribute_is_made_anew_and_not_stored() -> None:
    """What is declared transient is left out: the chart's constructor makes it again."""
    machine = Machine(Wired, transient="client")
    chart = start(machine)
    chart.tries = 2
    held = json.loads(encode_node(chart._engine.node, machine))
    assert held["attributes"] == {"tries": 2}


class Means(Enum):
    """How something is paid."""

    CARD = "card"


@dataclass
class Payment:
    """A payment by some means."""

    means: Means


@dataclass
class Ledger:
    """A model whose annotations name other classes."""

    payments: list[Payment]
    latest: Payment | None = None
    state: Any = None


def test_what_a_context_is_annotated_with_is_known() -> None:
    """The dataclasses and enums that a model's annotations name need not be listed again."""
    machine = Machine(Order, context=Ledger)
    held = [Payment(Means.CARD)]
    assert machine.codec.decode(machine.codec.encode(held)) == held


def test_several_names_may_come_in_any_collection() -> None:
    """Lists serve where names or classes are asked for."""
    machine = Machine(Order, failed=["refused"], types=[Payment, Means], transient=["client"])
    assert machine.failed == ("refused",)
    assert machine.transient == frozenset({"client"})


def test_an_effect_may_be_named_after_a_method() -> None:
    """A name that the chart has is taken."""
    assert Machine(named_effect("known")).name == "Named"
