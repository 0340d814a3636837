"""What a host adds to an event: `host.send`, the save included, beside the library's own `send`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.sending import SENDS, HostSends, PlainSends, hosting

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)


@pytest.mark.benchmark(group=f"{SENDS} sends")
def test_host_send_of_the_small_chart(tmp_path: Path, beside: Beside) -> None:
    """An event to a run of a host: its macrostep, its save, its answer."""
    with hosting(tmp_path / "state.db") as (loop, host):
        beside(HostSends(loop, host), PlainSends(loop), rounds=1_000, acts=SENDS)


@pytest.mark.benchmark(group=f"{SENDS} sends")
def test_plain_send_of_the_small_chart(alone: Callable[[Arm, int], None]) -> None:
    """An event to the same chart under the library's own engine."""
    loop = asyncio.new_event_loop()
    try:
        alone(PlainSends(loop), 1_000)
    finally:
        loop.close()
