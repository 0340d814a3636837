"""`snapshots doctor` on files that are well, old, new, foreign, damaged, or not there at all."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from snapshots import limits
from snapshots.database import open_database, places
from snapshots.heads import HEAD_BYTES
from snapshots.inspection.cli import run
from snapshots.inspection.doctor import limits as bounds
from snapshots.inspection.doctor import places as placing
from snapshots.mailbox import Mailbox
from snapshots.opening import open_store
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION, STEPS, migrate
from snapshots.store import SqliteSnapshotStore
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.cli.command_line import (
    as_nobody,
    command,
    on_terminal,
    without_styles,
)
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)

EVIL = "\x1b]0;owned\x07\u202e"
CALM: dict[str, Any] = {
    "effects": [],
    "timers": [],
    "arrivals": [],
    "turn": [],
    "root": {
        "class": "Checkout",
        "engine": "async",
        "status": "active",
        "started": True,
        "configuration": ["cart"],
        "spawned": 0,
    },
}


def add(store: SqliteSnapshotStore, run_id: str = RUN, **changes: Any) -> None:
    """Create a run that only waits, unless its blob says otherwise."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "machine": MACHINE,
        "digest": DIGEST,
        "shape": encoded(SHAPE),
        "blob": encoded(run_value(**{"run": run_id, **CALM})),
        "parked": True,
    }
    store.create(**(fields | changes))


def made(path: Path, *runs: dict[str, Any]) -> Path:
    """Make a file with these runs, and close it."""
    with open_store(path) as store:
        for number, changes in enumerate(runs or ({},)):
            add(store, **({"run_id": f"run-{number}"} | changes))
    return path


def examined(
    capsys: pytest.CaptureFixture[str], path: Path, *options: str, code: int
) -> dict[str, dict[str, Any]]:
    """Run the command, which must end so; return its checks by name."""
    assert run(["doctor", str(path), "--json", *options]) == code
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    checks = {check["check"]: check for check in document["checks"]}
    assert len(checks) == len(document["checks"])
    worst = {check["verdict"] for check in checks.values()}
    assert (code == 1) is ("problem" in worst)
    for check in checks.values():
        assert (check["remedy"] is None) is (check["verdict"] == "ok"), check
    return checks


def amiss(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the verdicts that are not ok."""
    return {name: c["verdict"] for name, c in checks.items() if c["verdict"] != "ok"}


# -- well -------------------------------------------------------------------------------------


def test_a_healthy_file_is_well_whether_it_is_open_or_not(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check is ok, and each is named: nothing was left out in silence."""
    made(path)
    names = [*examined(capsys, path, code=0)]
    assert names == [
        *("library", "file system", "disk", "access", "writable", "processes", "identity"),
        *("settings", "owner", "log", "stalls", "pages", "tables", "shapes", "mailbox"),
        *("timers", "runs", "in doubt"),
    ]
    with open_store(path) as store:
        add(store, "more")
        checks = examined(capsys, path, code=0)
    assert amiss(checks) == {}
    assert "all 2 live runs" in checks["runs"]["told"]


def test_looking_changes_no_byte(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither of the file nor of its log, deep or not; its time stays too."""
    made(path)
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    examined(capsys, path, code=0)
    examined(capsys, path, "--deep", code=0)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


def test_it_is_told_on_a_terminal_and_in_a_pipe(path: Path) -> None:
    """Wrapped to the terminal's width there; here a line for each check."""
    made(path)
    shown = without_styles(on_terminal("doctor", path, columns=60))
    assert max(map(len, shown.splitlines())) <= 60
    assert "18 ok" in shown
    piped = command("doctor", path)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.splitlines()[2].split() == ["VERDICT", "CHECK", "FOUND"]
    assert sum(line.startswith("ok ") for line in piped.stdout.splitlines()) == 18
    assert "\x1b" not in piped.stdout


def test_a_backup_is_well(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in rollback mode until it is opened to write, which is how it should be."""
    with open_store(path) as store:
        add(store)
        store.backup(tmp_path / "backup.db")
    checks = examined(capsys, tmp_path / "backup.db", "--deep", code=0)
    assert amiss(checks) == {}
    assert "backup" in checks["settings"]["told"]


# -- other forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(1, SCHEMA_VERSION))
def test_a_file_of_an_older_release_is_looked_at_and_left_so(
    path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """A warning that says which schema it has and what to do; all other checks work on it."""
    with open_database(path, application_id=APPLICATION_ID, known_schema=number) as database:
        migrate(database, STEPS[:number])
    checks = examined(capsys, path, "--deep", code=0)
    assert amiss(checks) == {"identity": "warning"}
    assert f"schema {number}," in checks["identity"]["told"]
    assert "backup" in checks["identity"]["remedy"]
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("pragma user_version").fetchone() == (number,)


def test_a_file_of_a_later_release_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what to install, and looks no further than at what every release has."""
    made(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("pragma user_version = 77")
        other.execute("drop table mailbox")
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"identity": "problem"}
    assert "schema 77" in checks["identity"]["told"]
    assert "release" in checks["identity"]["remedy"]
    assert {"pages", "log"} < checks.keys()
    assert "mailbox" not in checks


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("create index mine on runs(head)", "index mine is none of this program's"),
        (
            "create trigger mine after update on runs begin delete from shapes; end",
            "trigger mine is none of this program's",
        ),
        ("alter table owner add column note text", "table owner is not as this program makes it"),
        ("drop index mailbox_settled", "index mailbox_settled is missing"),
    ],
)
def test_tables_that_somebody_changed_are_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str], change: str, told: str
) -> None:
    """A trigger acts on each save, and an index over a head refuses those of long runs."""
    made(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(change)
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"tables": "problem"}
    assert checks["tables"]["items"] == [told]
    assert "by hand" in checks["tables"]["remedy"]


