"""Backups of a file of runs, by whoever may read it: its own process or any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.database.backup import back_up
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION

if TYPE_CHECKING:
    import os

    from snapshots.database.backup import Backup, Progress


def backup(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> Backup:
    """Copy a file of runs, live or not, to a new file at `target`, as of one moment.

    The copy is compact, verified, and on the disk when this returns; whatever happens before,
    `target` is not there. It takes time in proportion to the file and uses a connection of its
    own: any thread and any process may do it, and no save waits for it. A file of an earlier
    schema is copied as it is. `progress` is called now and then with the bytes written and about
    how many there will be; what it raises ends the backup.

    Raises `TargetExistsError` if something lies at `target`, `StorageFullError` if the disk has
    no room for it, `StorageCorruptError` if the file is damaged, `StorageBusyError` while another
    backup writes to the same target, `NetworkFileSystemError`, and what `open_store` raises.
    """
    return back_up(
        path,
        target,
        application_id=APPLICATION_ID,
        known_schema=SCHEMA_VERSION,
        progress=progress,
    )
