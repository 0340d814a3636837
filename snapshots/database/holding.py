"""Who holds a file: asked of the lock that a host keeps beside it, which is given back at once."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from snapshots.limits import HOLDER_CHARS_MAX

_UNNAMED: Final = "another process"


def holder_of(path: str | os.PathLike[str]) -> str | None:
    """Return which host holds the file at `path`, as it said itself; None if none does.

    A host keeps an exclusive lock on `<file>.lock` for as long as it lives, and has written its
    name there. A shared one is asked for and given back at once, which a host that begins in
    that moment waits out; nothing is created.
    """
    try:
        descriptor = os.open(f"{os.path.realpath(path)}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # no host was ever here, or none that this user may know of
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.read(descriptor, HOLDER_CHARS_MAX)
        return said.decode("utf-8", "backslashreplace") or _UNNAMED
    finally:
        os.close(descriptor)  # gives the lock back as well
    return None
