"""The command `snapshots sweep`: what would go, what goes, and when it is refused."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from snapshots import Mailbox, SqliteSnapshotStore, limits, open_storage, open_store
from snapshots.clock import SystemClock
from snapshots.database.holding import holder_of
from snapshots.inspection import sweeping
from snapshots.inspection.cli import run
from snapshots.inspection.sweeping import TakenOverError
from snapshots.storage import Scope
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.cli.command_line import command, on_terminal, without_styles

DAY = 24 * 60 * 60 * 1_000
OLD_RUNS = 3 * limits.SWEEP_SLICE_ROWS


def create(store: SqliteSnapshotStore, run_id: str, status: Any, machine: str = "m") -> None:
    """Create a run as another program would have left it."""
    blob = b"[0]"
    store.create(run_id=run_id, machine=machine, digest="d", shape=b"{}", blob=blob, status=status)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with runs that ended 8 and 6 days ago, live ones, and other old things."""
    path = tmp_path / "state.db"
    clock = ManualClock(SystemClock().now_ms() - limits.RETENTION_MS - DAY)
    with open_store(path, clock=clock) as store:
        with store.transaction():
            for number in range(OLD_RUNS):
                create(store, f"old-{number}", "done")
        create(store, "old-lost", "lost", "\x1b[31mdoor")
        create(store, "old-live", "live")
        box = Mailbox(store, clock=clock)
        box.settle([box.put("old-live", "send", b"{}")], "taken")
        box.put("old-live", "send", b"{}")
        clock.advance(2 * DAY)
        create(store, "young", "error")
        with open_storage(store, clock=clock) as storage:
            storage.keyed.put(Scope(tenant="t", workspace="w"), "key", b"1", ttl_ms=1)
    return path


def stored(path: Path) -> set[str]:
    """Return the ids of the runs in a file."""
    with open_store(path, read_only=True) as store:
        return {header.run_id for header in store.headers(limit=limits.HEADERS_ROWS_MAX)}


def test_a_dry_run_says_what_would_go_and_writes_nothing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By machine and status, and what lies beside the runs."""
    before = path.read_bytes()
    assert run(["sweep", str(path), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"would sweep {OLD_RUNS + 1} runs, 1 entries of mail, 1 values, 0 leases" in out
    assert "\x1b" not in out
    assert run(["sweep", str(path), "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"at_ms", "runs", "mail", "values", "leases"}
    by_status = {one["status"]: one for one in document["runs"]}
    assert by_status["done"]["count"] == OLD_RUNS
    assert by_status["done"]["bytes"] == 3 * OLD_RUNS
    assert by_status["lost"]["machine"] == "\x1b[31mdoor"
    assert path.read_bytes() == before
    assert len(stored(path)) == OLD_RUNS + 3


def test_what_would_go_later_can_be_asked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run of six days ago goes within two; it is no option of a sweep itself."""
    assert run(["sweep", str(path), "--dry-run", "--ahead", "2d", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["status"] for one in document["runs"]} == {"done", "lost", "error"}
    for options in (("--ahead", "2d"), ("--dry-run", "--ahead", "2 days")):
        assert run(["sweep", str(path), *options]) == 2
        assert "--ahead" in capsys.readouterr().err
    assert len(stored(path)) == OLD_RUNS + 3


def test_a_sweep_deletes_what_is_old_and_nothing_else(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slice by slice; a live run, a younger one and waiting mail stay."""
    assert run(["sweep", str(path)]) == 0
    told = f"swept {OLD_RUNS + 1} runs, 1 entries of mail, 1 values and leases\n"
    assert capsys.readouterr().out == told
    assert stored(path) == {"old-live", "young"}
    with open_store(path) as store:
        assert len(Mailbox(store).pending()) == 1
    assert run(["sweep", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "runs": 0,
        "mail": 0,
        "stored": 0,
        "refused": None,
    }


def test_a_missing_file_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2, and the folder is as it was."""
    assert run(["sweep", str(tmp_path / "none.db")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_host_holds_is_left_to_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the exclusive lock is named; once it is gone, it is swept."""
    assert holder_of(path) is None
    lock = path.with_name("state.db.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.pwrite(held.fileno(), b"process 7 on here", 0)
        done = command("sweep", path, "--json")
        assert done.returncode == 1
        assert done.stderr == (
            "snapshots: refused: process 7 on here holds the file and sweeps it by itself\n"
        )
        assert json.loads(done.stdout)["refused"].startswith("process 7 on here")
        assert run(["sweep", str(path), "--dry-run"]) == 0
    assert len(stored(path)) == OLD_RUNS + 3
    assert run(["sweep", str(path)]) == 0
    assert stored(path) == {"old-live", "young"}
    capsys.readouterr()


def test_runs_without_a_host_do_not_hold_a_file(path: Path) -> None:
    """Their lock is shared: they sweep nothing, so somebody may."""
    with path.with_name("state.db.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert holder_of(path) is None


def test_a_takeover_ends_a_sweep(path: Path) -> None:
    """From the slice on that finds another term, nothing is deleted; how far it came is said."""
    with open_store(path) as store, open_store(path) as host:

        def take_over(swept: int, expected: int) -> None:
            assert (swept, expected) == (limits.SWEEP_SLICE_ROWS, 7)
            host.take_over("process 8 on here")

        with pytest.raises(TakenOverError, match="process 8 on here has taken") as caught:
            sweeping.sweep(store, expected=7, progress=take_over)
    assert caught.value.swept == limits.SWEEP_SLICE_ROWS
    assert len(stored(path)) == 2 * limits.SWEEP_SLICE_ROWS + 3
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (str(again), again.swept) == (str(caught.value), caught.value.swept)


def test_between_slices_others_write(path: Path) -> None:
    """Each slice is a transaction of its own: a save goes in between two of them."""
    with open_store(path) as store, open_store(path) as other:
        header, saves = other.load("old-live").header, 0

        def save(_swept: int, _expected: int) -> None:
            nonlocal header, saves
            header, saves = other.save(header, b"[1]"), saves + 1

        swept = sweeping.sweep(store, expected=OLD_RUNS, progress=save)
    assert (swept.runs, saves) == (OLD_RUNS + 1, 4)


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_it_within_its_width(path: Path, columns: int) -> None:
    """A row for each machine and status."""
    shown = without_styles(on_terminal("sweep", "--dry-run", path, columns=columns))
    assert max(map(len, shown.splitlines())) <= columns
    assert "ENDED" in shown
    assert f"would sweep {OLD_RUNS + 1} runs" in shown
