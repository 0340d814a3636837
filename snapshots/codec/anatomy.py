"""How an instance of a registered class is taken apart and built, none of the class's code run.

Both ways go through *sections*: `v` and `extra` are the attributes that the class declares and the
others, `unset` names the declared ones without a value, `base` is the value of the built-in type
that the class extends. `set`, `private` and `more` are a pydantic model's fields set, private
attributes and extra fields. A section that would be empty is left out; `v` is always there. What a
cached property has kept is left behind: it is counted anew when it is asked for.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from snapshots.codec.classes import base_of, slots_of, stored_name
from snapshots.codec.trails import MalformedError, RefusedError, shown

if TYPE_CHECKING:
    from collections.abc import Collection

Sections: TypeAlias = dict[str, Any]

ATTRIBUTES: Final = ("v", "extra", "private", "more")
NAMES: Final = ("unset", "set")

# attrs keeps a hash here, which is good in one process only; None makes it count anew.
_ATTRS_HASH: Final = "_attrs_cached_hash"
_MUTABLE: Final = (list, dict, set, bytearray)


def anatomy_of(cls: type) -> Anatomy:
    """Return what instances of a class consist of, by the kind of class that it is."""
    declared: Any = cls
    if hasattr(cls, "__pydantic_fields_set__"):
        return PydanticAnatomy(cls, tuple(declared.model_fields))
    if hasattr(cls, "__struct_fields__"):
        return MsgspecAnatomy(cls, tuple(declared.__struct_fields__))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return NamedTupleAnatomy(cls, tuple(declared._fields))
    if hasattr(cls, "__attrs_attrs__"):
        return Anatomy(cls, tuple(field.name for field in declared.__attrs_attrs__))
    if dataclasses.is_dataclass(cls):
        return Anatomy(cls, tuple(field.name for field in dataclasses.fields(cls)))
    return Anatomy(cls, None)


class Anatomy:
    """A dataclass, an attrs class, or a plain class, which declares nothing: `fields` is None."""

    sections: frozenset[str] = frozenset({"v", "extra", "unset", "base"})

    def __init__(self, cls: type, fields: tuple[str, ...] | None) -> None:
        self.cls = cls
        self.fields = fields
        self.base = base_of(cls)
        self.declared = frozenset(fields or ())
        self.slots = tuple(name for name in slots_of(cls) if name not in self.declared)
        self.has_dict = cls.__dictoffset__ != 0
        self.cached = frozenset(
            name
            for owner in cls.__mro__
            for name, member in owner.__dict__.items()
            if isinstance(member, cached_property)
        )

    def apart(self, value: Any, omit: Collection[str]) -> Sections:
        """Return what `value` consists of, without the attributes named in `omit`.

        Raises:
            RefusedError: an attribute cannot be read.
        """
        own = self._own(value)
        found: dict[str, Any] = {}
        sections: Sections = {"v": found}
        left = len(own)
        for name in self.fields or ():
            if name in omit:
                continue
            if name in own:
                found[name] = own[name]
                left -= 1
            elif not _read(value, name, found):
                sections.setdefault("unset", []).append(name)
        if left or self.slots:
            others = found if self.fields is None else {}
            self._others(value, own, others, omit)
            if others is not found and others:
                sections["extra"] = others
        if self.base is not None:
            sections["base"] = base_value(self.base, value)
        return sections

    def build(self, sections: Sections, omit: Collection[str]) -> object:
        """Return an instance made of `sections`, which may lack the attributes in `omit`.

        Raises:
            MalformedError: something is missing, or there is more than the class has.
        """
        self.check(sections, omit)
        value = self.bare(sections)
        for section in ("v", "extra"):
            for name, part in sections.get(section, {}).items():
                self._put(value, name, part)
        return value

    def check(self, sections: Sections, omit: Collection[str]) -> None:
        """Refuse sections that no instance of the class was ever taken apart into."""
        if not sections.keys() <= self.sections:
            surplus = ", ".join(sorted(sections.keys() - self.sections))
            raise MalformedError(reason=f"its class has no {surplus}")
        found, unset = sections["v"], sections.get("unset", ())
        if self.fields is None:
            if "extra" in sections or unset:
                raise MalformedError(reason="fields set apart, where the class declares none")
            return
        named = {*found, *unset}
        missing = [name for name in self.fields if name not in named and name not in omit]
        others = sorted(named - self.declared)
        if missing or others:
            raise MalformedError(reason=_misfit(self.cls, missing, others))
        if len(named) < len(found) + len(unset) or not self.declared.isdisjoint(
            sections.get("extra", ())
        ):
            raise MalformedError(reason="a field that is there twice")

    def bare(self, sections: Sections) -> Any:
        """Return an instance without attributes."""
        base: Any = self.base
        if base is None:
            if "base" in sections:
                raise MalformedError(reason="a base, where the class extends no built-in type")
            return object.__new__(self.cls)
        content = sections.get("base")
        if type(content) is not base:
            raise MalformedError(
                reason=f"its base is {type(content).__name__}, not {base.__name__}"
            )
        if base not in _MUTABLE:
            return base.__new__(self.cls, content)
        value: Any = base.__new__(self.cls)
        (base.extend if base in (list, bytearray) else base.update)(value, content)
        return value

    def _own(self, value: object) -> dict[str, Any]:
        own: dict[str, Any] = object.__getattribute__(value, "__dict__") if self.has_dict else {}
        return own

    def _others(
        self, value: object, own: dict[str, Any], others: dict[str, Any], omit: Collection[str]
    ) -> None:
        for name in self.slots:
            if name not in omit:
                _read(value, name, others)
        known = self.declared.union(self.cached, omit)
        others |= {name: part for name, part in own.items() if name not in known}
        if _ATTRS_HASH in others:
            others[_ATTRS_HASH] = None

    def _put(self, value: object, name: str, part: object) -> None:
        if name in self.declared or name in self.slots:
            object.__setattr__(value, name, part)
        elif self.has_dict:
            self._own(value)[name] = part
        else:
            raise MalformedError(reason=_misfit(self.cls, [], [name]))


class NamedTupleAnatomy(Anatomy):
    """A named tuple: its fields are the items of the tuple."""

    sections = frozenset({"v", "extra"})

    def apart(self, value: Any, omit: Collection[str]) -> Sections:
        """Return the items by name, and the attributes that a subclass may have."""
        items = list(tuple.__iter__(value))
        if len(items) != len(self.fields or ()):
            raise RefusedError(value, reason="it has not as many items as its class has fields")
        sections = {"v": dict(zip(self.fields or (), items, strict=True))}
        others: dict[str, Any] = {}
        self._others(value, self._own(value), others, omit)
        if others:
            sections["extra"] = others
        return sections

    def build(self, sections: Sections, omit: Collection[str]) -> object:
        """Return the tuple; its items are all there or it is refused."""
        self.check(sections, ())
        items = [sections["v"][name] for name in self.fields or ()]
        value: object = tuple.__new__(self.cls, items)
        for name, part in sections.get("extra", {}).items():
            if name not in omit:
                self._put(value, name, part)
        return value


class PydanticAnatomy(Anatomy):
    """A pydantic model: built like a copy of one, without validation."""

    sections = frozenset({"v", "extra", "unset", "set", "private", "more"})

    def __init__(self, cls: type, fields: tuple[str, ...]) -> None:
        super().__init__(cls, fields)
        # pydantic's own slots have sections of their own.
        self.slots = tuple(name for name in self.slots if not name.startswith("__pydantic_"))

    def apart(self, value: Any, omit: Collection[str]) -> Sections:
        """Return the fields, which of them were given, and what else the model keeps."""
        sections = super().apart(value, omit)
        sections["set"] = sorted(value.__pydantic_fields_set__)
        if value.__pydantic_private__ is not None:
            sections["private"] = value.__pydantic_private__
        if value.__pydantic_extra__ is not None:
            sections["more"] = value.__pydantic_extra__
        return sections

    def build(self, sections: Sections, omit: Collection[str]) -> object:
        """Return a model that equals the one that was taken apart."""
        value: Any = super().build(sections, omit)
        if "set" not in sections:
            raise MalformedError(reason="it does not say which fields were given")
        object.__setattr__(value, "__pydantic_fields_set__", set(sections["set"]))
        object.__setattr__(value, "__pydantic_private__", sections.get("private"))
        object.__setattr__(value, "__pydantic_extra__", sections.get("more"))
        return value

    def _put(self, value: object, name: str, part: object) -> None:
        self._own(value)[name] = part


class MsgspecAnatomy(Anatomy):
    """A msgspec struct, which can only be made by its constructor, `__post_init__` included."""

    sections = frozenset({"v", "extra"})

    def build(self, sections: Sections, omit: Collection[str]) -> object:
        """Return a struct with the fields that were saved, whatever its hook makes of them."""
        self.check(sections, omit)
        found = sections["v"]
        value: Any = self.cls(**found)
        # A class of msgspec's is here, so msgspec is imported.
        put = sys.modules["msgspec"].structs.force_setattr
        for name, part in found.items():
            put(value, name, part)
        for name, part in sections.get("extra", {}).items():
            self._put(value, name, part)
        return value


def base_value(base: Any, value: Any) -> Any:
    """Return the built-in value inside an instance of a subclass, exactly of the built-in type."""
    if base is dict:
        return dict(dict.items(value))
    if base in (set, frozenset):
        return base(base.__iter__(value))
    if base in (str, int, float):
        return getattr(base, f"__{base.__name__}__")(value)
    return base.__getitem__(value, slice(None))


def _read(value: object, name: str, found: dict[str, Any]) -> bool:
    """Put an attribute's value into `found`, or return False if it has none."""
    try:
        found[name] = object.__getattribute__(value, name)
    except AttributeError:
        return False
    except Exception as error:
        refused = RefusedError(value, reason=f"reading it raised {type(error).__qualname__}")
        refused.within(name, value)
        raise refused from error
    return True


def _misfit(cls: type, missing: list[str], surplus: list[str]) -> str:
    told = [f"no {', '.join(missing)}"] if missing else []
    if surplus:
        told.append(f"a surplus of {', '.join(map(shown, surplus))}")
    return (
        f"the fields of {shown(stored_name(cls))} changed: there is {' and '.join(told)}; register"
        " the class that wrote it under that name, and give the new one a name of its own"
    )
