"""A short run of the power losses, what an image may hold, and what must be found."""

from __future__ import annotations

import random
import re
from pathlib import Path

import apsw
import pytest

from tools.disk.controls import CONTROLS, Control
from tools.disk.history import NOTHING, History, Moment
from tools.disk.images import SECTOR_BYTES, Surface, draw_points, images
from tools.disk.recording import Recording
from tools.disk.watching import Kind, Op, watched
from tools.powerloss import control, main

DATABASE, LOG = "/folder/state.db", "/folder/state.db-wal"
OLD, NEW = b"o" * (4 * SECTOR_BYTES), b"n" * (4 * SECTOR_BYTES)
DRAWS = 300


def op(kind: Kind, path: str = LOG, *, offset: int = 0, data: bytes = b"", began: int = 0) -> Op:
    """Return an operation on one of two files."""
    number = {DATABASE: 1, LOG: 2}[path]
    return Op(kind=kind, path=path, file=number, offset=offset, data=data, began=began)


def drawn(ops: list[Op], before_it: dict[str, bytes] | None = None) -> list[dict[str, bytes]]:
    """Return many images of the moment behind the operations."""
    surface, rng = Surface(before_it or {}), random.Random(5)
    for one in ops:
        surface.take(one)
    return [surface.image(rng).files for _ in range(DRAWS)]


MADE = [op("open"), op("write", data=OLD), op("sync", began=2), op("folder", began=3)]


def test_what_was_synced_is_in_every_image() -> None:
    """Neither the file nor a byte of it is missing."""
    assert {files[LOG] for files in drawn(MADE)} == {OLD}


def test_of_what_was_not_synced_each_sector_is_old_or_new() -> None:
    """All of it may be there, nothing, some sectors, and never another mixture unless torn."""
    found = {files[LOG] for files in drawn([*MADE, op("write", data=NEW)])}
    assert {OLD, NEW} < found
    sectors = {
        tuple(data[begin : begin + SECTOR_BYTES] for begin in range(0, len(data), SECTOR_BYTES))
        for data in found
    }
    whole = {OLD[:SECTOR_BYTES], NEW[:SECTOR_BYTES]}
    assert len([one for one in sectors if set(one) == whole]) > 5
    torn = [one for one in sectors if not set(one) <= whole]
    assert all(len(set(one) - whole) == 1 for one in torn)
    assert torn


def test_a_later_write_may_be_there_without_an_earlier_one() -> None:
    """They reach a disk in any order."""
    second = op("write", offset=len(OLD), data=NEW)
    found = {files[LOG] for files in drawn([*MADE, op("write", data=NEW), second])}
    assert OLD + NEW in found
    assert NEW in found


def test_a_sync_covers_what_came_before_it_began() -> None:
    """What was written meanwhile may be missing."""
    synced, meanwhile = op("write", data=NEW), op("write", offset=len(NEW), data=NEW)
    found = {files[LOG] for files in drawn([*MADE, synced, meanwhile, op("sync", began=5)])}
    assert {NEW, NEW + NEW} <= found
    assert all(data.startswith(NEW) for data in found)


def test_a_file_may_be_gone_until_its_folder_was_synced() -> None:
    """Its own sync does not make its name last."""
    assert {LOG in files for files in drawn(MADE[:3])} == {True, False}


def test_a_deleted_file_may_be_there_until_its_folder_was_synced() -> None:
    """The name comes back, with what was synced of it."""
    deleted = [*MADE, op("delete")]
    assert {files.get(LOG) for files in drawn(deleted)} == {OLD, None}
    gone = op("folder", DATABASE, began=len(deleted))
    assert {files.get(LOG) for files in drawn([*deleted, gone])} == {None}


def test_what_was_there_before_lasts() -> None:
    """A file that lay in the folder is on the disk."""
    assert {files[DATABASE] for files in drawn([], {DATABASE: OLD})} == {OLD}


def test_moments_are_drawn_from_the_whole_log() -> None:
    """From before the first operation to after the last, and images come in their order."""
    log = [*MADE, op("write", data=NEW)]
    points = draw_points(log, DRAWS, random.Random(2))
    assert {0, len(log)} <= set(points)
    found = [image.at for image in images(log, {}, points, seed=1)]
    assert found == sorted(points)


