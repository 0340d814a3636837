"""What the console refuses: each error knows the status of its answer and writes its message."""

from __future__ import annotations

from typing import ClassVar

from snapshots.errors import SnapshotsError


class ConsoleError(SnapshotsError):
    """Root of what the console refuses; `http_status` is the status of the answer."""

    http_status: ClassVar[int] = 500


class CrowdedError(ConsoleError):
    """More is asked at once than the console answers. Fields: `what`; `limit`."""

    http_status = 503
    retryable = True

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        self.limit = limit
        super().__init__(f"there are {limit} {what} already, expected fewer: try again shortly")


class RequestRefusedError(ConsoleError):
    """A request that no page of the console makes. Fields: `what` is wrong; `expected`."""

    http_status = 400

    def __init__(self, what: str, expected: str) -> None:
        self.what = what
        self.expected = expected
        super().__init__(f"{what}; expected {expected}")


class ForbiddenError(RequestRefusedError):
    """A request that somebody else's page makes, or one without the token."""

    http_status = 403


class TokenError(ConsoleError):
    """A token that is of no use as a secret. Fields: `reason`; the token is not told."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the token is refused: {reason}")


class PortTakenError(ConsoleError):
    """The console cannot listen on a port. Fields: `port`; `detail`."""

    def __init__(self, port: int, detail: str) -> None:
        self.port = port
        self.detail = detail
        super().__init__(
            f"cannot listen on port {port} of 127.0.0.1 ({detail}): choose another with --port,"
            " or 0 for any that is free"
        )
