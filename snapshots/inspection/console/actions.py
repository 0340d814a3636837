"""What a person with the token may do: answer a gate, settle an effect, through the mailbox."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode

from starlette.responses import RedirectResponse

from snapshots.codec import dump, load
from snapshots.database import patiently
from snapshots.errors import DecodeError
from snapshots.inspection.console.errors import ForbiddenError, RequestRefusedError
from snapshots.inspection.handing import OrderRefusedError, judged
from snapshots.inspection.limits import (
    CONSOLE_BODY_BYTES_MAX,
    CONSOLE_FIELDS_MAX,
    CONSOLE_OUTCOME_MS,
    CONSOLE_REFUSAL_MS,
    OUTCOME_POLL_MS,
)
from snapshots.inspection.queries.browsing import outcome_of
from snapshots.mailbox import Mailbox
from snapshots.opening import open_store_for_mail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from snapshots.inspection.console.app import Console
    from snapshots.inspection.queries.files import RunFile

_MS_PER_S: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"
_NO_TOKEN: Final = "the token is missing or wrong, and nothing was handed in"  # noqa: S105 - words for a person
_EXPECTED_TOKEN: Final = "the one that the console was started with"  # noqa: S105 - the same
_COPY: Final = (
    "the file cannot be opened where it lies, and this is a copy of it: nothing can be handed in"
)


class Actions:
    """The handlers of the routes that hand something in; there are none without a token."""

    def __init__(self, console: Console, token: str) -> None:
        """Take what comes with the token."""
        self._console = console
        self._token = token.encode()
        self._guesses = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """Answer `POST /answer`: `run`, `gate`, `event`, and `data`, an object as JSON."""
        given = await self._given(request)
        named = {"gate": _text(given, "gate"), "event": _text(given, "event")}
        return await self._hand_in(given, "answer", {**named, "data": _data(given)})

    async def settle(self, request: Request) -> Response:
        """Answer `POST /settle`: `run`, `effect`, `attempt`, and `how` with its `value`."""
        given = await self._given(request)
        content: dict[str, Any] = {"effect": _text(given, "effect")}
        how = _text(given, "how")
        if how == "done":
            content["done"] = _json(given.get("value") or "null")
        elif how == "failed":
            content["failed"] = _text(given, "value")
        elif how == "again":
            content["again"] = True
        else:
            what, expected = "how it is settled is missing", "done, failed or again"
            raise RequestRefusedError(what, expected)
        return await self._hand_in(given, "resolve", content)

    async def _given(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that carries the token, and no field twice."""
        given = await _fields(request)
        token = given.pop("token", "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(token, self._token):
            # One after another, so that many guesses at once take as long as in turn.
            async with self._guesses:
                await asyncio.sleep(CONSOLE_REFUSAL_MS / _MS_PER_S)
            raise ForbiddenError(_NO_TOKEN, _EXPECTED_TOKEN)
        return given

    async def _hand_in(
        self, given: Mapping[str, str], kind: str, content: Mapping[str, Any]
    ) -> Response:
        run, seen, reader = _text(given, "run"), given.get("attempt"), self._console.reader

        def look(file: RunFile) -> tuple[str, dict[str, Any]]:
            found = file.find(run)
            if file.is_copy:
                raise OrderRefusedError(found.header.run_id, _COPY)
            checked = judged(kind, content, found)
            if seen is not None and str(checked.get("attempt")) != seen:
                reason = "the effect was called again since this page was made: look at it anew"
                raise OrderRefusedError(found.header.run_id, reason)
            return found.header.run_id, checked

        # Read first, since opening to write would create a file that is missing.
        run_id, checked = await reader.ask(look)
        entry = await reader.work(lambda: self._put(run_id, kind, dump(checked)))
        await self._outcome(entry)
        shown = urlencode({"id": run_id, "entry": entry})
        return RedirectResponse(f"/run?{shown}", 303)

    def _put(self, run_id: str, kind: str, data: bytes) -> int:
        with open_store_for_mail(self._console.reader.path) as store:
            mailbox = Mailbox(store, clock=self._console.clock)
            return patiently(lambda: mailbox.put(run_id, kind, data))

    async def _outcome(self, entry: int) -> None:
        """Wait a little for what a host makes of it: the page then shows it at once."""
        for _ in range(CONSOLE_OUTCOME_MS // OUTCOME_POLL_MS):
            if await self._console.reader.ask(lambda file: outcome_of(file, entry)) is not None:
                return
            await asyncio.sleep(OUTCOME_POLL_MS / _MS_PER_S)


async def _fields(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        what, expected = "this is no form", _FORM
        raise RequestRefusedError(what, expected)
    body = bytearray()
    async with aclosing(request.stream()) as parts:
        async for part in parts:
            body += part
            if len(body) > CONSOLE_BODY_BYTES_MAX:
                what, expected = "the form is too long", f"at most {CONSOLE_BODY_BYTES_MAX} bytes"
                raise RequestRefusedError(what, expected)
    try:
        found = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=CONSOLE_FIELDS_MAX,
        )
    except ValueError as error:
        what, expected = "the form cannot be read", "fields as a browser encodes them"
        raise RequestRefusedError(what, expected) from error
    if any(len(values) > 1 for values in found.values()):
        what, expected = "a field is there twice", "each once"
        raise RequestRefusedError(what, expected)
    return {name: values[0] for name, values in found.items()}


def _text(given: Mapping[str, str], name: str) -> str:
    text = given.get(name, "").strip()
    if not text:
        what, expected = f"the field {name!r} is empty", "a text"
        raise RequestRefusedError(what, expected)
    return text


def _json(text: str) -> Any:
    try:
        return load(text.encode())
    except (DecodeError, UnicodeEncodeError) as error:
        what = f"the value is no JSON ({error})"
        expected = 'JSON, such as {"by": "Kim"} or "a text"'
        raise RequestRefusedError(what, expected) from error


def _data(given: Mapping[str, str]) -> dict[str, Any]:
    value = _json(given.get("data", "").strip() or "{}")
    if not isinstance(value, dict):
        what, expected = "the data is no object", 'values by name, such as {"by": "Kim"}'
        raise RequestRefusedError(what, expected)
    return value
