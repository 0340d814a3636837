"""The check that most values pass: they are JSON as they stand, and need no walk that copies."""

from __future__ import annotations

from itertools import repeat
from typing import Final

from snapshots.codec.scalars import INT_MAX, INT_MIN
from snapshots.limits import VALUE_DEPTH_MAX

_CONTAINERS_MAX: Final = 10_000
"""Of containers in one level: an object that lies in itself many times over is not followed."""


def is_plain(  # noqa: C901, PLR0911 - a hot loop: a call for each scalar doubles its cost
    value: object,
) -> bool:
    """Whether every value in a dict or list is one that JSON says by itself, exactly.

    Keys are left to the encoder, which takes none but texts, and so is half a surrogate pair. A
    value that is no container says no, as does what the full walk must look at.
    """
    level: list[object] = [value]
    if type(value) is not dict and type(value) is not list:
        return False
    for _ in repeat(None, VALUE_DEPTH_MAX):
        below: list[object] = []
        for held in level:
            for item in held.values() if type(held) is dict else held:  # type: ignore[attr-defined]  # a dict or a list
                kind = type(item)
                if kind is str or kind is bool or item is None:
                    continue
                if kind is int:
                    if INT_MIN <= item <= INT_MAX:
                        continue
                    return False
                if kind is float:
                    if item - item == 0.0:
                        continue
                    return False
                if kind is not dict and kind is not list:
                    return False
                below.append(item)
        if not below:
            return True
        if len(below) > _CONTAINERS_MAX:
            return False
        level = below
    return False