def test_tables_beside_ours_are_no_change_of_them(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tools that copy a file as it grows keep some of their own in it."""
    made(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table _copied (id integer primary key, seq integer)")
        other.execute("create index _copied_seq on _copied(seq)")
    assert amiss(examined(capsys, path, code=0)) == {}


def test_statistics_are_no_change_of_the_tables(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `analyze` leaves changes no plan that matters, and is SQLite's own."""
    made(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("analyze")
    assert amiss(examined(capsys, path, code=0)) == {}


def test_another_programs_database_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named by its application_id, and nothing in it is read."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table songs (id)")
        other.execute("pragma application_id = 119")
        other.commit()
    path.chmod(0o600)
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"identity": "problem"}
    assert "0x77" in checks["identity"]["told"]
    assert "pages" not in checks


@pytest.mark.parametrize("data", [b"x", b"#!/bin/sh\n" * 500, bytes(8_192), b"SQLite format 3\0"])
def test_what_is_no_database_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    """A few bytes, a text, zeros, half of a head."""
    path.write_bytes(data)
    path.chmod(0o600)
    assert amiss(examined(capsys, path, code=1)) == {"identity": "problem"}


def test_an_empty_file_is_one_that_a_host_may_begin_in(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning: somebody may have meant another one."""
    path.touch(0o600)
    assert amiss(examined(capsys, path, code=0)) == {"identity": "warning"}
    with closing(sqlite3.connect(path)) as other:
        other.execute("vacuum")  # a page without a table
    assert amiss(examined(capsys, path, code=0)) == {"identity": "warning"}


@pytest.mark.parametrize("name", ["missing.db", ".", "a\0b", "no/such/folder.db", "/dev/null"])
def test_where_nothing_can_be_looked_at_the_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """One line on stderr, nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", name]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "unexpected" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_too_old_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says both versions, and that nothing more can be looked at with it."""
    made(path)
    monkeypatch.setattr(limits, "SQLITE_VERSION_MIN", "99.0.0")
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"library": "problem", "identity": "problem"}
    assert "99.0.0" in checks["library"]["told"]


# -- where it lies ----------------------------------------------------------------------------


def test_a_network_file_system_is_a_problem(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and the file is not opened there."""
    made(path)
    (tmp_path / "self").mkdir()
    mounts = tmp_path / "self" / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/share rw\n")
    monkeypatch.setattr(places, "_MOUNTS", mounts)
    monkeypatch.setattr(placing, "PROC", tmp_path)
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"file system": "problem", "identity": "problem"}
    assert "nfs4" in checks["file system"]["told"]
    mounts.unlink()
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"file system": "warning"}


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_what_others_may_read_is_a_warning(
    path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """Of the file, and of its log, which holds the newest saves."""
    with open_store(path) as store:
        add(store)
        Path(f"{path}{suffix}").chmod(0o640)
        checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"access": "warning"}
    assert f"runs.db{suffix} has mode 0640" in checks["access"]["told"]


def test_a_second_name_of_the_file_is_a_problem(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite puts the log beside the name by which it was opened: there would be two."""
    made(path)
    os.link(path, tmp_path / "second.db")
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"access": "problem"}


