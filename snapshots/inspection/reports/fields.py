"""Checked access to the raw JSON of a blob: what is not of its kind is refused with its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING: Final = object()

_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """Name the JSON kind of a raw value, as an error message says it."""
    return _KINDS.get(type(value), type(value).__name__)


class Fields:
    """One JSON object of a run's blob.

    Every accessor raises `DecodeError` with the run, the path of the field and what was found when
    the value is of another kind. An absent field is its empty value unless the accessor requires
    it; fields that are not asked for are left alone, so a later release may add some.
    """

    __slots__ = ("_data", "_path", "_run_id")

    def __init__(self, data: object, path: str, run_id: str | None) -> None:
        """Take the object at `path`; the root of a blob has an empty path."""
        self._path = path
        self._run_id = run_id
        if not isinstance(data, dict):
            raise self._wrong(path or "the blob", "an object", data)
        self._data: dict[str, object] = data

    def refuse(self, reason: str) -> DecodeError:
        """Build the error that refuses this object as a whole."""
        return DecodeError(self._run_id, f"{self._path or 'the blob'}: {reason}")

    def text(self, name: str) -> str:
        """Return a required string."""
        value = self._data.get(name, _MISSING)
        if not isinstance(value, str):
            raise self._wrong(self._at(name), "a string", value)
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string, or None where the field is absent or null."""
        return None if self._data.get(name) is None else self.text(name)

    def whole(self, name: str) -> int:
        """Return a required whole number; a boolean is none."""
        value = self._data.get(name, _MISSING)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(self._at(name), "a whole number", value)
        return value

    def optional_whole(self, name: str) -> int | None:
        """Return a whole number, or None where the field is absent or null."""
        return None if self._data.get(name) is None else self.whole(name)

    def flag(self, name: str) -> bool:
        """Return a boolean; False where the field is absent."""
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(self._at(name), "a boolean", value)
        return value

    def value(self, name: str) -> object:
        """Return any raw value as it is, tagged values included; None where the field is absent."""
        return self._data.get(name)

    def entries(self, name: str) -> tuple[object, ...]:
        """Return a list's raw entries."""
        value = self._data.get(name, _MISSING)
        if value is _MISSING:
            return ()
        if not isinstance(value, list):
            raise self._wrong(self._at(name), "a list", value)
        return tuple(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return names(self.entries(name), self._at(name), self._run_id)

    def names_by_key(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return an object of lists of strings."""
        path = self._at(name)
        return {
            key: names(entries, f"{path}.{key}", self._run_id)
            for key, entries in self.mapping(name).items()
        }

    def mapping(self, name: str) -> dict[str, object]:
        """Return a JSON object's raw fields."""
        value = self._data.get(name, _MISSING)
        if value is _MISSING:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(self._at(name), "an object", value)
        return value

    def nested(self, name: str) -> Fields:
        """Return a required JSON object."""
        return Fields(self._data.get(name, _MISSING), self._at(name), self._run_id)

    def nested_list(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list."""
        for index, entry in enumerate(self.entries(name)):
            yield Fields(entry, f"{self._at(name)}[{index}]", self._run_id)

    def nested_by_key(self, name: str) -> Iterator[tuple[str, Fields]]:
        """Yield the keys and objects of an object of objects."""
        for key, entry in self.mapping(name).items():
            yield key, Fields(entry, f"{self._at(name)}.{key}", self._run_id)

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _wrong(self, path: str, expected: str, found: object) -> DecodeError:
        return _wrong(path, expected, found, self._run_id)


def names(entries: object, path: str, run_id: str | None) -> tuple[str, ...]:
    """Return `entries` as strings, or raise `DecodeError` with the path of what is none."""
    if not isinstance(entries, (list, tuple)):
        raise _wrong(path, "a list", entries, run_id)
    for index, entry in enumerate(entries):
        if not isinstance(entry, str):
            where = f"{path}[{index}]"
            raise _wrong(where, "a string", entry, run_id)
    return tuple(entries)


def _wrong(path: str, expected: str, found: object, run_id: str | None) -> DecodeError:
    what = "is missing" if found is _MISSING else f"is {kind_of(found)}"
    return DecodeError(run_id, f"{path} {what}, expected {expected}")
