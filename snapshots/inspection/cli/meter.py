"""How far something long is, on a line of stderr that goes away, and only for who looks at it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final, Self

from snapshots.inspection.limits import METER_MS
from snapshots.inspection.text.screen import PROGRAM, is_dumb

if TYPE_CHECKING:
    from types import TracebackType

_PERCENT: Final = 100
_MS_PER_S: Final = 1_000
_CLEARED_LINE: Final = "\r\x1b[K"


class Meter:
    """`with Meter("backup") as meter` shows what `meter.show` is told, if stderr is a terminal."""

    def __init__(self, what: str) -> None:
        """Make the meter of one piece of work, which is called `what` in a word or two."""
        self._is_shown = sys.stderr.isatty() and not is_dumb(os.environ)
        self._what = what
        self._next_s = 0.0

    def show(self, done: int, expected: int) -> None:
        """Show that `done` of about `expected` parts are done, at most every `METER_MS`."""
        now_s = time.monotonic()
        if self._is_shown and now_s >= self._next_s:
            self._next_s = now_s + METER_MS / _MS_PER_S
            share = min(_PERCENT * done // max(expected, 1), _PERCENT - 1)
            sys.stderr.write(f"{_CLEARED_LINE}{PROGRAM}: {self._what} {share} %")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._is_shown:
            sys.stderr.write(_CLEARED_LINE)
            sys.stderr.flush()
