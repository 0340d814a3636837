"""The registry: which classes a codec knows, by which names, and which may be registered at all."""

from __future__ import annotations

import builtins
import struct
import sys
from collections import Counter
from datetime import tzinfo
from enum import Enum
from pathlib import Path, PurePath
from types import MappingProxyType, MemberDescriptorType
from typing import TYPE_CHECKING, Final, Generic, TypeVar, overload
from uuid import UUID

from snapshots.codec.trails import type_name
from snapshots.limits import CLASS_NAME_CHARS_MAX
from snapshots.records import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME_ATTRIBUTE: Final = "__snapshot_name__"
RUN_AS_SCRIPT: Final = frozenset({"__main__", "__mp_main__"})
"""What Python calls a module that is run, here or in a process that `multiprocessing` began."""

# The built-in types whose subclasses can be taken apart into the built-in value and attributes.
BASES: Final[tuple[type, ...]] = (
    str, int, float, bytes, bytearray, list, dict, tuple, set, frozenset,
)  # fmt: skip

# Their attributes hold caches and views of a value that is not in the attributes.
_CLOSED: Final[tuple[type, ...]] = (Counter, PurePath, UUID, type)

_PYDANTIC_SECRETS: Final = frozenset({"Secret", "SecretStr", "SecretBytes"})
_POINTER_BYTES: Final = struct.calcsize("P")
_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made while the program runs

C = TypeVar("C", bound=type)


@overload
def persistent(cls_or_name: C) -> C: ...
@overload
def persistent(cls_or_name: str) -> Callable[[C], C]: ...
def persistent(cls_or_name: C | str) -> C | Callable[[C], C]:
    """Mark a class with the name it is stored under: `@persistent` or `@persistent("order")`.

    The mark registers nothing and is not inherited. Without a name in the mark it is the name of
    the class; a class without a mark is stored under "module:qualified name", which changes when
    the class moves.

    Raises:
        ValueError: the name is empty, too long or not printable.
    """
    if isinstance(cls_or_name, str):
        name = cls_or_name

        def mark(cls: C) -> C:
            setattr(cls, NAME_ATTRIBUTE, _checked_name(name))
            return cls

        return mark
    setattr(cls_or_name, NAME_ATTRIBUTE, cls_or_name.__name__)
    return cls_or_name


def stored_name(cls: type) -> str:
    """Return the name of a class in stored bytes: its own mark, or "module:qualified name".

    A module that is run as a script has the name that it is imported by, so that what it wrote can
    be read by who imports it, and the other way round.
    """
    name: str | None = cls.__dict__.get(NAME_ATTRIBUTE)
    return f"{_module_of(cls)}:{cls.__qualname__}" if name is None else name


def _module_of(cls: type) -> str:
    if cls.__module__ not in RUN_AS_SCRIPT:
        return cls.__module__
    script = sys.modules.get(cls.__module__)
    spec = getattr(script, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    path = getattr(script, "__file__", None)
    return cls.__module__ if path is None else Path(path).stem


def registry(types: Iterable[type], known: Iterable[type]) -> Mapping[type, str]:
    """Return the name of each class, those in `known` (which need no name) left out.

    Raises:
        TypeError: something is no class, or a class whose values could not come back.
        ValueError: two classes have one name.
    """
    builtin = frozenset(known)
    names: dict[type, str] = {}
    taken: dict[str, type] = {}
    for cls in types:
        if not isinstance(cls, type):
            message = f"{cls!r} is not a class: expected the classes that values are made of"
            raise TypeError(message)
        if cls in builtin or cls in names:
            continue
        if (obstacle := why_not(cls)) is not None:
            message = f"{type_name(cls)} cannot be registered: {obstacle}"
            raise TypeError(message)
        name = _checked_name(stored_name(cls))
        if issubclass(cls, BaseException) and hasattr(builtins, name):
            message = f"{type_name(cls)} is named {name!r} like a built-in: expected another name"
            raise ValueError(message)
        if name in taken:
            message = (
                f"{type_name(taken[name])} and {type_name(cls)} are both named {name!r}:"
                ' give one of them another name with @persistent("name")'
            )
            raise ValueError(message)
        names[cls] = name
        taken[name] = cls
    return MappingProxyType(names)


def is_secret(cls: type) -> bool:
    """Whether a class keeps a secret from being shown: ours, and pydantic's if it is there."""
    return issubclass(cls, Secret) or any(
        base.__name__ in _PYDANTIC_SECRETS and base.__module__.startswith("pydantic.")
        for base in cls.__mro__
    )


def base_of(cls: type) -> type | None:
    """Return the built-in type that a class extends, None if that is `object`."""
    return next((base for base in BASES if issubclass(cls, base)), None)


def slots_of(cls: type) -> tuple[str, ...]:
    """Return the names of the attributes that live in slots, mangled as Python does it."""
    names: dict[str, None] = {}
    for owner in cls.__mro__:
        if "__slots__" in owner.__dict__:
            names |= {
                name: None
                for name, member in owner.__dict__.items()
                if type(member) is MemberDescriptorType
            }
    return tuple(names)


def why_not(cls: type) -> str | None:
    """Return why values of a class could not come back, None if they can be tried."""
    if is_secret(cls):
        return "a secret is never stored; store what it is found by, and look it up when needed"
    if issubclass(cls, (Enum, BaseException)):
        return None
    if issubclass(cls, tzinfo):
        return "only datetime.timezone and zoneinfo.ZoneInfo come back as they were"
    closed = next((base for base in _CLOSED if issubclass(cls, base)), None)
    if closed is not None:
        return f"a subclass of {type_name(closed)} holds more than its attributes say"
    if not _is_open(cls):
        return "what it holds is not in Python attributes, so it could not come back"
    return None


def _is_open(cls: type) -> bool:
    """Whether all that an instance holds is a built-in value and Python attributes."""
    if hasattr(cls, "__struct_fields__"):
        return True  # msgspec's classes say themselves what they hold
    base = base_of(cls) or object
    made = [owner for owner in cls.__mro__ if owner not in (object, base, Generic)]
    if not made or not all(owner.__flags__ & _HEAP_TYPE for owner in made):
        return False
    pointers = len(slots_of(cls)) + (cls.__weakrefoffset__ != 0) + (cls.__dictoffset__ != 0)
    return cls.__basicsize__ <= base.__basicsize__ + _POINTER_BYTES * pointers


def _checked_name(name: str) -> str:
    if not (0 < len(name) <= CLASS_NAME_CHARS_MAX and name.isprintable()):
        message = (
            f"{name!r} is not a name for a class: expected 1 to {CLASS_NAME_CHARS_MAX}"
            " printable characters"
        )
        raise ValueError(message)
    return name
