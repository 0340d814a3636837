"""The command line under random words and random files: 0, 1 or 2, and one line for an error."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from snapshots import open_store
from snapshots.inspection.cli.app import call
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
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CALLS = 70


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


def damaged(path: Path, chance: random.Random, number: int) -> str:
    """Return the name of another file: noise, or this one with bytes changed or cut off."""
    data = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        data = bytearray(chance.randbytes(chance.choice((0, 1, 100, 5_000))))
    for _ in range(chance.choice((1, 3, 30)) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.3:
        data = data[: len(data) // 2]
    other = path.with_name(f"damaged-{number}.db")
    other.write_bytes(data)
    if chance.random() < 0.3:
        path.with_name(f"{other.name}-wal").write_bytes(chance.randbytes(5_000))
    return str(other)


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
    chance, codes = random.Random(seed), Counter[int]()
    for number in range(CALLS):
        given = words(file, chance, number)
        code = call(given)
        out, err = capfd.readouterr()
        assert code in (0, 1, 2), given
        assert "unexpected error" not in err, (given, err)
        assert not OBEYED.search(out), given
        assert not OBEYED.search(err), given
        if code == 2:
            assert (out, err.count("\n")) == ("", 1), (given, err)
        codes[code] += 1
    assert codes.keys() == {0, 1, 2}


def test_a_name_too_long_for_any_file_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system refuses to look for it; so does the command, as for any other."""
    assert call(["runs", "x" * 300]) == 2
    assert "unexpected" not in capsys.readouterr().err
