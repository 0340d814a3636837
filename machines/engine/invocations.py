"""The records of what states invoke: marked, active, and what invoked work is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from statemachine.invoke import InvokeContext

from machines.errors import DefinitionError

if TYPE_CHECKING:
    from machines.books import (
        AdmissionBook,
        Books,
        EffectBook,
        EpochBook,
        NoticeBook,
        PickBook,
        PushBook,
    )
    from snapshots.ledgers.admissions import Admission

Kind = Literal["call", "effect", "gate", "child", "timeout", "nursery"]
SPAWNED = ".@"
"""What stands between the state of a nursery and the id that its chart gave to a child."""


@dataclass
class Context(InvokeContext):
    """What invoked work is given: the library's context, and what a restart makes worth knowing."""

    restored: bool = False
    """Whether the work was running in a process that ended."""
    attempt: int = 1
    """How many times the work was started, this time included."""
    key: str | None = None
    """The idempotency key of an effect; for other work, what names this invocation alone."""
    term: int | None = None
    """The owner's term, for receivers that can refuse a former owner."""
    run_id: str | None = None
    books: Books | None = None
    """The ledgers of the run; None for a chart that no run keeps."""

    @property
    def kept(self) -> Books:
        """The ledgers of the run. Raises DefinitionError for a chart that no run keeps."""
        if self.books is None:
            reason, hint = "it has no run, and so no ledgers", "run it with a Host or open_run"
            raise DefinitionError(type(self.machine).__name__, reason, hint)
        return self.books

    @property
    def admission(self) -> Admission | None:
        """The outside session that this invocation recorded, settled or not; None without one."""
        return self.kept.admission

    @property
    def admissions(self) -> AdmissionBook:
        """The outside sessions of the run."""
        return self.kept.admissions

    @property
    def effects(self) -> EffectBook:
        """The effects of the run, to be read."""
        return self.kept.effects

    @property
    def epochs(self) -> EpochBook:
        """The epochs of the run's conversations."""
        return self.kept.epochs

    @property
    def notices(self) -> NoticeBook:
        """News that the next admission must carry."""
        return self.kept.notices

    @property
    def picks(self) -> PickBook:
        """Choices that are outstanding, each with the replies since."""
        return self.kept.picks

    @property
    def pushes(self) -> PushBook:
        """What was published, by slot."""
        return self.kept.pushes


@dataclass(slots=True)
class Marked:
    """A state that was entered and whose invokes are not spawned yet."""

    state: str
    kwargs: dict[str, Any]
    order: int
    id: str | None = None
    index: int = 0
    """Which of the state's invokes it is, once it is numbered."""
    attempt: int = 1

    @property
    def given_id(self) -> str | None:
        """The id that its chart gave to a child that it spawned; None for what a state invokes."""
        return given_id(self.id or "")


@dataclass(slots=True)
class Invoke:
    """An invocation: what a snapshot holds of it, and its live parts."""

    id: str
    state: str
    index: int
    kind: Kind
    kwargs: dict[str, Any]
    attempt: int = 1
    sent: bool = False
    """Its done.invoke, or its error, is on the queue or was run."""
    terminated: bool = False
    cancelled: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    """What its kind keeps besides (a gate: key, events, meta)."""
    handler: Any = None
    context: Context | None = None

    @property
    def live(self) -> bool:
        """Whether something of it is still to come."""
        return not (self.sent or self.terminated or self.cancelled)

    @property
    def given_id(self) -> str | None:
        """The id that its chart gave to a child that it spawned; None for what a state invokes."""
        return given_id(self.id)


def given_id(invoke: str) -> str | None:
    """Return the id that a chart gave to a child that it spawned, None for any other invocation."""
    _, found, given = invoke.partition(SPAWNED)
    return given if found else None


def numbered_under(invoke: str) -> str:
    """Return where the numbers used below a chart of a given id are kept, so that none returns.

    The children of a nursery share one place: their ids may be without end.
    """
    state, found, _ = invoke.partition(SPAWNED)
    return state + found
