"""The walk from a value to a JSON structure: every type is decided here, none left to the encoder.

No path is built on the way. A refusal collects it while it unwinds through the containers.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from snapshots.codec import containers, scalars
from snapshots.codec.anatomy import ATTRIBUTES, anatomy_of
from snapshots.codec.classes import base_of, why_not
from snapshots.codec.faults import write_error
from snapshots.codec.scalars import INT_MAX, INT_MIN, write_str
from snapshots.codec.trails import DEEP, KEY, RefusedError
from snapshots.limits import VALUE_DEPTH_MAX, VALUES_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from snapshots.codec.anatomy import Anatomy
    from snapshots.codec.text import Plain

ALL: Final = object()
MANY: Final = f"more than {VALUES_MAX} values, an object counted wherever it is met again"

_CODE: Final = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)

Write: TypeAlias = Callable[["Writer", Any, int], "Plain"]


class Writer:
    """Writes values of the built-in types and of the classes that it was given by name.

    `write` maps a type to the function that writes its values; a type that is not there is
    refused. A function is told how many levels of containers may still follow.
    """

    __slots__ = ("left", "names", "redact", "write")

    def __init__(self, names: Mapping[type, str], redact: Callable[[str], str] | None) -> None:
        self.names = names
        self.redact = redact
        self.left = VALUES_MAX
        self.write = _Table(BUILTIN)
        for cls, name in names.items():
            if not issubclass(cls, BaseException):
                self.write[cls] = _writer_of(cls, name)

    def whole(self, value: object, root: str, omit: Collection[str]) -> Plain:
        """Return `value` as a JSON structure of fresh lists and dicts.

        Raises:
            EncodeError: something in it would not come back; the path begins with `root`.
        """
        self.left = VALUES_MAX
        try:
            write = self.write[type(value)]
            if omit and isinstance(write, _Instances):
                return write.without(self, value, VALUE_DEPTH_MAX, omit)
            return write(self, value, VALUE_DEPTH_MAX)
        except RefusedError as refused:
            raise refused.told(root) from refused.__cause__
        except RecursionError:
            reason = "the call stack of this thread is too deep to walk it; save from higher up"
            raise RefusedError(value, reason=reason).told(root) from None

    def value(self, value: object, depth: int) -> Plain:
        """Return any value as a JSON structure."""
        return self.write[type(value)](self, value, depth)

    def array(self, value: list[Any], depth: int) -> list[Plain]:
        """Return a list's items."""
        return self.items(value.copy(), depth, value)

    def items(  # noqa: C901 - a hot loop: a call for each scalar doubles its cost
        self, items: list[Any], depth: int, owner: object
    ) -> list[Plain]:
        """Turn a list of values, which is the caller's own copy, into one of JSON structures.

        `owner` is the container that the items lie in, as a refusal shall name it.
        """
        self.left = left = self.left - len(items)
        if left < 0 or not depth:
            raise RefusedError(owner, reason=MANY if depth else DEEP)
        write = self.write
        index = 0
        try:
            for index, item in enumerate(items):
                kind = type(item)
                if kind is str:
                    if item.isascii():
                        continue
                elif kind is int:
                    if INT_MIN <= item <= INT_MAX:
                        continue
                elif kind is NoneType or kind is bool or (kind is float and item - item == 0.0):
                    continue
                items[index] = write[kind](self, item, depth - 1)
        except RefusedError as refused:
            refused.within(index, owner)
            raise
        return items

    def mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Plain]:
        """Return a dict as it is if its keys allow that, else as a tagged one."""
        # The copy is taken in one piece, whatever other threads do to the original.
        found = value.copy()
        if "$" in found:
            return {"$": "dict", "v": self.pairs(found.items(), depth, value)}
        stop = self.attributes(found, depth, value)
        if stop is ALL:
            return found
        # What lies before the first other key is done; to do it again would double each level.
        entries = list(found.items())
        done = next(index for index, (key, _item) in enumerate(entries) if key is stop)
        flat = [part for entry in entries[:done] for part in entry]
        return {"$": "dict", "v": flat + self.pairs(entries[done:], depth, value)}

    def attributes(  # noqa: C901 - the hottest loop: a call for each scalar doubles its cost
        self, found: dict[Any, Any], depth: int, owner: object
    ) -> object:
        """Turn the values of a dict, which is the caller's own copy, into JSON structures in place.

        Returns `ALL`, or the first key that is not a text, where it stopped.
        """
        self.left = left = self.left - len(found)
        if left < 0 or not depth:
            raise RefusedError(owner, reason=MANY if depth else DEEP)
        write = self.write
        key: Any = None
        try:
            for key, item in found.items():
                if type(key) is not str:
                    return key
                if not key.isascii():
                    write_str(self, key, depth)
                kind = type(item)
                if kind is str:
                    if item.isascii():
                        continue
                elif kind is int:
                    if INT_MIN <= item <= INT_MAX:
                        continue
                elif kind is NoneType or kind is bool or (kind is float and item - item == 0.0):
                    continue
                # The key is there already, so the dict keeps its size while it is walked.
                found[key] = write[kind](self, item, depth - 1)
        except RefusedError as refused:
            refused.within(key, owner)
            raise
        return ALL

    def pairs(self, items: Iterable[tuple[Any, Any]], depth: int, owner: object) -> list[Plain]:
        """Return a dict's keys and values in turn."""
        entries = list(items)
        self.left = left = self.left - len(entries)
        if left < 0 or not depth:
            raise RefusedError(owner, reason=MANY if depth else DEEP)
        flat: list[Plain] = []
        step: object = None
        try:
            for key, item in entries:
                step = KEY
                flat.append(self.write[type(key)](self, key, depth - 1))
                step = key
                flat.append(self.write[type(item)](self, item, depth - 1))
        except RefusedError as refused:
            refused.within(step, owner)
            raise
        return flat


