"""How a sweep shares the loop: what waits goes first, and a busy loop does not end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import repeat

import pytest

from machines.host.sweeping import in_slices
from machines.limits import SWEEP_QUIET_S, SWEEP_TURNS_MAX


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices follow each other at once: what they give way to is not time."""
    for name in ("SWEEP_SLICE_S", "SWEEP_PAUSE_S"):
        monkeypatch.setattr(f"machines.host.sweeping.{name}", 0.0)


class Loop:
    """A clock that work turns, slices that are counted out, and the order of what happened."""

    def __init__(self, slices: list[int]) -> None:
        self.now_s = 0.0
        self.order: list[str] = []
        self._slices: Iterator[int] = iter(slices)

    async def delete(self) -> int:
        """Delete a slice."""
        rows = next(self._slices)
        self.order.append(f"slice of {rows}")
        return rows

    def save(self, left: int) -> None:
        """Save for a while; then the next one is ready."""
        self.order.append("save")
        self.now_s += 2 * SWEEP_QUIET_S
        if left > 1:
            asyncio.get_running_loop().call_soon(self.save, left - 1)

    async def sweep(self) -> int:
        """Sweep by this clock."""
        return await in_slices(self.delete, now_s=lambda: self.now_s)


async def test_slices_go_on_until_nothing_is_left() -> None:
    """All of them count, and a short one is not taken for the last."""
    loop = Loop([3, 1, 3, 0])
    assert await loop.sweep() == 7
    assert loop.order == ["slice of 3", "slice of 1", "slice of 3", "slice of 0"]


async def test_nothing_to_sweep_is_one_look() -> None:
    """A sweep that finds nothing is done at once."""
    loop = Loop([0])
    assert await loop.sweep() == 0
    assert loop.order == ["slice of 0"]


async def test_saves_that_wait_go_before_the_next_slice() -> None:
    """Also those that become ready only while the first ones are made."""
    loop = Loop([1, 0])
    sweeping = asyncio.create_task(loop.sweep())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(loop.save, 10)
    assert await sweeping == 1
    assert loop.order == ["slice of 1", *repeat("save", 10), "slice of 0"]


async def test_a_loop_that_is_never_idle_does_not_starve_a_sweep() -> None:
    """After a bounded number of turns a slice goes on between the saves."""
    loop = Loop([1, 0])
    sweeping = asyncio.create_task(loop.sweep())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(loop.save, 10 * SWEEP_TURNS_MAX)
    assert await sweeping == 1
    assert SWEEP_TURNS_MAX <= loop.order.index("slice of 0") < 2 * SWEEP_TURNS_MAX


async def test_what_a_slice_raises_ends_the_sweep() -> None:
    """The caller is told, and no further slice is tried."""
    looked = 0

    async def delete() -> int:
        nonlocal looked
        looked += 1
        raise OSError

    with pytest.raises(OSError, match=r"^$"):
        await in_slices(delete)
    assert looked == 1
