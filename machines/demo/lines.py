"""What the demo's processes say to each other: one JSON value a line, on their standard streams.

A child's standard input is also its lifeline. It ends when the parent closes it or dies, however it
dies, and the child goes with it at once.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import LINE_BYTES_READ
from snapshots.codec import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable

_STDIN: Final = 0
_STDOUT: Final = 1


def encoded(value: dict[str, Any]) -> bytes:
    """Return a value as the line that says it."""
    return dump(value) + b"\n"


def tell(value: dict[str, Any]) -> None:
    """Say a value to the parent, past every buffer: what was told is told, even if we die now."""
    line = encoded(value)
    while line:
        line = line[os.write(_STDOUT, line) :]


def listen(heard: Callable[[dict[str, Any]], object]) -> threading.Thread:
    """Call `heard` for each line from the parent, on a thread of its own; end with the parent.

    `heard` is called on that thread.
    """
    thread = threading.Thread(target=_listen, args=(heard,), name="machines-lifeline", daemon=True)
    thread.start()
    return thread


def _listen(heard: Callable[[dict[str, Any]], object]) -> None:
    # Unbuffered, as the interpreter cannot end while a thread holds the lock of a buffer.
    rest = b""
    while chunk := os.read(_STDIN, LINE_BYTES_READ):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            heard(load(line))
    # Nobody is left to finish anything for; a thread cannot end the process more gently.
    os._exit(0)
