"""Workloads that are wrong on purpose: if one of them is not found, the search finds nothing."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapshots import schema
from snapshots.codec import dump, load
from snapshots.database import pragmas
from snapshots.store.sqlite import SqliteSnapshotStore
from tools.disk.recording import Liar, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import apsw

    from snapshots.database import Database

_LEDGERS: Final = ("effects", "admissions", "epochs", "notices", "picks", "pushes", "deliveries")
_REPLACE: Final = "update runs set blob = ? where id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What is wrong, and how it is brought about."""

    name: str
    seams: Callable[[], AbstractContextManager[None]]
    disk: type[Recording] = Recording


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _replaced(owner: Any, **others: Any) -> Iterator[None]:
    """Put others in the place of attributes."""
    before = {name: vars(owner)[name] for name in others}
    for name, other in others.items():
        setattr(owner, name, other)
    try:
        yield
    finally:
        for name, original in before.items():
            setattr(owner, name, original)


def _synchronous_off() -> AbstractContextManager[None]:
    def off(connection: apsw.Connection) -> None:
        connection.pragma("synchronous", "off")

    return _replaced(pragmas, sync_at_checkpoints=off, sync_at_commit=off)


def _sync_forgotten() -> AbstractContextManager[None]:
    return _replaced(pragmas, sync_at_commit=pragmas.sync_at_checkpoints)


def _two_transactions() -> AbstractContextManager[None]:
    """Save a run with the ledgers of before, then its ledgers."""
    save = SqliteSnapshotStore.save

    def in_two(self: SqliteSnapshotStore, header: Any, blob: Any, **options: Any) -> Any:
        whole = load(bytes(blob))
        before = load(bytes(self.load(header.run_id).blob))
        torn = {name: value for name, value in whole.items() if name not in _LEDGERS}
        torn |= {name: before[name] for name in _LEDGERS if name in before}
        saved = save(self, header, dump(torn), **options)
        with self.database.writing("ledgers"):
            self.database.run(_REPLACE, (bytes(blob), header.row))
        return saved

    return _replaced(SqliteSnapshotStore, save=in_two)


def _ddl_in_autocommit() -> AbstractContextManager[None]:
    """Bring the schema up statement by statement, and record the step at its end."""

    def take_steps(database: Database, steps: tuple[tuple[str, ...], ...]) -> None:
        for statements in steps:
            for statement in statements:
                database.run(statement)

    return _replaced(schema, _take_steps=take_steps)


CONTROLS: Final = (
    Control(name="synchronous=OFF", seams=_synchronous_off),
    Control(name="a lying fsync", seams=_nothing, disk=Liar),
    Control(name="blob and ledgers in two transactions", seams=_two_transactions),
    Control(name="DDL in autocommit", seams=_ddl_in_autocommit),
    Control(name="synced saves that are not", seams=_sync_forgotten),
)
