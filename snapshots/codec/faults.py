"""Exceptions as values: a type, a message cut to a bound and cleared of secrets, nothing else."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final

from snapshots.codec.trails import expect
from snapshots.limits import ERROR_TEXT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from snapshots.codec.reading import Reader
    from snapshots.codec.text import Plain
    from snapshots.codec.writing import Writer

_BUILTIN: Final[dict[str, type[Exception]]] = {
    name: found
    for name, found in vars(builtins).items()
    # IOError and the like are second names; written under one, an error would change its bytes.
    if isinstance(found, type) and issubclass(found, Exception) and found.__name__ == name
}


class StoredError(Exception):
    """An exception out of storage whose class cannot be built here from its message alone.

    Fields: `type_name`, the name it was stored under ("KeyError", "shop.errors:Declined");
    `message`, which is also its text.
    """

    def __init__(self, type_name: str, message: str) -> None:
        self.type_name = type_name
        self.message = message
        super().__init__(type_name, message)

    def __str__(self) -> str:
        return self.message


def write_error(writer: Writer, value: BaseException, _depth: int) -> Plain:
    """Return an exception's type and message; notes, causes and the traceback are left behind."""
    if isinstance(value, StoredError):
        # Cleared when it was first stored; a second time might change it.
        return {"$": "error", "type": _cut(str(value.type_name)), "v": _cut(str(value.message))}
    message = message_of(value)
    if writer.redact is not None:
        message = _redacted(writer.redact, message)
    return {"$": "error", "type": _name(type(value), writer.names), "v": _cut(message)}


def read_error(reader: Reader, plain: dict[str, Plain], _depth: int) -> Exception:
    """Build the exception: of its own class if that is built in or registered, else `StoredError`.

    A class that does not take a message alone, or makes another one of it, is left to
    `StoredError` too: an error never stands in the way of reading the run that it explains.
    """
    name, message = expect(plain["type"], str), expect(plain["v"], str)
    cls = reader.errors.get(name) or _BUILTIN.get(name)
    if cls is not None:
        try:
            built = cls(message)
        except Exception:  # noqa: BLE001 - a constructor of the user's, who is told by the class that comes back
            return StoredError(name, message)
        if type(built) is cls and message_of(built) == message:
            return built
    return StoredError(name, message)


def _name(cls: type[BaseException], names: Mapping[type, str]) -> str:
    if cls in names:
        return names[cls]
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}:{cls.__qualname__}"


def message_of(value: BaseException) -> str:
    """Return what an exception says, as its constructor would take it."""
    # str() of a KeyError puts quotes around its key, and would put more with every pass.
    if type(value).__str__ is KeyError.__str__ and [type(arg) for arg in value.args] == [str]:
        return str(value.args[0])
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - an exception must be storable, its text or not
        return f"(its text is not known: str() of it raised {type(error).__qualname__})"


def _redacted(redact: Callable[[str], str], message: str) -> str:
    # What could not be cleared is withheld: neither shown, nor a reason to lose the whole save.
    try:
        text = redact(message)
    except Exception as error:  # noqa: BLE001 - the hook is the user's, who reads its failure here
        return f"(withheld: the redaction hook raised {type(error).__qualname__})"
    if type(text) is not str:
        return f"(withheld: the redaction hook returned {type(text).__qualname__}, not str)"
    return text


def _cut(message: str) -> str:
    # File names that are not UTF-8 reach messages as half surrogate pairs: they become escapes.
    data = message.encode("utf-8", "backslashreplace")
    return data[:ERROR_TEXT_BYTES_MAX].decode("utf-8", "ignore")
