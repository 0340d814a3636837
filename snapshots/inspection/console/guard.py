"""What every request must satisfy before a page sees it, and what every answer carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from snapshots.inspection.limits import CONSOLE_URL_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS: Final = "127.0.0.1"
_NAMES: Final = (ADDRESS, "localhost")

SECURITY_HEADERS: Final = {
    # Nothing is loaded but what the console itself serves; nothing inline runs; nobody frames it.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: a browser would then send the origin of our own forms as "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # What a run holds stays out of the disk cache of the browser.
    "cache-control": "no-store",
}
_HTTP_PORT: Final = 80
_READS: Final = ("GET", "HEAD")
_OWN_SITE: Final = ("same-origin", "none")


class Guard:
    """An ASGI application in front of another: refuses early, and adds `SECURITY_HEADERS`.

    - 421 for a `Host` that is not this console's: a name that somebody points at 127.0.0.1
      (DNS rebinding) then reaches nothing.
    - 405 for any method but GET and HEAD, and POST where `may_write`.
    - 403 for a POST, or for listening, on behalf of another site's page.
    """

    def __init__(self, app: ASGIApp, *, may_write: bool) -> None:
        """Stand in front of `app`."""
        self._app = app
        self._methods = (*_READS, "POST") if may_write else _READS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by itself, or have the application behind it do so."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> PlainTextResponse | None:
        hosts = _hosts(scope)
        if len(headers.getlist("host")) != 1 or headers["host"].lower() not in hosts:
            return _said(421, f"this is {hosts[0]}; open it by this address")
        if scope["method"] not in self._methods:
            return _said(405, "the console only answers questions", allow=self._methods)
        if len(scope["raw_path"]) + len(scope["query_string"]) > CONSOLE_URL_CHARS_MAX:
            return _said(414, "the address is too long")
        if scope["method"] == "POST" or scope["path"] == "/events":
            return _foreign(scope, headers)
        return None


def _hosts(scope: Scope) -> tuple[str, ...]:
    """Return what `Host` may say: a name of this machine for itself, and the port listened on."""
    _, port = scope["server"]
    # A browser leaves out the port that http has by itself.
    return tuple(name if port == _HTTP_PORT else f"{name}:{port}" for name in _NAMES)


def _foreign(scope: Scope, headers: Headers) -> PlainTextResponse | None:
    """Refuse what another site's page asks: browsers say where a request comes from."""
    if headers.get("sec-fetch-site", "same-origin") not in _OWN_SITE:
        return _said(403, "this was asked by the page of another site")
    own = f"http://{headers['host']}"
    origin = headers.get("origin")
    if origin not in ({own} if scope["method"] == "POST" else {own, None}):
        return _said(403, "this was asked by the page of another origin")
    return None


def _said(status: int, text: str, *, allow: Collection[str] = ()) -> PlainTextResponse:
    headers = {"allow": ", ".join(allow)} if allow else {}
    return PlainTextResponse(f"{text}\n", status, headers)
