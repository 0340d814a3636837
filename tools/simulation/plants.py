"""Bugs that are planted in the product, to see that a seed finds them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from machines.host.live_runs import Residents
from machines.run import calls
from snapshots.errors import SnapshotsError
from tools.simulation.staging import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _say_that_it_leaves(effecting: Any) -> None:
    row = effecting.row
    row.status, row.attempt = "calling", row.attempt + 1
    effecting.call.context.attempt = row.attempt


def skip_save_before_effect(back: ExitStack) -> None:
    """Let a call leave with its row changed in memory alone."""
    replace(back, calls._Effecting, "_leave", _say_that_it_leaves)  # noqa: SLF001 - the place itself


def save_after_effect(back: ExitStack) -> None:
    """Save that a call leaves once it has left."""

    def leave(effecting: Any) -> None:
        _say_that_it_leaves(effecting)

        def save() -> None:
            with suppress(SnapshotsError):
                effecting.run.write(sync=effecting.effect.sync)

        asyncio.get_running_loop().call_soon(save)

    replace(back, calls._Effecting, "_leave", leave)  # noqa: SLF001 - as above


def forget_timer(back: ExitStack) -> None:
    """Boot without arming the timers of runs that only wait."""
    leave_waiting = Residents.leave_waiting

    def forgetfully(host: Any, machine: Any, run_ids: Any, due_ms: Any) -> None:
        del due_ms
        leave_waiting(host, machine, run_ids, {})

    replace(back, Residents, "leave_waiting", forgetfully)


PLANTS: dict[str, Callable[[ExitStack], None]] = {
    "skip-save-before-effect": skip_save_before_effect,
    "save-after-effect": save_after_effect,
    "forget-timer": forget_timer,
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have a bug in the product, None for none."""
    with ExitStack() as back:
        if name is not None:
            PLANTS[name](back)
        yield
