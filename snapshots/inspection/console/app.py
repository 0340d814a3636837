"""The console as an ASGI application: what it holds, its routes, and what becomes of an error."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from snapshots.clock import SystemClock
from snapshots.errors import (
    AmbiguousRunError,
    DecodeError,
    NotFoundError,
    SchemaError,
    SnapshotsError,
    StorageError,
)
from snapshots.inspection.console.actions import Actions
from snapshots.inspection.console.errors import ConsoleError, CrowdedError, TokenError
from snapshots.inspection.console.guard import Guard
from snapshots.inspection.console.pages import Pages
from snapshots.inspection.console.pictures import Drawings
from snapshots.inspection.console.reading import Reader
from snapshots.inspection.console.rendering import FOLDER, Renderer
from snapshots.inspection.console.watching import Watch
from snapshots.inspection.diagram import style_sheet
from snapshots.inspection.handing import OrderRefusedError
from snapshots.inspection.limits import CONSOLE_TOKEN_CHARS_MAX, CONSOLE_TOKEN_CHARS_MIN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from snapshots.clock import Clock

# Which status says what an error is, the closest class first.
_STATUSES: Final[tuple[tuple[type[SnapshotsError], int], ...]] = (
    (NotFoundError, 404),
    (OrderRefusedError, 409),
    (StorageError, 503),
    (SchemaError, 503),
    (DecodeError, 422),
)
_CROWDED: Final = "Too much at once"
_NOT_NOW: Final = 503
_AGAIN_S: Final = 2
_ASKED: Final = ("GET", "HEAD")
_TITLES: Final = {
    400: "This cannot be asked",
    403: "Refused",
    404: "Nothing is here",
    405: "Refused",
    409: "Refused",
    422: "It cannot be read",
    503: "The file cannot be read now",
}


class Console:
    """What the pages of one file share: its readers, its drawings, who listens for news.

    `app` is the ASGI application; its lifespan ends with `close`, which may also be called
    directly. With a `token` gates can be answered and effects settled; without one nothing in the
    file is ever opened for writing. Raises `TokenError` for a token that is easily guessed.
    """

    def __init__(self, path: Path, *, token: str | None = None, clock: Clock | None = None) -> None:
        """Make the console of the file at `path`, which is opened at the first request."""
        if token is not None:
            require_token(token)
        self.clock = clock or SystemClock()
        self.reader = Reader(path)
        self.drawings = Drawings()
        self.watch = Watch(self.reader)
        self.renderer = Renderer(str(path), may_write=token is not None)
        self.app = Guard(self._routed(token), may_write=token is not None)

    async def close(self) -> None:
        """End all streams, and close the file; a second time is harmless."""
        await self.watch.close()
        self.reader.close()

    def _routed(self, token: str | None) -> Starlette:
        pages = Pages(self)
        routes = [
            Route("/", pages.runs),
            Route("/run", pages.run),
            Route("/run.json", pages.document),
            Route("/raw", pages.raw),
            Route("/drift", pages.drift),
            Route("/events", pages.events),
            Route("/health", pages.health),
            Route("/static/picture.css", _picture_styles),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ]
        if token is not None:
            actions = Actions(self, token)
            routes += [
                Route("/answer", actions.answer, methods=["POST"]),
                Route("/settle", actions.settle, methods=["POST"]),
            ]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self.close()

        return Starlette(
            routes=routes,
            lifespan=lifespan,
            exception_handlers={SnapshotsError: self._told, HTTPException: self._missed},
        )

    async def _told(self, request: Request, error: Exception) -> Response:
        """Show what one of our errors says."""
        assert isinstance(error, SnapshotsError), "the only class that this handles"
        status = error.http_status if isinstance(error, ConsoleError) else status_of(error)
        candidates = error.candidates if isinstance(error, AmbiguousRunError) else ()
        page = self.renderer.page(
            "error.html",
            status=status,
            title=_CROWDED if isinstance(error, CrowdedError) else _TITLES.get(status, "It failed"),
            message=str(error),
            candidates=candidates,
            # A file that is missing or locked may be there in a moment; a form is not sent twice.
            again_s=_AGAIN_S if status == _NOT_NOW and request.method in _ASKED else None,
        )
        if error.retryable:
            page.headers["retry-after"] = str(_AGAIN_S)
        return page

    async def _missed(self, _: Request, error: Exception) -> Response:
        """Show that an address leads nowhere."""
        assert isinstance(error, HTTPException), "the only class that this handles"
        status = error.status_code
        page = self.renderer.page(
            "error.html",
            status=status,
            title=_TITLES.get(status, "It failed"),
            message=error.detail,
            candidates=(),
            again_s=None,
        )
        page.headers.update(error.headers or {})
        return page


def require_token(token: str) -> None:
    """Raise `TokenError` for a token that is too short, too long, or not plain printable ASCII."""
    if not CONSOLE_TOKEN_CHARS_MIN <= len(token) <= CONSOLE_TOKEN_CHARS_MAX:
        bounds = f"{CONSOLE_TOKEN_CHARS_MIN} to {CONSOLE_TOKEN_CHARS_MAX}"
        reason = f"it has {len(token)} characters, expected {bounds} that nobody can guess"
        raise TokenError(reason)
    if not (token.isascii() and token.isprintable()) or " " in token:
        reason = "it has blanks, control characters or others than ASCII"
        raise TokenError(reason)


def status_of(error: SnapshotsError) -> int:
    """Return the HTTP status that an error of the file is answered with."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


async def _picture_styles(_: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")
