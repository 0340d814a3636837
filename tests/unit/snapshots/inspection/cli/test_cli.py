"""The command `snapshots` on real files that another connection holds open."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from snapshots.errors import StorageError
from snapshots.inspection import open_run_file
from snapshots.inspection.cli import run
from snapshots.inspection.cli.runs import RunStatus
from snapshots.inspection.printable import moment
from snapshots.inspection.queries.listing import RunFilter, list_runs
from snapshots.opening import open_store
from snapshots.records import STATUSES
from snapshots.store import SqliteSnapshotStore
from tests.unit.snapshots.inspection.cli.command_line import (
    COMMAND,
    as_nobody,
    command,
    environment,
    on_terminal,
    without_styles,
)
from tests.unit.snapshots.inspection.stored_runs import (
    MACHINE,
    RUN,
    add,
    encoded,
    run_of,
    run_value,
)

EVIL = "\x1b]0;owned\x07[bold]x[/]\n\u202e"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must fail, and return its one line."""
    assert run([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return one_line(said.err)


def one_line(text: str) -> str:
    """Return the only line of what stderr got."""
    assert text.startswith("snapshots: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text.removesuffix("\n")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """Run a command that must print, and return what it printed."""
    assert run([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out


# -- what is printed ---------------------------------------------------------------------------


def test_a_live_file_is_read_from_another_process(store: SqliteSnapshotStore) -> None:
    """While the file is open elsewhere, its runs are listed and shown."""
    listed = command("runs", store.path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.splitlines()[1].split()[:3] == [RUN, "live", MACHINE]
    shown = command("show", RUN, store.path)
    assert (shown.returncode, shown.stderr) == (0, "")
    for part in (
        "● paying",
        "○ cart",
        "Payment asking.2",
        "in doubt",
        "accepts approve, reject, key approval",
        "remind, policy remaining",
        "Decimal('1.20')",
        "cart -> working, paying, asking, review",
    ):
        assert part in shown.stdout


def test_the_newest_commit_is_seen(store: SqliteSnapshotStore) -> None:
    """What was committed before the command started is what it shows."""
    header = store.resolve(RUN) and store.load(RUN).header
    store.save(header, encoded(run_value(step=4711)), status="done")
    shown = command("show", RUN, store.path).stdout
    assert "4711" in shown
    assert "done" in shown.splitlines()[2]


def test_runs_come_newest_first(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list begins with the run that was created last."""
    for number in range(3):
        add(store, f"run-{number}")
    lines = answer(capsys, "runs", store.path).splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["run-2", "run-1", "run-0", RUN]


def test_status_and_machine_narrow_the_list(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option alone and both together; 1 says that none matches."""
    add(store, "b", machine="other")
    add(store, "c", machine="other", status="lost", reason="its session is gone")

    def listed(*options: str, code: int = 0) -> list[str]:
        out = answer(capsys, "runs", store.path, "--json", *options, code=code)
        return [found["run"] for found in json.loads(out)["runs"]]

    assert listed("--status", "live") == ["b", RUN]
    assert listed("--machine", "other") == ["c", "b"]
    assert listed("--machine", "other", "--status", "lost") == ["c"]
    assert listed("--machine", "other", "--status", "live") == ["b"]
    assert listed("--status", "done", code=1) == []
    assert listed("--machine", "nobody", code=1) == []
    assert listed("--machine", "\udcff", code=1) == []


def test_a_limit_says_that_there_are_more(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the number of runs nothing is missing; one below, the command says so."""
    add(store, "b")
    assert json.loads(answer(capsys, "runs", store.path, "--json", "--limit", "2"))["more"] is False
    assert json.loads(answer(capsys, "runs", store.path, "--json", "--limit", "1"))["more"] is True
    assert run(["runs", store.path, "--limit", "1"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert "--limit" in one_line(said.err)


def test_a_file_without_runs_is_no_error(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody asked for a run in particular, so none is an answer."""
    with open_store(path):
        assert answer(capsys, "runs", path) == "no runs\n"


def test_every_status_can_be_asked_for() -> None:
    """The command line knows the statuses that a row can have."""
    assert [status.value for status in RunStatus] == list(STATUSES)


def test_json_has_the_promised_names(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document; whoever parses it can rely on these names."""
    header = {
        "run", "machine", "digest", "status", "reason", "saves", "created_ms", "updated_ms",
        "ended_ms", "due_ms", "parked",
    }  # fmt: skip
    listed = json.loads(answer(capsys, "runs", store.path, "--json"))
    assert set(listed) == {"now_ms", "runs", "more", "next"}
    assert set(listed["runs"][0]) == header
    shown = json.loads(answer(capsys, "show", RUN, store.path, "--json"))
    assert set(shown) == {
        "now_ms", "run", "unreadable", "step", "input", "error", "turn", "waits", "effects",
        "timers", "queue", "children", "trail", "deliveries", "mail", "ledgers", "chart",
    }  # fmt: skip
    assert set(shown["run"]) == header
    assert set(shown["chart"]) == {
        "path", "name", "engine", "status", "started", "configuration", "shaped", "states",
        "history", "model", "context", "attributes", "output", "error", "invokes", "queue",
        "children",
    }  # fmt: skip
    assert set(shown["waits"][0]) == {
        "kind", "node", "id", "state", "status", "key", "events", "meta", "due_ms", "left_ms",
    }  # fmt: skip
    assert set(shown["effects"][0]) == {
        "id", "node", "invoke", "kind", "key", "status", "attempt", "idempotent", "at_ms", "tail",
        "error",
    }  # fmt: skip
    assert set(shown["timers"][0]) == {
        "id", "node", "event", "send_id", "due_ms", "left_ms", "policy", "invoke", "args", "kwargs",
    }  # fmt: skip
    assert set(shown["trail"][0]) == {"at_ms", "node", "event", "sources", "targets"}
    assert shown["chart"]["context"]["amount"] == {"$": "decimal", "v": "1.20"}
    assert shown["run"]["due_ms"] is None
    assert shown["children"] == ["asking.2"]


def test_a_long_ledger_is_shown_by_its_end(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text shows the newest rows and how many are left out; JSON shows all."""
    trail = [[1, "", f"event-{n}", ["a"], ["b"]] for n in range(50)]
    add(store, "long", blob=encoded(run_value(run="long", trail=trail)))
    shown = answer(capsys, "show", "long", store.path)
    assert "event-49" in shown
    assert "event-29 " not in shown
    assert "and 30 earlier: --json shows all" in shown
    assert len(json.loads(answer(capsys, "show", "long", store.path, "--json"))["trail"]) == 50


# -- which run, which file ---------------------------------------------------------------------


def test_a_unique_prefix_names_a_run(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """As little of an id as makes it clear."""
    add(store, "0200-other")
    assert RUN in answer(capsys, "show", RUN[:4], store.path)


def test_an_ambiguous_prefix_is_refused_with_its_candidates(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names what it could have been."""
    add(store, "0199-other")
    said = refusal(capsys, "show", "0199", store.path)
    assert RUN in said
    assert "0199-other" in said


def test_a_whole_id_wins_over_longer_ones(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """An id that other ids begin with can still be named."""
    add(store, f"{RUN}-more")
    assert json.loads(answer(capsys, "show", RUN, store.path, "--json"))["run"]["run"] == RUN


@pytest.mark.parametrize("unknown", ["9", f"{RUN}x", "%", "_", "\udcff", RUN.upper()])
def test_an_unknown_run_is_refused(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str], unknown: str
) -> None:
    """No pattern, no other case, no half of a character names a run."""
    assert "is not in" in refusal(capsys, "show", unknown, store.path)


def test_the_file_comes_from_the_argument_the_variable_or_the_folder(
    store: SqliteSnapshotStore,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """FILE, else $SNAPSHOTS_FILE, else ./state.db."""
    monkeypatch.delenv("SNAPSHOTS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "SNAPSHOTS_FILE" in refusal(capsys, "runs")
    with open_store(tmp_path / "state.db") as here:
        add(here, "here")
        assert "here" in answer(capsys, "runs")
        monkeypatch.setenv("SNAPSHOTS_FILE", store.path)
        assert RUN in answer(capsys, "runs")
        assert "here" in answer(capsys, "runs", tmp_path / "state.db")
        monkeypatch.setenv("SNAPSHOTS_FILE", "")
        assert "here" in answer(capsys, "runs")


# -- what cannot be read -----------------------------------------------------------------------


def test_a_missing_file_is_refused_and_not_made(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Looking never creates."""
    assert "no such file" in refusal(capsys, "runs", path)
    assert not list(path.parent.iterdir())


def test_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is no file of runs."""
    assert "it is a folder" in refusal(capsys, "runs", tmp_path)


@pytest.mark.parametrize("content", [b"", b"short", b"no database " * 100], ids=len)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Empty, too short, no SQLite: refused, and not a byte is changed."""
    path.write_bytes(content)
    assert "name a file of this program" in refusal(capsys, "runs", path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite, but not ours, even where it has a table of our name."""
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("create table runs (id integer primary key)")
    assert "application_id 0x0" in refusal(capsys, "show", "x", path)


def test_a_file_of_a_later_release_is_refused_by_name(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its schema is newer than what this release knows."""
    with open_store(path) as store:
        add(store)
    with closing(sqlite3.connect(path)) as later:
        later.execute("pragma user_version = 99")
    assert "has schema 99" in refusal(capsys, "runs", path)


def test_a_torn_file_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages overwritten with noise are an error in one line, not a crash."""
    with open_store(path) as store:
        for number in range(50):
            add(store, f"run-{number}")
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)
    assert "damaged" in refusal(capsys, "runs", path)


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"{", "not JSON"),
        (encoded(run_value(v=2)), "format 1"),
        (encoded(run_value(run="another")), "another row"),
        (encoded(run_value(timers=7)), "timers is a number, expected a list"),
    ],
)
def test_a_damaged_blob_is_unreadable_and_its_header_is_shown(
    path: Path, capsys: pytest.CaptureFixture[str], blob: bytes, reason: str
) -> None:
    """The run stays in the list; showing it gives the header, the reason, and exit code 1."""
    with open_store(path) as store:
        add(store, blob=blob)
        assert RUN in answer(capsys, "runs", path)
        shown = answer(capsys, "show", RUN, path, code=1)
        document = json.loads(answer(capsys, "show", RUN, path, "--json", code=1))
    assert MACHINE in shown
    assert "unreadable: " in shown
    assert reason in shown
    assert reason in document["unreadable"]
    assert document["run"]["run"] == RUN


def test_what_json_cannot_nest_is_unreadable(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value nested beyond what a document can hold leaves the header, not an error."""
    deep = encoded(run_value()).replace(b'"fragile"', b"[" * 500 + b"]" * 500)
    with open_store(path) as store:
        add(store, blob=deep)
        assert "Chart" in answer(capsys, "show", RUN, path)
        document = json.loads(answer(capsys, "show", RUN, path, "--json", code=1))
    assert document["unreadable"]


def test_damaged_text_in_one_row_hides_no_other(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """An id that is no UTF-8 any more is listed with escapes, and can be shown by its beginning."""
    add(store, "0200-torn")
    with closing(apsw.Connection(store.path)) as damage:
        damage.execute(
            "update runs set run_id = cast(x'30323030ff' as text) where run_id = '0200-torn'"
        )
    listed = answer(capsys, "runs", store.path)
    assert r"0200\xff" in listed
    assert RUN in listed
    assert "unreadable" in answer(capsys, "show", "0200", store.path, code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["show"], "RUN"),
        (["show", ""], "RUN is empty"),
        (["runs", "--status", "dead"], "dead"),
        (["runs", "--limit", "0"], "limit"),
        (["runs", "--limit", "many"], "integer"),
        (["runs", "a", "b"], "b"),
        (["--nonsense"], "nonsense"),
        (["runs", "--mach\x1b[31mine"], r"\x1b[31m"),
    ],
)
def test_bad_usage_is_one_line_that_names_the_help(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """What was wrong, and where to read what is right."""
    line = refusal(capsys, *arguments)
    assert said in line
    assert line.endswith("--help")


# -- terminals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_of_any_width_shows_everything(store: SqliteSnapshotStore, columns: int) -> None:
    """No line is longer than the terminal, and what is wrapped is not lost."""
    reason = "state 'review' is gone and " * 8 + "that is all"
    add(store, "drifted-run", status="drifted", reason=reason)
    for arguments in (("runs",), ("show", RUN), ("show", "drifted-run")):
        text = on_terminal(*arguments, store.path, columns=columns)
        shown = without_styles(text)
        assert max(map(len, shown.splitlines())) <= columns
        assert "\x1b[" in text
        words = " ".join(shown.split())
        for part in (RUN,) if arguments == ("show", RUN) else ("drifted-run", "that is all"):
            assert part in words


@pytest.mark.parametrize("columns", [80, 200])
def test_what_is_searched_for_is_never_broken_at_a_line_end(
    store: SqliteSnapshotStore,
    capsys: pytest.CaptureFixture[str],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ids and times stand whole on one line, at any width, and each run takes few lines."""
    monkeypatch.setenv("COLUMNS", str(columns))
    header = store.load(RUN).header
    add(store, f"{RUN[:-1]}0", machine="onboarding-of-customers")
    lines = answer(capsys, "runs", store.path).splitlines()
    assert len(lines) <= 6
    shown = answer(capsys, "show", RUN, store.path).splitlines()
    assert any(RUN in line for line in lines)
    assert any(moment(header.updated_ms) in line for line in lines)
    assert any("2026-01-01T00:04:15.000Z" in line for line in shown)


def test_no_color_means_no_escape(store: SqliteSnapshotStore) -> None:
    """On a terminal with NO_COLOR, or a dumb one, the text is plain."""
    for chosen in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        text = on_terminal("show", RUN, store.path, columns=100, **chosen)
        assert "● paying" in text
        assert "\x1b" not in text


def test_a_pipe_gets_plain_lines_that_are_not_wrapped(store: SqliteSnapshotStore) -> None:
    """Whatever asks for color, one run is one line, however long its reason is."""
    add(store, "drifted-run", status="drifted", reason="gone " * 60 + "end")
    listed = command("runs", store.path, FORCE_COLOR="1", TTY_COMPATIBLE="1").stdout
    assert "\x1b" not in listed
    assert len(listed.splitlines()) == 3
    assert listed.splitlines()[1].endswith("gone end")


def test_columns_decides_the_width_of_a_pipe(store: SqliteSnapshotStore) -> None:
    """Who sets COLUMNS gets lines of that width."""
    for columns in (80, 200):
        shown = command("show", RUN, store.path, COLUMNS=str(columns)).stdout
        assert max(map(len, shown.splitlines())) <= columns


def test_ascii_output_draws_in_ascii(store: SqliteSnapshotStore) -> None:
    """Where the encoding knows no lines and dots the tree has none, and no name is lost."""
    value = run_value(run="ascii", input={"city": "Köln"}, deliveries=[])
    add(store, "ascii", blob=encoded(value))
    shown = command("show", "ascii", store.path, PYTHONIOENCODING="ascii").stdout
    assert "* paying" in shown
    assert "- cart" in shown
    assert "|-- " in shown
    assert r"K\xf6ln" in shown


def test_a_reader_that_has_seen_enough_is_no_error(store: SqliteSnapshotStore) -> None:
    """`snapshots show RUN | head` ends quietly, even where `head` is gone before it starts."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*COMMAND, "show", RUN, store.path],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        os.close(writing)
        os.close(reading)
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


# -- text that wants to be obeyed --------------------------------------------------------------


@pytest.fixture
def evil(path: Path) -> Path:
    """Write a file of an ended and a live run whose every text tries to reach the terminal."""
    with open_store(path) as store:
        for status in ("error", "live"):
            reason = EVIL if status == "error" else None
            add(store, status, machine=EVIL, digest=EVIL, status=status, reason=reason)
    # No id like these gets past the store, so they are written behind its back.
    with closing(sqlite3.connect(path)) as file:
        for status in ("error", "live"):
            run_id = f"{status}{EVIL}"
            values = (run_id, encoded(run_of(EVIL, run_id)), status)
            file.execute("update runs set run_id = ?, blob = ? where status = ?", values)
        file.commit()
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs",),
        ("runs", "--json"),
        ("show", "error"),
        ("show", "live"),
        ("show", "error", "--json"),
    ],
)
def test_nothing_out_of_a_file_is_obeyed(evil: Path, arguments: tuple[str, ...]) -> None:
    """Escape sequences, line ends, direction marks and markup are shown as what they are."""
    done = command(*arguments, evil)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace("\n", "").isprintable()
    assert "[bold]x[/]" in done.stdout


def test_a_terminal_gets_no_sequence_but_our_own(evil: Path) -> None:
    """What is left once our styles are taken off is printable, at any width."""
    for columns in (80, 200):
        for arguments in (("runs",), ("show", "live")):
            text = without_styles(on_terminal(*arguments, evil, columns=columns))
            assert text.replace("\n", "").isprintable()
            assert "[bold]x[/]" in text.replace("\n", "").replace(" ", "")


def test_names_in_an_error_are_shown_not_obeyed(
    evil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The candidates of a prefix come out of the file as well."""
    with closing(sqlite3.connect(evil)) as file:
        file.execute("update runs set run_id = 'error' || run_id where status = 'live'")
        file.commit()
    assert r"\x1b]0;owned\x07" in refusal(capsys, "show", "error", evil)


# -- beside a writer ---------------------------------------------------------------------------


def test_reading_never_keeps_a_writer_waiting(store: SqliteSnapshotStore, path: Path) -> None:
    """Beside an open read transaction every save commits, and the reader sees one moment."""
    header = store.load(RUN).header
    with open_run_file(path) as file:
        connection = file._database.connection
        connection.execute("begin")
        before = file.find(RUN).header.revision
        for step in range(300):
            header = store.save(header, encoded(run_value(step=step)))
        assert file.find(RUN).header.revision == before
        connection.execute("commit")
        assert file.find(RUN).header.revision == header.revision


def test_a_command_beside_a_busy_writer_neither_waits_nor_disturbs(
    store: SqliteSnapshotStore,
) -> None:
    """Commands run while saves go on without an error, and see whole runs."""
    header = store.load(RUN).header
    saves = 0
    with subprocess.Popen(
        [*COMMAND, "show", RUN, store.path, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        while process.poll() is None:
            header = store.save(header, encoded(run_value(step=saves)))
            saves += 1
        assert process.stdout is not None
        shown = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert saves > 0
    assert shown["step"] == shown["run"]["saves"] - 2


def test_listing_reads_no_blob(store: SqliteSnapshotStore, path: Path) -> None:
    """SQLite is asked which columns a statement reads: the blob is none of them."""
    add(store, "ended", status="done")
    read: set[tuple[str | None, str | None]] = set()

    def note(_action: int, table: str | None, column: str | None, *_: object) -> int:
        read.add((table, column))
        return 0

    with open_run_file(path) as file:
        connection = file._database.connection
        connection.authorizer = note
        for statuses in ((), ("live",), ("done",)):
            for machine in (MACHINE, None):
                chosen = RunFilter(statuses=statuses, machine=machine)
                assert list_runs(file, chosen, rows_max=10).headers
        assert ("runs", "status") in read
        assert ("runs", "blob") not in read
        file.find(RUN)
        assert ("runs", "blob") in read
        connection.authorizer = None


def test_nothing_can_be_written(store: SqliteSnapshotStore, path: Path) -> None:
    """The connection refuses to write, whoever asks."""
    with open_run_file(path) as file:
        database = file._database
        with pytest.raises(StorageError), database.transaction("write"):
            database.run("delete from runs")
    assert store.load(RUN).header.status == "live"


def test_a_question_that_takes_too_long_is_given_up(path: Path) -> None:
    """It is a typed error that says what to do, and the next question is answered."""
    with open_store(path) as store:
        with store.transaction():
            for number in range(2_000):
                add(store, f"run-{number}", blob=b"{}")
        with open_run_file(path, read_ms_max=-1) as file:
            with pytest.raises(StorageError, match=r"more than -1 ms.*lower --limit"):
                list_runs(file, RunFilter(machine="nobody"), rows_max=10)
            assert file.find("run-1999").header.run_id == "run-1999"


# -- copies ------------------------------------------------------------------------------------


def test_a_copy_in_a_folder_that_cannot_be_written_is_read_where_it_lies(
    store: SqliteSnapshotStore, path: Path, shut: Path
) -> None:
    """Without a log it is read as it is, and nothing is laid beside it."""
    store.save(store.load(RUN).header, encoded(run_value()))
    with closing(apsw.Connection(str(path))) as file:
        file.pragma("user_version")  # one that has read nothing knows of no log
        file.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
    shutil.copyfile(path, shut / "copy.db")
    (shut / "copy.db").chmod(0o444)
    shut.chmod(0o555)
    done = as_nobody(store.path, "show", RUN, shut / "copy.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert RUN in done.stdout.partition("----")[2]
    assert [entry.name for entry in shut.iterdir()] == ["copy.db"]


def test_a_copy_with_its_log_is_copied_once_more_and_the_command_says_so(
    store: SqliteSnapshotStore, path: Path, shut: Path
) -> None:
    """What only the log holds is shown, from a copy that is gone afterwards."""
    store.save(store.load(RUN).header, encoded(run_value(step=4711)))
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", shut / f"copy.db{suffix}")
        (shut / f"copy.db{suffix}").chmod(0o444)
    shut.chmod(0o555)
    done = as_nobody(store.path, "show", RUN, shut / "copy.db")
    assert done.returncode == 0
    assert "4711" in done.stdout
    assert "copy of it and its -wal" in one_line(done.stderr)
    assert sorted(entry.name for entry in shut.iterdir()) == ["copy.db", "copy.db-wal"]


def test_a_file_that_may_not_be_read_is_refused(store: SqliteSnapshotStore, shut: Path) -> None:
    """Rights that are missing are an error in one line."""
    shutil.copyfile(store.path, shut / "copy.db")
    (shut / "copy.db").chmod(0)
    shut.chmod(0o555)
    done = as_nobody(store.path, "runs", shut / "copy.db")
    assert done.returncode == 2
    one_line(done.stderr)


# -- the program -------------------------------------------------------------------------------


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names the commands, with and without being asked for."""
    for arguments in ([], ["--help"]):
        said = answer(capsys, *arguments)
        assert "runs" in said
        assert "show" in said


def test_the_version_is_printed() -> None:
    """`--version` names the distribution and exits well."""
    done = command("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("machine-snapshots ")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_names_it(missing: str) -> None:
    """The command exists wherever the package does, and says what it lacks."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['runs'];"
        "from snapshots.inspection.cli import main; main()"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", code],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=environment(),
        timeout=25,
    )
    assert done.returncode == 2
    assert 'pip install "machine-snapshots[cli]"' in one_line(done.stderr)


def test_looking_needs_no_extra() -> None:
    """The package is imported and read with neither typer nor rich."""
    code = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None;"
        "import snapshots.inspection, snapshots.inspection.cli"
    )
    subprocess.run([COMMAND[0], "-c", code], check=True, env=environment(), timeout=25)
