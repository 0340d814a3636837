"""Cursors: how far a poller has come in what it reads, never less far than before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshots.storage.values import Values


class PollCursor:
    """One position that only moves forward, on disk when `advance` returns.

    A position is any value that the codec stores and that compares with the positions before it:
    a number, a text, a time, a tuple of such.
    """

    def __init__(self, values: Values, name: str) -> None:
        self._values = values
        self._name = name

    def __repr__(self) -> str:
        return f"<PollCursor {self._name!r}>"

    def position(self) -> Any:
        """Return how far it has come, None if it has not moved yet."""
        return self._values.get(self._name)

    def advance(self, position: Any) -> bool:
        """Move to a position behind the present one; return False, and stay, if it is not.

        Raises TypeError for a position that does not compare with the present one, and for one
        behind which nothing would ever lie: None, and a number that is none (NaN).
        """
        if position is None or position != position:  # noqa: PLR0124 - only NaN differs from itself
            message = f"cursor {self._name!r}: nothing lies behind {position!r}; give a position"
            raise TypeError(message)
        with self._values.transaction():
            present = self.position()
            if present is not None and not present < position:
                return False
            self._values.put(self._name, position)
            return True
