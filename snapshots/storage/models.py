"""What a contract may name as the form of its values: a dataclass, a pydantic or a msgspec class.

Stored is what such a value consists of, as plain data, and not the instance: a migration gets the
plain data of the version it starts from, whose class may not exist any more.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Union, get_args, get_origin
from typing import get_type_hints as hints_of
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTED: Final = (list, set, frozenset)
# What the codec keeps as it is, so that msgspec need not turn it into text.
_KEPT: Final = (bytes, bytearray, date, datetime, time, timedelta, Decimal, UUID)


class Form(Protocol):
    """How plain data becomes a value, and a value plain data."""

    def make(self, plain: Any) -> Any:
        """Return the value that plain data makes; raises whatever is wrong with it."""

    def plain(self, value: Any) -> Any:
        """Return what a value consists of; what is plain data already is returned as it is."""


def form_of(cls: type) -> Form:
    """Return the form that a class gives to values.

    Raises TypeError for a class that is neither a dataclass nor one of pydantic or msgspec.
    """
    if hasattr(cls, "__pydantic_fields_set__"):
        return _Pydantic(cls)
    if hasattr(cls, "__struct_fields__"):
        return _Msgspec(cls)
    if dataclasses.is_dataclass(cls):
        return _Dataclass(cls)
    message = (
        f"{cls.__qualname__} is no form for values: expected a dataclass, a pydantic or a msgspec"
        " class, or a function that judges a value"
    )
    raise TypeError(message)


class _Dataclass:
    """A dataclass, and its annotations as far as they are plain."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._fields = tuple(field.name for field in dataclasses.fields(cls) if field.init)

    def make(self, plain: Any) -> Any:
        """Call the class with the data by name, and compare the fields with their annotations."""
        if not isinstance(plain, Mapping):
            message = f"expected a mapping, found {type(plain).__name__}"
            raise TypeError(message)
        value = self._cls(**plain)
        hints = hints_of(self._cls)
        for name in self._fields:
            found = getattr(value, name)
            if not fits(found, hints[name]):
                expected = _shown(hints[name])
                message = f"its field {name!r} is a {type(found).__name__}, expected {expected}"
                raise TypeError(message)
        return value

    def plain(self, value: Any) -> Any:
        """Return the fields by name."""
        if not isinstance(value, self._cls):
            return value
        return {name: getattr(value, name) for name in self._fields}


class _Pydantic:
    """A pydantic model."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def make(self, plain: Any) -> Any:
        """Have the model validate the data."""
        return self._cls.model_validate(plain)

    def plain(self, value: Any) -> Any:
        """Return what the model can be made of again; a secret in it stays what it is."""
        if not isinstance(value, self._cls):
            return value
        return value.model_dump(by_alias=True, round_trip=True)


class _Msgspec:
    """A msgspec struct."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def make(self, plain: Any) -> Any:
        """Have msgspec convert the data, strictly."""
        # A class of msgspec's is here, so msgspec is imported.
        return sys.modules["msgspec"].convert(plain, self._cls)

    def plain(self, value: Any) -> Any:
        """Return what the struct can be converted from again."""
        if not isinstance(value, self._cls):
            return value
        return sys.modules["msgspec"].to_builtins(value, builtin_types=_KEPT)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; one that is not understood says nothing.

    Understood are classes, unions, literals, and lists, sets, tuples and mappings of such. An int
    is a float too, as PEP 484 has it; a bool is no int.
    """
    if hint is None:
        return value is None
    if isinstance(hint, type) and get_origin(hint) is None:
        return _is_a(value, hint)
    origin, parts = get_origin(hint), get_args(hint)
    judge = _JUDGES.get(origin)
    return True if judge is None else judge(value, origin, parts)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def _is_a(value: Any, cls: type) -> bool:
    if isinstance(value, bool):
        return cls in (bool, object, Any)
    if cls is float:
        return isinstance(value, float | int)
    try:
        return isinstance(value, cls)
    except TypeError:
        return True  # Any, a protocol, a typed dict: no class that values are instances of


def _any_of(value: Any, _: Any, parts: tuple[Any, ...]) -> bool:
    return any(fits(value, part) for part in parts)


def _one_of(value: Any, _: Any, parts: tuple[Any, ...]) -> bool:
    return any(type(value) is type(part) and value == part for part in parts)


def _each(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    return isinstance(value, origin) and all(fits(item, parts[0]) for item in value)


def _tuple(value: Any, _: Any, parts: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if parts and parts[-1] is Ellipsis:
        return all(fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(fits, value, parts))


def _mapping(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    return isinstance(value, origin) and all(
        fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items()
    )


_JUDGES: Final[dict[Any, Callable[[Any, Any, tuple[Any, ...]], bool]]] = {
    Union: _any_of,
    UnionType: _any_of,
    Literal: _one_of,
    tuple: _tuple,
    dict: _mapping,
    Mapping: _mapping,
    **dict.fromkeys(_LISTED, _each),
}
