"""Where in a value something went wrong: collected while a failure unwinds, never on the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from snapshots.errors import DecodeError, EncodeError
from snapshots.limits import PATH_PART_CHARS_MAX, VALUE_DEPTH_MAX

if TYPE_CHECKING:
    from snapshots.codec.text import Plain

DEEP: Final = f"nested deeper than {VALUE_DEPTH_MAX} levels"

Step: TypeAlias = tuple[object, object]
T = TypeVar("T")


class Spot(str):
    """A piece of a path that is written as it is, such as "{}" for a member of a set."""

    __slots__ = ()


KEY: Final = Spot(".keys()")
MEMBER: Final = Spot("{}")


class RefusedError(Exception):
    """A value without a faithful encoding; containers around it add steps on the way out.

    Fields: `type_name` and `reason`, as in `EncodeError`; `steps`, innermost first, each the key
    or index that was followed, and the container.
    """

    def __init__(self, value: object, *, reason: str) -> None:
        super().__init__(reason)
        self.type_name = type_name(type(value))
        self.reason = reason
        self.steps: list[Step] = []

    def within(self, key: object, container: object) -> None:
        """Add the step that led from `container` to the trouble."""
        self.steps.append((key, container))

    def told(self, root: str) -> EncodeError:
        """Return the error that a caller sees, its path beginning with `root`."""
        steps = self.steps[::-1]
        if self.reason is DEEP:
            seen: dict[int, int] = {}
            for index, (_key, container) in enumerate(steps):
                first = seen.setdefault(id(container), index)
                if first < index:
                    same = path(root, steps[:first])
                    reason = f"a cycle: it is {same} itself; store an id instead"
                    name = type_name(type(container))
                    return EncodeError(path(root, steps[:index]), name, reason)
        return EncodeError(path(root, steps), self.type_name, self.reason)


class MalformedError(Exception):
    """A structure that no value was ever encoded as; containers add steps on the way out."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[Step] = []

    def within(self, key: object, container: object) -> None:
        """Add the step that led from `container` to the trouble."""
        self.steps.append((key, container))

    def told(self, root: str) -> DecodeError:
        """Return the error that a caller sees, which names the place."""
        return DecodeError(None, f"{path(root, self.steps[::-1])}: {self.reason}")


def expect(plain: Plain, kind: type[T]) -> T:
    """Return `plain` if it is exactly of this type, else raise `MalformedError`."""
    if type(plain) is not kind:
        raise MalformedError(reason=f"expected {kind.__name__}, found {type(plain).__name__}")
    return plain


def shown(found: Plain) -> str:
    """Return what was found, as a short text for an error."""
    if type(found) is not str:
        return f"a value of type {type(found).__name__}"
    cut = "..." if len(found) > PATH_PART_CHARS_MAX else ""
    return ascii(found[:PATH_PART_CHARS_MAX]) + cut


def path(root: str, steps: list[Step]) -> str:
    """Return a path like "root.context.lines[3].price"."""
    return root + "".join(_piece(key) for key, _container in steps)


def type_name(cls: type) -> str:
    """Return the name by which a person finds a class: "dict", "decimal.Decimal"."""
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def _piece(key: object) -> str:
    if isinstance(key, Spot):
        return key
    if type(key) is str and key.isidentifier() and len(key) <= PATH_PART_CHARS_MAX:
        return f".{key}"
    try:
        shown = ascii(key)
    except Exception:  # noqa: BLE001 - the key is the user's, and so is its repr
        shown = type_name(type(key))
    if len(shown) > PATH_PART_CHARS_MAX:
        shown = shown[:PATH_PART_CHARS_MAX] + "..."
    return f"[{shown}]"
