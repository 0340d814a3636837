"""Exceptions as values: what is kept of them, and what becomes of a class that is not known."""

from __future__ import annotations

import copy
import pickle

import pytest

from snapshots.codec import Codec, StoredError
from snapshots.limits import ERROR_TEXT_BYTES_MAX
from tests.unit.snapshots.codec.codec_samples import CODEC, CodedError, DeclinedError

PLAIN = Codec()


class UnknownError(Exception):
    pass


class MuteError(Exception):
    def __str__(self) -> str:
        message = "no text"
        raise RuntimeError(message)


class ProudError(Exception):
    """An exception that makes another message of its message."""

    def __str__(self) -> str:
        return f"proudly: {self.args[0]}"


def back(error: BaseException, codec: Codec = PLAIN) -> Exception:
    """Return what an exception comes back as; what comes back is stored as the same bytes."""
    data = codec.encode(error)
    found = codec.decode(data)
    assert codec.encode(found) == data
    assert isinstance(found, Exception)
    return found


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a"),
        KeyError("a"),
        KeyError(""),
        TimeoutError("late"),
        ConnectionResetError("gone"),
        RuntimeError(),
        StopIteration("s"),
        UserWarning("w"),
    ],
)
def test_a_built_in_exception_comes_back_as_its_own_class(error: Exception) -> None:
    """An exception of Python's that is made of one message is itself again."""
    found = back(error)
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_more_than_a_message_is_not_kept() -> None:
    """Of an error with a number the message stays, which says the number."""
    found = back(FileNotFoundError(2, "No such file", "a.txt"))
    assert type(found) is FileNotFoundError
    assert str(found) == "[Errno 2] No such file: 'a.txt'"
    assert str(back(KeyError(3))) == "'3'"


def test_a_registered_exception_comes_back_as_its_own_class() -> None:
    """A class of the user's is built from the message if it is registered."""
    found = back(DeclinedError("no funds"), CODEC)
    assert type(found) is DeclinedError
    assert str(found) == "no funds"


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (UnknownError("a"), f"{__name__}:UnknownError", "a"),
        (CodedError(5, "b"), "tests.unit.snapshots.codec.codec_samples:CodedError", "code 5"),
        (KeyboardInterrupt("stop"), "KeyboardInterrupt", "stop"),
        (SystemExit(3), "SystemExit", "3"),
        (ExceptionGroup("g", [ValueError()]), "ExceptionGroup", "g (1 sub-exception)"),
        (UnicodeDecodeError("utf-8", b"a", 0, 1, "r"), "UnicodeDecodeError", None),
        (MuteError(), f"{__name__}:MuteError", None),
        (ProudError("p"), f"{__name__}:ProudError", "proudly: p"),
    ],
)
def test_any_other_exception_comes_back_stored(
    error: BaseException, name: str, message: str | None
) -> None:
    """A class that is not known, or is not made of a message, is told by name and message."""
    for codec in (PLAIN, CODEC.with_types(ProudError)):
        found = back(error, codec)
        assert isinstance(found, StoredError)
        assert found.type_name == name
        if message is not None:
            assert found.message == str(found) == message


def test_a_class_that_raises_when_it_is_made_does_not_stand_in_the_way() -> None:
    """Reading a run that died of an exception never fails because of that exception."""
    plain = CODEC.to_plain(CodedError(5, "b"))
    assert isinstance(CODEC.from_plain(plain), StoredError)
    assert "its text is not known" in str(back(MuteError()))


def test_a_name_out_of_bytes_finds_exceptions_only() -> None:
    """Neither functions, other classes nor second names among Python's built-ins are taken."""
    for name in ("exec", "object", "print", "IOError", "BaseException", "__import__"):
        found = PLAIN.from_plain({"$": "error", "type": name, "v": "x"})
        assert isinstance(found, StoredError)
        assert found.type_name == name


def test_a_stored_error_can_be_copied_and_pickled() -> None:
    """It crosses processes with its fields."""
    error = StoredError("shop:Declined", "no funds")
    for found in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - these bytes are our own
        assert (found.type_name, found.message) == ("shop:Declined", "no funds")
        assert str(found) == "no funds"


@pytest.mark.parametrize("error", [ValueError, UnknownError, KeyError])
def test_a_message_is_cut_at_a_character(error: type[Exception]) -> None:
    """A message keeps at most 1 KB, counted in bytes, and no half character at its end."""
    found = back(error("a" + "é" * ERROR_TEXT_BYTES_MAX))
    message = found.args[-1]
    assert message == "a" + "é" * ((ERROR_TEXT_BYTES_MAX - 1) // 2)
    exact = "b" * ERROR_TEXT_BYTES_MAX
    assert back(error(exact)).args[-1] == exact


def test_a_message_that_is_no_utf_8_is_escaped() -> None:
    """A file name of other bytes does not keep an error from being stored."""
    assert str(back(ValueError("no file \udcff"))) == "no file \\udcff"


def test_a_message_is_cleared_before_it_is_cut() -> None:
    """The hook sees the whole message, so that no secret is cut in half and slips through."""
    secret = "s3cret" * 10
    codec = Codec(redact=lambda text: text.replace(secret, "***"))
    error = ValueError("x" * (ERROR_TEXT_BYTES_MAX - 3) + secret)
    assert b"s3cret" not in codec.encode({"error": error})
    assert str(back(error, codec)).endswith("x***")


def test_an_error_out_of_storage_is_not_cleared_again() -> None:
    """What was cleared once is stored as the same bytes for ever, whatever the hook does."""
    codec = Codec(redact=lambda text: text + "!")
    assert str(back(UnknownError("a"), codec)) == "a!"


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (lambda text: text.missing, "(withheld: the redaction hook raised AttributeError)"),
        (lambda _text: None, "(withheld: the redaction hook returned NoneType, not str)"),
    ],
)
def test_what_could_not_be_cleared_is_withheld(hook: object, says: str) -> None:
    """A hook that fails neither lets the message through nor loses the save."""
    codec = Codec(redact=hook)  # type: ignore[arg-type]  # a hook as wrong as hooks can be
    assert str(codec.decode(codec.encode(ValueError("s3cret")))) == says


def test_an_exception_is_not_registered_under_a_name_of_pythons() -> None:
    """A class that would be taken for a built-in exception is refused when it is registered."""
    error = type("ValueError", (Exception,), {"__snapshot_name__": "ValueError"})
    with pytest.raises(ValueError, match="is named 'ValueError' like a built-in"):
        Codec([error])
