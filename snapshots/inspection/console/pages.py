"""The pages that only look: each asks the file in a thread, and is made there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from snapshots.inspection.console import views
from snapshots.inspection.console.errors import RequestRefusedError
from snapshots.limits import RUN_ID_CHARS_MAX
from snapshots.records import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from snapshots.inspection.console.app import Console
    from snapshots.inspection.queries.files import RunFile

_NUMBER_CHARS_MAX: Final = 18
_EVENT_STREAM: Final = "text/event-stream"


class Pages:
    """The handlers of the routes that are read."""

    def __init__(self, console: Console) -> None:
        """Read the file of a console."""
        self._console = console

    async def runs(self, request: Request) -> Response:
        """Answer `/`: the list of runs, by `q`, `status`, `machine` and `before`."""
        asked = _asked(request.query_params)
        return await self._page(
            "runs.html",
            lambda file, now_ms: views.list_view(file, asked, now_ms=now_ms) | {"events": ""},
        )

    async def run(self, request: Request) -> Response:
        """Answer `/run`: one run, by its `id` or the beginning of it, `entry` shown in full."""
        run_id, entry = run_of(request), _number(request.query_params, "entry")
        return await self._page(
            "run.html",
            lambda file, now_ms: views.run_view(
                file, run_id, self._console.drawings, now_ms=now_ms, entry=entry
            ),
        )

    async def drift(self, request: Request) -> Response:
        """Answer `/drift`: the shape of a run beside the newest one of its machine."""
        run_id = run_of(request)
        return await self._page(
            "drift.html",
            lambda file, now_ms: views.drift_view(
                file, run_id, self._console.drawings, now_ms=now_ms
            ),
        )

    async def raw(self, request: Request) -> Response:
        """Answer `/raw`: a run's document in lines."""
        run_id = run_of(request)
        return await self._page(
            "raw.html", lambda file, now_ms: views.raw_view(file, run_id, now_ms=now_ms)
        )

    async def document(self, request: Request) -> Response:
        """Answer `/run.json`: a run's document, as `snapshots show --json` prints it."""
        run_id, console = run_of(request), self._console
        text = await console.reader.ask(
            lambda file: views.document_of(file, run_id, now_ms=console.clock.now_ms())
        )
        return Response(text, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Answer `/events`: a stream that says when the `run`, or any, has changed."""
        watch = self._console.watch
        # Before the answer has begun: a crowded console says so by its status.
        watch.require_room()
        if request.method == "HEAD":
            return Response(media_type=_EVENT_STREAM)
        run_id = request.query_params.get("run") or None
        return StreamingResponse(watch.stream(run_id), media_type=_EVENT_STREAM)

    async def health(self, _: Request) -> Response:
        """Answer `/health`: that the console answers."""
        return PlainTextResponse("ok\n")

    async def _page(
        self, template: str, view: Callable[[RunFile, int], Mapping[str, Any]]
    ) -> Response:
        console = self._console

        def made(file: RunFile) -> Response:
            return console.renderer.page(template, **view(file, console.clock.now_ms()))

        return await console.reader.ask(made)


def run_of(request: Request) -> str:
    """Return the run that a request names. Raises `RequestRefusedError`."""
    run_id = request.query_params.get("id", "")
    if not 0 < len(run_id) <= RUN_ID_CHARS_MAX:
        what, expected = "the address names no run", f"an id of 1 to {RUN_ID_CHARS_MAX} characters"
        raise RequestRefusedError(what, expected)
    return run_id


def _asked(params: Mapping[str, str]) -> views.Asked:
    status = params.get("status") or None
    if status is not None and status not in STATUSES:
        what, expected = "no such status", f"one of {', '.join(STATUSES)}"
        raise RequestRefusedError(what, expected)
    return views.Asked(
        query=params.get("q", "").strip()[:RUN_ID_CHARS_MAX],
        status=status,
        machine=params.get("machine", ""),
        before=_number(params, "before"),
    )


def _number(params: Mapping[str, str], name: str) -> int | None:
    text = params.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_CHARS_MAX):
        what, expected = f"{name} is no number", "digits"
        raise RequestRefusedError(what, expected)
    return int(text)
