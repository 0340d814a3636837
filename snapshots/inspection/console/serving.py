"""Serves the console on 127.0.0.1, until it is told to stop."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from snapshots.inspection.console.app import Console
from snapshots.inspection.console.connections import Connection
from snapshots.inspection.console.errors import PortTakenError
from snapshots.inspection.console.guard import ADDRESS
from snapshots.inspection.limits import (
    CONSOLE_CONNECTIONS_MAX,
    CONSOLE_GRACE_S,
    CONSOLE_HEADERS_BYTES_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BACKLOG: Final = 64


def serve(path: Path, *, port: int, token: str | None, told: Callable[[str], object]) -> None:
    """Serve the console of a file until SIGINT or SIGTERM, and close what it had open.

    `told` is called with the address once it answers there; port 0 takes a free one. Raises
    `PortTakenError`, `TokenError`; `KeyboardInterrupt` after a clean end by SIGINT.
    """
    with _listening(port) as listener:
        console = Console(path, token=token)
        config = uvicorn.Config(
            console.app,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="on",
            # Neither addresses nor forms of requests are written anywhere.
            log_config=None,
            # Who sent a request hears that it is refused; a fault of ours is told here.
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            limit_concurrency=CONSOLE_CONNECTIONS_MAX,
            h11_max_incomplete_event_size=CONSOLE_HEADERS_BYTES_MAX,
            timeout_graceful_shutdown=CONSOLE_GRACE_S,
        )
        told(f"http://{ADDRESS}:{listener.getsockname()[1]}/")
        _Server(config, console).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends the streams of news before it waits for requests under way."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, which would never end by themselves, then the rest."""
        await self._console.watch.close()
        await super().shutdown(sockets)


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise PortTakenError(port, error.strerror or str(error)) from error
    return listener
