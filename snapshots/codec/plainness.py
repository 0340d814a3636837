"""The check that most values pass: they are JSON as they stand, and need no walk that copies."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from snapshots.codec.scalars import INT_MAX, INT_MIN
from snapshots.limits import VALUE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTAINERS_MAX: Final = 10_000
"""Of containers in one level: an object that lies in itself many times over is not followed."""
_SHORT_MIN: Final = 1 - 2**30
_SHORT_MAX: Final = 2**30 - 1
"""The whole numbers that the interpreter keeps in one digit: most, and quickly compared."""


def is_plain(  # noqa: C901, PLR0912 - a hot loop: a call for each scalar doubles its cost
    value: object,
) -> bool:
    """Whether every value in a dict or list is one that JSON says by itself, exactly.

    Keys are left to the encoder, which takes none but texts, and so is half a surrogate pair. A
    value that is no container says no, as does what the full walk must look at.
    """
    below: list[Iterable[Any]]
    if type(value) is dict:
        below = [value.values()]
    elif type(value) is list:
        below = [value]
    else:
        return False
    total = 0.0
    for _ in repeat(None, VALUE_DEPTH_MAX):
        level, below = below, []
        for held in level:
            for item in held:
                kind = type(item)
                # In the order of how often they are met.
                if kind is str:
                    continue
                if kind is int:
                    if item <= _SHORT_MAX and item >= _SHORT_MIN:
                        continue
                    if INT_MIN <= item <= INT_MAX:
                        continue
                    return False
                if kind is float:
                    total += item
                elif kind is bool or item is None:
                    continue
                elif kind is dict:
                    below.append(item.values())
                elif kind is list:
                    below.append(item)
                else:
                    return False
        if not below:
            # NaN and infinities stay in a sum. One that only grew too large is walked in full.
            return total - total == 0.0
        if len(below) > _CONTAINERS_MAX:
            return False
    return False
