"""Classes that the codec's tests store, and `same`, which compares values without mercy."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from functools import cached_property
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs

from snapshots.codec import Codec, StoredError, persistent


class Colour(Enum):
    RED = "r"
    CRIMSON = "r"  # noqa: PIE796 - a second name of RED is what is tested
    BLUE = ("b", 2)

    @property
    def name(self) -> str:
        """Hide the name that the enum machinery keeps."""
        return "hidden"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"
    NO = "no"


class Access(Flag):
    READ = 1
    WRITE = 2
    RUN = 4
    BOTH = 3


class Bits(IntFlag):
    LOW = 1
    HIGH = 1 << 70


@dataclass
class Line:
    sku: str
    price: Any
    _note: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    first: Any
    second: Any = ()


@dataclass
class Late:
    """A class whose fields are filled after it is made, and whose constructor has a say."""

    given: int
    total: int = field(init=False)
    seen: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.given += 1
        self.stamp = "made"

    @cached_property
    def dear(self) -> object:
        return object()


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Spot(Point):
    """A named tuple with room for attributes."""


@attrs.define
class Parcel:
    weight: Any
    _owner: Any = None
    route: list[Any] = attrs.field(factory=list, init=False)


@attrs.frozen(cache_hash=True)
class Hashed:
    key: str


@persistent("tests.plain")
class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__))


class Slotted:
    __slots__ = ("__hidden", "left", "right")

    def __init__(self, left: Any, hidden: Any) -> None:
        self.left = left
        self.__hidden = hidden

    def shown(self) -> Any:
        return self.__hidden


class Label(str):
    __slots__ = ()


class Amount(int):
    pass


class Ratio(float):
    pass


class Blob(bytes):
    pass


class Bag(list):  # type: ignore[type-arg]  # a plain list, extended
    pass


class Pair(tuple):  # type: ignore[type-arg]  # a plain tuple, extended
    __slots__ = ()


class Settings(dict):  # type: ignore[type-arg]  # a plain dict, extended
    pass


class Tags(set):  # type: ignore[type-arg]  # a plain set, extended
    pass


class Frozen(frozenset):  # type: ignore[type-arg]  # a plain frozenset, extended
    pass


@persistent
class DeclinedError(Exception):
    pass


class CodedError(Exception):
    """An exception that its message alone cannot build."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(code, place)
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


ALL = (
    *(Colour, Level, Word, Access, Bits),
    *(Line, Sealed, Late, Point, Spot, Parcel, Hashed, Plain, Slotted),
    *(Label, Amount, Ratio, Blob, Bag, Pair, Settings, Tags, Frozen),
    *(DeclinedError, CodedError),
)

CODEC = Codec(ALL)


def same(one: object, other: object) -> bool:
    """Whether two values are of the same types all through, and equal where NaN equals NaN."""
    if type(one) is not type(other):
        return False
    compare = _COMPARE.get(type(one))
    if compare is not None:
        return bool(compare(one, other))
    if isinstance(one, Enum):
        return one is other
    if isinstance(one, StoredError):
        return _attributes(one) == _attributes(other)
    if isinstance(one, BaseException):
        return str(one) == str(other)
    base = next((base for base in _COMPARE if base is not object and isinstance(one, base)), None)
    inside = base is None or _COMPARE[base](one, other)
    return bool(inside) and _same_items(_attributes(one), _attributes(other))


def _attributes(value: object) -> dict[str, object]:
    found = dict(getattr(value, "__dict__", {}))
    for owner in type(value).__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            mangled = f"_{owner.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if hasattr(value, mangled) and name not in ("__dict__", "__weakref__"):
                found[mangled] = getattr(value, mangled)
    return {name: part for name, part in found.items() if name != "dear"}


def _same_float(one: float, other: float) -> bool:
    if math.isnan(one):
        return math.isnan(other)
    return float(one) == float(other) and math.copysign(1, one) == math.copysign(1, other)


def _same_list(one: Any, other: Any) -> bool:
    items, others = list(one), list(other)
    return len(items) == len(others) and all(map(same, items, others))


def _same_items(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    return _same_list(list(one), list(other)) and _same_list(list(one.values()), other.values())


def _same_set(one: Any, other: Any) -> bool:
    left = list(other)
    for item in one:
        index = next((i for i, found in enumerate(left) if same(item, found)), None)
        if index is None:
            return False
        del left[index]
    return not left


def _same_clock(one: Any, other: Any) -> bool:
    same_zone = same(one.tzinfo, other.tzinfo)
    return (
        same_zone
        and one.replace(tzinfo=None) == other.replace(tzinfo=None)
        and (one.fold == other.fold)
    )


_COMPARE: dict[type, Any] = {
    float: _same_float,
    list: _same_list,
    tuple: _same_list,
    dict: _same_items,
    OrderedDict: _same_items,
    Counter: _same_items,
    defaultdict: lambda one, other: (
        one.default_factory is other.default_factory and _same_items(one, other)
    ),
    deque: lambda one, other: one.maxlen == other.maxlen and _same_list(one, other),
    set: _same_set,
    frozenset: _same_set,
    datetime: _same_clock,
    time: _same_clock,
    timezone: lambda one, other: one.__getinitargs__() == other.__getinitargs__(),
    Decimal: lambda one, other: one.as_tuple() == other.as_tuple(),
    str: str.__eq__,
    int: int.__eq__,
    bytes: bytes.__eq__,
    **dict.fromkeys((type(None), bool, ZoneInfo), lambda one, other: one is other),
    **dict.fromkeys(
        (bytearray, date, timedelta, UUID, PosixPath, PurePosixPath, PureWindowsPath),
        lambda one, other: one == other,
    ),
}
