"""The command `snapshots watch`, in a process of its own, beside a host that goes on."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from snapshots.inspection.text.changes import FIELDS
from tests.host.charts import Door, Review, checkout
from tests.host.world import World, until
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, environment, without_styles

LOOKING_S = 20
"""How long a line may take on a machine with other work."""


class Watcher:
    """A running `watch` whose output is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), LOOKING_S)).decode()

    async def change(self) -> dict[str, Any]:
        """Return the next line as the object that it is."""
        found: dict[str, Any] = json.loads(await self.line())
        return found

    async def ready(self) -> str:
        """Return what it says once it has looked for the first time."""
        assert self.process.stderr is not None
        return (await asyncio.wait_for(self.process.stderr.readline(), LOOKING_S)).decode()

    async def end(self) -> tuple[int, str, str]:
        """Wait until it ends; return its code and the rest of what it printed."""
        out, err = await asyncio.wait_for(self.process.communicate(), LOOKING_S)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def watching(*arguments: str | Path) -> AsyncIterator[Watcher]:
    """Run `watch` with its output piped."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "watch",
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        yield Watcher(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_run_is_followed_to_its_end(world: World) -> None:
    """What happens in the host's process is printed in this one's, and the end ends it."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        async with watching(run[:20], world.path) as watcher:
            assert "live, in writing" in await watcher.line()
            await host.send(run, "submit")
            assert "submit: writing -> reviewing" in await watcher.line()
            assert "gate review: open, takes approve" in await watcher.line()
            await host.answer(run, "review", "approve")
            code, out, err = await watcher.end()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.partition("  ")[2] for line in lines] == [
        "approve: reviewing -> approved",
        "gate review: closed",
        "done",
    ]
    assert run not in out, "the one run is not named on each line"


async def test_all_live_runs_are_watched_as_objects(world: World) -> None:
    """Each line is one JSON object with the promised names; new runs and ends are there."""
    async with world.host(Door) as host:
        old = await host.start(Door)
        async with watching(world.path, "--json") as watcher:
            assert "watching 1 live runs" in await watcher.ready()
            await host.send(old, "push", by="me")
            step = await watcher.change()
            assert step.pop("at_ms") == world.clock.now_ms()
            assert step == {
                "kind": "step",
                "run": old,
                "machine": "Door",
                "chart": "",
                "event": "push",
                "from": ["shut"],
                "to": ["ajar"],
            }
            new = await host.start(Door)
            begun = await watcher.change()
            assert (begun["kind"], begun["run"], begun["status"]) == ("start", new, "live")
            assert (await watcher.change())["to"] == ["shut"]
            await host.send(new, "remove")
            assert (await watcher.change())["event"] == "remove"
            ended = await watcher.change()
            assert {name: ended[name] for name in ("kind", "run", "status", "reason")} == {
                "kind": "status",
                "run": new,
                "status": "done",
                "reason": None,
            }
            for change in (begun, ended):
                assert set(change) == {"kind", "at_ms", "run", "machine", *FIELDS[change["kind"]]}


async def test_an_effect_is_told_with_what_became_of_it(world: World) -> None:
    """Called, then done: as its rows are saved."""
    Checkout = checkout(world.outside.service("charge"))  # noqa: N806 - a class
    held = world.outside.hold("charge")
    async with world.host(Checkout) as host:
        run = await host.start(Checkout)
        async with watching(run, world.path, "--json") as watcher:
            assert (await watcher.change())["kind"] == "now"
            await host.send(run, "pay")
            assert (await watcher.change())["event"] == "pay"
            called = await watcher.change()
            assert (called["kind"], called["status"], called["attempt"]) == ("effect", "calling", 1)
            assert called["effect"].startswith(f"{run}/")
            held.set()
            kinds = [(c["kind"], c.get("status")) for c in [await watcher.change() for _ in "123"]]
            assert ("effect", "done") in kinds
            assert ("status", "done") in kinds
            assert (await watcher.end())[0] == 0


