"""Work that blocks, done on a world's loop after a while, instead of in a thread beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines.host.threads import Threads
from machines.offload.calls import told_apart
from tools.simulation.stage import STAGE

if TYPE_CHECKING:
    from machines.host.threads import Piece

CALL_S: Final = 0.6
"""How long a call takes at most."""
_AT_ONCE: Final = 0.3


class SeededThreads(Threads):
    """The threads of a host in a world: the seed says when each piece of work is done."""

    def _hand_over(self, piece: Piece) -> None:
        process = STAGE.world.process
        assert process is not None
        if process.rng.random() < _AT_ONCE:
            _do(piece)
        else:
            process.loop.call_later(process.rng.random() * CALL_S, _do, piece)


def _do(piece: Piece) -> None:
    future, context, work = piece
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = context.run(told_apart, work)
    except Exception as error:  # noqa: BLE001 - it belongs to who waits for the future
        future.set_exception(error)
    else:
        future.set_result(result)
