"""Values without members that JSON cannot say: how each is written as text or numbers, and read."""

from __future__ import annotations

import base64
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isinf, isnan
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from snapshots.codec.trails import MalformedError, RefusedError, Spot, expect, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.codec.reading import Reader
    from snapshots.codec.text import Plain
    from snapshots.codec.writing import Writer

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1

T = TypeVar("T")
Clock = TypeVar("Clock", datetime, time)

_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)
PATHS: Final[dict[str, type[PurePath]]] = {
    cls.__name__: cls for cls in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
}
_TZINFO: Final = Spot(".tzinfo")


def write_none(_writer: Writer, value: bool | None, _depth: int) -> Plain:  # noqa: FBT001 - a value, not an option
    """Return None, True and False as they are."""
    return value


def write_str(_writer: Writer, value: str, _depth: int) -> Plain:
    """Return a text; half a surrogate pair is no text in UTF-8, and refused."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            reason = (
                f"character {error.start} is half a surrogate pair, which UTF-8 cannot say;"
                " keep the bytes instead"
            )
            raise RefusedError(value, reason=reason) from None
    return value


def write_int(_writer: Writer, value: int, _depth: int) -> Plain:
    """Return a number of up to 64 bits as it is, a longer one as hexadecimal text."""
    # Many JSON readers, orjson among them, turn longer ones into floats without a word; Python's
    # own limit on digits spares hexadecimal.
    return value if INT_MIN <= value <= INT_MAX else {"$": "int", "v": hex(value)}


def write_float(_writer: Writer, value: float, _depth: int) -> Plain:
    """Return a finite number as it is, the others by name."""
    return value if value - value == 0.0 else {"$": "float", "v": repr(value)}


def write_bytes(_writer: Writer, value: bytes, _depth: int) -> Plain:
    """Return bytes in base64."""
    return {"$": "bytes", "v": base64.b64encode(value).decode("ascii")}


def write_bytearray(_writer: Writer, value: bytearray, _depth: int) -> Plain:
    """Return bytes in base64."""
    return {"$": "bytearray", "v": base64.b64encode(value).decode("ascii")}


def write_decimal(_writer: Writer, value: Decimal, _depth: int) -> Plain:
    """Return a decimal number with all its digits, whatever the context says."""
    return {"$": "decimal", "v": _decimal_text(value)}


def write_uuid(_writer: Writer, value: UUID, _depth: int) -> Plain:
    """Return a UUID in its usual text."""
    return {"$": "uuid", "v": str(value)}


def write_path(writer: Writer, value: PurePath, depth: int) -> Plain:
    """Return a path with the name of its class."""
    return {"$": "path", "class": type(value).__name__, "v": write_str(writer, str(value), depth)}


def write_date(_writer: Writer, value: date, _depth: int) -> Plain:
    """Return a date in ISO 8601."""
    return {"$": "date", "v": value.isoformat()}


def write_timedelta(_writer: Writer, value: timedelta, _depth: int) -> Plain:
    """Return a span of time in Python's own three parts."""
    return {"$": "timedelta", "v": [value.days, value.seconds, value.microseconds]}


def write_datetime(writer: Writer, value: datetime, depth: int) -> Plain:
    """Return a moment in ISO 8601; a zone that is more than an offset stands beside it."""
    return _write_clock(writer, "datetime", value, depth)


def write_time(writer: Writer, value: time, depth: int) -> Plain:
    """Return a time of day in ISO 8601; a zone that is more than an offset stands beside it."""
    return _write_clock(writer, "time", value, depth)


