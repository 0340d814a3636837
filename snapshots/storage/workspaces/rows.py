"""What a storage of workspaces keeps: rows whose content is bytes to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

EntityKind = Literal["artifact", "proposal", "thread", "run", "cursor"]


class _Row:
    """What all rows have: they are made of the columns that a statement gives."""

    __slots__ = ()

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Self:
        """Return the row of these columns, which are in the order of the fields."""
        return cls(**dict(zip(cls.__slots__, columns, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow(_Row):
    """One thing of a workspace, found by `kind` and `key`.

    `label` is what a list is narrowed by: an artifact's type, a proposal's status, the thread
    of a run. `revision` counts its writes from 1.
    """

    kind: EntityKind
    key: str
    label: str
    revision: int
    created_ms: int
    updated_ms: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow(_Row):
    """One line of the log: `seq` counts from 1 without holes, in each workspace by itself."""

    seq: int
    kind: str
    subject: str
    thread: str | None
    run: str | None
    at_ms: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow(_Row):
    """A segment of a run's history, with the `seq` of the fact that ended it."""

    thread: str
    run: str
    segment: int
    seq: int
    at_ms: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is written together: of one change, or of a whole transaction."""

    entities: tuple[EntityRow, ...] = ()
    log: tuple[LogRow, ...] = ()
    history: tuple[HistoryRow, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entities or self.log or self.history)
