"""Containers other than lists and text-keyed dicts: their kinds, and how each is built again."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapshots.codec.text import dump
from snapshots.codec.trails import MEMBER, MalformedError, RefusedError, expect, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.codec.reading import Reader
    from snapshots.codec.text import Plain
    from snapshots.codec.writing import Writer

D = TypeVar("D", bound=dict[Any, Any])
S = TypeVar("S", bound=Sized)

_FACTORIES: Final[Mapping[str, type]] = {
    cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)
}


def write_tuple(writer: Writer, value: tuple[Any, ...], depth: int) -> Plain:
    """Return a tuple's items."""
    return {"$": "tuple", "v": writer.items(list(value), depth, value)}


def write_deque(writer: Writer, value: deque[Any], depth: int) -> Plain:
    """Return a deque's items, and its bound if it has one."""
    plain: dict[str, Plain] = {"$": "deque", "v": writer.items(list(value), depth, value)}
    if value.maxlen is not None:
        plain["maxlen"] = value.maxlen
    return plain


def write_set(writer: Writer, value: set[Any], depth: int) -> Plain:
    """Return a set's items in the order of their bytes, which no hash seed changes."""
    return {"$": "set", "v": _members(writer, value, depth)}


def write_frozenset(writer: Writer, value: frozenset[Any], depth: int) -> Plain:
    """Return a frozen set's items in the order of their bytes, which no hash seed changes."""
    return {"$": "frozenset", "v": _members(writer, value, depth)}


def write_ordereddict(writer: Writer, value: OrderedDict[Any, Any], depth: int) -> Plain:
    """Return an ordered dict's keys and values in turn."""
    return {"$": "ordereddict", "v": writer.pairs(value.items(), depth, value)}


def write_counter(writer: Writer, value: Counter[Any], depth: int) -> Plain:
    """Return a counter's keys and counts in turn."""
    return {"$": "counter", "v": writer.pairs(value.items(), depth, value)}


def write_defaultdict(writer: Writer, value: defaultdict[Any, Any], depth: int) -> Plain:
    """Return a dict with a factory for what is missing, if that is a built-in type or None."""
    factory: Any = value.default_factory
    name = getattr(factory, "__name__", None)
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        reason = f"its default_factory is not one of None, {', '.join(_FACTORIES)}"
        raise RefusedError(value, reason=reason)
    return {
        "$": "defaultdict",
        "factory": name,
        "v": writer.pairs(value.items(), depth, value),
    }


def read_tuple(reader: Reader, plain: dict[str, Plain], depth: int) -> tuple[Any, ...]:
    """Build a tuple."""
    return tuple(reader.items(plain["v"], depth))


def read_deque(reader: Reader, plain: dict[str, Plain], depth: int) -> deque[Any]:
    """Build a deque."""
    items = reader.items(plain["v"], depth)
    bound = expect(plain["maxlen"], int) if "maxlen" in plain else len(items)
    if bound < len(items):
        raise MalformedError(reason="more items than its bound")
    return deque(items, bound if "maxlen" in plain else None)


def read_set(reader: Reader, plain: dict[str, Plain], depth: int) -> set[Any]:
    """Build a set."""
    items = reader.items(plain["v"], depth)
    return _all_of(set(items), len(items))


def read_frozenset(reader: Reader, plain: dict[str, Plain], depth: int) -> frozenset[Any]:
    """Build a frozen set."""
    items = reader.items(plain["v"], depth)
    return _all_of(frozenset(items), len(items))


def read_dict(reader: Reader, plain: dict[str, Plain], depth: int) -> dict[Any, Any]:
    """Build a dict with other keys than texts, or one that is "$"."""
    return _filled({}, reader, plain, depth)


def read_ordereddict(reader: Reader, plain: dict[str, Plain], depth: int) -> OrderedDict[Any, Any]:
    """Build an ordered dict."""
    return _filled(OrderedDict(), reader, plain, depth)


def read_counter(reader: Reader, plain: dict[str, Plain], depth: int) -> Counter[Any]:
    """Build a counter."""
    return _filled(Counter(), reader, plain, depth)


def read_defaultdict(reader: Reader, plain: dict[str, Plain], depth: int) -> defaultdict[Any, Any]:
    """Build a dict with a factory for what is missing."""
    name = plain["factory"]
    if name is not None and expect(name, str) not in _FACTORIES:
        raise MalformedError(reason=f"{shown(name)} is no factory that is ever stored")
    return _filled(defaultdict(_FACTORIES[name] if name else None), reader, plain, depth)


def _members(writer: Writer, value: set[Any] | frozenset[Any], depth: int) -> list[Plain]:
    try:
        return sorted(writer.items(list(value), depth, value), key=dump)
    except RefusedError as refused:
        # A member has no address: the position that was noted is an accident of this process.
        if refused.steps and refused.steps[-1][1] is value:
            refused.steps[-1] = (MEMBER, value)
        raise


def _filled(empty: D, reader: Reader, plain: dict[str, Plain], depth: int) -> D:
    items = reader.items(plain["v"], depth)
    keys, values = items[::2], items[1::2]
    for key, value in zip(keys, values, strict=True):
        empty[key] = value
    return _all_of(empty, len(keys))


def _all_of(found: S, count: int) -> S:
    if len(found) != count:
        raise MalformedError(reason="two of its members or keys are equal")
    return found
