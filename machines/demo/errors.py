"""What can go wrong with the demo's own processes, so that it cannot come to a verdict."""

from __future__ import annotations

from machines.errors import MachinesError


class DemoError(MachinesError):
    """A process of the demo did not do its part; nothing is said about the product."""

    def __init__(self, process: str, reason: str, words: str) -> None:
        last = f"; its last words: {words}" if words else ""
        super().__init__(
            f"the demo's {process} {reason}{last}", process=process, reason=reason, words=words
        )
