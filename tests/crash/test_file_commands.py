"""Commands of several processes on one file, beside a busy host: each is settled once."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from machines import Host
from snapshots import open_store
from snapshots.inspection.queries.files import open_run_file
from tests.crash.arena import Arena, Contender, arena, runs_of
from tests.crash.contenders import CHARTS, Asks, Notes
from tests.unit.snapshots.inspection.cli.command_line import command

HANDS = 4
"""How many commands run at a time."""
HEAR_S = 0.05
NOTES = 3
WRONG = ("is locked", "is busy", "Traceback")
MAIL = "select run_id, kind, outcome from mailbox order by id"
GATES, ENDS = ("gate-1", "gate-2"), ("end",)


@dataclass(frozen=True)
class Said:
    """What one command came to."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Arena]:
    """Where contenders meet."""
    with arena(tmp_path) as made:
        yield made


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file with runs that wait for a note, an answer, or their end."""
    path = tmp_path / "state.db"
    async with Host(path, CHARTS) as host:
        for run in ("notes", *ENDS):
            await host.start(Notes, run_id=run)
        for run in GATES:
            await host.start(Asks, run_id=run)
    return path


def hammer(
    ring: Arena,
    file: Path,
    commands: list[tuple[str, ...]],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Said]:
    """Run all commands, some at a time, and return what they came to; none may be in the way."""

    def call(arguments: tuple[str, ...]) -> Said:
        done: subprocess.CompletedProcess[str] = command(*arguments, file)
        return Said(arguments, done.returncode, done.stdout, done.stderr)

    with ThreadPoolExecutor(HANDS) as hands:
        calls = [hands.submit(call, arguments) for arguments in commands]
        meanwhile()
        while wait(calls, HEAR_S).not_done:
            ring.hear()
        said = [each.result() for each in calls]
    for each in said:
        assert each.code in (0, 1), each
        assert not any(word in each.out + each.err for word in WRONG), each
    return said


def note(number: int, wait_s: str = "15") -> tuple[str, ...]:
    """Return the command that hands in a note under a delivery."""
    data = json.dumps({"text": str(number)})
    return ("send", "notes", "note", "--data", data, "--delivery", f"d-{number}", "--wait", wait_s)


def codes(said: list[Said], *arguments: str) -> list[int]:
    """Return the exit codes of a command that was given several times, in order."""
    return sorted(each.code for each in said if each.arguments[: len(arguments)] == arguments)


def mail_of(file: Path) -> list[tuple[Any, ...]]:
    """Return run, kind and outcome of all that was handed in."""
    with open_store(file) as store:
        return [tuple(row) for row in store.database.rows("read", MAIL, ())]


def notes_of(file: Path) -> list[str]:
    """Return what the run was told, as its row holds it."""
    with open_run_file(file) as stored:
        noted: list[str] = json.loads(stored.find("notes").blob)["root"]["context"]["notes"]
    return noted


def owned(ring: Arena, file: Path) -> Contender:
    """Return a process whose host has the file and is busy with runs of its own."""
    owner = ring.contender()
    assert owner.asked("own", file, "busy")["at"] == "done"
    return owner


async def test_commands_that_race_beside_a_busy_host_are_settled_once_each(
    ring: Arena, file: Path, tmp_path: Path
) -> None:
    """Notes said twice, gates answered twice, runs ended twice, looks and copies between them.

    Of two that want the same one has it; whoever is told that it was taken finds it in the row.
    """
    owner = owned(ring, file)
    twice = [
        *map(note, range(NOTES)),
        *(("answer", run, "asking", "approve", "--wait", "15") for run in GATES),
        *(("cancel", run, "--wait", "15") for run in ENDS),
    ]
    looks = [("runs", "--json"), ("show", "notes", "--json")]
    target = tmp_path / "copy.db"
    commands = [*twice, *twice, *looks, ("backup", str(target))]
    random.Random(4).shuffle(commands)
    said = hammer(ring, file, commands)
    for number in range(NOTES):
        # Both are told that it is taken, one of them that it was taken before.
        told = [each.out.strip() for each in said if each.arguments == note(number)]
        assert sorted(told) == ["taken", "taken before"]
    for run in (*GATES, *ENDS):
        verb = "answer" if run in GATES else "cancel"
        assert codes(said, verb, run) == [0, 1], [s for s in said if s.arguments[1] == run]
    for look in looks:
        assert codes(said, *look) == [0]
        assert all(json.loads(each.out) for each in said if each.arguments == look)
    assert codes(said, "backup") == [0]
    settle = [("resolve", run, "paying.2", "--done", '"x"', "--wait", "15") for run in GATES * 2]
    resolved = hammer(ring, file, settle)
    for run in GATES:
        assert codes(resolved, "resolve", run) == [0, 1], resolved
    assert owner.asked("leave", file)["at"] == "done"
    mail = mail_of(file)
    assert [entry for entry in mail if entry[2] is None] == []
    taken = Counter((run, kind) for run, kind, outcome in mail if outcome == "taken")
    assert taken == {
        ("notes", "send"): NOTES,
        **{(run, kind): 1 for run in GATES for kind in ("answer", "resolve")},
        **{(run, "cancel"): 1 for run in ENDS},
    }
    assert sorted(notes_of(file)) == sorted(str(number) for number in range(NOTES))
    assert len(notes_of(file)) == NOTES
    assert set(owner.started) <= set(runs_of(file))
    with open_run_file(target) as copy:
        assert copy.find("notes").header.run_id == "notes"


async def test_what_commands_hand_in_while_hosts_are_killed_and_follow_each_other_is_taken_once(
    ring: Arena, file: Path
) -> None:
    """Accepted with no host, with one that dies, or while the next one starts: each note once."""
    owner = owned(ring, file)

    def succeed() -> None:
        nonlocal owner
        for _ in range(2):
            following = ring.contender()
            owner.kill()
            owner = following
            assert owner.asked("own", file, "busy")["at"] == "done"

    said = hammer(ring, file, [note(number, wait_s="0") for number in range(NOTES)], succeed)
    assert all(each.code == 0 for each in said), said
    # Said again, and waited for: taken before, all of them.
    again = hammer(ring, file, [note(number) for number in range(NOTES)])
    assert {each.out.strip() for each in again} <= {"taken before"}, again
    assert owner.asked("leave", file)["at"] == "done"
    assert sorted(notes_of(file)) == sorted(str(number) for number in range(NOTES))
    assert [entry for entry in mail_of(file) if entry[2] is None] == []
