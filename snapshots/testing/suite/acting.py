"""How a behaviour acts: expects an error by its name, and lets threads start at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend

T = TypeVar("T")

RIVALS: Final = 16
_ATTEMPTS_MAX: Final = 50
_START_S_MAX: Final = 20


@dataclass(slots=True, kw_only=True)
class Refusal:
    """What a block raised: None until it is over."""

    error: BaseException | None = None

    def field(self, name: str) -> object:
        """Return a field of the error."""
        return getattr(self.error, name)


@contextmanager
def refused(name: str) -> Iterator[Refusal]:
    """Expect the block to raise an error whose class, or a base of it, has this name."""
    refusal = Refusal()
    try:
        yield refusal
    except Exception as error:
        if name not in {cls.__name__ for cls in type(error).__mro__}:
            raise
        refusal.error = error
    assert refusal.error is not None, f"nothing was raised, expected {name}"


def insist(act: Callable[[], T]) -> T:
    """Do something again while it raises an error that says of itself that this may help.

    On a slow machine a call may find the storage busy for longer than it waits; it has then
    changed nothing.
    """
    for attempt in range(_ATTEMPTS_MAX):
        try:
            return act()
        except Exception as error:
            if not getattr(error, "retryable", False) or attempt == _ATTEMPTS_MAX - 1:
                raise
    raise AssertionError


def race(
    another: Callable[[], AbstractContextManager[Backend]],
    act: Callable[[Backend, int], T],
    rivals: int = RIVALS,
) -> list[T]:
    """Let threads do the same at once, each through a handle of its own: what each returned."""
    start = threading.Barrier(rivals)

    def run(number: int) -> T:
        with another() as backend:
            start.wait(_START_S_MAX)
            return act(backend, number)

    with ThreadPoolExecutor(rivals) as threads:
        return list(threads.map(run, range(rivals)))
