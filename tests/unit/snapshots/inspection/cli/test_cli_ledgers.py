"""The commands `snapshots effects`, `timers` and `gates`: of one run, and of all live ones."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.clock import SystemClock
from snapshots.inspection.cli import run
from snapshots.inspection.queries import surveying
from snapshots.inspection.queries.files import open_run_file
from snapshots.inspection.reports.derived import address
from snapshots.inspection.reports.records import WaitReport
from tests.unit.snapshots.inspection.cli.command_line import (
    COMMAND,
    as_nobody,
    command,
    environment,
    on_terminal,
    without_styles,
)
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    effect,
    encoded,
    root_node,
    run_of,
    run_value,
)

MINUTE = 60_000
EVIL = "\x1b]0;owned\x07[bold]x[/]\n\u202e"
NO_TIMER = {"timers": []}


def content(run_id: str, **changes: Any) -> bytes:
    """Return the blob of a run whose effects have ids of its own."""
    value = run_value(run=run_id, **changes)
    for row in value["effects"]:
        row["id"] = row["key"] = f"{run_id}//{row['invoke']}"
    return encoded(value)


def timer(name: str, due_ms: int, **changes: Any) -> dict[str, Any]:
    """Return a timer as a blob holds it."""
    return {"id": name, "node": "", "event": name, "due": due_ms, "seq": 1, **changes}


def add(store: SqliteSnapshotStore, run_id: str, blob: bytes, **changes: Any) -> None:
    """Create a run."""
    fields = {"machine": MACHINE, "digest": DIGEST, "shape": b"{}"}
    store.create(**{**fields, "run_id": run_id, "blob": blob, **changes})


@pytest.fixture
def now_ms() -> int:
    """Return the time at which the test began."""
    return SystemClock().now_ms()


@pytest.fixture
def path(tmp_path: Path, now_ms: int) -> Path:
    """Return a file of four runs: one that only waits, two with effects, one that has ended."""
    path = tmp_path / "runs.db"
    with open_store(path) as store:
        late, soon = now_ms - MINUTE, now_ms + 10 * MINUTE
        timers = [timer("late", late), timer("far", soon + 50 * MINUTE)]
        add(store, "one", content("one", timers=timers), due_ms=late)
        timers = [timer("soon", soon, kwargs={"n": 4}, invoke="review.3", node="asking.2")]
        parked = content("two", effects=[], timers=timers)
        add(store, "two", parked, due_ms=soon, parked=True, machine=MACHINE)
        other = content("six", effects=[effect("asking.1", "failed", error="no")], **NO_TIMER)
        add(store, "six", other.replace(MACHINE.encode(), b"other"), machine="other")
        add(store, "end", content("end"), status="lost")
    return path


def rows(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> list[Any]:
    """Return the rows that a command lists."""
    assert run([*map(str, words), "--json"]) == code
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    document = json.loads(out)
    assert set(document) == {"now_ms", words[0], "more", "unreadable", "runs_read", "whole"}
    return list(document[str(words[0])])


# -- effects --------------------------------------------------------------------------------------


def test_effects_in_doubt_come_first(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all live runs those whose outcome is open, of one run all."""
    found = rows(capsys, "effects", path)
    assert [(one["run"], one["status"]) for one in found] == [
        ("one", "unknown"),
        ("one", "calling"),
        ("one", "intent"),
    ]
    assert [one["status"] for one in rows(capsys, "effects", "end", path)] == [
        "unknown",
        "calling",
        "intent",
        "done",
    ]
    assert set(found[0]) == {
        "run", "machine", "id", "node", "invoke", "kind", "key", "status", "attempt", "idempotent",
        "at_ms", "tail", "error",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--state", "doubt"), ["unknown"]),
        (("--state", "failed", "--state", "done"), ["failed", "done"]),
        (("--state", "failed", "--machine", "other"), ["failed"]),
        (("--machine", "other"), []),
        (("--machine", "\udcff"), []),
    ],
)
def test_effects_are_chosen_by_state_and_machine(
    path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: list[str]
) -> None:
    """Those that nobody asked for are left out; none is exit code 1."""
    found = rows(capsys, "effects", path, *options, code=0 if expected else 1)
    assert [one["status"] for one in found] == expected


def test_a_run_that_only_waits_is_not_read_for_open_effects(path: Path) -> None:
    """Its header says that there are none; for settled ones it is read."""
    read: list[tuple[str, ...]] = []
    for options in ((), ("--state", "done")):
        done = command("effects", path, "--json", *options)
        read.append((json.loads(done.stdout)["runs_read"],))
    assert read == [(2,), (3,)]


