"""One form of encoded values that does not depend on the order in which keys were put in."""

from __future__ import annotations

from typing import Any, Final

from snapshots.codec import Plain, dump, load

# Tagged mappings that are equal whatever the order of their keys; an ordered dict is not.
_UNORDERED: Final = frozenset({"dict", "counter", "defaultdict"})


def canonical(payload: bytes) -> bytes:
    """Return what equal values are encoded to, whatever the order of their keys.

    Raises DecodeError for bytes that are not JSON.
    """
    return dump(_ordered(load(payload)))


def _ordered(plain: Plain) -> Plain:
    if isinstance(plain, list):
        return [_ordered(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    found = {key: _ordered(plain[key]) for key in sorted(plain)}
    if found.get("$") in _UNORDERED:
        found["v"] = _pairs_ordered(found["v"])
    return found


def _pairs_ordered(flat: list[Any]) -> list[Any]:
    pairs = sorted(zip(flat[::2], flat[1::2], strict=True), key=lambda pair: dump(pair[0]))
    return [part for pair in pairs for part in pair]
