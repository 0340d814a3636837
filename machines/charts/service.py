"""Calls of an HTTP service that the example charts make, each with its idempotency key.

They block, as most clients do: an effect that is a plain function is run in a thread.
"""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlencode

from snapshots.codec import dump, load

PATIENCE_S: Final = 5.0
"""How long an answer is waited for."""
KEY_HEADER: Final = "Idempotency-Key"
RETRIES: Final = 50
RETRY_S: Final = 0.05


class RefusedError(Exception):
    """The service says that it did not do it, and will not."""


def post(service: str, what: str, *, key: str, **fields: Any) -> str:
    """Have the service (`host:port`) do something once; return its reference for it.

    Raises RefusedError for an answer that is a refusal. After any other error nobody knows
    whether it was done.
    """
    answer = _ask(service, "POST", f"/{what}", dump(fields), {KEY_HEADER: key})
    return str(answer["reference"])


def find(service: str, what: str, *, key: str) -> str | None:
    """Return the service's reference for what was asked for with a key, None if it never was."""
    reference = ask(service, what, key=key)["reference"]
    return None if reference is None else str(reference)


def ask(service: str, what: str, **query: Any) -> dict[str, Any]:
    """Return what the service answers to a question, which changes nothing.

    Raises RefusedError if there is nothing of that name, or no more.
    """
    return _ask(service, "GET", f"/{what}?{urlencode(query)}", None, {})


def shortly(attempt: int) -> float:
    """Return the pause before another attempt, in seconds."""
    del attempt
    return RETRY_S


def _ask(
    service: str, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> dict[str, Any]:
    connection = HTTPConnection(service, timeout=PATIENCE_S)
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        # Closed before anyone is told, so that the service can see that nobody waits any more.
        connection.close()
    if response.status // 100 == 4:  # noqa: PLR2004 - the class of client errors, RFC 9110 section 15.5
        raise RefusedError(text.decode("utf-8", "replace"))
    if response.status // 100 != 2:  # noqa: PLR2004 - the class of success, RFC 9110 section 15.3
        message = f"{service} answered {response.status} to {method} {target}"
        raise ConnectionError(message)
    answer: dict[str, Any] = load(text)
    return answer