def write_timezone(writer: Writer, value: timezone, depth: int) -> Plain:
    """Return a fixed offset in microseconds, and its name if it was given one."""
    offset, *name = _offset_and_name(value)
    plain: dict[str, Plain] = {"$": "timezone", "v": offset // _MICROSECOND}
    if name:
        plain["name"] = writer.value(name[0], depth)
    return plain


def write_zone(writer: Writer, value: ZoneInfo, depth: int) -> Plain:
    """Return a zone of the time zone database by its name."""
    if value.key is None:
        raise RefusedError(value, reason="a zone without a name; build it as ZoneInfo(name)")
    return {"$": "zone", "v": writer.value(value.key, depth)}


def read_int(_reader: Reader, plain: dict[str, Plain], _depth: int) -> int:
    """Build a number beyond 64 bits."""
    number = int(expect(plain["v"], str), 16)
    if hex(number) != plain["v"]:
        raise MalformedError(reason="not a hexadecimal number in Python's form")
    return number


def read_float(_reader: Reader, plain: dict[str, Plain], _depth: int) -> float:
    """Build NaN or an infinity."""
    number = float(expect(plain["v"], str))
    if not (isnan(number) or isinf(number)):
        raise MalformedError(reason="a finite number in a tagged float")
    return number


def read_bytes(_reader: Reader, plain: dict[str, Plain], _depth: int) -> bytes:
    """Build bytes."""
    return base64.b64decode(expect(plain["v"], str), validate=True)


def read_bytearray(_reader: Reader, plain: dict[str, Plain], _depth: int) -> bytearray:
    """Build a bytearray."""
    return bytearray(base64.b64decode(expect(plain["v"], str), validate=True))


def read_decimal(_reader: Reader, plain: dict[str, Plain], _depth: int) -> Decimal:
    """Build a decimal number, with all its digits."""
    number = Decimal(expect(plain["v"], str))
    # A context may answer nonsense with NaN instead of raising.
    if _decimal_text(number) != plain["v"]:
        raise MalformedError(reason="not a decimal number in Python's form")
    return number


def read_uuid(_reader: Reader, plain: dict[str, Plain], _depth: int) -> UUID:
    """Build a UUID."""
    return _same_text(UUID(expect(plain["v"], str)), plain["v"])


def read_path(_reader: Reader, plain: dict[str, Plain], _depth: int) -> PurePath:
    """Build a path of the class it had; a class of another system's paths is refused there."""
    cls = PATHS.get(expect(plain["class"], str))
    if cls is None:
        raise MalformedError(reason=f"{shown(plain['class'])} is no class of paths")
    return _same_text(cls(expect(plain["v"], str)), plain["v"])


def read_date(_reader: Reader, plain: dict[str, Plain], _depth: int) -> date:
    """Build a date."""
    return _same_text(date.fromisoformat(expect(plain["v"], str)), plain["v"])


def read_timedelta(_reader: Reader, plain: dict[str, Plain], _depth: int) -> timedelta:
    """Build a span of time."""
    days, seconds, microseconds = (expect(part, int) for part in expect(plain["v"], list))
    return timedelta(days, seconds, microseconds)


def read_datetime(reader: Reader, plain: dict[str, Plain], depth: int) -> datetime:
    """Build a moment."""
    return _read_clock(reader, datetime.fromisoformat, plain, depth)


def read_time(reader: Reader, plain: dict[str, Plain], depth: int) -> time:
    """Build a time of day."""
    return _read_clock(reader, time.fromisoformat, plain, depth)


def read_timezone(_reader: Reader, plain: dict[str, Plain], _depth: int) -> timezone:
    """Build a fixed offset."""
    offset = timedelta(microseconds=expect(plain["v"], int))
    if "name" in plain:
        return timezone(offset, expect(plain["name"], str))
    return timezone(offset)


def read_zone(_reader: Reader, plain: dict[str, Plain], _depth: int) -> ZoneInfo:
    """Build a zone of the time zone database; one that this machine does not know is refused."""
    return ZoneInfo(expect(plain["v"], str))


def _decimal_text(value: Decimal) -> str:
    # Only the letter of the exponent depends on the context.
    return str(value).replace("e", "E")


def _offset_and_name(value: timezone) -> tuple[timedelta, *tuple[object, ...]]:
    # Whether a name was given is said here only: tzname() makes one up.
    arguments: tuple[timedelta, *tuple[object, ...]] = value.__getinitargs__()  # type: ignore[attr-defined]  # typeshed leaves it out
    return arguments


def _is_plain_offset(value: timezone) -> bool:
    # CPython's fromisoformat() loses the sign of some offsets that are not whole minutes.
    offset, *name = _offset_and_name(value)
    return not name and not offset % _MINUTE


def _write_clock(writer: Writer, tag: str, value: datetime | time, depth: int) -> Plain:
    zone = value.tzinfo
    plain: dict[str, Plain] = {"$": tag}
    if zone is None or (type(zone) is timezone and _is_plain_offset(zone)):
        plain["v"] = value.isoformat()
    else:
        plain["v"] = value.replace(tzinfo=None).isoformat()
        plain["tz"] = _write_tzinfo(writer, value, zone, depth)
    if value.fold:
        plain["fold"] = 1
    return plain


def _write_tzinfo(writer: Writer, value: object, zone: tzinfo, depth: int) -> Plain:
    try:
        return writer.value(zone, depth)
    except RefusedError as refused:
        refused.within(_TZINFO, value)
        raise


def _read_clock(
    reader: Reader, parse: Callable[[str], Clock], plain: dict[str, Plain], depth: int
) -> Clock:
    value = parse(expect(plain["v"], str))
    if value.isoformat() != plain["v"]:
        raise MalformedError(reason="not ISO 8601 in Python's form")
    if "fold" in plain:
        if expect(plain["fold"], int) != 1:
            raise MalformedError(reason="a fold other than 1")
        value = value.replace(fold=1)
    if "tz" not in plain:
        return value
    zone = reader.value(plain["tz"], depth)
    if value.tzinfo is not None or type(zone) not in (timezone, ZoneInfo):
        raise MalformedError(reason="a time zone that is none")
    return value.replace(tzinfo=zone)


def _same_text(value: T, text: str) -> T:
    if str(value) != text:
        raise MalformedError(reason="not in the form in which it is written")
    return value