# -- timers ---------------------------------------------------------------------------------------


def test_timers_come_overdue_first_then_the_nearest(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Across runs; a run without one is not read."""
    found = rows(capsys, "timers", path)
    assert [(one["run"], one["event"]) for one in found] == [
        ("one", "late"),
        ("two", "soon"),
        ("one", "far"),
    ]
    assert found[0]["left_ms"] < 0 < found[1]["left_ms"]
    assert [one["event"] for one in rows(capsys, "timers", path, "--overdue")] == ["late"]
    assert [one["event"] for one in rows(capsys, "timers", path, "--within", "30m")] == [
        "late",
        "soon",
    ]
    assert [one["event"] for one in rows(capsys, "timers", "two", path)] == ["soon"]
    assert rows(capsys, "timers", "two", path, "--overdue", code=1) == []


def test_the_nearest_timers_are_found_without_reading_the_other_runs(
    tmp_path: Path, now_ms: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header has the time of its run's first one: of forty runs four are read for three rows."""
    path = tmp_path / "many.db"
    with open_store(path) as store:
        for number in range(40):
            due_ms = now_ms + (number * 7 % 40 + 1) * MINUTE
            timers = [timer(f"in-{number * 7 % 40}", due_ms)]
            add(store, f"run-{number}", content(f"run-{number}", timers=timers), due_ms=due_ms)
    assert run(["timers", str(path), "--json", "--limit", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["event"] for one in document["timers"]] == ["in-0", "in-1", "in-2"]
    assert (document["more"], document["runs_read"]) == (True, 4)


# -- gates ----------------------------------------------------------------------------------------


def test_gates_say_what_they_accept(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address that `answer` takes, the events, the meta; a run that ended has none."""
    found = rows(capsys, "gates", path)
    assert [one["run"] for one in found] == ["six", "two", "one"]
    assert found[2] == {
        "run": "one",
        "machine": MACHINE,
        "address": "approval",
        "node": "",
        "id": "review.3",
        "state": "review",
        "key": "approval",
        "events": ["approve", "reject"],
        "meta": {"role": "editor"},
    }
    assert len(rows(capsys, "gates", path, "--accepts", "reject")) == 3
    assert rows(capsys, "gates", path, "--accepts", "rejec", code=1) == []
    assert rows(capsys, "gates", "end", path) == []
    shown = command("gates", "one", path).stdout
    assert "approve, reject" in shown
    assert "state review, meta {'role': 'editor'}" in shown


@pytest.mark.parametrize(
    ("node", "key", "expected"),
    [
        ("", "review", "review"),
        ("", "approval", "approval"),
        ("pay.1", "pay.1/review", "pay.1/review"),
        ("pay.1", "approval", "pay.1/approval"),
    ],
)
def test_a_gate_of_a_child_has_its_charts_path(node: str, key: str, expected: str) -> None:
    """Unless its key has it already, which one that was not given does."""
    gate = WaitReport(kind="gate", node=node, id="review.1", state="review", key=key)
    assert address(gate) == expected


# -- one argument, bounds, what cannot be read ----------------------------------------------------


def test_one_argument_is_a_file_if_it_is_one(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Else it is a run, of the usual file."""
    monkeypatch.setenv("SNAPSHOTS_FILE", str(path))
    monkeypatch.chdir(tmp_path)
    assert [one["run"] for one in rows(capsys, "gates", "one")] == ["one"]
    assert len(rows(capsys, "gates", "runs.db")) == 3
    assert len(rows(capsys, "gates", "./runs.db")) == 3
    for words, said in (
        (["x"], "run 'x' is not in"),
        (["./x"], "no such file"),
        ([""], "is empty"),
    ):
        assert run(["gates", *words]) == 2
        assert said in capsys.readouterr().err


def test_a_run_that_cannot_be_read_is_named_and_hides_no_other(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Across runs on stderr and in the document; named as RUN it is exit code 1."""
    with open_store(path) as store:
        add(store, "bad", b"{")
    assert run(["effects", str(path)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert "run 'bad' cannot be read: not JSON" in err
    assert run(["effects", str(path), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert told["run"] == "bad"
    assert run(["timers", "bad", str(path)]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_bounds_are_said(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many rows, and too many runs: what to do stands on stderr."""
    assert run(["effects", str(path), "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), "raise --limit" in err) == (2, True)
    monkeypatch.setattr(surveying, "SURVEYED_RUNS_MAX", 1)
    assert run(["gates", str(path)]) == 0
    assert "only 1 live runs were read" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(surveying, "SURVEY_MS_MAX", -1)
    assert run(["gates", str(path)]) == 0
    assert "only 1 live runs were read" in capsys.readouterr().err


def test_runs_are_read_one_a_statement(path: Path, now_ms: int) -> None:
    """However many there are, no statement reads more than one blob."""
    seen: list[str] = []
    with open_run_file(path) as file:
        file._database.trace_statements(lambda sql, _: seen.append(sql))
        found = surveying.survey(
            file,
            surveying.RunFilter(statuses=("live",)),
            lambda report: iter(report.effects),
            now_ms=now_ms,
            progress=lambda *_: None,
        )
        file._database.trace_statements(None)
    assert found.runs_read == 3
    assert seen.count(surveying.READ) == 3
    assert all("blob\n" not in sql for sql in seen if sql != surveying.READ)


def test_nothing_out_of_a_blob_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names, keys and values are escaped, as text and as JSON."""
    path = tmp_path / "evil.db"
    with open_store(path) as store:
        blob = encoded(run_of(EVIL, "evil"))
        store.create(run_id="evil", machine=EVIL, digest="d", shape=b"{}", blob=blob, due_ms=1)
    for name in ("effects", "timers", "gates", "runs"):
        for options in ((), ("--json",)):
            assert run([name, str(path), *options]) == 0
            out, err = capsys.readouterr()
            assert "owned" in out
            assert not {"\x1b", "\x07", "\u202e"} & set(out + err)


# -- terminals and copies -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", ["effects", "timers", "gates"])
def test_a_terminal_shows_them_within_its_width(path: Path, name: str, columns: int) -> None:
    """In color, unless `NO_COLOR` says otherwise; piped, each is one line."""
    shown = on_terminal(name, path, columns=columns)
    assert shown != without_styles(shown)
    assert max(map(len, without_styles(shown).splitlines())) <= columns
    plain = on_terminal(name, path, columns=columns, NO_COLOR="1")
    assert plain == without_styles(plain)
    piped = command(name, path)
    assert (piped.returncode, piped.stderr, len(piped.stdout.splitlines())) == (0, "", 4)


@pytest.mark.parametrize("words", [("effects",), ("timers",), ("gates",), ("runs", "--overdue")])
def test_a_copy_that_may_only_be_read_is_enough(
    path: Path, shut: Path, words: tuple[str, ...]
) -> None:
    """In a folder that cannot be written, and nothing is laid there."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("pragma wal_checkpoint(truncate)")
    shutil.copyfile(path, shut / "copy.db")
    (shut / "copy.db").chmod(0o444)
    shut.chmod(0o555)
    done = as_nobody(str(path), *words, shut / "copy.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one" in done.stdout.partition("----")[2]
    assert [entry.name for entry in shut.iterdir()] == ["copy.db"]


def test_a_gate_whose_events_are_no_names_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What another program wrote there is shown as it is."""
    path = tmp_path / "odd.db"
    node = root_node(invokes=[{"id": "g", "kind": "gate", "key": "k", "events": [7, {"a": 1}]}])
    with open_store(path) as store:
        add(store, "odd", content("odd", root=node))
    assert run(["gates", str(path)]) == 0
    assert "7, {'a': 1}" in capsys.readouterr().out


def test_long_work_shows_how_far_it_is_to_who_looks(tmp_path: Path) -> None:
    """On stderr, if that is a terminal, and it is gone in the end; what is piped has none of it."""
    path = tmp_path / "many.db"
    with open_store(path) as store, store.transaction():
        for number in range(300):
            add(store, f"run-{number}", content(f"run-{number}"))
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "effects", str(path)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment(),
    ) as process:
        os.close(terminal)
        assert process.stdout is not None
        out, shown = process.stdout.read(), b""
        with suppress(OSError):  # Linux says so when the other end is closed
            while chunk := os.read(controller, 65_536):
                shown += chunk
    os.close(controller)
    assert process.returncode == 0
    assert b"snapshots: effects 0 %" in shown
    assert b"%" not in shown.rpartition(b"\r\x1b[K")[2]
    assert b"%" not in out


def test_a_copy_with_its_log_does_not_change_and_is_not_watched(path: Path, shut: Path) -> None:
    """How the run stands is told, and that the file itself is the one to watch."""
    with open_store(path) as store:
        store.save(store.load("one").header, content("one"))
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", shut / f"copy.db{suffix}")
    for copied in shut.iterdir():
        copied.chmod(0o444)
    shut.chmod(0o555)
    done = as_nobody(str(path), "watch", "one", shut / "copy.db")
    assert done.returncode == 1
    assert "live, in working" in done.stdout
    assert "a copy does not change: watch the file itself" in done.stderr
