"""Several contenders for one file, as a test has them: told at once, heard, killed."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from machines.demo.processes import Process
from snapshots import open_store

MODULE = "tests.crash.contenders"
PATIENCE_S = 20.0
LOOK_S = 0.02


@dataclass
class Contender:
    """One process, with all that it has said; `started` are the runs that it has acknowledged."""

    process: Process
    answers: list[dict[str, Any]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    waits: bool = False
    """Whether it has found a file owned by another one, and waits for it."""

    def say(self, do: str, file: Path, name: str = "") -> None:
        """Tell it what to do."""
        self.process.say({"do": do, "file": str(file), "name": name})

    def hear(self) -> None:
        """Take what it has said so far."""
        for line in self.process.hear():
            match line["at"]:
                case "started":
                    self.started.append(line["run"])
                case "waiting":
                    self.waits = True
                case "ended":
                    self.ended.append(line["error"])
                case "done" | "refused":
                    self.answers.append(line)

    def answer(self) -> dict[str, Any]:
        """Wait for its next answer, and return it."""
        until_s = time.monotonic() + PATIENCE_S
        while not self.answers:
            assert time.monotonic() < until_s, f"{self.process} does not answer"
            assert not self.process.has_ended, f"{self.process} has ended by itself"
            select.select([self.process], [], [], LOOK_S)
            self.hear()
        return self.answers.pop(0)

    def asked(self, do: str, file: Path, name: str = "") -> dict[str, Any]:
        """Tell it what to do, and return its answer."""
        self.say(do, file, name)
        return self.answer()

    def kill(self) -> None:
        """Kill it with SIGKILL; its last words are heard."""
        self.process.kill()
        while not self.process.has_ended:
            self.hear()


class Arena:
    """Makes contenders; `errors` is where they complain, and must stay empty."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        self._made: list[Contender] = []
        self._open = ExitStack()

    def contender(self, number: int = 0) -> Contender:
        """Return one that is ready."""
        process = Process(f"contender {number}", MODULE, (), self.errors)
        self._open.callback(process.close)
        process.wait_for("ready")
        self._made.append(made := Contender(process))
        return made

    def hear(self) -> None:
        """Take what any of them has said: whom nobody hears stands still before long."""
        for made in self._made:
            if not made.process.has_ended:
                made.hear()

    def contenders(self, count: int) -> list[Contender]:
        """Return several that are ready."""
        return [self.contender(number) for number in range(count)]

    def close(self) -> None:
        """End all of them."""
        self._open.close()


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """Have a place for contenders; whoever complained fails the test."""
    made = Arena(folder / "contenders.log")
    try:
        yield made
    finally:
        made.close()
    assert not made.errors.exists() or made.errors.read_text() == ""


def schema_of(file: Path) -> list[tuple[Any, ...]]:
    """Return what a file consists of, and what it says that it is, if it is whole."""
    with open_store(file) as store:
        connection: apsw.Connection = store.database.connection
        assert connection.pragma("integrity_check") == "ok"
        found = connection.execute("select type, name, sql from sqlite_schema order by type, name")
        names = ("application_id", "user_version", "journal_mode")
        return [*found.fetchall(), *((name, connection.pragma(name)) for name in names)]


def runs_of(file: Path) -> list[str]:
    """Return the ids of all runs, in the order in which they were stored."""
    with open_store(file) as store:
        rows = store.database.rows("list", "select run_id from runs order by id", ())
    return [str(run) for (run,) in rows]
