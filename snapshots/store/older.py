"""A file of an earlier release, opened for its mailbox: its rows of runs are not to be touched."""

from __future__ import annotations

from typing import Final, NoReturn

from snapshots.errors import MigrationError
from snapshots.store.sqlite import SqliteSnapshotStore

_REASON: Final = (
    "the store was opened for its mailbox alone, and its rows have the form of an earlier release:"
    " open it with open_store, which brings them over once no host of that release holds the file"
)


class OlderStore(SqliteSnapshotStore):
    """What the mailbox of a file needs whose runs have a form that no statement here knows.

    Ids are found, and the owner is known; what reads or writes the row of a run raises
    `MigrationError`, and has changed nothing.
    """

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise MigrationError(self.path, _REASON)

    load = live = live_at = survey = headers = _refuse
    create = save = mark = migrate = _refuse
