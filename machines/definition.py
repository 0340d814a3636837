"""What a host is told about a chart: its name, its context, what counts as failure, its types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from inspect import Parameter, signature
from typing import Any, cast, get_args, get_type_hints
from weakref import WeakKeyDictionary

from statemachine import StateChart
from statemachine.mixins import MachineMixin
from statemachine.model import Model

from machines.errors import DefinitionError
from machines.invoked import check_effects, check_gates, is_chart, sources
from machines.migrations import Migration, check_migrations
from machines.names import every_state
from machines.shape import digest_of, shape_of
from machines.system_variables import DOCUMENT_TYPES
from snapshots.codec import Codec
from snapshots.codec.classes import base_of, stored_name
from snapshots.errors import DecodeError, EncodeError
from snapshots.identifiers import readable
from snapshots.ledgers.timers import ResumePolicy

Reconcile = Callable[[Any], Any]
"""Called with a stored run at restore: True (or None) if its outside world is there, False if
it is gone and the run is lost. Raising leaves the run live, to be tried at the next boot."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A chart class as a host keeps it.

    `name` is what rows are stored under (the class's name by default). `context` is called with
    the input to make the model: a dataclass, an attrs or pydantic class, or a plain one; without
    it the input's keys become attributes of the library's plain model. `failed` names the final
    states that are failures. `types` are the classes that values may have; the context's class,
    the dataclasses and enums in its annotations and the state values' enums are known anyway.
    `transient` names attributes that the chart's constructor makes anew and no snapshot holds.
    `resume` says per event what a delayed
    send does over a restart. `migrations` bring runs that an older shape wrote to today's.
    `redact` is given the message of each exception before it is stored, and returns what may be
    (see `Codec`).

    Raises DefinitionError if the chart cannot be kept alive.
    """

    chart: type[StateChart[Any]]
    name: str = field(default="", kw_only=True)
    context: type | None = field(default=None, kw_only=True)
    failed: Iterable[str] = field(default=(), kw_only=True)
    types: Iterable[type] = field(default=(), kw_only=True)
    reconcile: Reconcile | None = field(default=None, kw_only=True)
    transient: Collection[str] = field(default=(), kw_only=True)
    resume: Mapping[str, ResumePolicy] = field(default_factory=dict, kw_only=True)
    migrations: Sequence[Migration] = field(default=(), kw_only=True)
    redact: Callable[[str], str] | None = field(default=None, kw_only=True)
    codec: Codec = field(init=False, compare=False, repr=False)
    models: Mapping[str, type] = field(init=False, compare=False, repr=False)
    outlines: dict[Any, bytes] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What charts of one class in one configuration have in common, as JSON; see `capturing`."""

    def __post_init__(self) -> None:
        """Fill what follows from the chart, and refuse what cannot be kept alive."""
        if not is_chart(self.chart):
            raise DefinitionError(
                repr(self.chart), "it is not a StateChart class", "give the class, not an instance"
            )
        settle = cast("Callable[[Any, str, Any], None]", object.__setattr__)
        settle(self, "name", self.name or self.chart.__name__)
        settle(self, "context", self.context or _declared_context(self.chart))
        settle(self, "failed", _names(self.failed))
        settle(self, "types", tuple(self.types))
        settle(self, "transient", frozenset(_names(self.transient)))
        _check(self)
        known = _known_types(self)
        settle(self, "codec", _codec(self, (*known, *DOCUMENT_TYPES)))
        settle(self, "models", {stored_name(cls): cls for cls in known})
        _check_values(self)
        check_gates(self.name, self.chart, self.codec)
        settle(self, "migrations", tuple(self.migrations))
        if self.migrations:
            check_migrations(self.name, self.migrations, self.shape, self.digest)

    @classmethod
    def of(cls, chart: type[StateChart[Any]] | Machine) -> Machine:
        """Return the machine itself, or the default one of a chart class."""
        return chart if isinstance(chart, Machine) else cls(chart)

    @property
    def digest(self) -> str:
        """The digest of the chart's shape: 12 hex digits."""
        return digest_of(self.chart)

    @property
    def shape(self) -> dict[str, Any]:
        """The chart's shape, as plain JSON values."""
        return shape_of(self.chart)

    def name_of(self, cls: type, where: str = "root.context") -> str:
        """Return the name that a model's class is stored under.

        Raises EncodeError, with the path `where`, if it is not known or holds more than attributes.
        """
        if cls not in self.models.values():
            how = "give it as Machine(..., context=...) or types=[...]"
            raise EncodeError(where, cls.__qualname__, f"the model's class is not known; {how}")
        base = base_of(cls)
        if base is not None:
            reason = f"a model is kept by its attributes, and this one is a {base.__name__} too"
            raise EncodeError(where, cls.__qualname__, f"{reason}; hold the {base.__name__} in one")
        return stored_name(cls)

    def class_of(self, name: str) -> type:
        """Return a model's class by its stored name; DecodeError if it is not known."""
        found = self.models.get(name)
        if found is None:
            raise DecodeError(
                None,
                f"its model has the class {name!r}, which machine {self.name!r} does not know; "
                "give it as Machine(..., context=...) or types=[...]",
            )
        return found

    def make_model(self, given: Mapping[str, Any]) -> object:
        """Return the model of a new run with this input."""
        if self.context is not None:
            return self.context(**given)
        if "state" in given:
            reason, hint = (
                "its input has the key 'state'",
                "the chart's state is kept there: rename it",
            )
            raise DefinitionError(self.name, reason, hint)
        model = Model()
        for key, value in given.items():
            setattr(model, key, value)
        return model

    def constructor_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input's values that the chart's own constructor names."""
        named = {key for key, p in parameters_of(self.chart).items() if p.kind not in _OPEN_ENDED}
        own = named - {"model", "state_field", "start_value", "listeners"}
        return {key: given[key] for key in sorted(own & given.keys())}


_OPEN_ENDED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

Chart = type[StateChart[Any]] | Machine
"""A chart class, or what a host is told about it."""


_PARAMETERS: WeakKeyDictionary[type[StateChart[Any]], tuple[frozenset[str], bool]] = (
    WeakKeyDictionary()
)
# A cache of a pure function of an immutable class; it holds nothing that outlives the class.


def parameters_of(chart: type[StateChart[Any]]) -> Mapping[str, Parameter]:
    """Return the parameters of a chart's constructor."""
    found = dict(signature(chart.__init__).parameters)
    found.pop("self", None)
    return found


def takes_model(chart: type[StateChart[Any]]) -> bool:
    """Whether the chart's constructor can be given a model by name."""
    return takes(chart, "model")


def takes(chart: type[StateChart[Any]], name: str) -> bool:
    """Whether the chart's constructor can be given something by this name."""
    known = _PARAMETERS.get(chart)
    if known is None:
        found = parameters_of(chart)
        is_open = any(p.kind is Parameter.VAR_KEYWORD for p in found.values())
        known = _PARAMETERS[chart] = frozenset(found), is_open
    names, is_open = known
    return is_open or name in names


def needs(chart: type[StateChart[Any]]) -> list[str]:
    """Return what the chart's constructor has to be given, other than a model."""
    found = parameters_of(chart).items()
    given = {key: p for key, p in found if key != "model" and p.kind not in _OPEN_ENDED}
    return [key for key, p in given.items() if p.default is Parameter.empty]


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _declared_context(chart: type[StateChart[Any]]) -> type | None:
    """Return the class in `StateChart[Order]`, if the chart names one of its own."""
    for base in getattr(chart, "__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type) and argument not in (Any, object, Model):
                return argument
    return None


def _known_types(machine: Machine) -> tuple[type, ...]:
    known = dict.fromkeys(machine.types)
    if machine.context is not None:
        known.setdefault(machine.context)
        _learn_annotated(machine.context, known)
    _learn_types(machine.chart, known, {machine.chart})
    return tuple(known)


def _learn_annotated(cls: type, known: dict[type, None]) -> None:
    """Add the dataclasses and enums that the annotations of a class name, and theirs."""
    try:
        waiting: list[Any] = list(get_type_hints(cls).values())
    except (NameError, TypeError):
        return  # annotations of names that are not there: types=[…] says what they do not
    while waiting:
        found = waiting.pop()
        waiting += get_args(found)
        if not isinstance(found, type) or found in known:
            continue
        if is_dataclass(found) or issubclass(found, Enum):
            known[found] = None
            _learn_annotated(found, known)


def _learn_types(
    chart: type[StateChart[Any]], known: dict[type, None], seen: set[type[StateChart[Any]]]
) -> None:
    """Add the enums of a chart's state values, and what the charts that it invokes need."""
    for state in every_state(list(chart.states)):
        if isinstance(state.value, Enum):
            known.setdefault(type(state.value))
        for source in sources(state):
            known |= dict.fromkeys(getattr(source, "result_types", ()))
            machine = getattr(source, "machine", None)
            if isinstance(machine, Machine):
                known |= dict.fromkeys(machine.models.values())
            elif is_chart(source) and source not in seen:
                seen.add(source)
                context = _declared_context(source)
                known |= {} if context is None else {context: None}
                _learn_types(source, known, seen)


def _codec(machine: Machine, types: tuple[type, ...]) -> Codec:
    try:
        return Codec(types, redact=machine.redact)
    except (TypeError, ValueError) as error:
        reason = f"its types cannot all be stored ({error})"
        hint = "leave that one out, or store something else"
        raise DefinitionError(machine.name, reason, hint) from error


def _check(machine: Machine) -> None:
    if readable(machine.name) != machine.name:
        reason = "its name holds a lone surrogate, which UTF-8 has no bytes for"
        raise DefinitionError(machine.name, reason, "give it another name=")
    _check_states(machine)
    charts = [cls.__name__ for cls in machine.types if is_chart(cls)]
    if charts:
        raise DefinitionError(
            machine.name,
            f"types={charts!r} are charts, which no value can hold",
            "let a state invoke them, with child(...)",
        )
    if machine.context is not None:
        _check_context(machine.name, machine.context)
    check_effects(machine.name, machine.chart, machine.context)
    policies = get_args(ResumePolicy)
    strange = {key: said for key, said in machine.resume.items() if said not in policies}
    if strange:
        hint = f"say one of {policies!r} per event"
        raise DefinitionError(machine.name, f"resume={strange!r} names no policy", hint)
    finals = {state.id for state in machine.chart.states if state.final}
    unknown = sorted(set(machine.failed) - finals)
    if unknown:
        raise DefinitionError(
            machine.name,
            f"failed={unknown!r} are not final states of the chart",
            f"name some of {sorted(finals)!r}",
        )


def _check_context(name: str, context: type) -> None:
    """Refuse a model that the library cannot write the chart's state into."""
    whose = f"its context {context.__name__}"
    if issubclass(context, MachineMixin):
        reason = f"{whose} makes a machine of its own (MachineMixin)"
        raise DefinitionError(name, reason, "use a model class without MachineMixin")
    frozen = getattr(getattr(context, "__dataclass_params__", None), "frozen", False)
    if frozen or not (_has_dict(context) or hasattr(context, "state")):
        reason = f"{whose} has no place for the chart's state"
        raise DefinitionError(
            name, reason, "give it a field `state: Any = None`, and leave it mutable"
        )


def _has_dict(cls: type) -> bool:
    """Whether instances take attributes that no slot names."""
    return cls.__dictoffset__ != 0


def _check_states(machine: Machine) -> None:
    if not list(machine.chart.states):
        raise DefinitionError(
            machine.name, "it has no states", "give a chart, not the class that charts extend"
        )
    seen: set[str] = set()
    for state in every_state(list(machine.chart.states)):
        if state.id in seen:
            raise DefinitionError(
                machine.name,
                f"state id {state.id!r} is used twice",
                "give the states of a chart different ids",
            )
        seen.add(state.id)


def _check_values(machine: Machine) -> None:
    for state in every_state(list(machine.chart.states)):
        try:
            machine.codec.encode(state.value)
        except EncodeError as error:
            raise DefinitionError(
                machine.name,
                f"state {state.id!r} has a value that cannot be stored ({error})",
                "use a str, an int or an Enum member",
            ) from error
