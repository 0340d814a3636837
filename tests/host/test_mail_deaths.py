"""The mailbox between real processes: killed hosts, stopped ones, and commands that race."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machines import Host
from snapshots.clock import SystemClock
from tests.host import life, mail_life
from tests.host.letterbox import Letterbox
from tests.host.world import Outside, World, ended
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, ROOT, command, environment

PATIENCE_S = 20.0


def wait_until(holds: Callable[[], Any], what: str) -> None:
    """Wait for another process, generously; fail if it never comes about."""
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end_s:
            pytest.fail(f"{what} did not come about")
        time.sleep(0.002)


def stall(process: subprocess.Popen[bytes]) -> None:
    """Have a process stand still, and return once it does."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


class Place:
    """A file, the log of what happened around it, and the processes that live on it."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "state.db", SystemClock(), Outside())  # type: ignore[arg-type]  # real processes have real time
        self.log = life.Log()
        self.log.path = str(folder / "log")

    @property
    def path(self) -> Path:
        """The file."""
        return self.world.path

    async def start(self, *runs: tuple[str, Any]) -> None:
        """Start runs, with a host that is gone afterwards."""
        async with self.host() as host:
            for run, chart in runs:
                await host.start(chart, run_id=run)

    def host(self, **options: Any) -> Host:
        """Return a host in this process."""
        return self.world.host(*mail_life.CHARTS, **options)

    @contextmanager
    def living(self, moment: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Have a host in a process of its own; it is killed in the end, if it has not died."""
        ups = len(self.log.lines("up"))
        arguments = [sys.executable, "-m", "tests.host.mail_life", moment]
        process = subprocess.Popen(
            [*arguments, str(self.path), self.log.path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        with process:
            try:
                wait_until(
                    lambda: len(self.log.lines("up")) > ups or process.poll() is not None, "a host"
                )
                yield process
            finally:
                process.kill()
                said = process.communicate()[0].decode()
        assert "Traceback" not in said, said

    def dies(self, moment: str) -> None:
        """Live until the line that the moment is named by, and die there of SIGKILL."""
        with self.living(moment) as process:
            assert process.wait(PATIENCE_S) == -signal.SIGKILL

    def sees(self, lines: int, process: subprocess.Popen[bytes], act: Callable[[], None]) -> None:
        """Do something again and again until a host has said so many lines more."""
        wanted = len(self.log.lines()) + lines
        while len(self.log.lines()) < wanted:
            assert process.poll() is None
            act()
            time.sleep(0.001)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the file."""
        return command(*arguments, self.path)

    def calling(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a command on the file."""
        return subprocess.Popen(
            [*COMMAND, *arguments, str(self.path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def notes(self, run: str) -> list[str]:
        """Return what a run has noted, as its row holds it."""
        found: list[str] = self.world.blob(run)["root"].get("context", {}).get("notes", [])
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place; what hosts in this process do is in the same log."""
    made = Place(tmp_path)
    monkeypatch.setattr(life, "LOG", made.log)
    return made


@pytest.fixture
def box(place: Place) -> Iterator[Letterbox]:
    """Return the way into the mailbox of the place's file."""
    with Letterbox(place.world) as opened:
        yield opened


ACCEPTED = "accepted as 1; it waits for a host\n"


# -- deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", [mail_life.Notes, mail_life.Thinks])
async def test_an_event_is_taken_once_if_its_host_dies_before_the_save(
    place: Place, box: Letterbox, chart: Any
) -> None:
    """Killed inside its macrostep: accepted it was, taken it is by the next host."""
    await place.start(("a", chart))
    sent = place.call("send", "a", "note", "--data", '{"text": "x"}', "--wait", "0")
    assert (sent.returncode, sent.stdout) == (0, ACCEPTED)
    place.dies("noting")
    assert box.outcome(1) is None
    assert place.notes("a") == []
    async with place.host():
        assert await box.settled(1) == ["taken"]
    assert place.notes("a") == ["x"]
    assert place.log.lines("noting") == ["noting x"] * 2


async def test_an_event_is_taken_once_if_its_host_dies_after_the_save(
    place: Place, box: Letterbox
) -> None:
    """Killed in the call that its save let begin: it is settled, and not run again."""
    await place.start(("a", mail_life.Asks))
    assert place.call("answer", "a", "asking", "approve", "--wait", "0").returncode == 0
    place.dies("charge")
    assert box.outcome(1) == "taken"
    assert place.world.configuration("a") == ["paying"]
    async with place.host() as host:
        await host.settled("a")
        assert box.pending() == []
        assert [row["status"] for row in (await host.read("a")).effects] == ["unknown"]
    assert place.log.lines("charge") == ["charge a/paying.2"]


@pytest.mark.parametrize("chart", [mail_life.Notes, mail_life.Thinks])
async def test_no_kill_loses_an_accepted_event_or_runs_it_twice(
    place: Place, box: Letterbox, chart: Any
) -> None:
    """Killed at random moments while events keep coming: each is there once, in its order."""
    chance, numbers = random.Random(3), iter(range(10_000))
    await place.start(("a", chart), ("b", chart))
    sent: dict[str, list[str]] = {"a": [], "b": []}

    def send() -> None:
        run, text = chance.choice("ab"), str(next(numbers))
        box.send(run, "note", text=text)
        sent[run].append(text)

    for _ in range(5):
        for _ in range(chance.randrange(20)):
            send()
        with place.living() as process:
            place.sees(chance.randrange(3, 25), process, send)
    async with place.host() as host:
        entries = range(1, sum(map(len, sent.values())) + 1)
        assert set(await box.settled(*entries)) == {"taken"}
        for run in sent:
            await host.settled(run)
    assert {run: place.notes(run) for run in sent} == sent


async def test_a_stopped_host_that_wakes_after_a_takeover_settles_nothing(
    place: Place, box: Letterbox
) -> None:
    """SIGSTOP, another owner, then SIGCONT with its mailbox full: it is fenced, and ends."""
    await place.start(("a", mail_life.Notes), ("b", mail_life.Notes))
    with place.living() as process:
        assert place.call("send", "a", "note", "--data", '{"text": "x"}').stdout == "taken\n"
        stall(process)
        with place.world.opened(read_only=False) as store:
            store.take_over("another host")
        entries = [box.send("a", "note", text="y"), box.put("cancel", "b"), box.put("revive", "b")]
        before = [place.world.stored(run) for run in ("a", "b")]
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE_S) == 0
    assert "fenced" in place.log.lines("stopped")[0]
    assert [box.outcome(entry) for entry in entries] == [None] * 3
    assert [place.world.stored(run) for run in ("a", "b")] == before
    async with place.host() as host:
        outcomes = await box.settled(*entries)
        assert outcomes[:2] == ["taken", "taken"]
        assert (await host.read("a")).context == {"notes": ["x", "y"]}


# -- commands and a host ------------------------------------------------------------------------


async def test_what_is_accepted_waits_for_a_host_and_its_sender_may_wait_too(
    place: Place, box: Letterbox
) -> None:
    """With no host there the command waits, for as long as it was told; then one comes."""
    await place.start(("a", mail_life.Notes))
    at_once = place.call("send", "a", "note", "--data", '{"text": "x"}', "--wait", "0", "--json")
    assert json.loads(at_once.stdout) == {
        "run": "a",
        "entry": 1,
        "outcome": "waiting",
        "reason": None,
    }
    with place.calling("send", "a", "note", "--data", '{"text": "y"}', "--wait", "20") as patient:
        wait_until(lambda: box.pending() == [1, 2], "the second entry")
        with place.living():
            said, _ = patient.communicate(timeout=PATIENCE_S)
    assert (patient.returncode, said) == (0, "taken\n")
    assert place.notes("a") == ["x", "y"]


async def test_of_two_processes_that_answer_one_gate_one_wins_and_the_other_is_told(
    place: Place,
) -> None:
    """Both at the same time: one approval is taken, the other refused, the charge is made once."""
    await place.start(("a", mail_life.Asks))
    with (
        place.living(),
        place.calling("answer", "a", "asking", "approve") as first,
        place.calling("answer", "a", "asking", "approve") as second,
    ):
        answers = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
        wait_until(lambda: place.world.status("a") == "done", "the end of the run")
    told = sorted(zip((first.returncode, second.returncode), answers, strict=True))
    assert told[0] == (0, ("taken\n", ""))
    code, (out, err) = told[1]
    assert (code, out) == (1, "")
    assert "gate 'asking' is not open for it" in err or "run 'a' is" in err
    assert place.log.lines("charge") == ["charge a/paying.2"]


async def test_each_command_reaches_the_host_of_another_process(place: Place) -> None:
    """Events, answers, decisions, cancelling, reviving: all said of one host, with its refusals."""
    await place.start(
        ("a", mail_life.Notes), ("b", mail_life.Notes), ("c", mail_life.Asks), ("d", mail_life.Asks)
    )
    assert place.call("answer", "c", "asking", "approve", "--wait", "0").returncode == 0
    place.dies("charge")

    def said(*arguments: str) -> tuple[int, str, str]:
        done = place.call(*arguments)
        return done.returncode, done.stdout, done.stderr

    with place.living():
        assert said("send", "a", "note", "--data", '{"text": "x"}') == (0, "taken\n", "")
        code, out, err = said("send", "a", "note", "--data", '{"state": "x"}')
        assert (code, out) == (1, "")
        assert "refused: run 'a': event 'note' is refused: its data uses the name 'state'" in err
        code, out, err = said("answer", "d", "payment", "approve")
        assert (code, out) == (1, "")
        assert "gate 'payment' is not open for it (open: 'asking (approve, reject)')" in err
        assert said("answer", "d", "asking", "reject", "--delivery", "k") == (0, "taken\n", "")
        assert said("answer", "d", "asking", "reject", "--delivery", "k") == (
            0,
            "taken before\n",
            "",
        )
        assert said("resolve", "c", "paying.2", "--done", '"by hand"') == (0, "taken\n", "")
        wait_until(lambda: place.world.status("c") == "done", "the end of the run")
        assert said("cancel", "b", "--reason", "too late") == (0, "taken\n", "")
        assert place.world.stored("b").header.reason == "too late"
        code, _, err = said("send", "b", "note")
        assert code == 1
        assert "run 'b' is cancelled" in err
    with place.world.opened(read_only=False) as store:
        store.mark(store.load("a").header, "lost", "gone")
    with place.living():
        assert said("revive", "a") == (0, "taken\n", "")
        assert place.world.status("a") == "live"
        assert said("send", "a", "note", "--data", '{"text": "y"}')[0] == 0
    assert place.notes("a") == ["x", "y"]
    assert place.log.lines("charge") == ["charge c/paying.2"]
    async with place.host() as host:
        await host.send("a", "finish")
        await ended(host, "a")
