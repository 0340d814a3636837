"""A connection of the console: a request that does not arrive in time ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from snapshots.inspection.limits import CONSOLE_REQUEST_MS_MAX

if TYPE_CHECKING:
    import asyncio

_MS_PER_S: Final = 1_000
_ARRIVING: Final = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """Speaks HTTP/1.1, and gives each request `request_ms_max` to arrive, from its first byte on.

    The first one has to come within the same time. There is a bound on connections, so that some
    that are opened and left would keep everybody else out; answers may take as long as they do.
    """

    request_ms_max: ClassVar[int] = CONSOLE_REQUEST_MS_MAX
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(
        self,
        transport: asyncio.Transport,  # type: ignore[override]  # as the class above has it
    ) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the whole of it ends the waiting."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in _ARRIVING:
            self._rest()
        elif self._deadline is None:
            # Not put off by what has come since: a byte now and then is no request either.
            self._deadline = self.loop.call_later(self.request_ms_max / _MS_PER_S, self._end)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        self.transport.close()
