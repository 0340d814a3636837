"""What is given to approvals, in the form in which it is stored; or why it is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from snapshots.database.places import MEMORY, absolute

if TYPE_CHECKING:
    from collections.abc import Iterable


def several(events: Iterable[str]) -> tuple[str, ...]:
    """Return the events that decide. Raises TypeError for no texts, ValueError for none at all."""
    if isinstance(events, str):
        message = f"events={events!r}: expected a tuple of texts, ({events!r},) for a single one"
        raise TypeError(message)
    named = tuple(events)
    if not named:
        message = "events=(): expected at least one, since nobody could decide else"
        raise ValueError(message)
    if not all(isinstance(event, str) and event for event in named):
        message = f"events={named!r}: expected texts"
        raise TypeError(message)
    return named


def require_names(data: object) -> None:
    """Raise TypeError for data of a decision that could not be given on by name; None is none."""
    if data is None:
        return
    if not isinstance(data, Mapping):
        message = f"data is a {type(data).__name__}: expected a mapping from names to values"
        raise TypeError(message)
    for name in data:
        if not isinstance(name, str):
            message = f"data has {name!r} for a name: expected texts"
            raise TypeError(message)


def as_its_host_has_it(file: str | os.PathLike[str]) -> str:
    """Return a file's path with its links resolved, as whoever opens it has it.

    What is not here is another machine's, and a store in memory has a name of its own.
    """
    text = os.fspath(file)
    is_here = not os.path.isabs(text) or os.path.exists(text)  # noqa: PTH110, PTH117 - on text
    if not text or text.startswith(MEMORY) or not is_here:
        return text
    return absolute(text)
