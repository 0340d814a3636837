"""A copy of one run in a file of its own, disarmed, to debug against."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from snapshots.clock import SystemClock
from snapshots.codec import dump, load
from snapshots.database.errors import TargetExistsError
from snapshots.database.places import refuse_part
from snapshots.errors import StorageError
from snapshots.inspection.copies.disarming import Disarmed, disarm
from snapshots.inspection.queries.files import open_run_file
from snapshots.inspection.reports.reading import read_report
from snapshots.layout import unfold_blob
from snapshots.limits import NO_TIMER_MS
from snapshots.opening import open_store
from snapshots.store import backup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.clock import Clock
    from snapshots.inspection.queries.files import FoundRun

_NO_SHAPE: Final = b"null"
_OPERATION: Final = "fork"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A fork that was made: where, under which id, of which run, and what was disarmed in it."""

    path: str
    run_id: str
    source_run_id: str
    status: str
    mail_left: int
    disarmed: Disarmed


def fork(
    path: str | os.PathLike[str],
    run: str,
    target: str | os.PathLike[str],
    *,
    run_id: str | None = None,
    clock: Clock | None = None,
) -> Fork:
    """Copy a run, disarmed, to a new file at `target`, which is whole or not there.

    `run` is its id or the beginning of only one; the copy has the same, or `run_id`. The file
    is read as any reader does and holds up no save. What waits in the mailbox stays behind, as do
    approvals, leases and keyed values. A run that is not live keeps its status.

    Raises TargetExistsError, DecodeError for a run that cannot be read, InvalidKeyError for an
    id that no run may have, and what reading the one file and making the other raise.
    """
    clock = clock or SystemClock()
    refuse_existing(target)
    refuse_part(_OPERATION, target, os.fspath(path))
    with open_run_file(Path(path)) as stored:
        found = stored.find(run)
    name = found.header.run_id if run_id is None else run_id
    blob, disarmed = _disarmed(found, name, clock.now_ms())
    with _named():
        made = _written(found, name, blob, Path(target), clock)
    return Fork(
        path=made,
        run_id=name,
        source_run_id=found.header.run_id,
        status=found.header.status,
        mail_left=sum(1 for entry in found.mail if entry.outcome is None),
        disarmed=disarmed,
    )


def refuse_existing(target: str | os.PathLike[str]) -> None:
    """Raise TargetExistsError if something lies at a target, before anything is done for it."""
    if os.path.lexists(target):
        place = os.fspath(target)
        raise TargetExistsError(_OPERATION, place, place)


@contextmanager
def _named() -> Iterator[None]:
    """Name the fork in what fails on the way to it, and not the step that did."""
    try:
        yield
    except TargetExistsError as error:
        raise TargetExistsError(_OPERATION, error.path, error.found) from error
    except StorageError as error:
        if type(error).__init__ is not StorageError.__init__:
            raise  # it has words of its own, which no step is named in
        raise type(error)(_OPERATION, error.path, error.hint, detail=error.detail) from error


def _disarmed(found: FoundRun, run_id: str, now_ms: int) -> tuple[dict[str, Any], Disarmed]:
    header = found.header
    # Read in full first, so that what is refused is named by its path.
    read_report(header, found.blob, found.shape, now_ms=now_ms)
    value = unfold_blob(load(found.blob), header.run_id)
    blob, disarmed = disarm(value, run_id)
    configuration = list(blob["root"].get("configuration", ()))
    said = f"fork of {header.run_id}: nothing is called"
    blob.setdefault("trail", []).append([now_ms, "", said, configuration, configuration])
    return blob, disarmed


def _written(found: FoundRun, run_id: str, blob: dict[str, Any], target: Path, clock: Clock) -> str:
    """Write the file where nobody sees it, then put a verified copy of it at its place."""
    header = found.header
    is_live = header.status == "live"
    due_ms = min((timer["due"] for timer in blob.get("timers", ())), default=NO_TIMER_MS)
    reason = f"fork of run {header.run_id!r}: it calls nothing" if is_live else header.reason
    with tempfile.TemporaryDirectory(prefix="snapshots-fork-") as folder:
        draft = Path(folder, "fork.db")
        with open_store(draft, clock=clock) as store:
            store.create(
                run_id=run_id,
                machine=header.machine,
                digest=header.digest,
                shape=found.shape or _NO_SHAPE,
                blob=dump(blob),
                due_ms=due_ms if is_live else NO_TIMER_MS,
                # It is: nothing of it moves by itself.
                parked=is_live,
                status=header.status,
                reason=reason,
            )
        return backup(draft, target).path
