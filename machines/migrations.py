"""Migrations: what a machine says of runs that an older shape of its chart wrote.

    Machine(Order, migrations=[Migration("3f2a9c01b7de", states={"review": "checking"})])

They are chained: the one whose `from_digest` a row has is applied, then the one from where that
leads, until today's shape is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast, overload

from machines.arguments import is_async
from machines.errors import DefinitionError
from machines.shape import DIGEST_HEX

T = TypeVar("T")
_HEX_DIGITS = frozenset("0123456789abcdef")
Renames = Mapping[str, str | None]
"""Names of states as they were → what they are called now, None for a state that is dropped."""


class _Part(Generic[T]):
    """A part of a decoded blob by its name: the very object, empty where the blob has none."""

    def __init__(self, name: str, make: Callable[[], T], *, of_root: bool = False) -> None:
        self._name, self._make, self._of_root = name, make, of_root

    @overload
    def __get__(self, draft: None, owner: type) -> _Part[T]: ...
    @overload
    def __get__(self, draft: Draft, owner: type) -> T: ...
    def __get__(self, draft: Draft | None, owner: type) -> T | _Part[T]:
        if draft is None:
            return self
        found: T = self._place(draft).setdefault(self._name, self._make())
        return found

    def __set__(self, draft: Draft, given: T) -> None:
        self._place(draft)[self._name] = given

    def _place(self, draft: Draft) -> dict[str, Any]:
        place: dict[str, Any] = draft.value["root"] if self._of_root else draft.value
        return place


class Draft:
    """A run on its way to another shape, for the function of a migration to change in place.

    States are named as the migration's `states` and `children` left them. Values are as the codec
    gives them back, type for type; times are Unix milliseconds. What the function leaves illegal
    is refused, and the row stays as it was.
    """

    __slots__ = ("value",)

    def __init__(self, value: dict[str, Any]) -> None:
        self.value: dict[str, Any] = value
        """The whole decoded blob: charts below the root are in `value["root"]["children"]`."""

    context = _Part[dict[str, Any]]("context", dict, of_root=True)
    """The fields of the root chart's model, by name."""
    configuration = _Part[list[str]]("configuration", list, of_root=True)
    """The names of the root chart's active states, ancestors included, in their order."""
    history = _Part[dict[str, list[str]]]("history", dict, of_root=True)
    """History states of the root chart → the states that they would enter again."""
    invokes = _Part[list[dict[str, Any]]]("invokes", list, of_root=True)
    """What the root chart's states have invoked: `id`, `state`, `index`, `kind`, `attempt`, …"""
    queue = _Part[list[dict[str, Any]]]("queue", list, of_root=True)
    """Events that the root chart has accepted and not run: `event`, `kwargs`, `at`, `seq`, …"""
    timers = _Part[list[dict[str, Any]]]("timers", list)
    """Timers of all charts: `id`, `node` (the chart's path), `due`, `event` or `invoke`, …"""
    effects = _Part[list[dict[str, Any]]]("effects", list)
    """Rows of the effect ledger: `id`, `node`, `invoke`, `kind`, `key`, `status`, `attempt`, …"""
    input = _Part[dict[str, Any]]("input", dict)
    """What the run was started with."""

    @property
    def run_id(self) -> str:
        """The run's id, which stays."""
        found: str = self.value["run"]
        return found


