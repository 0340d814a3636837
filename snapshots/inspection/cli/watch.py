"""The command that watches runs from another process, as they go on."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from snapshots.clock import SystemClock
from snapshots.errors import StorageError
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    File,
    OfMachine,
    OptionalRun,
    opened,
    run_and_file,
)
from snapshots.inspection.limits import (
    WATCH_POLL_MS,
    WATCH_REST_FACTOR,
    WATCH_RUNS_MAX,
    WATCH_TABLE_ROWS_MAX,
    WATCH_TIMEOUT_S_MAX,
)
from snapshots.inspection.queries.following import Change, Follower
from snapshots.inspection.text.changes import change_document, change_line, watch_table
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import Screen, is_dumb, rendered, screen_of, tell, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapshots.inspection.queries.files import RunFile

_MS_PER_S: Final = 1_000
_TABLE_S: Final = 1.0
# The title of the table, its names, the line below it, and the prompt.
_TABLE_LINES_BESIDE: Final = 4


def watch(
    run: OptionalRun = None,
    file: File = None,
    *,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="WORD",
            help="End once a run comes to this status, event or state.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0,
            max=WATCH_TIMEOUT_S_MAX,
            help="End after so long.",
        ),
    ] = None,
    machine: OfMachine = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object on a line for each change.")
    ] = False,
) -> int:
    """Print what becomes of runs, as it happens.

    Of all live runs: a table on a terminal, a line for each change otherwise. With RUN it prints
    the way of that run, and ends with it. Ctrl-C ends it as well, with exit
    code 0. Exit code 1 says that the time was over, or the run, before what was waited for.

    Each JSON object has kind, at_ms, run, machine, and by its kind: now (how a run stands at
    first): status, reason, states; start: status; step: chart, event, from, to; effect: effect,
    status, attempt; gate: gate, status (open, closed), events; status: status, reason; saved
    (nothing else can be told): saves; unreadable: reason.
    """
    run, file = run_and_file(run, file)
    with opened(file) as stored:
        row = None if run is None else stored.row_of(run)
        follower = Follower(stored, machine=machine, row=row)
        waited = _Wait(row=row, word=until, timeout_s=timeout)
        with ExitStack() as shown:
            show = _face(follower, shown, is_of_one=row is not None, as_json=as_json)
            try:
                return _follow(stored, follower, waited, show)
            except KeyboardInterrupt:
                return EXIT_OK


COMMANDS: Final = (watch,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """What a watcher waits for: a run's end, a word, or nothing but the end of its time."""

    row: int | None
    word: str | None
    timeout_s: float | None

    def is_met(self, changes: Sequence[Change], follower: Follower) -> bool:
        """Whether what is waited for has come."""
        if self.word is not None:
            return any(self.word in change.words for change in changes)
        return self.is_over(follower)

    def is_over(self, follower: Follower) -> bool:
        """Whether the one run that is watched has ended."""
        header = None if self.row is None else follower.headers.get(self.row)
        return header is not None and header.status != "live"

    @property
    def waits(self) -> bool:
        """Whether anything is waited for at all."""
        return self.row is not None or self.word is not None


def _follow(stored: RunFile, follower: Follower, waited: _Wait, show: _Face) -> int:
    end_s = None if waited.timeout_s is None else time.monotonic() + waited.timeout_s
    version: int | None = None
    while True:
        began_s = time.monotonic()
        found = stored.version()
        if found != version:
            changes = _look(follower)
            version = None if changes is None else found
            is_heard = show.show(changes or ())
            if waited.is_met(changes or (), follower):
                return EXIT_OK
            if waited.is_over(follower):
                return EXIT_NO
            if stored.is_copy:
                tell("a copy does not change: watch the file itself")
                return EXIT_NO if waited.waits else EXIT_OK
        else:
            is_heard = show.show(())
        now_s = time.monotonic()
        if not is_heard:
            return EXIT_OK
        if end_s is not None and now_s >= end_s:
            return EXIT_NO if waited.waits else EXIT_OK
        rest_s = max(WATCH_POLL_MS / _MS_PER_S, WATCH_REST_FACTOR * (now_s - began_s))
        time.sleep(rest_s if end_s is None else min(rest_s, end_s - now_s))


