"""The ledger of epochs: the number that a conversation is at, raised by each of its faults.

A continuation is minted as `<conversation>/<epoch>`; an answer to one that was minted before the
last fault is known by its older number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.identifiers import check_key
from snapshots.limits import CONVERSATIONS_MAX, EPOCH_DIGITS_MAX, LEDGER_KEY_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Epochs:
    """The epochs of one run's conversations; one that nothing happened to is at 0."""

    def __init__(self) -> None:
        # Never changed in place, so that to keep it costs nothing and other threads can read it.
        self._at: dict[str, int] = {}
        self.changes = 0
        """How often the ledger changed: who keeps its JSON encodes it again after that."""

    @classmethod
    def of(cls, value: Mapping[str, int]) -> Epochs:
        """Return the ledger that a snapshot holds."""
        made = cls()
        made._at = dict(value)
        return made

    def as_value(self) -> dict[str, int]:
        """Return the ledger as a snapshot holds it: no conversation that is at 0."""
        return dict(self._at)

    def keep(self) -> Callable[[], None]:
        """Return what puts the ledger back to how it is now."""
        at = self._at
        return lambda: self._become(at)

    def __len__(self) -> int:
        return len(self._at)

    def current(self, conversation: str) -> int:
        """Return the epoch of a conversation."""
        return self._at.get(conversation, 0)

    def bump(self, conversation: str) -> int:
        """Begin the next epoch of a conversation and return it: what was minted is stale.

        Raises:
            InvalidKeyError: the conversation's id is no key.
            LimitError: too many conversations have had a fault.
        """
        check_key(conversation, "the id of a conversation")
        count = len(self._at) + (conversation not in self._at)
        if count > CONVERSATIONS_MAX:
            what = "the number of conversations with an epoch (start another run for new ones)"
            raise LimitError(what, CONVERSATIONS_MAX, count)
        epoch = self.current(conversation) + 1
        self._become({**self._at, conversation: epoch})
        return epoch

    def mint(self, conversation: str) -> str:
        """Return `<conversation>/<epoch>`, by which an answer can be told from a stale one.

        Raises:
            InvalidKeyError: the conversation's id is no key.
        """
        check_key(conversation, "the id of a conversation")
        return f"{conversation}/{self.current(conversation)}"

    def is_current(self, minted: str) -> bool:
        """Whether nothing bumped the conversation since the text was minted.

        Raises:
            InvalidKeyError: it is no text that `mint` returns.
        """
        conversation, _, number = str(minted).rpartition("/")
        is_number = number.isascii() and number.isdigit() and len(number) <= EPOCH_DIGITS_MAX
        if not conversation or not is_number or number != str(int(number)):
            reason = "nothing minted it, expected '<conversation>/<epoch>'"
            raise InvalidKeyError(str(minted)[:LEDGER_KEY_CHARS_MAX], reason)
        return self.current(conversation) == int(number)

    def _become(self, at: dict[str, int]) -> None:
        self._at = at
        self.changes += 1
