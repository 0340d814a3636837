"""What every book works with: the ledgers of a run, whose books they are, and who saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from machines.names import path_below
from snapshots.errors import InvalidKeyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.ledgers.admissions import Admissions
    from snapshots.ledgers.effects import Effects
    from snapshots.ledgers.epochs import Epochs
    from snapshots.ledgers.notices import Notices
    from snapshots.ledgers.picks import Picks
    from snapshots.ledgers.pushes import Pushes

T = TypeVar("T")


class Shelf(Protocol):
    """What holds the ledgers of a run."""

    effects: Effects
    admissions: Admissions
    epochs: Epochs
    notices: Notices
    picks: Picks
    pushes: Pushes


class AtTheWrite(Protocol):
    """What changes the ledgers of a run, on the run's own thread, and saves it."""

    def now_ms(self) -> int:
        """Return the time by the run's clock."""

    def own(self, value: Any, where: str) -> Any:
        """Return a value as a restore would give it; EncodeError, at `where`, if none could."""

    def change(self, keep: Callable[[], Callable[[], None]], change: Callable[[], T]) -> T:
        """Change a ledger, save the run, and return what the change returned.

        `keep` returns what takes the change back: it is, if it raises or cannot be saved.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The invocation that books are given to: the chart's path and the invocation's id."""

    path: str
    invoke: str

    @property
    def key(self) -> str:
        """What rows of the invocation are called by default: `<path>/<invoke>`."""
        return path_below(self.path, self.invoke)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every book of one owner works with."""

    shelf: Shelf
    owner: Owner | None
    write: AtTheWrite

    @property
    def name(self) -> str:
        """By what notices are reserved: work without an invocation is the run's own."""
        return "" if self.owner is None else self.owner.key

    def key(self, given: str | None) -> str:
        """Return a key that was given, else the owner's own."""
        if given is not None:
            return given
        if self.owner is None:
            nothing = ""
            raise InvalidKeyError(nothing, "no invocation asks for it; give a key of your own")
        return self.owner.key


class Book:
    """One ledger, as an invocation has it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._own = desk.write.own