Function = Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """How runs that the shape `from_digest` wrote become runs of the shape `to_digest`.

    `to_digest` is today's shape if none is given. `states` says what became of states of the root
    chart, wherever their names occur: in what is active, in histories, and in the ids of what they
    invoked, down to the paths of charts below. None drops a state with all that it invoked.
    `children` says the same of charts that are invoked, by the name of their class as the run's
    row has it. A state that keeps its name need not be named. Idempotency keys stay as they were.

    `function` is called with a Draft after that, and may change the rest in place.

    What an active state invokes now and the run does not have is begun once the migrated row is on
    disk; what it does not invoke any more, or as another kind of thing, is dropped. Open gates
    are described anew. No callback of the chart is called.

    Raises DefinitionError for what is no digest, no mapping of names or no plain function.
    """

    from_digest: str
    function: Function | None = None
    to_digest: str | None = field(default=None, kw_only=True)
    states: Renames = field(default_factory=dict, kw_only=True)
    children: Mapping[str, Renames] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse what can be seen to be wrong without the machine."""
        whose = f"(migration from {self.from_digest!r})"
        for digest in (self.from_digest, self.to_digest):
            if digest is not None and not _is_digest(digest):
                reason = f"{digest!r} is no digest of a shape"
                hint = f"give {DIGEST_HEX} hex digits, as `snapshots show` says them"
                raise DefinitionError(whose, reason, hint)
        if self.function is not None and not _is_plain_function(self.function):
            reason = f"{self.function!r} cannot change a draft"
            raise DefinitionError(whose, reason, "give a plain function of a Draft")
        for names in (self.states, *_values(self.children)):
            if not _are_renames(names):
                reason = f"{names!r} does not say what became of states"
                raise DefinitionError(whose, reason, "map each name to a name, or to None")

    def leads_to(self, today: str) -> str:
        """Return the digest that it leads to, while `today` is the machine's own."""
        return self.to_digest or today


def check_migrations(
    name: str, migrations: Iterable[Migration], shape: Mapping[str, Any], today: str
) -> None:
    """Refuse migrations that do not lead to today's shape, or to a state that it does not have."""
    known: dict[str, Migration] = {}
    for migration in migrations:
        if not isinstance(migration, Migration):
            reason = f"{migration!r} is no migration"
            raise DefinitionError(name, reason, "give migrations=[Migration(…), …]")
        start = migration.from_digest
        if start in known:
            reason = f"two migrations begin at {start!r}"
            raise DefinitionError(name, reason, "leave one of them out")
        known[start] = migration
    for migration in known.values():
        _check_end(name, migration, known, today)
        if migration.leads_to(today) == today:
            _check_targets(name, migration, shape)


def chain(migrations: Sequence[Migration], digest: str, today: str) -> tuple[Migration, ...]:
    """Return the migrations from a digest to today's, in order; none if there is no way."""
    known = {migration.from_digest: migration for migration in migrations}
    steps: list[Migration] = []
    while digest != today:
        step = known.get(digest)
        if step is None:
            return ()
        steps.append(step)
        digest = step.leads_to(today)
    return tuple(steps)


def route(steps: Iterable[Migration], today: str) -> str:
    """Return the way that migrations lead, in words: `3f2a9c01b7de → 9b1c02d3e4f5`."""
    passed = list(steps)
    ends = [step.leads_to(today) for step in passed]
    return " → ".join([passed[0].from_digest, *ends])


def _check_end(name: str, migration: Migration, known: Mapping[str, Migration], today: str) -> None:
    start = migration.from_digest
    begins, hint = f"the migration from {start!r}", "let each lead on, the last to today's shape"
    at, passed = migration.leads_to(today), {start}
    if at == start:
        raise DefinitionError(name, f"{begins} leads to the same shape", hint)
    while at != today:
        if at in passed:
            raise DefinitionError(name, f"{begins} comes back to {at!r}", hint)
        passed.add(at)
        if at not in known:
            reason = f"{begins} ends at {at!r}, and the chart has the shape {today!r}"
            raise DefinitionError(name, reason, hint)
        at = known[at].leads_to(today)


def _check_targets(name: str, migration: Migration, shape: Mapping[str, Any]) -> None:
    states = {str(state["name"]) for state in shape["states"]}
    strange = sorted({new for new in migration.states.values() if new is not None} - states)
    if strange:
        whose = f"the migration from {migration.from_digest!r}"
        reason = f"{whose} maps to {strange!r}, which the chart does not have"
        raise DefinitionError(name, reason, f"name some of {sorted(states)!r}")


def _is_digest(given: object) -> bool:
    return isinstance(given, str) and len(given) == DIGEST_HEX and set(given) <= _HEX_DIGITS


def _is_plain_function(given: object) -> bool:
    return callable(given) and not is_async(given)


def _values(given: object) -> list[object]:
    return list(given.values()) if isinstance(given, Mapping) else [given]


def _are_renames(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    names = cast("Mapping[object, object]", given)
    return all(
        isinstance(old, str) and (new is None or (isinstance(new, str) and new))
        for old, new in names.items()
    )
