"""The ledger of pushes: what was published from each slot, kept whole, since later ones send it.

A slot is a place that is pushed from again and again. Its newest push alone keeps a bundle, and
only until that push's sync is finished: there is one bundle for a slot at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.identifiers import check_key
from snapshots.layout import Rows, mapping
from snapshots.limits import PUSH_SLOTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from snapshots.codec import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push."""

    id: str
    slot: str
    commit: str
    """What was published."""
    source: str
    """What it was published from."""
    squashed: Any = None
    """What was squashed into the commit."""
    answer: Any = None
    """What the sync said, whole, once it is finished."""
    finished: bool = False
    bundle: bytes | None = None
    """What the sync needs, while this is its slot's newest push and not finished."""
    at_ms: int
    """When it was recorded."""

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, in the list of its slot."""
        value: dict[str, Any] = {
            "id": self.id,
            "commit": self.commit,
            "source": self.source,
            "squashed": self.squashed,
        }
        if self.finished:
            value |= {"answer": self.answer, "finished": True}
        value["at"] = self.at_ms
        if self.bundle is not None:
            value["bundle"] = self.bundle
        return value

    @classmethod
    def of(cls, slot: str, value: Mapping[str, Any]) -> Push:
        """Return the row that a snapshot holds in the list of a slot."""
        return cls(
            id=value["id"],
            slot=slot,
            commit=value["commit"],
            source=value["source"],
            squashed=value["squashed"],
            answer=value.get("answer"),
            finished=value.get("finished", False),
            bundle=value.get("bundle"),
            at_ms=value["at"],
        )


class Pushes:
    """The pushes of one run, those of a slot in the order in which they were recorded."""

    def __init__(self) -> None:
        # Slots come and go by copies of this, and rows know how to be put back.
        self._slots: dict[str, Rows[Push]] = {}
        self.changes = 0
        """How often the ledger changed: who keeps its JSON encodes it again after that."""

    @classmethod
    def of(cls, value: Mapping[str, Iterable[Mapping[str, Any]]]) -> Pushes:
        """Return the ledger that a snapshot holds."""
        made = cls()
        made._slots = {
            slot: _rows(Push.of(slot, row) for row in rows) for slot, rows in value.items()
        }
        return made

    def as_value(self) -> dict[str, list[dict[str, Any]]]:
        """Return the ledger as a snapshot holds it, values as they were given."""
        return {slot: [row.as_value() for row in rows.all] for slot, rows in self._slots.items()}

    def as_json(self, codec: Codec) -> bytes:
        """Return the ledger as a snapshot holds it, as JSON; finished pushes are encoded once."""
        return mapping({slot: _json(slot, rows, codec) for slot, rows in self._slots.items()})

    def keep(self) -> Callable[[], None]:
        """Return what puts the ledger back to how it is now."""
        slots = self._slots
        undo = [rows.keep() for rows in slots.values()]

        def put_back() -> None:
            self._slots = slots
            for undo_rows in undo:
                undo_rows()
            self.changes += 1

        return put_back

    def __len__(self) -> int:
        return len(self._slots)

    def newest(self, slot: str) -> Push | None:
        """Return a slot's newest push, if there was one."""
        rows = self._slots.get(slot)
        return rows.last if rows is not None else None

    def pairs(self, slot: str, before: str | None = None) -> tuple[Push, ...]:
        """Return what a push of a slot must send along: every earlier one, whole and in order.

        Earlier than the push `before`, or than one that is not recorded yet.

        Raises:
            InvalidKeyError: the slot has no push `before`.
        """
        rows = self._slots.get(slot)
        found = rows.all if rows is not None else ()
        if before is None:
            return found
        earlier = [row.id for row in found]
        if before not in earlier:
            raise _unknown(slot, before, self.newest(slot))
        return found[: earlier.index(before)]

    def record(
        self,
        slot: str,
        push: str,
        *,
        commit: str,
        source: str,
        squashed: Any = None,
        bundle: bytes | None = None,
        at_ms: int,
    ) -> Push:
        """Add a slot's newest push and return its row; the former newest loses its bundle.

        Raises:
            InvalidKeyError: a name is no key, the bundle is not bytes, or the slot has the push.
            LimitError: there are too many slots.
        """
        check_key(slot, "the slot of a push")
        check_key(push, "the id of a push")
        check_key(commit, "the commit of a push")
        check_key(source, "the source of a push")
        if bundle is not None and type(bundle) is not bytes:
            raise InvalidKeyError(push, f"its bundle is a {type(bundle).__name__}, expected bytes")
        rows = self._room_in(slot)
        if push in rows:
            reason = f"slot {slot!r} has this push already; give another id="
            raise InvalidKeyError(push, reason)
        former = rows.last
        if former is not None and former.bundle is not None:
            rows.change(former.id, replace(former, bundle=None))
        row = Push(
            id=push,
            slot=slot,
            commit=commit,
            source=source,
            squashed=squashed,
            bundle=bundle,
            at_ms=at_ms,
        )
        rows.add(push, row)
        self._slots = {**self._slots, slot: rows}
        self.changes += 1
        return row

    def finish(self, slot: str, push: str, answer: Any = None) -> Push:
        """Note what a push's sync answered, and return the row; its bundle goes.

        Raises:
            InvalidKeyError: the slot has no such push, or it is finished.
        """
        rows = self._slots.get(slot)
        row = rows.get(push) if rows is not None else None
        if rows is None or row is None:
            raise _unknown(slot, push, self.newest(slot))
        if row.finished:
            reason = f"this push of slot {slot!r} is finished, and keeps its answer"
            raise InvalidKeyError(push, reason)
        row = replace(row, answer=answer, finished=True, bundle=None)
        rows.change(push, row)
        self.changes += 1
        return row

    def _room_in(self, slot: str) -> Rows[Push]:
        """Return the rows of a slot, new ones for a new slot."""
        rows = self._slots.get(slot)
        if rows is not None:
            return rows
        if len(self._slots) >= PUSH_SLOTS_MAX:
            what = "the number of slots with pushes (start another run for new ones)"
            raise LimitError(what, PUSH_SLOTS_MAX, len(self._slots) + 1)
        return _rows(())


def _rows(rows: Iterable[Push]) -> Rows[Push]:
    by_id = ((row.id, row) for row in rows)
    return Rows(by_id, is_final=lambda row: row.finished, in_order=True)


def _json(slot: str, rows: Rows[Push], codec: Codec) -> bytes:
    def encode(row: Push, place: int) -> bytes:
        return codec.encode(row.as_value(), root=f"pushes.{slot}[{place}]")

    return rows.as_json(encode)


def _unknown(slot: str, push: str, newest: Push | None) -> InvalidKeyError:
    last = "has none" if newest is None else f"has {newest.id!r} as its newest"
    return InvalidKeyError(str(push), f"no such push: slot {slot!r} {last}; record it first")
