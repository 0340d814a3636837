"""Raw values of a blob as Python would write them, bounded, with no class needed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from snapshots.inspection.limits import VALUE_CHARS_MAX, VALUE_DEPTH_SHOWN_MAX
from snapshots.inspection.printable import CUT, visible

# Base64 says three bytes in four characters.
_BASE64_CHARS: Final = 4


def readable(value: object, *, chars_max: int = VALUE_CHARS_MAX) -> str:
    """Return a raw JSON value on one line as Python would write it, cut after `chars_max`.

    Tagged values are written by their tag, `Decimal('1.20')`: nothing is built, looked up or
    imported, so a tag may say what it likes. What is nested too deep to be read is "...".
    """
    pen = _Pen(chars_max)
    try:
        _put(pen, value, 0)
    except _FullError:
        pen.parts.append(CUT)
    return "".join(pen.parts)


class _FullError(Exception):
    """The budget of characters is spent."""


class _Pen:
    """Collects text until its budget of characters is spent."""

    __slots__ = ("left", "parts")

    def __init__(self, chars_max: int) -> None:
        self.left = chars_max
        self.parts: list[str] = []

    def write(self, text: str) -> None:
        self.parts.append(text[: self.left])
        if len(text) > self.left:
            raise _FullError
        self.left -= len(text)


def _put(pen: _Pen, value: object, depth: int) -> None:
    if depth > VALUE_DEPTH_SHOWN_MAX:
        pen.write(CUT)
    elif isinstance(value, str):
        # One character more than fits, so that the pen notices; a long text is never read whole.
        pen.write(repr(value[: pen.left + 1]))
    elif isinstance(value, list):
        _put_all(pen, value, depth, "[", "]")
    elif isinstance(value, dict):
        _put_tagged(pen, value, depth) if "$" in value else _put_pairs(pen, value.items(), depth)
    else:
        pen.write(repr(value))


def _put_all(pen: _Pen, values: Iterable[object], depth: int, opening: str, closing: str) -> None:
    pen.write(opening)
    for index, value in enumerate(values):
        pen.write(", " if index else "")
        _put(pen, value, depth + 1)
    pen.write(closing)


def _put_pairs(pen: _Pen, pairs: Iterable[tuple[object, object]], depth: int) -> None:
    pen.write("{")
    for index, (key, value) in enumerate(pairs):
        pen.write(", " if index else "")
        _put(pen, key, depth + 1)
        pen.write(": ")
        _put(pen, value, depth + 1)
    pen.write("}")


Tagged = Mapping[str, object]
Put = Callable[[_Pen, Tagged, int], None]


def _put_tagged(pen: _Pen, value: Tagged, depth: int) -> None:
    tag = value["$"]
    put = _TAGS.get(tag, _put_call) if isinstance(tag, str) else _put_call
    put(pen, value, depth)


def _put_call(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write any tag as a call: its payload, then what else stands in the object, by name."""
    tag = value["$"]
    name = _NAMES.get(tag, visible(tag)) if isinstance(tag, str) else readable(tag, chars_max=40)
    pen.write(f"{name}(")
    _put(pen, value.get("v"), depth + 1)
    _put_named(pen, ((key, part) for key, part in value.items() if key not in {"$", "v"}), depth)
    pen.write(")")


def _put_named(
    pen: _Pen, parts: Iterable[tuple[str, object]], depth: int, lead: str = ", "
) -> None:
    for key, part in parts:
        pen.write(f"{lead}{visible(key)}=")
        _put(pen, part, depth + 1)
        lead = ", "


def _put_bare(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write a number that JSON cannot say by its text, as it stands there."""
    text = value.get("v")
    if isinstance(text, str):
        pen.write(visible(text, chars_max=pen.left + 1))
    else:
        _put_call(pen, value, depth)


def _put_bytes(pen: _Pen, value: Tagged, depth: int) -> None:
    text = value.get("v")
    if not isinstance(text, str):
        return _put_call(pen, value, depth)
    try:
        data = base64.b64decode(text[: (pen.left + 1) * _BASE64_CHARS], validate=True)
    except (binascii.Error, ValueError):
        return _put_call(pen, value, depth)
    return pen.write(repr(bytearray(data) if value["$"] == "bytearray" else data))


def _in_brackets(opening: str, closing: str) -> Put:
    def put(pen: _Pen, value: Tagged, depth: int) -> None:
        items = value.get("v")
        if not isinstance(items, list):
            return _put_call(pen, value, depth)
        lone = opening == "(" and len(items) == 1
        return _put_all(pen, items, depth, opening, f",{closing}" if lone else closing)

    return put


def _put_keyed(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write a mapping whose keys and values stand in turn in one list."""
    items = value.get("v")
    if not isinstance(items, list) or len(items) % 2:
        return _put_call(pen, value, depth)
    name = _KEYED_NAMES.get(str(value["$"]), "")
    pen.write(f"{name}(" if name else "")
    if "factory" in value:
        pen.write(f"{visible(str(value['factory']))}, ")
    _put_pairs(pen, zip(items[::2], items[1::2], strict=True), depth)
    return pen.write(")" if name else "")


def _put_instance(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write an instance of a registered class by its attributes."""
    attributes = value.get("v")
    if not isinstance(attributes, dict):
        return _put_call(pen, value, depth)
    pen.write(f"{_class_name(value)}(")
    _put_named(pen, attributes.items(), depth, "")
    others = ((key, part) for key, part in value.items() if key not in {"$", "v", "class"})
    _put_named(pen, others, depth, ", " if attributes else "")
    return pen.write(")")


def _put_member(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write a member of an enumeration by its name, one without a name by its value."""
    member = value.get("v")
    if isinstance(member, str):
        return pen.write(f"{_class_name(value)}.{visible(member)}")
    pen.write(f"{_class_name(value)}(")
    _put(pen, member, depth + 1)
    return pen.write(")")


def _put_classed(pen: _Pen, value: Tagged, depth: int) -> None:
    """Write a value that says its own class beside its payload."""
    pen.write(f"{_class_name(value)}(")
    _put(pen, value.get("v"), depth + 1)
    pen.write(")")


def _class_name(value: Tagged) -> str:
    name = value.get("class", value.get("type"))
    return visible(name.rpartition(":")[2]) if isinstance(name, str) else "?"


_NAMES: Final = {"decimal": "Decimal", "uuid": "UUID", "zone": "ZoneInfo"}
_KEYED_NAMES: Final = {
    "ordereddict": "OrderedDict",
    "counter": "Counter",
    "defaultdict": "defaultdict",
}
_TAGS: Final[Mapping[str, Put]] = {
    "int": _put_bare,
    "float": _put_bare,
    "bytes": _put_bytes,
    "bytearray": _put_bytes,
    "tuple": _in_brackets("(", ")"),
    "set": _in_brackets("{", "}"),
    "frozenset": _in_brackets("frozenset({", "})"),
    "dict": _put_keyed,
    "ordereddict": _put_keyed,
    "counter": _put_keyed,
    "defaultdict": _put_keyed,
    "object": _put_instance,
    "enum": _put_member,
    "path": _put_classed,
    "error": _put_classed,
}
