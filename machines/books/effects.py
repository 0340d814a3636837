"""The book of effects, which is only read: the calls write it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.books.desk import Book

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.ledgers.effects import EffectRow, EffectStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEntry:
    """One call to the outside world, as the ledger had it when it was read.

    `path` and `invoke` say what intended it, `attempt` how often it left. `tail` is its result
    until the transition that it led to is saved; `error`, as `{"type": …, "message": …}`, says why
    it failed or is in doubt (`unknown`).
    """

    id: str
    path: str
    invoke: str
    kind: str
    key: str
    status: EffectStatus
    attempt: int
    idempotent: bool
    at_ms: int
    tail: Any
    error: dict[str, str] | None


class EffectBook(Book):
    """Every call to the outside world that the run intended, to be read; `ctx.effects`."""

    def __iter__(self) -> Iterator[EffectEntry]:
        return map(self._entry, tuple(self._desk.shelf.effects))

    def __len__(self) -> int:
        return len(self._desk.shelf.effects)

    def get(self, id: str) -> EffectEntry | None:  # noqa: A002 - what the row calls it
        """Return a row by its id, if there is one."""
        found = self._desk.shelf.effects.get(id)
        return None if found is None else self._entry(found)

    def _entry(self, row: EffectRow) -> EffectEntry:
        tail, error = self._own([row.tail, row.error], f"effects.{row.id}")
        return EffectEntry(
            id=row.id,
            path=row.path,
            invoke=row.invoke,
            kind=row.kind,
            key=row.key,
            status=row.status,
            attempt=row.attempt,
            idempotent=row.idempotent,
            at_ms=row.at_ms,
            tail=tail,
            error=error,
        )