@pytest.mark.parametrize("word", ["push", "ajar"])
async def test_a_script_waits_for_an_event_or_a_state(world: World, word: str) -> None:
    """The command ends with the first change that has the word in it."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        async with watching(run, world.path, "--until", word) as watcher:
            assert "live, in shut" in await watcher.line()
            await host.send(run, "push")
            code, out, _ = await watcher.end()
    assert (code, out.count("\n")) == (0, 1)


async def test_what_never_comes_is_a_no(world: World) -> None:
    """The run ended otherwise, or the time is over: exit code 1."""
    async with world.host(Door) as host:
        run, other = await host.start(Door), await host.start(Door)
        async with watching(run, world.path, "--until", "error") as watcher:
            await watcher.line()
            await host.send(run, "remove")
            assert (await watcher.end())[0] == 1
        async with watching(other, world.path, "--timeout", "0") as watcher:
            code, out, _ = await watcher.end()
            assert (code, out.count("\n")) == (1, 1)
        async with watching(world.path, "--timeout", "0") as watcher:
            assert (await watcher.end())[:2] == (0, "")


async def test_an_interrupt_is_how_watching_ends(world: World) -> None:
    """Ctrl-C is no error: exit code 0, and nothing more is printed."""
    async with world.host(Door) as host:
        await host.start(Door)
        async with watching(world.path) as watcher:
            await watcher.ready()
            watcher.process.send_signal(signal.SIGINT)
            assert await watcher.end() == (0, "", "")


async def test_a_reader_that_leaves_ends_it(world: World) -> None:
    """`watch | head -1`: it does not stay until somebody kills it."""
    readable, writable = os.pipe()
    async with world.host(Door) as host:
        run = await host.start(Door)
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "watch", run, world.path, stdout=writable, env=environment()
        )
        os.close(writable)
        with os.fdopen(readable, "rb") as reader:
            await asyncio.to_thread(reader.readline)
        assert await asyncio.wait_for(process.wait(), LOOKING_S) == 0
        assert host.is_live(run)


async def test_a_run_that_is_over_is_told_at_once(world: World) -> None:
    """One line, exit code 0; no host is needed."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        await host.send(run, "remove")
    async with watching(run, world.path) as watcher:
        code, out, err = await watcher.end()
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert "done, in gone" in out


class Terminal:
    """A running command on a terminal of so many columns: what it was sent is kept."""

    def __init__(self, controller: int) -> None:
        self.controller = controller
        self.text = ""

    def read(self) -> None:
        """Take what has come."""
        try:
            self.text += os.read(self.controller, 65_536).decode(errors="replace")
        except BlockingIOError:
            return

    def shows(self, word: str) -> bool:
        """Whether a word was drawn."""
        self.read()
        return word in without_styles(self.text)


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("no_color", ["", "1"])
async def test_a_terminal_has_a_table_that_changes(
    world: World, columns: int, no_color: str
) -> None:
    """The table is drawn over itself as runs go on; Ctrl-C leaves it there and ends well."""
    controller, terminal = pty.openpty()
    os.set_blocking(controller, False)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    screen = Terminal(controller)
    async with world.host(Door) as host:
        run = await host.start(Door)
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            "watch",
            world.path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=terminal,
            stderr=asyncio.subprocess.PIPE,
            env=environment(NO_COLOR=no_color),
        )
        os.close(terminal)
        try:
            await until(lambda: screen.shows("1 live"), "the table", patience_s=LOOKING_S)
            await host.send(run, "push")
            await until(lambda: screen.shows("push: shut -> ajar"), patience_s=LOOKING_S)
            assert run in screen.text
            new = await host.start(Door)
            await until(lambda: screen.shows(new), "the new run", patience_s=LOOKING_S)
            process.send_signal(signal.SIGINT)
            _, err = await asyncio.wait_for(process.communicate(), LOOKING_S)
            assert (process.returncode, err) == (0, b"")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(controller)
    assert ("\x1b[32m" in screen.text) is not bool(no_color)
    lines = without_styles(screen.text).replace("\r", "").split("\n")
    assert max(len(line.rpartition("\x1b[2K")[2]) for line in lines) <= columns


async def test_no_save_waits_for_a_watcher(world: World) -> None:
    """Between its looks it holds nothing: the log can be emptied under it."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        async with watching(world.path) as watcher:
            await watcher.ready()
            for _ in range(50):
                await host.send(run, "push")
                await host.send(run, "pull")
            assert "ajar" in await watcher.line()
            connection: Any = host.store.database.connection  # type: ignore[attr-defined]  # SQLite

            def is_emptied() -> bool:
                blocked, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
                return bool(blocked == 0)

            await until(is_emptied, "an empty log")
