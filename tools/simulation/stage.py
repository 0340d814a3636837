"""Where the world stands that is being played, so that charts which are made once can reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.simulation.world import World


class Stage:
    """Holds one world at a time: making the charts anew for each would take longer than it."""

    world: World


STAGE = Stage()