@pytest.mark.parametrize(
    ("bound", "verdict"), [("WAL_BYTES_MAX", "problem"), ("DISK_BYTES_MIN", "warning")]
)
def test_a_disk_without_room_is_told(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    verdict: str,
) -> None:
    """Less than the log may need is a problem, little more than that a warning."""
    made(path)
    monkeypatch.setattr(placing, bound, 2**62)
    assert amiss(examined(capsys, path, code=int(verdict == "problem"))) == {"disk": verdict}


def test_a_journal_beside_the_file_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It could be played into the file by whoever opens it next."""
    made(path)
    Path(f"{path}-journal").touch()
    assert amiss(examined(capsys, path, code=0)) == {"neighbours": "warning"}


def test_a_copy_in_a_folder_that_may_not_be_written(store_path: Path, shut: Path) -> None:
    """It is looked at as it lies; that no host could write it is a warning."""
    shutil.copyfile(store_path, shut / "copy.db")
    (shut / "copy.db").chmod(0o444)
    shut.chmod(0o555)
    done = as_nobody(str(store_path), "doctor", shut / "copy.db")
    out = done.stdout.partition("----")[2] or done.stdout
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "warning  writable" in out
    assert "all 1 live runs can be read" in out
    assert [entry.name for entry in shut.iterdir()] == ["copy.db"]


def test_a_copy_with_its_log_is_looked_at_in_a_copy(path: Path, shut: Path) -> None:
    """The command says so; what only the log holds was looked at."""
    with open_store(path) as store:
        add(store)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", shut / f"copy.db{suffix}")
            (shut / f"copy.db{suffix}").chmod(0o444)
        shut.chmod(0o555)
        done = as_nobody(store.path, "doctor", shut / "copy.db")
    assert done.returncode == 0
    assert "all 1 live runs can be read" in done.stdout
    assert "a copy of it and its -wal was looked at" in done.stderr


def test_a_file_that_may_not_be_read_cannot_be_looked_at(store_path: Path, shut: Path) -> None:
    """Exit code 2, and one line."""
    shutil.copyfile(store_path, shut / "copy.db")
    (shut / "copy.db").chmod(0)
    done = as_nobody(str(store_path), "doctor", shut / "copy.db")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "readable" in done.stderr


@pytest.fixture
def store_path(path: Path) -> Path:
    """Return a closed file with a run."""
    return made(path)


# -- damage -----------------------------------------------------------------------------------


def test_damaged_pages_are_a_problem(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SQLite says so, and the checks that still can be made are made."""
    made(path, *[{"blob": b"x" * 20_000}] * 20)
    data = bytearray(path.read_bytes())
    for page in range(60, 90):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    checks = examined(capsys, path, "--deep", code=1)
    assert checks["pages"]["verdict"] == "problem"
    assert "backup" in checks["pages"]["remedy"]
    assert checks["runs"]["verdict"] == "problem"


def test_a_file_that_is_cut_off_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a copy that did not end."""
    made(path, *[{"blob": b"x" * 20_000}] * 20)
    os.truncate(path, path.stat().st_size // 2)
    checks = examined(capsys, path, code=1)
    assert "problem" in {check["verdict"] for check in checks.values()}


def test_an_index_that_misses_a_row_is_found_by_a_deep_look(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quick check does not compare indexes with their rows, and says so."""
    made(path, {}, {})
    with closing(sqlite3.connect(path)) as other:
        other.execute("pragma writable_schema = on")
        sql = "update sqlite_schema set sql = replace(sql, '''live''', '''none''')"
        other.execute(f"{sql} where name = 'runs_live'")
        other.commit()
    with closing(sqlite3.connect(path)) as other:
        other.execute("reindex runs_live")
        other.execute("pragma writable_schema = on")
        sql = "update sqlite_schema set sql = replace(sql, '''none''', '''live''')"
        other.execute(f"{sql} where name = 'runs_live'")
        other.commit()
    path.chmod(0o600)
    checks = examined(capsys, path, code=0)
    assert "--deep" in checks["pages"]["told"]
    checks = examined(capsys, path, "--deep", code=1)
    assert checks["pages"]["verdict"] == "problem"
    assert any("runs_live" in item for item in checks["pages"]["items"])


