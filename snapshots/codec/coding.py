"""`Codec`: the two walks and the registry behind them, in one object that never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from snapshots.codec.classes import registry
from snapshots.codec.plainness import is_plain
from snapshots.codec.reading import Reader
from snapshots.codec.text import Plain, dump, load
from snapshots.codec.writing import BUILTIN, Writer
from snapshots.errors import EncodeError
from snapshots.limits import BLOB_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

TAG: Final = b'"$"'
SIGN: Final = b"$"
"""Looked for first: one byte is found five times as quickly as three, of which two are quotes."""


class Codec:
    """Turns values into JSON and back, type for type, or refuses them.

    `types` are the classes, beside the built-in ones, whose values are to be kept: enums,
    dataclasses, named tuples, attrs, pydantic and msgspec classes, plain classes, exceptions,
    and subclasses of built-in types. Subclasses are classes of their own. `redact` is given the
    message of each exception before it is cut to 1 KB, and returns what may be stored of it; an
    exception that is stored again passes it again, so it should leave its own output alone.

    Raises:
        TypeError: something in `types` is no class, or one whose values could not come back.
        ValueError: two of `types` have one name.
    """

    __slots__ = ("_reader", "_redact", "_types", "_writer")

    def __init__(
        self, types: Iterable[type] = (), *, redact: Callable[[str], str] | None = None
    ) -> None:
        names = registry(types, BUILTIN)
        self._types = tuple(names)
        self._redact = redact
        self._writer = Writer(names, redact)
        self._reader = Reader(names)

    def __repr__(self) -> str:
        return f"Codec(types=[{', '.join(cls.__qualname__ for cls in self._types)}])"

    def with_types(self, *types: type) -> Codec:
        """Return a codec that knows `types` too; raises as the constructor does."""
        return Codec((*self._types, *types), redact=self._redact)

    def encode(self, value: object, *, root: str = "value", omit: Collection[str] = ()) -> bytes:
        """Return `value` as JSON text in UTF-8: equal values of equal order give equal bytes.

        Parameters and errors are those of `to_plain`. No other thread may change `value`
        meanwhile: what is JSON as it stands is not copied first.
        """
        try:
            if is_plain(value):
                data = dump(value)
                # A key "$" means something else; a text "$" merely takes the longer way.
                if not (SIGN in data and TAG in data):
                    return data
        except (EncodeError, RuntimeError):
            pass  # the walk says what it is, and where
        return dump(self._writer.whole(value, root, omit))

    def decode(self, data: bytes, *, root: str = "value", omit: Collection[str] = ()) -> Any:
        """Return the value that `encode` made the bytes of.

        Parameters and errors are those of `from_plain`; what is not JSON is a `DecodeError` too.
        """
        return self._reader.whole(load(data), root, omit)

    def decode_blob(self, data: bytes, *, root: str = "blob") -> Any:
        """Return the value of a blob, in which encoded values lie deeper than they were encoded.

        As `decode`, down to `BLOB_DEPTH_MAX` levels.
        """
        return self._reader.whole(load(data), root, (), BLOB_DEPTH_MAX)

    def copy(self, value: object, *, root: str = "value") -> Any:
        """Return what `decode` gives of what `encode` gives: a value that nobody else can change.

        Parameters and errors are those of the two.
        """
        data = self.encode(value, root=root)
        plain = load(data)
        return self._reader.whole(plain, root, ()) if SIGN in data and TAG in data else plain

    def to_plain(self, value: object, *, root: str = "value", omit: Collection[str] = ()) -> Plain:
        """Return `value` as a JSON structure, for `dump`, that shares no container with it.

        `root` begins the paths in errors. `omit` names attributes that are left out if `value`
        itself is an instance of a registered class: what somebody else put there and looks after.

        Raises:
            EncodeError: something in `value` would not come back as it is.
        """
        return self._writer.whole(value, root, omit)

    def from_plain(self, plain: Plain, *, root: str = "value", omit: Collection[str] = ()) -> Any:
        """Return the value that `to_plain` made the structure of, sharing no container with it.

        Instances of registered classes are built without their constructors, except msgspec's.
        Attributes named in `omit` may be missing if the value itself is such an instance.

        Raises:
            DecodeError: the structure is not one that was made here, names a kind or a class that
                is not known, or fits a class no longer; the reason says where.
        """
        return self._reader.whole(plain, root, omit)
