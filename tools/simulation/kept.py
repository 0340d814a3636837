"""What all charts of the simulation do: they keep what they ran, so that the row can be asked."""

from __future__ import annotations

from typing import Any

from statemachine import StateChart

from tools.simulation.stage import STAGE


class SpoiledError(Exception):
    """A callback raised it, after it had changed the model."""


class Kept(StateChart[Any]):
    """What all charts here do: keep the tokens of events, in the order in which they ran."""

    catch_errors_as_events = False

    def keep(self, token: str) -> str:
        """Keep a token, and answer with it."""
        self.model.seen = [*getattr(self.model, "seen", ()), token]
        return token

    async def keep_slowly(self, token: str) -> str:
        """Let others run before the token is kept."""
        await STAGE.world.pause()
        return self.keep(token)

    def spoil(self, token: str) -> None:
        """Keep a token, and raise."""
        self.keep(token)
        raise SpoiledError(token)