def test_files_damaged_anywhere_come_to_a_verdict(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever bytes are changed: 0, 1 or 2, no traceback, nothing that a terminal obeys."""
    made(path, {}, {"blob": b"x" * 9_000}, {"blob": EVIL.encode() * 500})
    whole, chance, codes = path.read_bytes(), random.Random(4), set()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            data[chance.randrange(chance.choice((200, len(data))))] = chance.randrange(256)
        if chance.random() < 0.2:
            data = data[: chance.randrange(len(data))]
        path.write_bytes(data)
        code = run(["doctor", str(path), *chance.choice(([], ["--deep"], ["--json"]))])
        out, err = capsys.readouterr()
        codes.add(code)
        assert code in (0, 1, 2)
        assert "unexpected" not in err, err
        assert all(line.isprintable() for line in (out + err).split("\n"))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert 1 in codes


# -- runs -------------------------------------------------------------------------------------


def test_runs_that_cannot_be_read_are_named_with_the_reason(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by itself; the others are read. Finished ones are read by a deep look."""
    other = encoded(run_value(**{"run": "other", **CALM}))
    made(
        path,
        {"run_id": "fine"},
        {"run_id": "noise", "blob": b"\x00\xff"},
        {"run_id": "swapped", "blob": other},
        {"run_id": "ended", "blob": b"{", "status": "done"},
        {"run_id": "ended-well", "status": "done"},
    )
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"runs": "problem"}
    assert "2 of 3 live runs" in checks["runs"]["told"]
    noise, swapped = checks["runs"]["items"]
    assert noise.startswith("noise: ")
    assert swapped.startswith("swapped: ")
    assert "another row" in swapped
    checks = examined(capsys, path, "--deep", code=1)
    assert "3 of 5 runs" in checks["runs"]["told"]
    assert any(item.startswith("ended: ") for item in checks["runs"]["items"])


def test_many_bad_runs_are_counted_and_a_few_are_shown(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list in the terminal stays short; the document has more."""
    made(path, *[{"blob": b"no"}] * 9)
    assert run(["doctor", str(path)]) == 1
    out = capsys.readouterr().out
    assert "9 of 9 live runs" in out
    assert out.count("JSON") == bounds.ITEMS_SHOWN_MAX
    assert "and 4 more" in out


def test_a_bound_on_rows_is_told_and_a_deep_look_knows_none(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not looked at is no reason to say that all is well."""
    made(path, *[{}] * 5)
    monkeypatch.setattr("snapshots.inspection.doctor.rows.ROWS_MAX", 3)
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"runs": "warning"}
    assert "first 3" in checks["runs"]["told"]
    assert amiss(examined(capsys, path, "--deep", code=0)) == {}
    monkeypatch.setattr("snapshots.inspection.doctor.rows.ROWS_MAX", 100)
    monkeypatch.setattr("snapshots.inspection.doctor.rows.ROWS_MS_MAX", -1)
    assert amiss(examined(capsys, path, code=0)) == {"runs": "warning"}


def test_a_check_of_pages_that_takes_too_long_is_a_warning(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are still made: each has a time of its own."""
    made(path, *[{"blob": b"x" * 50_000, "status": "done"}] * 200)
    monkeypatch.setattr("snapshots.inspection.doctor.examining.CHECK_MS_MAX", -1)
    checks = examined(capsys, path, code=0)
    assert checks["pages"]["verdict"] == "warning"
    assert set(amiss(checks).values()) == {"warning"}
    assert all("--deep" in checks[name]["remedy"] for name in amiss(checks))
    assert amiss(examined(capsys, path, "--deep", code=1)) == {"runs": "problem"}


def test_effects_in_doubt_are_named_with_their_age(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who must find out what became of them sees which, and since when."""
    made(path, {"run_id": RUN, "blob": encoded(run_value()), "parked": False})
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"in doubt": "warning"}
    (item,) = checks["in doubt"]["items"]
    assert item.startswith(f"{RUN}//asking.1: intended ")
    assert item.endswith(" ago")
    assert "resolve" in checks["in doubt"]["remedy"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arrivals": [{"node": "", "item": {"event": "x"}}]}, "queued"),
        ({"effects": run_value()["effects"][2:3]}, "effect"),
        ({"timers": [{"id": "t", "node": "", "due": 5}]}, "timer"),
        ({"root": CALM["root"] | {"pending": [{"state": "cart"}]}}, "to begin"),
    ],
)
def test_a_row_that_says_it_only_waits_and_does_not_is_a_problem(
    path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], why: str
) -> None:
    """A boot would leave it: it would never go on."""
    made(path, {"run_id": "a", "blob": encoded(run_value(**{"run": "a", **CALM, **changes}))})
    checks = examined(capsys, path, code=1)
    assert checks["parked"]["verdict"] == "problem"
    assert why in checks["parked"]["items"][0]


