"""The ledger of admissions: the outside sessions that a run was admitted to, and how far it is.

An admission is recorded before its work goes on, so that after a restart the work finds the
session it had and attaches to it again, instead of asking for another one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.identifiers import check_key
from snapshots.limits import ADMISSIONS_OPEN_MAX, ADMISSIONS_SETTLED_MAX, KEYS_SHOWN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One session outside."""

    key: str
    """What the run calls it by; by default the invocation that recorded it."""
    handle: Any
    """How the outside calls it: a job's id, an address, a small record."""
    offset: int = 0
    """How much of what the session says was taken; it only grows."""
    conversation: str | None = None
    """The id of the conversation that it belongs to, if it belongs to one."""
    settled: bool = False
    """Whether the outside said that it is over."""
    at_ms: int
    """When it was recorded."""

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, under its key."""
        value: dict[str, Any] = {"handle": self.handle, "offset": self.offset}
        if self.settled:
            value["settled"] = True
        if self.conversation is not None:
            value["conversation"] = self.conversation
        value["at"] = self.at_ms
        return value

    @classmethod
    def of(cls, key: str, value: Mapping[str, Any]) -> Admission:
        """Return the row that a snapshot holds under a key."""
        return cls(
            key=key,
            handle=value["handle"],
            offset=value["offset"],
            conversation=value.get("conversation"),
            settled=value.get("settled", False),
            at_ms=value["at"],
        )


class Admissions:
    """The admissions of one run, by key: as they were recorded, and settled ones as settled.

    At most `ADMISSIONS_OPEN_MAX` are not settled. Of settled ones the newest
    `ADMISSIONS_SETTLED_MAX` are remembered.
    """

    def __init__(self) -> None:
        # Never changed in place, so that to keep it costs nothing and other threads can read it.
        self._rows: dict[str, Admission] = {}
        self.changes = 0
        """How often the ledger changed: who keeps its JSON encodes it again after that."""

    @classmethod
    def of(cls, value: Mapping[str, Mapping[str, Any]]) -> Admissions:
        """Return the ledger that a snapshot holds."""
        made = cls()
        made._rows = {key: Admission.of(key, row) for key, row in value.items()}
        return made

    def as_value(self) -> dict[str, dict[str, Any]]:
        """Return the ledger as a snapshot holds it, handles as they were given."""
        return {key: row.as_value() for key, row in self._rows.items()}

    def keep(self) -> Callable[[], None]:
        """Return what puts the ledger back to how it is now."""
        rows = self._rows
        return lambda: self._become(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Admission | None:
        """Return an admission, settled or not, if it is remembered."""
        return self._rows.get(key)

    def open(self) -> tuple[Admission, ...]:
        """Return what is not settled, oldest first."""
        return tuple(row for row in self._rows.values() if not row.settled)

    def record(
        self,
        key: str,
        handle: Any,
        *,
        offset: int = 0,
        conversation: str | None = None,
        replace: bool = False,
        at_ms: int,
    ) -> Admission:
        """Note that the run was admitted, and return the row.

        The same handle again is the same session: its offset is the higher one. Another handle
        takes the place of one that is settled, or with `replace` of any.

        Raises:
            InvalidKeyError: the key is no key, the offset no number from 0 on, or the key has
                another handle that is not settled.
            LimitError: there are too many that are not settled.
        """
        check_key(key, "the key of an admission")
        _check_offset(key, offset)
        if conversation is not None:
            check_key(conversation, "the conversation of an admission")
        known = self._rows.get(key)
        if known is not None and not known.settled:
            if known.handle == handle:
                return self._again(known, offset, conversation)
            if not replace:
                raise InvalidKeyError(
                    key,
                    f"it is admitted as {known.handle!r}, which is not settled, and not as"
                    f" {handle!r}; settle it, or record with replace=True",
                )
        row = Admission(
            key=key, handle=handle, offset=offset, conversation=conversation, at_ms=at_ms
        )
        self._become({**self._without(key), key: row})
        return row

    def advance(self, key: str, offset: int) -> Admission:
        """Move an offset forward, and return the row; the offset it has already is no change.

        Raises:
            InvalidKeyError: nothing open has the key, or the offset would go back.
        """
        row = self._required(key)
        _check_offset(key, offset)
        if offset < row.offset:
            reason = f"its offset is {row.offset} and cannot go back to {offset}: only forward"
            raise InvalidKeyError(key, reason)
        if offset == row.offset:
            return row
        return self._put(replace(row, offset=offset))

    def settle(self, key: str) -> Admission:
        """Note that the outside said it is over, and return the row; twice is harmless.

        Raises:
            InvalidKeyError: there is no such admission.
        """
        known = self._rows.get(key)
        if known is not None and known.settled:
            return known
        row = replace(self._required(key), settled=True)
        rows = {**self._without(key, bounded=False), key: row}
        settled = [name for name, other in rows.items() if other.settled]
        for name in settled[: max(0, len(settled) - ADMISSIONS_SETTLED_MAX)]:
            del rows[name]
        self._become(rows)
        return row

    def _again(self, known: Admission, offset: int, conversation: str | None) -> Admission:
        offset = max(offset, known.offset)
        conversation = known.conversation if conversation is None else conversation
        if (offset, conversation) == (known.offset, known.conversation):
            return known
        return self._put(replace(known, offset=offset, conversation=conversation))

    def _put(self, row: Admission) -> Admission:
        self._become({**self._rows, row.key: row})
        return row

    def _without(self, key: str, *, bounded: bool = True) -> dict[str, Admission]:
        """Return the rows but for one, with room for an open one if that is `bounded`."""
        rows = {name: row for name, row in self._rows.items() if name != key}
        count = sum(not row.settled for row in rows.values()) + 1
        if bounded and count > ADMISSIONS_OPEN_MAX:
            what = "the number of admissions that are not settled (settle those that are over)"
            raise LimitError(what, ADMISSIONS_OPEN_MAX, count)
        return rows

    def _required(self, key: str) -> Admission:
        row = self._rows.get(key)
        if row is None or row.settled:
            known = ", ".join(repr(other.key) for other in self.open()[:KEYS_SHOWN_MAX]) or "none"
            what = "no admission has it" if row is None else "its admission is settled"
            raise InvalidKeyError(key, f"{what}; record it first; open are: {known}")
        return row

    def _become(self, rows: dict[str, Admission]) -> None:
        self._rows = rows
        self.changes += 1


def _check_offset(key: str, offset: int) -> None:
    if type(offset) is not int or offset < 0:
        raise InvalidKeyError(key, f"its offset is {offset!r}, expected a whole number from 0 on")