def test_all_that_goes_through_the_disk_is_noted(tmp_path: Path) -> None:
    """The notes of a file, played back, are the file."""
    recording = Recording(tmp_path, seed=1)
    path = tmp_path / "state.db"
    with watched(recording):
        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.execute("create table t (x)")
        connection.execute("insert into t values (randomblob(20000))")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.execute("insert into t values (randomblob(20000))")
        beside = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        seen = len(recording.log)
        connection.close()
    surface = Surface({})
    for one in recording.log[:seen]:
        surface.take(one)
    surface.take(op_of(recording, "sync", str(path), seen))
    surface.take(op_of(recording, "sync", f"{path}-wal", seen))
    surface.take(op_of(recording, "folder", str(path), seen))
    files = surface.image(random.Random(1)).files
    assert files == {
        str(path): beside["state.db"],
        f"{path}-wal": beside["state.db-wal"],
    }


def op_of(recording: Recording, kind: Kind, path: str, began: int) -> Op:
    """Return a sync of a file that a recording knows."""
    number = next(one.file for one in reversed(recording.log) if one.path == path)
    return Op(kind=kind, path=path, file=number, began=began)


def test_a_power_loss_leaves_an_exact_prefix_of_the_saves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whole files, whole runs, and nothing missing that was synced, copied or closed."""
    assert main(["--images", "240", "--seconds", "60", "--seed", "11"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^images: 240 in", said, re.MULTILINE), said
    lost = re.search(r"nobody was promised: (\d+)$", said, re.MULTILINE)
    assert lost is not None
    assert int(lost[1]) > 20, "power losses that lose nothing prove nothing"
    assert said.endswith("failures: 0\n")


@pytest.mark.parametrize("wrong", CONTROLS, ids=lambda one: one.name)
def test_a_workload_that_is_wrong_is_found(wrong: Control, tmp_path: Path) -> None:
    """A disk that does not sync, saves in two parts, half a schema: none of them is passed over."""
    was_found, line = control(wrong, tmp_path, 7)
    assert was_found, line


def test_a_lost_synced_save_is_named_as_such(tmp_path: Path) -> None:
    """What is wrong with an image is said in the words of the promise."""
    (forgotten,) = (one for one in CONTROLS if one.name == "synced saves that are not")
    _, line = control(forgotten, tmp_path, 3)
    assert "nothing that must last is lost" in line


def history_of(tmp_path: Path, commits: list[int], log: list[Op]) -> History:
    """Return a history whose commits were done behind so many operations each."""
    recording = Recording(tmp_path, seed=1)
    history = History(recording)
    for number, at in enumerate(commits):
        picture = (((number,),),) * len(NOTHING)
        history.moments.append(Moment(at=at, picture=picture))
    recording.log += log
    return history


def test_what_a_loss_may_leave_ends_with_the_commit_under_way(tmp_path: Path) -> None:
    """All that was acknowledged, and the one that was about to be; the first may be any."""
    history = history_of(tmp_path, [3, 6, 9], [op("write")] * 12)
    assert [history.bounds(at)[:2] for at in (0, 3, 5, 6, 12)] == [
        (0, 1),
        (0, 2),
        (0, 2),
        (0, 3),
        (0, 3),
    ]


def test_what_must_last_begins_with_the_last_promise(tmp_path: Path) -> None:
    """A synced save takes all before it with it, from the moment at which it was told."""
    history = history_of(tmp_path, [3, 6], [op("write")] * 7)
    history.must_last("its save was synced")
    assert history.bounds(6)[0] == 0
    assert history.bounds(7) == (2, 2, "its save was synced")


def test_a_checkpoint_makes_last_what_was_in_the_log_when_its_sync_began(tmp_path: Path) -> None:
    """A commit that came during the sync is not promised anything."""
    log = [op("write")] * 6 + [op("sync", began=4), op("write")]
    history = history_of(tmp_path, [3, 6], log)
    history.note_checkpoints(LOG)
    assert [history.bounds(at)[0] for at in (6, 7, 8)] == [0, 1, 1]
