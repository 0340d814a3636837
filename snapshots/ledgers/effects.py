"""The ledger of effects: a row for every call to the outside world that a run intended.

A row goes from `intent` to `calling` before each call leaves, and to `done`, `failed` or
`unknown` (in doubt) when its outcome arrives, or is known to be hidden. Rows stay; the outcome's
tail goes once the save that carries its transition is on disk. A row that is settled and has no
tail is final: it is encoded once, and may be closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from snapshots.layout import Rows, fold
from snapshots.limits import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from snapshots.codec import Codec

EffectStatus = Literal["intent", "calling", "done", "failed", "unknown"]
OUTSTANDING: frozenset[EffectStatus] = frozenset({"intent", "calling", "unknown"})


@dataclass(slots=True)
class EffectRow:
    """One intended call."""

    id: str
    """`<run>/<node path>/<state>.<n>`: the same in every process, and the default key."""
    path: str
    invoke: str
    kind: str
    key: str
    idempotent: bool
    at_ms: int
    status: EffectStatus = "intent"
    attempt: int = 0
    """How many calls have left or were about to."""
    tail: Any = None
    """The outcome's value, until its transition is saved."""
    error: Any = None
    """Why it failed or is in doubt, as `{"type": …, "message": …}`."""
    offered: bool = False
    """Whether the chart was told that the outcome is in doubt."""

    @property
    def is_final(self) -> bool:
        """Whether the row will never change again."""
        return self.status not in OUTSTANDING and self.tail is None

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, without what is empty or is said by its id."""
        value: dict[str, Any] = {
            "id": self.id,
            "node": self.path,
            "invoke": self.invoke,
            "kind": self.kind,
            "key": self.key,
            "status": self.status,
            "attempt": self.attempt,
            "at": self.at_ms,
            "idempotent": self.idempotent or None,
            "tail": self.tail,
            "error": self.error,
            "offered": self.offered or None,
        }
        implied = {**_said_by_id(self.id), "key": self.id}
        return {
            name: part
            for name, part in value.items()
            if part is not None and (name not in implied or implied[name] != part)
        }

    @classmethod
    def of(cls, value: dict[str, Any]) -> EffectRow:
        """Return the row that a snapshot holds, written with all its fields or without."""
        value = whole(value)
        return cls(
            id=value["id"],
            path=value["node"],
            invoke=value["invoke"],
            kind=value["kind"],
            key=value["key"],
            idempotent=bool(value.get("idempotent")),
            at_ms=int(value["at"]),
            status=value["status"],
            attempt=int(value["attempt"]),
            tail=value.get("tail"),
            error=value.get("error"),
            offered=bool(value.get("offered")),
        )


class _ClosedRow(EffectRow):
    """A row whose JSON is joined to that of others: to change it would change nothing on disk."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        message = f"effect {self.id!r} is closed, and its {name} can never be {value!r}"
        raise AssertionError(message)


def whole(value: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a snapshot with the fields that it leaves out: node, invoke and key."""
    return {**_said_by_id(value["id"]), "key": value["id"], **value}


def _said_by_id(effect: str) -> dict[str, str]:
    return {"node": "", "invoke": effect.rpartition("/")[2]}


def _seal(row: EffectRow) -> None:
    row.__class__ = _ClosedRow


def _unseal(row: EffectRow) -> None:
    # Past the guard of a closed row, which stands in everybody's way.
    object.__setattr__(row, "__class__", EffectRow)


class Effects:
    """The effects of one run: closed rows, then those that may change, as they were intended."""

    def __init__(self, rows: Iterable[EffectRow] = ()) -> None:
        by_id = {row.id: row for row in rows}
        self._by_invoke = {(row.path, row.invoke): row for row in by_id.values()}
        self._rows = Rows(by_id.items(), is_final=_is_final, seal=_seal, unseal=_unseal)

    @classmethod
    def of(cls, value: Iterable[dict[str, Any]]) -> Effects:
        """Return the ledger that a snapshot holds."""
        return cls(map(EffectRow.of, value))

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return bool(self._by_invoke)

    def __iter__(self) -> Iterator[EffectRow]:
        return iter(self._rows.all)

    def get(self, effect: str) -> EffectRow | None:
        """Return a row by its id, if there is one."""
        return self._rows.get(effect)

    def of_invoke(self, path: str, invoke: str) -> EffectRow | None:
        """Return the row of an invocation, if it is an effect's."""
        return self._by_invoke.get((path, invoke))

    def intend(self, row: EffectRow) -> Callable[[], None]:
        """Add a row, since the call is to be made; return what takes it back if the save fails.

        Rows that are final by now were saved so: here, where the ledger grows, they are closed.
        """
        undo_rows = self._rows.keep()
        self._rows.add(row.id, row)
        self._by_invoke[row.path, row.invoke] = row

        def undo() -> None:
            undo_rows()
            del self._by_invoke[row.path, row.invoke]

        return undo

    @property
    def outstanding(self) -> bool:
        """Whether any outcome is still to come, or in doubt."""
        return any(row.status in OUTSTANDING for row in self._rows.unsettled)

    def withdraw(self, path: str, invoke: str, error: dict[str, str]) -> Callable[[], None]:
        """Settle an intent whose call will not be made, as failed; return what undoes that."""
        row = self.of_invoke(path, invoke)
        if row is None or row.status != "intent":
            return lambda: None
        undo = self._keeping([row])
        row.status, row.error = "failed", error
        return undo

    def close(self) -> Callable[[], None]:
        """Prepare the terminal write: tails go, and what is still calling will never be known.

        Returns what undoes it, for a write that fails.
        """
        undo = self._keeping(self._rows.open)
        for row in self._rows.open:
            row.tail = None
            if row.status == "calling":
                row.status = "unknown"
        return undo

    def _keeping(self, rows: Iterable[EffectRow]) -> Callable[[], None]:
        """Return what puts open rows back to how they are now."""
        kept = [(row, row.status, row.tail, row.error) for row in rows]

        def undo() -> None:
            for row, status, tail, error in kept:
                row.status, row.tail, row.error = status, tail, error
                self._rows.forget(row.id)

        return undo

    @property
    def closed(self) -> int:
        """How many rows are closed."""
        return self._rows.closed

    def open_json(self, codec: Codec) -> bytes:
        """Return the rows that are not closed as JSON; what is final is encoded once."""
        return self._rows.open_json(
            lambda row, place: codec.encode(row.as_value(), root=f"effects[{place}]")
        )

    def closed_json(self, codec: Codec) -> bytes:
        """Return the closed rows as JSON, folded chunk by chunk; each is folded once."""
        return self._rows.closed_json(
            lambda rows: codec.encode(fold([row.as_value() for row in rows]), root="settled")
        )

    def open_value(self) -> list[dict[str, Any]]:
        """Return the rows that are not closed as a snapshot holds them."""
        return [row.as_value() for row in self._rows.open]

    def closed_value(self) -> list[dict[str, Any]]:
        """Return the closed rows as a snapshot holds them."""
        rows = [row.as_value() for row in self._rows.all[: self._rows.closed]]
        return [fold(rows[at : at + CHUNK_ROWS]) for at in range(0, len(rows), CHUNK_ROWS)]

    def as_value(self) -> list[dict[str, Any]]:
        """Return the rows as a snapshot holds them."""
        return [row.as_value() for row in self]


def _is_final(row: EffectRow) -> bool:
    return row.is_final
