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


class Timers:
    """The timers of one run."""

    def __init__(self) -> None:
        self.items: list[Timer] = []

    def __iter__(self) -> Iterator[Timer]:
        return iter(self.items)

    def add(self, timer: Timer) -> None:
        """Set a timer."""
        insort(self.items, timer, key=lambda t: (t.due, t.seq))

    def next_due(self) -> int | None:
        """Return when the nearest timer is due, in ms, if there is one."""
        return self.items[0].due if self.items else None

    def take_due(self, now_ms: int) -> Timer | None:
        """Remove the nearest timer and return it, if it is due."""
        if self.items and self.items[0].due <= now_ms:
            return self.items.pop(0)
        return None

    def resume(self, saved_ms: int, now_ms: int) -> None:
        """Apply the policies after a restart: last saved at one time, restored at another."""
        for timer in self.items:
            if timer.policy == "remaining":
                timer.due = now_ms + max(0, timer.due - saved_ms)
            elif timer.policy == "restart":
                timer.due = now_ms + timer.span
        self.items.sort(key=lambda t: (t.due, t.seq))

    def cancel(self, path: str, send_id: str) -> None:
        """Drop the delayed events that a chart sent with this id."""
        self._keep(lambda t: t.path != path or t.send_id != send_id or t.invoke is not None)

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
            self.items = [timer for timer in self.items if wanted(timer)]