class _Table(dict[type, Write]):
    """Says how each type is written; one that was not foreseen is an exception or refused."""

    __slots__ = ()

    def __missing__(self, kind: type) -> Write:
        return write_error if issubclass(kind, BaseException) else _refuse


class _Members:
    """Writes the members of a registered enum: by name, combinations of flags by value."""

    __slots__ = ("_cls", "_name")

    def __init__(self, cls: type[Enum], name: str) -> None:
        self._cls = cls
        self._name = name

    def __call__(self, writer: Writer, value: Enum, depth: int) -> Plain:
        # The sunder names cannot be overridden by a class that has its own `name` or `value`.
        member: Any = value._name_
        if member not in self._cls.__members__:
            if not isinstance(value, Flag):
                raise RefusedError(value, reason="it is no member of its enum")
            member = value._value_
        return {"$": "enum", "class": self._name, "v": writer.value(member, depth)}


class _Instances:
    """Writes the instances of a registered class."""

    __slots__ = ("_anatomy", "_name")

    def __init__(self, anatomy: Anatomy, name: str) -> None:
        self._anatomy = anatomy
        self._name = name

    def __call__(self, writer: Writer, value: object, depth: int) -> Plain:
        return self.without(writer, value, depth, ())

    def without(
        self, writer: Writer, value: object, depth: int, omit: Collection[str]
    ) -> dict[str, Plain]:
        """Return an instance without the attributes named in `omit`."""
        plain: dict[str, Plain] = {"$": "object", "class": self._name}
        for section, content in self._anatomy.apart(value, omit).items():
            if section in ATTRIBUTES:
                plain[section] = self._attributes(writer, value, content, depth)
            elif section == "base":
                plain[section] = writer.value(content, depth)
            else:
                plain[section] = writer.items(list(content), depth, value)
        return plain

    def _attributes(
        self, writer: Writer, value: object, content: dict[Any, Any], depth: int
    ) -> dict[str, Plain]:
        plain = content.copy()
        if writer.attributes(plain, depth, value) is not ALL:
            raise RefusedError(value, reason="the name of one of its attributes is not a text")
        return plain


def _writer_of(cls: type, name: str) -> Write:
    if issubclass(cls, Enum):
        return _Members(cls, name)
    return _Instances(anatomy_of(cls), name)


def _refuse(_writer: Writer, value: object, _depth: int) -> Plain:
    cls = type(value)
    obstacle = "code is not stored; store a name that it is found by"
    if not isinstance(value, _CODE):
        obstacle = why_not(cls) or _unregistered(cls)
    raise RefusedError(value, reason=obstacle)


def _unregistered(cls: type) -> str:
    base = base_of(cls)
    loss = "" if base is None else f", and it would come back as a plain {base.__name__}"
    name = cls.__name__
    return (
        f"its class is not registered{loss}: Machine(..., types=[{name}]) or Codec(types=[{name}])"
    )


BUILTIN: Final[Mapping[type, Write]] = MappingProxyType(
    {
        NoneType: scalars.write_none,
        bool: scalars.write_none,
        int: scalars.write_int,
        float: scalars.write_float,
        str: scalars.write_str,
        list: Writer.array,
        dict: Writer.mapping,
        tuple: containers.write_tuple,
        set: containers.write_set,
        frozenset: containers.write_frozenset,
        deque: containers.write_deque,
        OrderedDict: containers.write_ordereddict,
        Counter: containers.write_counter,
        defaultdict: containers.write_defaultdict,
        bytes: scalars.write_bytes,
        bytearray: scalars.write_bytearray,
        Decimal: scalars.write_decimal,
        UUID: scalars.write_uuid,
        date: scalars.write_date,
        datetime: scalars.write_datetime,
        time: scalars.write_time,
        timedelta: scalars.write_timedelta,
        timezone: scalars.write_timezone,
        ZoneInfo: scalars.write_zone,
        **dict.fromkeys(scalars.PATHS.values(), scalars.write_path),
    }
)
