"""The command `snapshots show`: one run as text, as JSON and as pictures."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from snapshots.inspection.cli import run
from snapshots.inspection.diagram import rendering
from snapshots.store import SqliteSnapshotStore
from snapshots.testing import START_MS
from tests.unit.snapshots.inspection.cli.command_line import command, on_terminal, without_styles
from tests.unit.snapshots.inspection.diagram.diagram_samples import (
    WAITING,
    WAITING_RUN,
    placed,
    shape_of,
)
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SECOND,
    SHAPE,
    add,
    effect,
    encoded,
    root_node,
    run_value,
)


def show(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run `show` in this process, and return what it printed and what it told."""
    assert run(["show", *map(str, arguments)]) == code
    said = capsys.readouterr()
    return said.out, said.err


def section(text: str, title: str) -> list[str]:
    """Return the lines below a title."""
    lines = text.splitlines()
    start = lines.index(title) + 1
    end = next((at for at in range(start, len(lines)) if not lines[at]), len(lines))
    return [line.strip() for line in lines[start:end]]


# -- text --------------------------------------------------------------------------------------


def test_the_chart_shows_what_is_active_and_what_is_open_in_it(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tree of charts has a filled dot at active states, and gates and doubts beside them."""
    text, _ = show(capsys, RUN, store.path)
    assert section(text, "Chart") == [
        "Checkout (active)",
        "├── ○ cart",
        "├── ● working (parallel)",
        "│   ├── ● paying",
        "│   │   ├── ● asking  IN DOUBT: charge  child running",
        "│   │   │   └── Payment asking.2 (active)",
        "│   │   │       ├── ● wait",
        "│   │   │       └── ○ paid (final)",
        "│   │   └── ○ before (history-deep) = asking",
        "│   └── ● review  gate accepts approve, reject  call running  call starting",
        "└── ○ closed (final)",
    ]


def test_what_is_in_doubt_stands_first(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what a run waits for, and of its effects, the one that needs a person is the first."""
    text, _ = show(capsys, RUN, store.path)
    assert section(text, "Waits for")[1].split()[:2] == ["effect", "/asking.1"]
    assert section(text, "Effects")[1].startswith("in doubt")
    assert any("accepts approve, reject, key approval" in x for x in section(text, "Waits for"))


def test_the_trail_is_a_timeline(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step says how long after the one before it came, and which states it changed."""
    trail = [
        [START_MS, "", "", [], ["cart"]],
        [START_MS + 70 * SECOND, "", "go", ["cart"], ["working", "review", "paying"]],
        [START_MS + 71 * SECOND, "", "on", ["working", "review"], ["working", "closed"]],
        [START_MS + 71 * SECOND, "", "stay", ["closed"], ["closed"]],
        [START_MS + 70 * SECOND, "", "back", ["closed"], []],
        [START_MS + 70 * SECOND, "", "error.execution, not taken: KeyError: 'x'", ["a"], ["a"]],
    ]
    add(store, "way", blob=encoded(run_value(run="way", trail=trail)))
    text, _ = show(capsys, "way", store.path)
    told = [" ".join(line.split()[1:]) for line in section(text, "Trail")]
    assert told == [
        "AFTER CHART EVENT STATES",
        "- (root) - - -> cart",
        "+1 m 10 s (root) go cart -> working, review, paying",
        "+1 s (root) on review -> closed",
        "+0 ms (root) stay stays in closed",
        "+0 ms (root) back closed -> -",
        "+0 ms (root) error.execution not taken: KeyError: 'x'; stays in a",
    ]


@pytest.mark.parametrize(("turn", "said"), [([""], False), (["", "asking.2"], True)])
def test_turns_are_told_where_charts_share_them(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str], turn: list[str], said: bool
) -> None:
    """That the only chart has the turn tells a reader nothing."""
    add(store, "turns", blob=encoded(run_value(run="turns", turn=turn)))
    text, _ = show(capsys, "turns", store.path)
    assert ("\nturn " in text) is said


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_it_in_color_and_within_its_width(
    store: SqliteSnapshotStore, columns: int
) -> None:
    """Nothing is lost on a narrow terminal, and what is active or in doubt has its color."""
    text = on_terminal("show", RUN, store.path, columns=columns)
    assert "\x1b[1;32m● asking" in text
    assert "\x1b[1;31mIN DOUBT: charge" in text
    shown = without_styles(text)
    assert max(map(len, shown.splitlines())) <= columns
    words = " ".join(shown.split())
    for part in ("● review gate accepts approve, reject", "Payment asking.2", "cart -> working"):
        assert part in words


def test_no_color_and_a_pipe_are_plain(store: SqliteSnapshotStore) -> None:
    """Neither has an escape sequence, and both have the same lines."""
    plain = on_terminal("show", RUN, store.path, columns=200, NO_COLOR="1")
    piped = command("show", RUN, store.path).stdout
    assert "\x1b" not in plain + piped
    assert "● asking  IN DOUBT: charge  child running" in plain
    assert "● asking  IN DOUBT: charge  child running" in piped


def test_a_shape_that_is_gone_or_damaged_hides_no_run(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Active states are listed, and a note says why no others are; damage is not drawn."""
    with closing(apsw.Connection(store.path)) as other:
        other.execute("update shapes set shape = ?", (encoded(SHAPE | {"transitions": [[]]}),))
        text, _ = show(capsys, RUN, store.path)
        assert "shape.transitions[0] is a list" in section(text, "Chart")[0]
        _, told = show(capsys, RUN, store.path, "--dot", "-", code=1)
        assert told.startswith(f"snapshots: no picture of run '{RUN}': ")
        assert told.count("\n") == 1
        other.execute("update shapes set shape = x'00'")
        text, _ = show(capsys, RUN, store.path)
        assert "cannot be read" in section(text, "Chart")[0]
        other.execute("delete from shapes")
    text, _ = show(capsys, RUN, store.path)
    assert "not stored" in section(text, "Chart")[0]
    assert "├── ● paying" in section(text, "Chart")
    out, _ = show(capsys, RUN, store.path, "--mermaid", "-")
    assert "paying" in out


def test_a_drifted_run_is_shown_by_the_shape_that_wrote_it(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of its chart's code is needed: the shape is in the file."""
    with closing(apsw.Connection(store.path)) as other:
        other.execute("update runs set status = 'drifted', reason = 'x is gone', ended_ms = 1")
    text, _ = show(capsys, RUN, store.path)
    assert "x is gone" in text
    assert "● asking" in text


def test_a_chart_of_200_states_and_a_deep_nest_are_shown(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each state has its line, however many and however deep."""
    wide = shape_of(*(placed(f"s{n}") for n in range(200)))
    add(store, "wide", digest="a", shape=encoded(wide), blob=encoded(run_value(run="wide")))
    deep = shape_of(*(placed(f"s{n}", f"s{n - 1}" if n else None) for n in range(64)))
    root = root_node(configuration=["s63"], invokes=[], children={})
    value = run_value(run="deep", root=root)
    add(store, "deep", digest="b", shape=encoded(deep), blob=encoded(value))
    assert len(section(show(capsys, "wide", store.path)[0], "Chart")) > 200
    assert section(show(capsys, "deep", store.path)[0], "Chart")[-1].endswith("● s63")


def test_a_child_that_is_not_drawn_is_counted(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a pool of many workers the tree has some, those in doubt among them."""
    node = root_node()["children"]["asking.2"]
    root = root_node(children={f"w{n:03}": node for n in range(60)})
    value = run_value(run="pool", root=root, effects=[effect("x.0", "unknown", node="w059")])
    add(store, "pool", blob=encoded(value))
    chart = section(show(capsys, "pool", store.path)[0], "Chart")
    assert "not drawn: 37" in chart[0]
    assert any("Payment w059" in line for line in chart)


# -- pictures ----------------------------------------------------------------------------------


def test_pictures_go_to_files_that_only_their_owner_may_read(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All forms at once; nothing is printed but what was written."""
    names = {"--svg": "a.svg", "--png": "a.png", "--dot": "a.dot", "--mermaid": "a.mmd"}
    options = [part for option, name in names.items() for part in (option, tmp_path / name)]
    out, told = show(capsys, RUN, store.path, *options)
    assert out == ""
    assert told.count("\n") == len(names)
    begins = {"a.svg": b"<svg ", "a.png": b"\x89PNG", "a.dot": b"digraph", "a.mmd": b"stateDiagram"}
    for name, begin in begins.items():
        path = tmp_path / name
        assert path.read_bytes().startswith(begin)
        assert path.stat().st_mode & 0o777 == 0o600
        assert name in told


@pytest.mark.parametrize(
    ("option", "begin"),
    [("--svg", b"<svg "), ("--png", b"\x89PNG"), ("--dot", b"digraph"), ("--mermaid", b"stateD")],
)
def test_a_dash_is_standard_output(
    store: SqliteSnapshotStore,
    capfdbinary: pytest.CaptureFixture[bytes],
    option: str,
    begin: bytes,
) -> None:
    """The picture's bytes alone are there, so that another program can read them."""
    assert run(["show", RUN, str(store.path), option, "-"]) == 0
    said = capfdbinary.readouterr()
    assert said.out.startswith(begin)
    assert said.err == b""


def test_json_and_a_picture_may_be_asked_for_together(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document is printed, the picture lies in its file."""
    out, _ = show(capsys, RUN, store.path, "--json", "--dot", tmp_path / "a.dot")
    assert json.loads(out)["run"]["run"] == RUN
    assert (tmp_path / "a.dot").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dot", "-", "--svg", "-"], "--svg and --dot both go to standard output"),
        (["--json", "--svg", "-"], "--svg and --json both go to standard output"),
        (["--dot", ""], "PICTURE is empty"),
        (["--dot", "x", "--svg", "x"], "two pictures in one file"),
        (["--force"], "--force is for a PICTURE in a file"),
        (["--force", "--dot", "-"], "--force is for a PICTURE in a file"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """One line says what is wrong with the options."""
    out, told = show(capsys, RUN, store.path, *arguments, code=2)
    assert out == ""
    assert said in told
    assert told.count("\n") == 1


def test_a_file_that_exists_is_kept_unless_forced(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A picture replaces a file only if that is said."""
    target = tmp_path / "a.dot"
    target.write_text("mine", "utf-8")
    _, told = show(capsys, RUN, store.path, "--dot", target, code=2)
    assert "--force" in told
    assert target.read_text("utf-8") == "mine"
    show(capsys, RUN, store.path, "--dot", target, "--force")
    assert target.read_text("utf-8").startswith("digraph")


def test_a_picture_never_replaces_the_file_of_runs(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that lacks its value takes the file behind it: that must not cost the runs."""
    for suffix in ("", "-wal", "-shm"):
        target = f"{store.path}{suffix}"
        _, told = show(capsys, RUN, store.path, "--dot", target, "--force", code=2)
        assert "belongs to the file of runs" in told
    show(capsys, RUN, store.path)


def test_without_graphviz_no_picture_of_several_is_written(
    store: SqliteSnapshotStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line names the extra, and no half of what was asked for is left behind."""
    for name in ("PROGRAM", "FALLBACK"):
        monkeypatch.setattr(rendering, name, "no-such-program-here")
    places = [tmp_path / "a.dot", tmp_path / "a.svg"]
    _, told = show(capsys, RUN, store.path, "--dot", places[0], "--svg", places[1], code=2)
    assert "machine-snapshots[console]" in told
    assert told.count("\n") == 1
    assert not any(place.exists() for place in places)


def test_a_run_that_cannot_be_read_has_no_picture(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 1 and one line say why; with --json the document says it too."""
    add(store, "bad", blob=b"{")
    _, told = show(capsys, "bad", store.path, "--dot", tmp_path / "a.dot", code=1)
    assert told.startswith("snapshots: no picture of run 'bad': ")
    assert not (tmp_path / "a.dot").exists()
    out, _ = show(capsys, "bad", store.path, "--json", "--dot", tmp_path / "a.dot", code=1)
    assert json.loads(out)["unreadable"]


def test_time_left_is_in_the_picture(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Timers count from the moment at which the picture is drawn."""
    value = WAITING_RUN | {"run": "timed"}
    add(store, "timed", digest="w", shape=encoded(WAITING), blob=encoded(value))
    out, _ = show(capsys, "timed", store.path, "--mermaid", "-")
    assert "remind, timer overdue by " in out
    assert "timer overdue by " in out.split("c0s1", maxsplit=1)[0]


# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [DIGEST, MACHINE])
def test_a_shape_is_shown_by_its_digest_or_its_machine(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The chart is there without a run, and with what its states will invoke."""
    assert run(["shape", name, str(store.path)]) == 0
    text = capsys.readouterr().out
    assert "├── ○ working (parallel)" in text
    assert "Payment asking.1" in text
    assert run(["shape", name, str(store.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"digest": DIGEST, "shape": SHAPE}
    assert run(["shape", name, str(store.path), "--mermaid", "-"]) == 0
    assert capsys.readouterr().out.startswith("stateDiagram-v2")


def test_of_a_machine_the_newest_shape_is_shown(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two releases it is the later one's; what a state will wait for stands beside it."""
    add(store, "later", digest="w", shape=encoded(WAITING))
    assert run(["shape", MACHINE, str(store.path)]) == 0
    assert "○ asking  gate approve, reject  timeout late" in capsys.readouterr().out


def test_a_shape_that_is_not_there_or_damaged_is_a_no(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and one line that says which."""
    assert run(["shape", "nothing", str(store.path)]) == 1
    assert "no shape with the digest 'nothing'" in capsys.readouterr().err
    add(store, "bad", digest="bad", shape=b"[]")
    assert run(["shape", "bad", str(store.path), "--svg", "-"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("snapshots: shape 'bad': ")
    assert said.err.count("\n") == 1
