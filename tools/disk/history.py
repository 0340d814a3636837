"""What a workload has committed, and what of it a power loss may not take: the model of a file.

It is kept beside the file. What a commit wrote is read at the commit itself, by a connection that
nobody watches; what a run held is read from the run in memory, never from the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

if TYPE_CHECKING:
    from tools.disk.recording import Recording

Picture = tuple[tuple[tuple[Any, ...], ...], ...]
"""All rows of all tables; of runs all but their blobs."""

TABLES: Final = {
    "runs": """select id, run_id, machine, digest, status, reason,
  cast(substr(head, 1, 16) as integer), created_ms, ended_ms, head from runs order by id""",
    "shapes": "select * from shapes order by digest",
    "owner": "select * from owner",
    "mailbox": "select * from mailbox order by id",
    "keyed": "select * from keyed order by tenant, workspace, workflow, key",
    "leases": "select * from leases order by tenant, workspace, workflow, name",
    "lease_floors": "select * from lease_floors order by tenant, workspace",
    "carry": "select * from carry order by tenant, workspace, workflow, key",
    "workspaces": "select * from workspaces order by id",
    "workspace_entities": "select * from workspace_entities order by workspace, kind, key",
    "workspace_log": "select * from workspace_log order by workspace, seq",
    "workspace_history": "select * from workspace_history order by workspace, thread, seq",
}
NOTHING: Final[Picture] = ((),) * len(TABLES)
_REVISION: Final = 6


def picture_of(connection: apsw.Connection) -> Picture:
    """Return what a file holds now, in one transaction."""
    connection.execute("begin")
    try:
        return tuple(tuple(connection.execute(sql)) for sql in TABLES.values())
    finally:
        connection.execute("commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One commit: how many operations the disk had been given when it was done, and its rows."""

    at: int
    picture: Picture


class History:
    """Each commit in its order; what each run held at each revision; what must last, from when."""

    def __init__(
        self,
        recording: Recording,
        picture: Picture = NOTHING,
        truth: dict[tuple[str, int], Any] | None = None,
    ) -> None:
        """Begin with a file as it is: what is in it lasts."""
        self.recording = recording
        self.moments = [Moment(at=0, picture=picture)]
        self.truth = dict(truth or {})
        """What a run's row holds at a revision, as a value with every ledger in it."""
        self.lasting: list[tuple[int, int, str]] = [(0, 0, "it was there before")]
        """From how many operations on which commit must be there, and why."""
        self._reader: apsw.Connection | None = None
        self._open = 0

    def must_last(self, why: str) -> None:
        """Know that all commits so far survive a power loss from now on."""
        self.lasting.append((len(self.recording.log), len(self.moments) - 1, why))

    def bounds(self, at: int) -> tuple[int, int, str]:
        """Return the first and the last commit that a power loss behind `at` operations may leave.

        The last one may be under way: all it wrote may be there, and nobody was told of it.
        """
        acknowledged = sum(moment.at <= at for moment in self.moments) - 1
        last = min(acknowledged + 1, len(self.moments) - 1)
        due = [(index, why) for since, index, why in self.lasting if since <= at]
        first, why = max(due, key=lambda pair: pair[0])
        return first, last, why

    def note_checkpoints(self, log_path: str) -> None:
        """Know that what was in the log when a sync of it began lasts from the sync's end on.

        This is what a save without `sync` is promised: it survives from the next checkpoint on.
        """
        index = 0
        for number, op in enumerate(self.recording.log):
            if op.kind == "sync" and op.path == log_path:
                while index + 1 < len(self.moments) and self.moments[index + 1].at <= op.began:
                    index += 1
                self.lasting.append((number + 1, index, "the log was synced by a checkpoint"))

    def left_by(self, index: int) -> dict[tuple[str, int], Any]:
        """Return what the runs held at a commit, to begin another history with."""
        rows = self.moments[index].picture[0]
        return {(row[1], row[_REVISION]): self.truth[row[1], row[_REVISION]] for row in rows}

    # -- what the product tells -------------------------------------------------------------------

    def committed(self, path: str, vfs: str) -> None:
        """Read what a commit has left."""
        if self._reader is None:
            self._reader = apsw.Connection(path, vfs=vfs)
        try:
            picture = picture_of(self._reader)
        except apsw.SQLError:
            return  # the schema is not complete, so nothing is in the file
        if len(self.moments) == 1 and picture == NOTHING and self.moments[0].picture == NOTHING:
            return
        self.moments.append(Moment(at=len(self.recording.log), picture=picture))

    def opened(self) -> None:
        """Know of one more handle."""
        self._open += 1

    def closes(self) -> None:
        """Let go of the file, so that its last handle can remove the log."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def closed(self) -> None:
        """Know that a handle is closed: the last one has emptied the log."""
        self._open -= 1
        if self._open == 0:
            self.must_last("the file was closed")
