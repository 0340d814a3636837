"""The ledger of effects: a row for every call to the outside world that a run intended.

A row goes from `intent` to `calling` before each call leaves, and to `done`, `failed` or
`unknown` (in doubt) when its outcome arrives, or is known to be hidden. Rows stay; the outcome's
tail goes once the save that carries its transition is on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, without what is empty."""
        value: dict[str, Any] = {
            "id": self.id,
            "node": self.path,
            "invoke": self.invoke,
            "kind": self.kind,
            "key": self.key,
            "status": self.status,
            "attempt": self.attempt,
            "at": self.at_ms,
        }
        if self.idempotent:
            value["idempotent"] = True
        if self.tail is not None:
            value["tail"] = self.tail
        if self.error is not None:
            value["error"] = self.error
        if self.offered:
            value["offered"] = True
        return value

    @classmethod
    def of(cls, value: dict[str, Any]) -> EffectRow:
        """Return the row that a snapshot holds."""
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


class Effects:
    """The effects of one run, in the order in which they were intended."""

    def __init__(self, rows: Iterable[EffectRow] = ()) -> None:
        self._rows = {row.id: row for row in rows}
        self._by_invoke = {(row.path, row.invoke): row for row in self._rows.values()}

    def __iter__(self) -> Iterator[EffectRow]:
        return iter(self._rows.values())

    def get(self, effect: str) -> EffectRow | None:
        """Return a row by its id, if there is one."""
        return self._rows.get(effect)

    def of_invoke(self, path: str, invoke: str) -> EffectRow | None:
        """Return the row of an invocation, if it is an effect's."""
        return self._by_invoke.get((path, invoke))

    def intend(self, row: EffectRow) -> None:
        """Add a row: the call is to be made."""
        assert row.id not in self._rows, f"effect {row.id!r} is intended twice"
        self._rows[row.id] = self._by_invoke[row.path, row.invoke] = row

    def drop(self, effect: str) -> None:
        """Take back an intent whose save failed."""
        row = self._rows.pop(effect, None)
        if row is not None:
            del self._by_invoke[row.path, row.invoke]

    @property
    def outstanding(self) -> bool:
        """Whether any outcome is still to come, or in doubt."""
        return any(row.status in OUTSTANDING for row in self._rows.values())

    def withdraw(self, path: str, invoke: str, error: dict[str, str]) -> Callable[[], None]:
        """Settle an intent whose call will not be made, as failed; return what undoes that."""
        row = self.of_invoke(path, invoke)
        if row is None or row.status != "intent":
            return lambda: None
        undo = _keeping([row])
        row.status, row.error = "failed", error
        return undo

    def close(self) -> Callable[[], None]:
        """Prepare the terminal write: tails go, and what is still calling will never be known.

        Returns what undoes it, for a write that fails.
        """
        undo = _keeping(self._rows.values())
        for row in self._rows.values():
            row.tail = None
            if row.status == "calling":
                row.status = "unknown"
        return undo

    def as_value(self) -> list[dict[str, Any]]:
        """Return the rows as a snapshot holds them."""
        return [row.as_value() for row in self._rows.values()]


def _keeping(rows: Iterable[EffectRow]) -> Callable[[], None]:
    """Return what puts rows back to how they are now."""
    kept = [(row, row.status, row.tail, row.error) for row in rows]

    def undo() -> None:
        for row, status, tail, error in kept:
            row.status, row.tail, row.error = status, tail, error

    return undo
