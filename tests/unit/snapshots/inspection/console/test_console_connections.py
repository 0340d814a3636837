"""Connections of the console: what a request that never arrives is worth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from snapshots.inspection.console.connections import Connection

BEGUN = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POSTED = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nab"
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def app(scope: Any, receive: Any, send: Send) -> None:
    """Read a request to its end, and answer it."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"answered"})


class Hasty(Connection):
    """Waits for nothing."""

    request_ms_max = 0


@asynccontextmanager
async def talking(kind: type[Connection]) -> AsyncIterator[tuple[Any, asyncio.StreamWriter]]:
    """Serve on a free port of this loop, and open one connection to it."""
    config, state = uvicorn.Config(app, log_config=None, log_level="error"), ServerState()
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config, state, {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield reader, writer
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), *state.tasks, return_exceptions=True)


@pytest.mark.parametrize("sent", [b"", BEGUN, POSTED], ids=["nothing", "headers", "body"])
async def test_a_request_that_does_not_arrive_ends_its_connection(sent: bytes) -> None:
    """Whether nothing came, a part of its headers, or a part of its body."""
    async with talking(Hasty) as (reader, writer):
        writer.write(sent)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            # Closed before what was sent had been read.
            assert sent


async def test_a_request_may_come_in_parts() -> None:
    """It is answered once it is whole, and so is the next one of the same connection."""
    async with talking(Connection) as (reader, writer):
        for _ in range(2):
            for part in (BEGUN[:5], BEGUN[5:], b"\r\n"):
                writer.write(part)
                await writer.drain()
            answer = await reader.readuntil(b"answered\r\n0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