def test_shapes_that_are_missing_are_a_warning(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each digest once, with its machine."""
    made(path, {}, {}, {"digest": "aaa"})
    with closing(sqlite3.connect(path)) as other:
        other.execute("delete from shapes where digest = ?", (DIGEST,))
        other.commit()
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"shapes": "warning"}
    assert checks["shapes"]["items"] == [f"{DIGEST} of {MACHINE}"]
    assert "2 runs" in checks["shapes"]["told"]


def test_mail_that_waits_is_a_warning_without_a_host(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How much, since when, for which run; what was taken is not counted."""
    with open_store(path, clock=ManualClock()) as store:
        add(store)
        mailbox = Mailbox(store, clock=ManualClock())
        for _ in range(3):
            mailbox.put(RUN, "send", b"{}")
        mailbox.settle([1], "taken")
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {"mailbox": "warning"}
    assert checks["mailbox"]["told"].startswith("2 entries wait, the oldest since ")
    assert checks["mailbox"]["items"] == [f"{RUN}: send"] * 2
    assert "start a host" in checks["mailbox"]["remedy"]


def test_overdue_timers_are_no_wonder_without_a_host(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They fire when one starts."""
    due = [{"id": "t", "node": "", "due": 5}]
    blob = encoded(run_value(**{"run": "a", **CALM, "timers": due}))
    made(path, {"run_id": "a", "blob": blob, "due_ms": 5})
    checks = examined(capsys, path, code=0)
    assert amiss(checks) == {}
    assert checks["timers"]["told"].startswith("1 run has an overdue timer")


def test_nothing_out_of_a_file_is_obeyed_by_a_terminal(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run ids, machines, holders and reasons appear as escapes."""
    made(path, {"machine": EVIL, "digest": EVIL}, {"blob": EVIL.encode()})
    with closing(sqlite3.connect(path)) as other:
        other.execute("update runs set run_id = run_id || ?", (EVIL,))
        other.execute("insert into owner values (1, 3, ?)", (EVIL,))
        other.execute(
            "insert into mailbox values (9, ?, ?, x'', null, 1, null, null)", (EVIL, EVIL)
        )
        other.execute("delete from shapes")
        other.commit()
    assert run(["doctor", str(path)]) == 1
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    assert out.count("\\x1b]0;owned") >= 5


def test_a_file_that_is_not_there_is_told_as_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who mistyped the file reads how to name one, whatever command was called."""
    assert run(["doctor", str(tmp_path / "none.db")]) == 2
    said = capsys.readouterr().err
    assert "there is no such file" in said
    assert "name the file of the runs as FILE" in said


@pytest.mark.parametrize(
    "head", [b"x" * HEAD_BYTES, bytes(HEAD_BYTES), b"1 2 3 4".ljust(HEAD_BYTES)]
)
def test_a_damaged_head_is_a_problem_that_names_its_run(
    path: Path, capsys: pytest.CaptureFixture[str], head: bytes
) -> None:
    """Its run cannot be saved; it hides nothing, and the list goes on."""
    made(path, {}, {})
    with closing(sqlite3.connect(path)) as other:
        other.execute("update runs set head = ? where run_id = 'run-1'", (head,))
        other.commit()
    checks = examined(capsys, path, code=1)
    assert amiss(checks) == {"runs": "problem"}
    assert checks["runs"]["items"] == ["run-1: its head is damaged: no save would find the row"]
    assert run(["runs", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
