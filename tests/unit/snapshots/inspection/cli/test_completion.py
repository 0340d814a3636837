"""What a shell completes: commands, options, and ids of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshots import open_store
from snapshots.inspection.cli.completing import complete_run
from snapshots.inspection.limits import COMPLETION_RUNS_MAX
from tests.unit.snapshots.inspection.cli.command_line import command


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the usual file, with more runs than are completed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAPSHOTS_FILE", raising=False)
    path = tmp_path / "state.db"
    with open_store(path) as store, store.transaction():
        names = [f"run-{number:03}" for number in range(COMPLETION_RUNS_MAX + 10)]
        for name in (*names, "other", "two words", "$(id)"):
            store.create(run_id=name, machine="door", digest="d", shape=b"{}", blob=b"{}")
    return path


def complete(path: Path, words: str) -> list[str]:
    """Return what a shell would be offered for the last of some words."""
    typed = f"snapshots {words}"
    done = command(
        cwd=path.parent,
        _SNAPSHOTS_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split(" ")) - 1),
    )
    assert done.returncode == 0
    return done.stdout.split()


def test_commands_and_options_are_completed(path: Path) -> None:
    """By the program itself, which the shell asks."""
    assert complete(path, "eff") == ["effects"]
    assert "--overdue" in complete(path, "runs --over")


def test_ids_of_runs_are_completed(path: Path) -> None:
    """Those of the usual file, for each command that takes a run."""
    for words in ("gates oth", "runs --after oth", "show oth", "send oth", "watch oth"):
        assert complete(path, words) == ["other"]


def test_the_newest_ids_come_first_and_not_too_many(path: Path) -> None:
    """Each with its status and machine."""
    found = complete_run("run-")
    assert len(found) == COMPLETION_RUNS_MAX
    assert found[0] == (f"run-{COMPLETION_RUNS_MAX + 9:03}", "live door")


@pytest.mark.parametrize("typed", ["two", "$", "nobody", "\udcff"])
def test_what_a_shell_could_take_for_more_than_a_word_is_left_out(path: Path, typed: str) -> None:
    """Nothing that would have to be quoted is offered."""
    assert complete_run(typed) == []


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_where_nothing_can_be_read_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """No file, or another program's: no error amid what is typed, and no file is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAPSHOTS_FILE", raising=False)
    if content is not None:
        (tmp_path / "state.db").write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert complete_run("") == []
    assert sorted(tmp_path.iterdir()) == before


def test_a_shell_can_be_given_its_script() -> None:
    """For each that is known, which asks this program."""
    for shell in ("bash", "zsh", "fish"):
        done = command("--show-completion", shell)
        assert (done.returncode, "_SNAPSHOTS_COMPLETE" in done.stdout) == (0, True)
