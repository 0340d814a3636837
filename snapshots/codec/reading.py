"""The walk from a JSON structure back to a value: it decodes, or it raises; it imports nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from snapshots.codec import containers, scalars
from snapshots.codec.anatomy import ATTRIBUTES, NAMES, Anatomy, anatomy_of
from snapshots.codec.faults import message_of, read_error
from snapshots.codec.trails import DEEP, MalformedError, expect, shown
from snapshots.limits import VALUE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from snapshots.codec.text import Plain

Read: TypeAlias = Callable[["Reader", dict[str, "Plain"], int], Any]

_SCALARS: Final = frozenset({NoneType, bool, int, float, str})


class Tag(NamedTuple):
    """A kind of tagged object: what reads it, the keys it always has, those it may have."""

    read: Read
    needed: frozenset[str]
    allowed: frozenset[str]


class Reader:
    """Builds values of the built-in types and of the classes that it was given by name."""

    __slots__ = ("classes", "errors")

    def __init__(self, names: Mapping[type, str]) -> None:
        self.errors: dict[str, type[Exception]] = {}
        self.classes: dict[str, Anatomy | type[Enum]] = {}
        for cls, name in names.items():
            if issubclass(cls, Exception):
                self.errors[name] = cls
            elif issubclass(cls, Enum):
                self.classes[name] = cls
            elif not issubclass(cls, BaseException):
                self.classes[name] = anatomy_of(cls)

    def whole(
        self, plain: Plain, root: str, omit: Collection[str], depth: int = VALUE_DEPTH_MAX
    ) -> Any:
        """Return the value that a JSON structure stands for, sharing no container with it.

        Raises:
            DecodeError: it stands for none here; the place begins with `root`.
        """
        try:
            if omit and type(plain) is dict and plain.get("$") == "object":
                return self._tagged(plain, depth, omit)
            return self.value(plain, depth)
        except MalformedError as malformed:
            raise malformed.told(root) from malformed.__cause__
        except RecursionError:
            reason = "the call stack of this thread is too deep to walk it"
            raise MalformedError(reason=reason).told(root) from None

    def value(self, plain: Plain, depth: int) -> Any:
        """Return the value that any JSON structure stands for."""
        kind = type(plain)
        if kind in _SCALARS:
            return plain
        if kind is list:
            return self.items(plain, depth)
        if kind is not dict:
            raise MalformedError(reason=f"{kind.__name__} is not JSON")
        return self._tagged(plain, depth, ()) if "$" in plain else self.attributes(plain, depth)

    def items(self, plain: Plain, depth: int) -> list[Any]:
        """Return the values of a JSON array."""
        items: list[Any] = expect(plain, list).copy()
        if not depth:
            raise MalformedError(reason=DEEP)
        index = 0
        try:
            for index, item in enumerate(items):
                if type(item) not in _SCALARS:
                    items[index] = self.value(item, depth - 1)
        except MalformedError as malformed:
            malformed.within(index, plain)
            raise
        return items

    def attributes(self, plain: Plain, depth: int) -> dict[str, Any]:
        """Return the named values of a JSON object, whatever its keys mean elsewhere."""
        found: dict[str, Any] = expect(plain, dict).copy()
        if not depth:
            raise MalformedError(reason=DEEP)
        key = ""
        try:
            for key, item in found.items():
                if type(item) not in _SCALARS:
                    # The key is there already, so the dict keeps its size while it is walked.
                    found[key] = self.value(item, depth - 1)
        except MalformedError as malformed:
            malformed.within(key, plain)
            raise
        return found

    def _tagged(self, plain: dict[str, Plain], depth: int, omit: Collection[str]) -> Any:
        name = plain["$"]
        tag = TAGS.get(name) if type(name) is str else None
        if tag is None:
            raise MalformedError(
                reason=f"the kind {shown(name)} is not known; a later release may know it"
            )
        keys = plain.keys()
        if not tag.needed <= keys <= tag.allowed:
            wanted = ", ".join(sorted(tag.allowed - {"$"}))
            raise MalformedError(reason=f"a tagged {name} does not have the keys {wanted}")
        try:
            if tag.read is read_object:
                return read_object(self, plain, depth, omit)
            return tag.read(self, plain, depth)
        except (MalformedError, MemoryError, RecursionError):
            raise
        except Exception as error:
            # Whatever a type makes of contents that it never wrote, its own hooks included.
            told = f"{type(error).__qualname__}: {shown(message_of(error))}"
            reason = f"no {name} can be made of it: {told}"
            raise MalformedError(reason=reason) from error


def read_enum(reader: Reader, plain: dict[str, Plain], depth: int) -> Enum:
    """Return a member of a registered enum, or a combination of its flags."""
    cls = _class(reader, plain["class"])
    if isinstance(cls, Anatomy):
        raise MalformedError(reason=f"{shown(plain['class'])} is not registered as an enum")
    member = reader.value(plain["v"], depth)
    if type(member) is str:
        if member not in cls.__members__:
            raise MalformedError(
                reason=f"{shown(plain['class'])} has no member {shown(member)}; migrate it"
            )
        return cls.__members__[member]
    if not issubclass(cls, Flag) or type(member) is not int:
        raise MalformedError(reason=f"{shown(member)} is not the name of a member")
    found = cls(member)
    if type(found) is not cls or found._value_ != member:
        raise MalformedError(reason=f"{shown(plain['class'])} has no flags {shown(member)}")
    return found


def read_object(
    reader: Reader, plain: dict[str, Plain], depth: int, omit: Collection[str] = ()
) -> object:
    """Build an instance of a registered class, without running its code."""
    anatomy = _class(reader, plain["class"])
    if not isinstance(anatomy, Anatomy):
        raise MalformedError(reason=f"{shown(plain['class'])} is registered as an enum")
    sections: dict[str, Any] = {}
    for section, content in plain.items():
        if section in ATTRIBUTES:
            sections[section] = reader.attributes(content, depth)
        elif section in NAMES:
            sections[section] = [expect(name, str) for name in expect(content, list)]
        elif section == "base":
            sections[section] = reader.value(content, depth)
    return anatomy.build(sections, omit)


def _class(reader: Reader, name: Plain) -> Anatomy | type[Enum]:
    found = reader.classes.get(expect(name, str))
    if found is None:
        hint = "register it: Machine(..., types=[...]) or Codec(types=[...])"
        raise MalformedError(reason=f"no class is registered as {shown(name)}; {hint}")
    return found


def _tag(read: Read, *needed: str, may: tuple[str, ...] = ()) -> Tag:
    keys = frozenset({"$", "v", *needed})
    return Tag(read, keys, keys | set(may))


TAGS: Final[Mapping[str, Tag]] = MappingProxyType(
    {
        "int": _tag(scalars.read_int),
        "float": _tag(scalars.read_float),
        "tuple": _tag(containers.read_tuple),
        "set": _tag(containers.read_set),
        "frozenset": _tag(containers.read_frozenset),
        "dict": _tag(containers.read_dict),
        "ordereddict": _tag(containers.read_ordereddict),
        "counter": _tag(containers.read_counter),
        "defaultdict": _tag(containers.read_defaultdict, "factory"),
        "deque": _tag(containers.read_deque, may=("maxlen",)),
        "bytes": _tag(scalars.read_bytes),
        "bytearray": _tag(scalars.read_bytearray),
        "decimal": _tag(scalars.read_decimal),
        "uuid": _tag(scalars.read_uuid),
        "date": _tag(scalars.read_date),
        "datetime": _tag(scalars.read_datetime, may=("tz", "fold")),
        "time": _tag(scalars.read_time, may=("tz", "fold")),
        "timedelta": _tag(scalars.read_timedelta),
        "timezone": _tag(scalars.read_timezone, may=("name",)),
        "zone": _tag(scalars.read_zone),
        "path": _tag(scalars.read_path, "class"),
        "error": _tag(read_error, "type"),
        "enum": _tag(read_enum, "class"),
        "object": _tag(read_object, "class", may=("base", *ATTRIBUTES, *NAMES)),
    }
)
