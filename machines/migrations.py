"""Maps a stored run of another shape to today's: to come, and its place in `Machine` is kept.

A `Migration` names the digest that it starts from and a function from the old snapshot to the new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from an old shape to a newer one."""

    from_digest: str
    function: Callable[[dict[str, Any]], dict[str, Any]]
