"""The books of what goes on with the outside: admissions, epochs and notices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from machines.books.desk import Book

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.ledgers.admissions import Admission
    from snapshots.ledgers.notices import Notice


class AdmissionBook(Book):
    """The outside sessions that the run was admitted to; `ctx.admissions`.

    A session has a key, by default that of the invocation, which is the same after a restart. Of
    settled ones the newest 64 are remembered; 1,000 may be open.
    """

    def record(
        self,
        handle: Any,
        *,
        key: str | None = None,
        offset: int = 0,
        conversation: str | None = None,
        replace: bool = False,
        carrying: bool = True,
    ) -> Admission:
        """Note that the run was admitted, and return the row; it is on disk then.

        `handle` is how the outside calls the session, any value that can be stored. The same
        handle again is the same session. `replace` says that a job had to be posted anew, though
        the one before was not settled. With `carrying`, what this invocation took of the notices
        is delivered, in the same save.

        Raises InvalidKeyError for another handle of an open session and for what is no key or no
        offset, LimitError for one session too many, EncodeError for a handle that cannot be
        stored, and what the save raises. Nothing has changed then.
        """
        desk, name = self._desk, self._desk.key(key)
        shelf, kept = desk.shelf, self._own(handle, f"admissions.{name}.handle")

        def keep() -> Callable[[], None]:
            return _both(shelf.admissions.keep(), shelf.notices.keep())

        def change() -> Admission:
            row = shelf.admissions.record(
                name,
                kept,
                offset=offset,
                conversation=conversation,
                replace=replace,
                at_ms=desk.write.now_ms(),
            )
            if carrying:
                shelf.notices.deliver(desk.name, name)
            return row

        return self._copy(desk.write.change(keep, change))

    def advance(self, offset: int, key: str | None = None) -> Admission:
        """Note how far the session is, and return the row; the offset only moves forward.

        Raises InvalidKeyError for one that would go back and where nothing is open, and what the
        save raises.
        """
        ledger, name = self._desk.shelf.admissions, self._desk.key(key)
        change = self._desk.write.change
        return self._copy(change(ledger.keep, lambda: ledger.advance(name, offset)))

    def settle(self, key: str | None = None) -> Admission:
        """Note that the outside said it is over, and return the row; twice is harmless.

        Raises InvalidKeyError where nothing was recorded, and what the save raises.
        """
        ledger, name = self._desk.shelf.admissions, self._desk.key(key)
        return self._copy(self._desk.write.change(ledger.keep, lambda: ledger.settle(name)))

    def get(self, key: str | None = None) -> Admission | None:
        """Return an admission, settled or not, if it is remembered."""
        found = self._desk.shelf.admissions.get(self._desk.key(key))
        return None if found is None else self._copy(found)

    def open(self) -> tuple[Admission, ...]:
        """Return what is not settled, of the whole run, oldest first."""
        return tuple(map(self._copy, self._desk.shelf.admissions.open()))

    def _copy(self, row: Admission) -> Admission:
        return replace(row, handle=self._own(row.handle, f"admissions.{row.key}.handle"))


class EpochBook(Book):
    """The epochs of the run's conversations; `ctx.epochs`.

    A conversation is at 0 until a fault bumps it. An event that carries `mint(…)` of an older
    epoch is an answer to what was asked before the fault.
    """

    def current(self, conversation: str) -> int:
        """Return the epoch of a conversation."""
        return self._desk.shelf.epochs.current(conversation)

    def mint(self, conversation: str) -> str:
        """Return `<conversation>/<epoch>`, for the next continuation to carry.

        Raises InvalidKeyError for what is no key.
        """
        return self._desk.shelf.epochs.mint(conversation)

    def is_current(self, minted: str) -> bool:
        """Whether nothing bumped the conversation since; InvalidKeyError if nothing minted it."""
        return self._desk.shelf.epochs.is_current(minted)

    def bump(self, conversation: str) -> int:
        """Begin the conversation's next epoch and return it; it is on disk then.

        Raises InvalidKeyError for what is no key, LimitError for one conversation too many
        (10,000), and what the save raises.
        """
        ledger = self._desk.shelf.epochs
        return self._desk.write.change(ledger.keep, lambda: ledger.bump(conversation))


class NoticeBook(Book):
    """News that the next admission must carry; `ctx.notices`.

    A source is raised once. What was taken is reserved in memory until the admission that carries
    it is recorded, or given back; a crash between the two gives it back too.
    """

    def add(self, source: str, text: Any, scope: str = "") -> bool:
        """Raise a notice; False if its source was raised before, whatever became of that.

        Admissions of any scope carry one without. The newest 256 sources that were delivered are
        remembered. Raises InvalidKeyError, EncodeError, LimitError (1,000 that nobody carried),
        and what the save raises.
        """
        ledger, write = self._desk.shelf.notices, self._desk.write
        if ledger.get(source) is not None:
            return False
        kept = self._own(text, f"notices.{source}.text")
        return write.change(
            ledger.keep, lambda: ledger.raise_(source, kept, scope, at_ms=write.now_ms())
        )

    def take(self, scope: str = "") -> tuple[Notice, ...]:
        """Return what an admission in the scope must carry, oldest first, and reserve it.

        What this invocation has taken already is among it. `ctx.admissions.record` delivers it.
        """
        found = self._desk.shelf.notices.take(self._desk.name, scope)
        return tuple(
            replace(row, text=self._own(row.text, f"notices.{row.source}.text")) for row in found
        )

    def release(self) -> None:
        """Give back what this invocation took: somebody else is to carry it."""
        self._desk.shelf.notices.release(self._desk.name)


def _both(one: Callable[[], None], other: Callable[[], None]) -> Callable[[], None]:
    def undo() -> None:
        one()
        other()

    return undo