def _look(follower: Follower) -> list[Change] | None:
    """Return the changes, None if the file cannot be read for the moment."""
    try:
        return follower.look()
    except StorageError as error:
        if not error.retryable:
            raise
        return None


class _Face(Protocol):
    """Where changes are shown."""

    def show(self, changes: Sequence[Change]) -> bool:
        """Show changes, often none; return whether anybody is still there to see them."""


class _Lines:
    """A line for each change, of text or of JSON."""

    def __init__(self, follower: Follower, *, is_of_one: bool, as_json: bool) -> None:
        self._follower = follower
        self._is_of_one = is_of_one
        self._is_begun = is_of_one
        self._as_json = as_json

    def show(self, changes: Sequence[Change]) -> bool:
        if not self._is_begun:
            # Nothing may come for long: say that it would be seen from here on.
            self._is_begun = True
            tell(f"watching {_count(self._follower)} live runs; Ctrl-C ends")
        screen = screen_of(sys.stdout, os.environ)
        for change in changes:
            if not write(self._line(change, screen), sys.stdout):
                return False
        return _is_heard()

    def _line(self, change: Change, screen: Screen) -> str:
        if self._as_json:
            return written(change_document(change))
        return rendered(change_line(change, is_of_one=self._is_of_one), screen)


class _Table:
    """A table of the runs that changed last, drawn over itself."""

    def __init__(self, live: Live, follower: Follower) -> None:
        self._live = live
        self._follower = follower
        self._rows: dict[str, tuple[str, str, str, Change | None]] = {}
        self._is_begun = False
        self._drawn_s = 0.0

    def show(self, changes: Sequence[Change]) -> bool:
        if not self._is_begun:
            self._is_begun = True
            newest = sorted(self._follower.headers)[-WATCH_TABLE_ROWS_MAX:]
            for header in (self._follower.headers[row] for row in newest):
                self._rows[header.run_id] = (header.run_id, header.status, header.machine, None)
        statuses = {h.run_id: h.status for h in self._follower.headers.values()} if changes else {}
        for change in changes:
            before = self._rows.pop(change.run, None)
            status = statuses.get(change.run, change.status)
            told = before[3] if before is not None and _says_less(change) else None
            self._rows[change.run] = (change.run, status, change.machine, told or change)
        while len(self._rows) > WATCH_TABLE_ROWS_MAX:
            del self._rows[next(iter(self._rows))]
        now_s = time.monotonic()
        if changes or now_s - self._drawn_s >= _TABLE_S:
            self._drawn_s = now_s
            self._draw()
        return True

    def _draw(self) -> None:
        screen = screen_of(sys.stdout, os.environ)
        room = self._live.console.height - _TABLE_LINES_BESIDE
        rows = list(reversed(self._rows.values()))[: max(room, 1)]
        now_ms = SystemClock().now_ms()
        title = Text(f"{_count(self._follower)} live; Ctrl-C ends", style="dim")
        table = watch_table(rows, now_ms=now_ms, screen=screen)
        self._live.update(Group(title, table), refresh=True)


def _face(follower: Follower, shown: ExitStack, *, is_of_one: bool, as_json: bool) -> _Face:
    if as_json or is_of_one or is_dumb(os.environ) or not sys.stdout.isatty():
        return _Lines(follower, is_of_one=is_of_one, as_json=as_json)
    screen = screen_of(sys.stdout, os.environ)
    console = Console(
        force_terminal=True,
        color_system="standard" if screen.is_colored else None,
        no_color=not screen.is_colored,
        markup=False,
        emoji=False,
        highlight=False,
    )
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
    return _Table(shown.enter_context(live), follower)


def _count(follower: Follower) -> str:
    """Return how many live runs are followed."""
    count = sum(1 for header in follower.headers.values() if header.status == "live")
    return f"{count}, the newest," if count == WATCH_RUNS_MAX else str(count)


def _says_less(change: Change) -> bool:
    """Whether what was told of a run before says more than this, beside its status."""
    is_bare = change.kind == "status" and change.reason is None
    return is_bare or change.kind in ("saved", "gate")


def _is_heard() -> bool:
    """Whether somebody may still read what is printed: the reader of a pipe may have left."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file: a test's, or one that is closed
        return True
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
