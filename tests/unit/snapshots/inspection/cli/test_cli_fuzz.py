"""The command line under random words and random files: 0, 1 or 2, and one line for an error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from snapshots import open_store
from snapshots.inspection.cli.app import call
from tests.unit.snapshots.inspection.cli.fuzzing import call_with_anything, damaged
from tests.unit.snapshots.inspection.stored_runs import encoded, run_value

WORDS = [
    *("\x1b[31mred", "a\u202eb", "\x07", "\ud800", "\n", "\r\rx", "\x9b31m", "\x85", "\u2066x"),
    *("", "0", "-1", "1e999", "nan", "%", "_", "a'b\"c", "$(id)", "`id`", "--", "-x", "..", "/"),
    *("{", "[]", '{"a":1}', '{"$":"object","class":"os.system","v":{}}', "null", "\U0001f600" * 30),
    *("x" * 5_000, "run", "run-1", "/dev/null", "live", "done", "m"),
]
OPTIONS = [
    *("--json", "--status", "--machine", "--limit", "--data", "--delivery", "--wait", "--done"),
    *("--failed", "--again", "--reason", "--machines", "--help", "--bogus"),
]
# How many words each command takes before the file.
COMMANDS = {
    "runs": 0,
    "stats": 0,
    "show": 1,
    "cancel": 1,
    "revive": 1,
    "backup": 1,
    "send": 2,
    "resolve": 2,
    "answer": 3,
    "bogus": 1,
    "--version": 0,
}
CALLS = 300


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file with a run, in the current folder; no command waits for a host."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("snapshots.inspection.cli.mail.OUTCOME_POLL_MS", 0)
    path = tmp_path / "state.db"
    with open_store(path) as store:
        blob = encoded(run_value() | {"run": "run-1", "machine": "m"})
        store.create(run_id="run-1", machine="m", digest="d", shape=b"{}", blob=blob)
    return path


def words(path: Path, chance: random.Random, number: int) -> list[str]:
    """Return a command with anything behind it."""
    name, count = chance.choice(list(COMMANDS.items()))
    given = [name]
    given += [chance.choice(["run-1", chance.choice(WORDS)]) for _ in range(count)]
    choice = chance.random()
    if choice < 0.9:
        given.append(str(path) if choice < 0.4 else damaged(path, chance, number))
    else:
        given.append(chance.choice(WORDS))
    for _ in range(chance.choice((0, 0, 1, 3))):
        given.insert(chance.randrange(1, len(given) + 1), chance.choice(OPTIONS + WORDS))
    return [*given, "--wait", "0"] if count and name not in ("show", "backup", "bogus") else given


@pytest.mark.parametrize("seed", range(2))
def test_any_words_and_any_file_come_to_an_exit_code_and_a_line(
    file: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    """No traceback, nothing that a terminal obeys, and an error is one line on stderr."""
    call_with_anything(words, file, capfd, seed, calls=CALLS)


def test_a_name_too_long_for_any_file_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system refuses to look for it; so does the command, as for any other."""
    assert call(["runs", "x" * 300]) == 2
    assert "unexpected" not in capsys.readouterr().err
