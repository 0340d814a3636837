"""The books of what is kept whole until somebody needs it: picks and pushes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from machines.books.desk import Book

if TYPE_CHECKING:
    from snapshots.ledgers.picks import Pick
    from snapshots.ledgers.pushes import Push


class PickBook(Book):
    """Offers that somebody has to choose from; `ctx.picks`.

    While a pick is outstanding its chain is held, with every reply since, whole.
    """

    def pick(self, pick: str, chain: str, offer: Any) -> Pick:
        """Hold a chain until the pick is answered, and return the row.

        Raises InvalidKeyError for a pick that is outstanding and what is no key, EncodeError,
        LimitError for one pick too many (1,000), and what the save raises.
        """
        ledger, write = self._desk.shelf.picks, self._desk.write
        kept = self._own(offer, f"picks.{pick}.offer")
        row = write.change(
            ledger.keep, lambda: ledger.pick(pick, chain, kept, at_ms=write.now_ms())
        )
        return self._copy(row)

    def reply(self, chain: str, value: Any) -> bool:
        """Keep a reply if a pick of its chain is outstanding; return whether it is kept.

        Raises EncodeError, and what the save raises; nothing is saved where nothing is held.
        """
        ledger = self._desk.shelf.picks
        kept = self._own(value, f"picks.{chain}.replies")
        if not ledger.outstanding(chain):
            return False
        return self._desk.write.change(ledger.keep, lambda: ledger.reply(chain, kept))

    def answer(self, pick: str) -> tuple[Any, ...]:
        """Drop a pick that was decided and return the replies since it, oldest first.

        Raises InvalidKeyError, which names those that are outstanding, and what the save raises.
        """
        ledger = self._desk.shelf.picks
        found = self._desk.write.change(ledger.keep, lambda: ledger.answer(pick))
        return tuple(self._own(list(found), f"picks.{pick}.replies"))

    def outstanding(self, chain: str | None = None) -> tuple[Pick, ...]:
        """Return the outstanding picks of a chain, or of all, those of a chain oldest first."""
        return tuple(map(self._copy, self._desk.shelf.picks.outstanding(chain)))

    def replies(self, pick: str) -> tuple[Any, ...]:
        """Return the replies since a pick, oldest first; InvalidKeyError if it is answered."""
        found = self._desk.shelf.picks.replies(pick)
        return tuple(self._own(list(found), f"picks.{pick}.replies"))

    def _copy(self, row: Pick) -> Pick:
        return replace(row, offer=self._own(row.offer, f"picks.{row.id}.offer"))


class PushBook(Book):
    """What was published from each slot; `ctx.pushes`.

    Each row stays, whole, since every later push of its slot sends it along. A slot keeps one
    bundle at most: its newest push's, until that is finished.
    """

    def record(
        self,
        slot: str,
        *,
        commit: str,
        source: str,
        squashed: Any = None,
        bundle: bytes | None = None,
        id: str | None = None,  # noqa: A002 - what the row calls it
    ) -> Push:
        """Add the slot's newest push and return its row; its id is the invocation's own key.

        Raises InvalidKeyError for an id that the slot has and what is no key, EncodeError,
        LimitError for one slot too many (1,000), and what the save raises.
        """
        ledger, write, name = self._desk.shelf.pushes, self._desk.write, self._desk.key(id)
        kept = self._own(squashed, f"pushes.{slot}.squashed")
        return self._copy(
            write.change(
                ledger.keep,
                lambda: ledger.record(
                    slot,
                    name,
                    commit=commit,
                    source=source,
                    squashed=kept,
                    bundle=bundle,
                    at_ms=write.now_ms(),
                ),
            )
        )

    def finish(self, slot: str, answer: Any = None, id: str | None = None) -> Push:  # noqa: A002 - as above
        """Note what a push's sync answered, and return the row; its bundle goes.

        Raises InvalidKeyError for a push that is not there or is finished, EncodeError, and what
        the save raises.
        """
        ledger, name = self._desk.shelf.pushes, self._desk.key(id)
        kept = self._own(answer, f"pushes.{slot}.answer")
        change = self._desk.write.change
        return self._copy(change(ledger.keep, lambda: ledger.finish(slot, name, kept)))

    def pairs(self, slot: str, before: str | None = None) -> tuple[Push, ...]:
        """Return every push of a slot that is earlier than `before`, or all, whole and in order.

        Raises InvalidKeyError if the slot has no push `before`.
        """
        return tuple(map(self._copy, self._desk.shelf.pushes.pairs(slot, before)))

    def newest(self, slot: str) -> Push | None:
        """Return a slot's newest push, if there was one."""
        found = self._desk.shelf.pushes.newest(slot)
        return None if found is None else self._copy(found)

    def _copy(self, row: Push) -> Push:
        squashed, answer = self._own([row.squashed, row.answer], f"pushes.{row.slot}")
        return replace(row, squashed=squashed, answer=answer)
