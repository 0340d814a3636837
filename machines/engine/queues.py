"""What a chart has accepted and not yet run, and the answer that a sender waits for.

The queue keeps the library's order: by the time at which an event became due, then by the order
in which it was created.
"""

from __future__ import annotations

from bisect import insort
from copy import deepcopy
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.event_data import TriggerData

T = TypeVar("T")


@dataclass(slots=True)
class Queued:
    """An accepted event: due since `at` (ms), `seq`-th that its tree accepted."""

    at: int
    seq: int
    trigger: TriggerData
    invoke: str | None = None
    """The invocation without which the event is void: a timeout, or a child that was spawned."""
    epoch: str | None = None
    """The conversation that the event answers, with its epoch: void once that has another one."""

    @property
    def key(self) -> tuple[int, int]:
        """Where the event stands in the order of its queue."""
        return self.at, self.seq


_KEY: Callable[[Queued], tuple[int, int]] = attrgetter("key")


class ExternalQueue:
    """A chart's external queue, in the shape that the library's engines call.

    It is only touched by the thread that runs the tree, so it needs no lock.
    """

    def __init__(self) -> None:
        self.items: list[Queued] = []

    def is_empty(self) -> bool:
        """Whether no event waits."""
        return not self.items

    def add(self, item: Queued) -> None:
        """Put an event at its place."""
        if not self.items or self.items[-1].key <= item.key:
            self.items.append(item)
        else:
            insort(self.items, item, key=_KEY)

    def take(self) -> Queued | None:
        """Remove the event at the head and return it."""
        return self.items.pop(0) if self.items else None

    def remove(self, seq: int) -> bool:
        """Remove one event; return whether it was there."""
        kept = [item for item in self.items if item.seq != seq]
        found = len(kept) < len(self.items)
        self.items = kept
        return found

    def void(self, invoke: str) -> None:
        """Drop the events that mean nothing without an invocation; nobody waits for one."""
        self.items = [item for item in self.items if item.invoke != invoke]

    def clear(self) -> None:
        """Drop every event."""
        self.items.clear()

    def drain(self) -> list[TriggerData]:
        """Remove every event and return them."""
        drained = [item.trigger for item in self.items]
        self.items.clear()
        return drained

    def cancel(self, send_id: str) -> None:
        """Drop the events that were sent with this id, answering who waits for one."""
        kept = []
        for item in self.items:
            if item.trigger.send_id == send_id:
                answer(item.trigger, None)
            else:
                kept.append(item)
        self.items = kept

    def reject_futures(self, error: Exception) -> None:
        """Answer everybody who waits for an event of this queue with an error."""
        for item in self.items:
            reject(item.trigger, error)


def apart(value: T) -> T:
    """Return a copy of what a chart is given by another, or by who starts it.

    After a restart they share no object either. What cannot be copied, an exception say, is given
    as it is.
    """
    if isinstance(value, BaseException):
        return value
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - any class may refuse to be copied, each in its own way
        return value


def answer(trigger: TriggerData | None, result: object) -> None:
    """Give a result to whoever waits for this event, if anybody still does."""
    answer_waiter(trigger.future if trigger is not None else None, result)


def answer_waiter(waiter: Any, result: object) -> None:
    """Give a result to who waits, if anybody still does."""
    if waiter is not None and not waiter.done():
        waiter.set_result(result)


def reject(trigger: TriggerData | None, error: BaseException) -> bool:
    """Give an error to whoever waits for this event; return whether anybody did."""
    return reject_waiter(trigger.future if trigger is not None else None, error)


def reject_waiter(waiter: Any, error: BaseException) -> bool:
    """Give an error to who waits, if anybody still does; return whether anybody did."""
    if waiter is None or waiter.done():
        return False
    waiter.set_exception(error)
    return True


class Answer:
    """What a synchronous caller waits for: a future without a lock or a loop."""

    __slots__ = ("_done", "_error", "_result")

    def __init__(self) -> None:
        self._done = False
        self._error: BaseException | None = None
        self._result: object = None

    def done(self) -> bool:
        """Whether the event was answered."""
        return self._done

    def set_result(self, result: object) -> None:
        """Answer with a result."""
        self._done, self._result = True, result

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error."""
        self._done, self._error = True, error

    def result(self) -> Any:
        """Return the answer, None while there is none; raise it if it is an error."""
        if self._error is not None:
            raise self._error
        return self._result
