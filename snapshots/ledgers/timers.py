"""The ledger of timers: events that wait for a time, by the time at which they are due."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ResumePolicy = Literal["deadline", "remaining", "restart"]
"""What a timer does over a restart: keep its due time, wait for what was left at the last save,
or wait for its whole span again."""


@dataclass(slots=True)
class Timer:
    """An event that waits for a time: a delayed send, or the timeout of an invocation."""

    id: str
    path: str
    due: int
    """Wall clock, in ms, fixed when the timer was set."""
    seq: int
    event: str | None = None
    name: str = ""
    send_id: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    policy: ResumePolicy = "deadline"
    span: int = 0
    """How long it was set for, in ms."""
    invoke: str | None = None
    """The invocation whose timeout this is; its number makes a stale firing impossible."""


def _nowhere(path: str) -> None:
    """Tell nobody."""
    del path


class Timers:
    """The timers of one run.

    `moved` is told the chart of each timer that is set, changed or dropped: its snapshot holds it.
    """

    def __init__(self, moved: Callable[[str], None] = _nowhere) -> None:
        self.items: list[Timer] = []
        """All of them, the nearest first."""
        self._moved = moved
        self._of: dict[str, list[Timer]] = {}
        """Those of each chart, in no order."""

    def __iter__(self) -> Iterator[Timer]:
        return iter(self.items)

    def add(self, timer: Timer) -> None:
        """Set a timer."""
        insort(self.items, timer, key=_turn)
        self._of.setdefault(timer.path, []).append(timer)
        self._moved(timer.path)

    def of(self, path: str) -> list[Timer]:
        """Return the timers of one chart, the nearest first."""
        return sorted(self._of.get(path, ()), key=_turn)

    def take_due(self, now_ms: int) -> Timer | None:
        """Remove the nearest timer and return it, if it is due."""
        if self.items and self.items[0].due <= now_ms:
            timer = self.items.pop(0)
            self._forget(timer)
            return timer
        return None

    def resume(self, saved_ms: int, now_ms: int) -> None:
        """Apply the policies after a restart: last saved at one time, restored at another."""
        for timer in self.items:
            if timer.policy == "remaining":
                timer.due = now_ms + max(0, timer.due - saved_ms)
            elif timer.policy == "restart":
                timer.due = now_ms + timer.span
            self._moved(timer.path)
        self.items.sort(key=_turn)

    def cancel(self, path: str, send_id: str) -> list[Timer]:
        """Drop the delayed events that a chart sent with this id; return them."""
        sent = [t for t in self._of.get(path, ()) if t.send_id == send_id and t.invoke is None]
        numbers = {t.seq for t in sent}
        self._keep(lambda t: t.seq not in numbers)
        return sent

    def drop(self, seq: int) -> None:
        """Drop the timer of this number."""
        self._keep(lambda t: t.seq != seq)

    def drop_invoke(self, path: str, invoke: str) -> None:
        """Drop the timeout of an invocation that ended."""
        self._keep(lambda t: t.path != path or t.invoke != invoke)

    def drop_chart(self, path: str) -> list[Timer]:
        """Drop every timer of a chart and of the charts below it; return them."""
        below = f"{path}/" if path else ""
        dropped = [t for t in self.items if t.path == path or t.path.startswith(below)]
        self._keep(lambda t: t not in dropped)
        return dropped

    def _keep(self, wanted: Callable[[Timer], bool]) -> None:
        if self.items:
            kept = []
            for timer in self.items:
                if wanted(timer):
                    kept.append(timer)
                else:
                    self._forget(timer)
            self.items = kept

    def _forget(self, timer: Timer) -> None:
        there = self._of[timer.path]
        there.remove(timer)
        if not there:
            del self._of[timer.path]
        self._moved(timer.path)


def _turn(timer: Timer) -> tuple[int, int]:
    return timer.due, timer.seq
