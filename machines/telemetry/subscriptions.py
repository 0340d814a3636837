"""Who listens to a host: each has a bounded queue of its own, and never holds a run up."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from machines.errors import HostOptionError
from machines.limits import SUBSCRIPTION_HELD_MAX, SUBSCRIPTION_SLICE_S
from machines.telemetry.kinds import EACH, KINDS, Occurrence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

GAP: Final = "listener.gap"
_CALLBACK: Final = "callback"
_HELD: Final = "held_max"
_KINDS: Final = "kinds"


class Subscription:
    """What happens in a host's runs, as an asynchronous iterator or by a callback.

        async with host.subscribe(kinds=["run"]) as happened:
            async for occurrence in happened:
                ...

    It ends when it is closed or its host has: what was queued by then is still given. Whoever
    does not keep up loses the oldest: where they were, one `listener.gap` says how many.
    `lost` counts them all.
    """

    def __init__(
        self,
        *,
        runs: Collection[str] | None,
        kinds: frozenset[str],
        held_max: int,
        callback: Callable[[Occurrence], object] | None,
        leave: Callable[[Subscription], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.kinds = kinds
        self.lost = 0
        self._runs = runs
        self._callback = callback
        self._held: deque[Occurrence] = deque()
        self._held_max = held_max
        self._gap = 0
        self._news = asyncio.Event()
        self._is_over = False
        self._is_due = False
        self._leave = leave
        self._failed = failed

    def __repr__(self) -> str:
        state = "closed" if self._is_over else f"{len(self._held)} held"
        return f"Subscription({state}, {self.lost} lost)"

    # -- who listens ----------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Occurrence:
        if self._callback is not None:
            message = "this subscription has a callback, which gets what happens"
            raise TypeError(message)
        while True:
            if (told := self._take()) is not None:
                return told
            if self._is_over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more: what is queued is dropped, who waits is told that it is over."""
        self._held.clear()
        self._gap = 0
        self.end()

    # -- the host's side ------------------------------------------------------------------------

    def wants(self, kind: str, run: str) -> bool:
        """Whether it is to be told of a kind and a run; what is of no run goes to all."""
        if kind not in self.kinds:
            return False
        return self._runs is None or not run or run in self._runs

    def offer(self, told: Occurrence) -> None:
        """Queue an occurrence; the oldest goes if there is no room."""
        if self._is_over:
            return
        if len(self._held) >= self._held_max:
            self._held.popleft()
            self._gap += 1
            self.lost += 1
        self._held.append(told)
        self._news.set()
        if self._callback is not None and not self._is_due:
            self._call_soon()

    def end(self) -> None:
        """Take no more; what is queued is given to a callback now, to an iterator as it comes."""
        if self._is_over:
            return
        self._is_over = True
        self._call()
        self._news.set()
        self._leave(self)

    def _take(self) -> Occurrence | None:
        if not self._held:
            return None
        if self._gap:
            lost, self._gap = self._gap, 0
            return Occurrence(kind=GAP, at_ms=self._held[0].at_ms, data={"lost": lost})
        return self._held.popleft()

    def _call_soon(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        """Give the callback what is queued; what it raises is its own affair.

        One that is slow does not have the loop for its whole backlog: others take their turns.
        """
        self._is_due = False
        if self._callback is None:
            return
        until_s = time.perf_counter() + SUBSCRIPTION_SLICE_S
        while (told := self._take()) is not None:
            try:
                self._callback(told)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - never hurts a run
                self._failed(error)
            if self._held and not self._is_over and time.perf_counter() >= until_s:
                self._call_soon()
                return


class Subscriptions:
    """All that listen to one host. An iterator that nobody holds any more is forgotten."""

    def __init__(
        self, changed: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._iterators: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._callbacks: set[Subscription] = set()
        self._changed = changed
        self._failed = failed

    def add(
        self,
        callback: Callable[[Occurrence], object] | None,
        *,
        run: str | Collection[str] | None,
        kinds: str | Collection[str] | None,
        held_max: int = SUBSCRIPTION_HELD_MAX,
    ) -> Subscription:
        """Return a new one; HostOptionError for a kind that there is not, or a senseless bound."""
        if callback is not None and (
            not callable(callback) or asyncio.iscoroutinefunction(callback)
        ):
            expected = "a plain function; or leave it out, and iterate"
            raise HostOptionError(_CALLBACK, callback, expected)
        if type(held_max) is not int or held_max < 1:
            expected = "a number of occurrences, at least 1"
            raise HostOptionError(_HELD, held_max, expected)
        made = Subscription(
            runs=frozenset({run} if isinstance(run, str) else run) if run is not None else None,
            kinds=_kinds(kinds),
            held_max=held_max,
            callback=callback,
            leave=self._left,
            failed=self._failed,
        )
        (self._iterators if callback is None else self._callbacks).add(made)
        self._changed()
        return made

    def _left(self, subscription: Subscription) -> None:
        self._iterators.discard(subscription)
        self._callbacks.discard(subscription)
        self._changed()

    @property
    def each(self) -> bool:
        """Whether anybody listens to each macrostep or each save."""
        return any(not one.kinds.isdisjoint(EACH) for one in self._all())

    def wants(self, kind: str, run: str) -> bool:
        """Whether anybody is to be told of a kind and a run."""
        if not self._callbacks and not self._iterators:
            return False
        return any(one.wants(kind, run) for one in self._all())

    def offer(self, told: Occurrence) -> None:
        """Give an occurrence to all that want it."""
        for one in self._all():
            if one.wants(told.kind, told.run):
                one.offer(told)

    def end(self) -> None:
        """End them all: the host has closed."""
        for one in self._all():
            one.end()

    def _all(self) -> list[Subscription]:
        return [*self._iterators, *self._callbacks]


def _kinds(given: str | Collection[str] | None) -> frozenset[str]:
    """Return the kinds that are meant: by their names, or all of a group (`run`, `effect`, …)."""
    if given is None:
        return frozenset(KINDS)
    found: set[str] = set()
    for name in [given] if isinstance(given, str) else given:
        of_name = {kind for kind in KINDS if name in (kind, kind.partition(".")[0])}
        if not of_name:
            expected = f"one of {', '.join(KINDS)}, or the first part of one"
            raise HostOptionError(_KINDS, name, expected)
        found |= of_name
    return frozenset(found)
