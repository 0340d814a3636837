"""A short run of the disk that fails, and mistakes in the product that it must find."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from machines.run import calls
from machines.run.run import Run
from snapshots.database import connection
from snapshots.database.connection import Database
from snapshots.errors import StorageError
from tools.disk.failing import FAULTS, Fault
from tools.disk.operations import OPERATIONS, Operation
from tools.inject import NUMBER_MAX, disturb, main, numbers

LINE = re.compile(r"([\w ]+): (\d+) passes, (\d+) with a fault, raised .*, (\d+) failures")
WRITES = tuple(fault for fault in FAULTS if fault.kind == "write" and not fault.lasts)


def operation(name: str) -> Operation:
    """Return the operation of that name."""
    (found,) = (one for one in OPERATIONS if one.name == name)
    return found


def failures(name: str, folder: Path, faults: tuple[Fault, ...] = WRITES) -> str:
    """Return all that is wrong when an operation is disturbed."""
    return "\n".join(disturb(operation(name), faults, folder, short=True).failures)


def test_whatever_fails_the_error_is_right_and_nothing_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of some operations: no effect comes after it, and the same host can do it again."""
    names = ["send", "outcome", "put"]
    chosen = [word for name in names for word in ("--operation", name)]
    kinds = [word for kind in ("write", "sync", "lock") for word in ("--kind", kind)]
    assert main(["--short", *chosen, *kinds]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    found = [LINE.fullmatch(line) for line in lines]
    assert [match and match[1] for match in found] == names
    assert all(match and int(match[3]) >= 5 for match in found)
    assert last.startswith("failures: 0 in")


@pytest.mark.parametrize("name", ["boot", "sweep", "backup"])
def test_a_write_that_fails_while_a_host_is_opened_or_sweeps_or_copies_is_told(
    name: str, tmp_path: Path
) -> None:
    """Each can be done again, and then all is as it should be."""
    count = disturb(operation(name), WRITES[:1], tmp_path, short=True)
    assert count.failures == []
    assert count.hits >= 5


def test_operations_have_names_of_their_own() -> None:
    """Each is found by its name."""
    names = [one.name for one in OPERATIONS]
    assert len(set(names)) == len(names)


def test_the_numbers_begin_with_each_and_never_go_back() -> None:
    """A short run misses no operation of five writes or fewer."""
    assert [*numbers(short=False)] == [*range(1, NUMBER_MAX + 1)]
    few = [*numbers(short=True)]
    assert few[:6] == [1, 2, 3, 4, 5, 6]
    assert few == sorted(set(few))
    assert len(few) < 30


def test_an_error_that_is_swallowed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that says yes and did not write."""
    write = Database.write

    def swallowing(self: Database, *args: Any, **options: Any) -> int:
        try:
            return write(self, *args, **options)
        except StorageError:
            return 1

    monkeypatch.setattr(Database, "write", swallowing)
    assert "it has not come about" in failures("send", tmp_path)


def test_an_error_of_another_type_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk that is told as something else."""

    def translate(error: apsw.Error, operation: str, path: str, _number: int = 0) -> StorageError:
        return StorageError(operation, path, "something went wrong", detail=str(error))

    monkeypatch.setattr(connection, "translate", translate)
    assert "expected StorageFullError, it raises StorageError(" in failures("send", tmp_path)


def test_a_run_that_goes_on_after_its_save_failed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The macrostep stands although no row says so."""
    put = Run.put

    def going_on(self: Run, *args: Any, **options: Any) -> None:
        try:
            put(self, *args, **options)
        except StorageError:
            if self.header is None:
                raise

    monkeypatch.setattr(Run, "put", going_on)
    assert failures("send", tmp_path)


def test_a_call_before_its_save_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that is called although its row says that it was not."""
    effecting = calls._Effecting
    leave = effecting._leave

    def leaving(self: Any) -> None:
        row = self.row
        try:
            leave(self)
        except calls._NotLeftError:
            row.status, row.attempt = "calling", row.attempt + 1

    monkeypatch.setattr(effecting, "_leave", leaving)
    assert "'early': 1" in failures("effect", tmp_path)
