"""The commands that list, watch and sweep under random words and files: 0, 1 or 2, and a line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from snapshots import open_store
from tests.unit.snapshots.inspection.cli.fuzzing import call_with_anything, damaged
from tests.unit.snapshots.inspection.cli.test_cli_fuzz import WORDS
from tests.unit.snapshots.inspection.stored_runs import encoded, run_of, run_value

EVIL = "\x1b]0;owned\x07[bold]x[/]\u202e"
OPTIONS = {
    "runs": ("--status", "--machine", "--since", "--until", "--waiting", "--busy", "--overdue",
             "--limit", "--after", "--json"),
    "effects": ("--state", "--machine", "--limit", "--json"),
    "timers": ("--within", "--overdue", "--machine", "--limit", "--json"),
    "gates": ("--accepts", "--machine", "--limit", "--json"),
    "watch": ("--until", "--machine", "--json"),
    "sweep": ("--dry-run", "--ahead", "--json"),
}  # fmt: skip
VALUES = [
    *("live", "lost", "doubt", "done", "5m", "3d", "2026-11-29", "9w", "0s", "999999999w", "1e3"),
    *("0001-01-01", "9999-12-31T23:59:59.999999+14:00", "-5m", "m", "1", "0", "-1"),
    *("run-1", "evil"),
    *("999999999999999999999", "\u0663d", *WORDS),
]  # fmt: skip
CALLS = 60


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file with runs, one of them full of what a terminal would obey."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state.db"
    with open_store(path) as store:
        fields = {"machine": "m", "digest": "d", "shape": b"{}", "due_ms": 1}
        blob = encoded(run_value() | {"run": "run-1", "machine": "m"})
        store.create(run_id="run-1", blob=blob, **fields)
        store.create(
            run_id="evil", blob=encoded(run_of(EVIL, "evil")), **fields | {"machine": EVIL}
        )
        store.create(run_id="bad", blob=b"{", **fields)
    return path


def words(path: Path, chance: random.Random, number: int) -> list[str]:
    """Return a command with anything behind it; a watcher has no time."""
    name = chance.choice(list(OPTIONS))
    given = [chance.choice(VALUES)] if name != "runs" and chance.random() < 0.5 else []
    place = chance.random()
    if place < 0.9:
        given.append(str(path) if place < 0.5 else damaged(path, chance, number))
    for _ in range(chance.choice((0, 1, 2, 4))):
        option = [chance.choice(OPTIONS[name])]
        if option[0] not in ("--json", "--waiting", "--busy", "--overdue", "--dry-run"):
            option.append(chance.choice(VALUES))
        at = chance.randrange(len(given) + 1)
        given[at:at] = option
    return [name, *(["--timeout", "0"] if name == "watch" else []), *given]


def ends_in_a_line(given: list[str], _out: str, err: str) -> None:
    """Assert that an error ends in its line: a watcher may have told more before."""
    assert err.splitlines()[-1].startswith("snapshots: "), (given, err)
    assert "Traceback" not in err


@pytest.mark.parametrize("seed", range(3))
def test_any_words_and_any_file_come_to_an_exit_code_and_a_line(
    file: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    """No traceback, nothing that a terminal obeys, and an error is one line on stderr."""
    call_with_anything(words, file, capfd, seed, calls=CALLS, refused=ends_in_a_line)
