"""What the codec writes, what it refuses and how it says so, and which classes it may know."""

from __future__ import annotations

import array
import io
import pickle
import re
import struct
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, getcontext, localcontext
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from snapshots.codec import Codec, Fragment, dump, load, persistent
from snapshots.errors import DecodeError, EncodeError
from snapshots.limits import PATH_PART_CHARS_MAX, VALUE_DEPTH_MAX, VALUES_MAX
from snapshots.records import Secret
from tests.unit.snapshots.codec.codec_samples import (
    CODEC,
    Colour,
    Label,
    Late,
    Level,
    Line,
    Plain,
    Sealed,
    Word,
    same,
)

# UTC in the form of RFC 8536 that has a single type of local time.
NAMELESS_ZONE = struct.pack(">5s15x6llbB4s", b"TZif", 0, 0, 0, 0, 1, 4, 0, 0, 0, b"UTC")


class Unknown:
    pass


class UnknownLabel(str):
    __slots__ = ()


class OtherZone(tzinfo):
    pass


def refusal(value: object, codec: Codec = CODEC, root: str = "root") -> EncodeError:
    """Return the error that encoding a value raises."""
    with pytest.raises(EncodeError) as caught:
        codec.to_plain(value, root=root)
    return caught.value


def problem(plain: object, codec: Codec = CODEC) -> str:
    """Return the reason of the error that decoding a structure raises."""
    with pytest.raises(DecodeError) as caught:
        codec.from_plain(plain)
    assert caught.value.run_id is None
    return caught.value.reason


def nested(wrap: Callable[[object], object], levels: int) -> object:
    """Return a leaf inside so many containers."""
    value: object = Decimal("1.5")
    for _ in range(levels):
        value = wrap(value)
    return value


# --- What is written ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, 2.0, None, True, "é"], "a": {}}, '{"b":[1,2.0,null,true,"é"],"a":{}}'),
        ((1,), '{"$":"tuple","v":[1]}'),
        ({2, 10, 1}, '{"$":"set","v":[1,10,2]}'),
        (frozenset({"a"}), '{"$":"frozenset","v":["a"]}'),
        (2**64, '{"$":"int","v":"0x10000000000000000"}'),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63) - 1, '{"$":"int","v":"-0x8000000000000001"}'),
        (float("-inf"), '{"$":"float","v":"-inf"}'),
        (-0.0, "-0.0"),
        ({1: "a", "1": "b"}, '{"$":"dict","v":[1,"a","1","b"]}'),
        ({"a": 1, 1: "b"}, '{"$":"dict","v":["a",1,1,"b"]}'),
        ({"$": 1}, '{"$":"dict","v":["$",1]}'),
        (OrderedDict(a=1), '{"$":"ordereddict","v":["a",1]}'),
        (Counter("aa"), '{"$":"counter","v":["a",2]}'),
        (defaultdict(list, a=[]), '{"$":"defaultdict","factory":"list","v":["a",[]]}'),
        (deque([1], maxlen=3), '{"$":"deque","v":[1],"maxlen":3}'),
        (b"\x00\xff", '{"$":"bytes","v":"AP8="}'),
        (bytearray(b"a"), '{"$":"bytearray","v":"YQ=="}'),
        (Decimal("1.50"), '{"$":"decimal","v":"1.50"}'),
        (UUID(int=1), '{"$":"uuid","v":"00000000-0000-0000-0000-000000000001"}'),
        (date(2024, 2, 29), '{"$":"date","v":"2024-02-29"}'),
        (timedelta(-1, 2, 3), '{"$":"timedelta","v":[-1,2,3]}'),
        (datetime(2024, 1, 2, tzinfo=UTC), '{"$":"datetime","v":"2024-01-02T00:00:00+00:00"}'),
        (
            datetime(2024, 10, 27, 2, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            (
                '{"$":"datetime","v":"2024-10-27T02:00:00",'
                '"tz":{"$":"zone","v":"Europe/Berlin"},"fold":1}'
            ),
        ),
        (
            time(1, tzinfo=timezone(timedelta(hours=1), "x")),
            '{"$":"time","v":"01:00:00","tz":{"$":"timezone","v":3600000000,"name":"x"}}',
        ),
        (PurePosixPath("a"), '{"$":"path","class":"PurePosixPath","v":"a"}'),
        (Plain(a=(1,)), '{"$":"object","class":"tests.plain","v":{"a":{"$":"tuple","v":[1]}}}'),
    ],
)
def test_the_form_of_a_value_is_fixed(value: object, text: str) -> None:
    """Stored bytes are read for ever, so no release may write or read a value differently."""
    assert CODEC.encode(value).decode() == text
    assert same(CODEC.decode(text.encode()), value)


def test_a_number_beyond_pythons_limit_on_digits_comes_back() -> None:
    """A number is not written in decimal digits, of which Python converts 4,300 at most."""
    assert CODEC.decode(CODEC.encode(10**5000)) == 10**5000


def test_what_orjson_would_write_by_itself_keeps_its_type() -> None:
    """Members of enums of texts and numbers come back as members, as values and as keys."""
    value = {Word.YES: Level.LOW, "plain": [Word.NO, Level.HIGH, Colour.CRIMSON]}
    assert same(CODEC.decode(CODEC.encode(value)), value)


def test_a_decimal_does_not_depend_on_the_context() -> None:
    """Neither the case of the exponent nor the precision of the moment changes what is stored."""
    value = Decimal("1.23456789E+50")
    expected = CODEC.encode(value)
    context = getcontext().copy()
    context.capitals, context.prec = 0, 2
    with localcontext(context):
        assert CODEC.encode(value) == expected
        assert CODEC.decode(expected) == value


def test_an_object_met_twice_is_stored_twice() -> None:
    """A shared list is a value in two places, not a cycle; what comes back is two lists."""
    shared = [1]
    back = CODEC.decode(CODEC.encode({"a": shared, "b": [shared, shared]}))
    assert back == {"a": [1], "b": [[1], [1]]}
    assert back["a"] is not back["b"][0]


def test_later_changes_do_not_reach_the_structure() -> None:
    """A structure is taken at once: the live object may change before it is written."""
    live = {"lines": [{"n": 1}], 1: [2]}
    plain = CODEC.to_plain(live)
    before = dump(plain)
    live["lines"][0]["n"] = 2  # type: ignore[index]  # it is the list above
    live[1].append(3)  # type: ignore[union-attr]  # likewise
    assert dump(plain) == before


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "type_name"),
    [
        (
            {"context": {"lines": [0, 1, 2, {"price": object()}]}},
            ".context.lines[3].price",
            "object",
        ),
        ([threading.Lock()], "[0]", "_thread.lock"),
        ({"log": io.TextIOWrapper(io.BytesIO())}, ".log", "_io.TextIOWrapper"),
        ((1, lambda: 1), "[1]", "function"),
        ({"f": print}, ".f", "builtin_function_or_method"),
        ({"m": sys}, ".m", "module"),
        ({"c": Plain}, ".c", "type"),
        ({"re": re.compile("a")}, ".re", "re.Pattern"),
        ({"g": (n for n in "ab")}, ".g", "generator"),
        ({"a": array.array("i")}, ".a", "array.array"),
        ({"c": 1j}, ".c", "complex"),
        ({"a key": [range(3)]}, "['a key'][0]", "range"),
        ({("x", 1): object()}, "[('x', 1)]", "object"),
        ({1: {"$": object()}}, "[1]['$']", "object"),
        ({(1, Unknown()): 1}, ".keys()[1]", f"{__name__}.Unknown"),
        ({"s": {1, Unknown()}}, ".s{}", f"{__name__}.Unknown"),
        ({"s": {(1, Unknown())}}, ".s{}[1]", f"{__name__}.Unknown"),
        ({"d": deque([Unknown()])}, ".d[0]", f"{__name__}.Unknown"),
        ({"line": Line("a", Unknown())}, ".line.price", f"{__name__}.Unknown"),
        (Sealed(first=1, second=[Unknown()]), ".second[0]", f"{__name__}.Unknown"),
        ({"at": datetime(2024, 1, 1, tzinfo=OtherZone())}, ".at.tzinfo", f"{__name__}.OtherZone"),
        ({"t": "a\ud800"}, ".t", "str"),
        ({"t": {"\udfff": 1}}, ".t['\\udfff']", "str"),
        ({1: "\ud800"}, "[1]", "str"),
        ({"p": Path("\udcff")}, ".p", "str"),
        ({"d": defaultdict(lambda: 1)}, ".d", "collections.defaultdict"),
        ({"u": UnknownLabel("a")}, ".u", f"{__name__}.UnknownLabel"),
        ({"s": Secret("vault/key")}, ".s", "snapshots.records.Secret"),
        ({"z": ZoneInfo.from_file(io.BytesIO(NAMELESS_ZONE))}, ".z", "zoneinfo.ZoneInfo"),
        ([memoryview(b"")], "[0]", "memoryview"),
    ],
)
def test_a_refusal_names_the_place_and_the_type(value: object, path: str, type_name: str) -> None:
    """What cannot come back is refused with its exact path and type, however deep it lies."""
    error = refusal(value)
    assert (error.path, error.type_name) == ("root" + path, type_name)
    assert str(error).startswith(f"cannot save root{path} of type {type_name}: ")


def test_a_refusal_survives_pickling() -> None:
    """The error crosses processes with its fields and its message."""
    error = refusal([object()])
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - these bytes are our own
    assert (back.path, back.type_name, back.reason, str(back)) == (
        *(error.path, error.type_name, error.reason),
        str(error),
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Unknown(), "not registered: Machine(..., types=[Unknown]) or Codec(types=[Unknown])"),
        (UnknownLabel("a"), "would come back as a plain str: Machine(..., types=[UnknownLabel])"),
        (Secret("a"), "a secret is never stored"),
        (print, "store a name that it is found by"),
        (OtherZone(), "only datetime.timezone and zoneinfo.ZoneInfo"),
        (defaultdict(lambda: 1), "its default_factory is not one of None, bool, bytes"),
        ("\udc00", "character 0 is half a surrogate pair"),
        (object(), "could not come back"),
    ],
)
def test_a_refusal_says_what_to_do(value: object, says: str) -> None:
    """The reason tells a missing registration from what can never be stored."""
    assert says in refusal(value).reason


def test_a_cycle_is_refused_where_it_closes() -> None:
    """The path leads to the object that is met again, and the reason to where it was met first."""
    order: dict[str, Any] = {"lines": [{}]}
    order["lines"][0]["order"] = order
    error = refusal({"a": 1, "order": order})
    assert error.path == "root.order.lines[0].order"
    assert error.type_name == "dict"
    assert "a cycle: it is root.order itself" in error.reason


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {1: v}, Plain])
def test_a_cycle_through_any_container_is_refused(wrap: Callable[..., Any]) -> None:
    """A list that holds itself, through whatever lies between, is a cycle."""
    items: list[Any] = []
    items.append(wrap(a=items) if wrap is Plain else wrap(items))
    error = refusal(items)
    assert "a cycle: it is root itself" in error.reason
    assert error.type_name == "list"


WRAPS: list[Callable[[object], object]] = [
    lambda value: [value],
    lambda value: {"a": value},
    lambda value: (value,),
    lambda value: {1: value},
    lambda value: {"$": value},
    lambda value: frozenset([value]),
    lambda value: Sealed(first=value, second=0),
    lambda value: Plain(a=value),
    lambda value: deque([value]),
    lambda value: defaultdict(int, a=value),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_nesting_has_a_bound(wrap: Callable[[object], object]) -> None:
    """So many containers in one another come back, one more and 300 are refused."""
    deepest = nested(wrap, VALUE_DEPTH_MAX)
    assert CODEC.encode(CODEC.decode(CODEC.encode(deepest))) == CODEC.encode(deepest)
    for levels in (VALUE_DEPTH_MAX + 1, 300):
        error = refusal(nested(wrap, levels))
        assert error.reason == f"nested deeper than {VALUE_DEPTH_MAX} levels"


def test_a_bound_on_nesting_holds_for_bytes_too() -> None:
    """What is nested deeper than anything that is ever written is refused when it is read."""
    wraps: list[Callable[[object], object]] = [
        lambda value: {"$": "tuple", "v": [value]},
        lambda value: {"a": value},
        lambda value: [value],
    ]
    for wrap in wraps:
        plain: object = 1
        for _ in range(VALUE_DEPTH_MAX + 1):
            plain = wrap(plain)
        assert problem(plain).endswith(f"nested deeper than {VALUE_DEPTH_MAX} levels")


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: (value,)])
def test_a_full_call_stack_is_a_typed_error(wrap: Callable[[object], object]) -> None:
    """Called with hardly any stack left, the codec raises its own errors."""

    def descend() -> None:
        try:
            descend()
        except RecursionError:
            with pytest.raises(EncodeError, match="call stack"):
                CODEC.to_plain(value)
            with pytest.raises(DecodeError, match="call stack"):
                CODEC.from_plain(plain)

    value = nested(wrap, 90)
    plain = CODEC.to_plain(value)
    descend()


def test_sharing_does_not_multiply_without_end() -> None:
    """Forty lists that each hold the next one twice are refused, not written 2^40 times."""
    value: object = [None] * 1_000_000
    for _ in range(40):
        value = [value, value]
    error = refusal(value)
    assert error.reason.startswith(f"more than {VALUES_MAX} values")


def test_dicts_with_other_keys_are_walked_once() -> None:
    """A dict whose last key is no text is not begun again, which would double each level."""
    value: object = 1
    for _ in range(VALUE_DEPTH_MAX):
        value = {"a": value, 1: 2}
    assert CODEC.decode(CODEC.encode(value)) == value


def test_a_long_key_is_cut_in_a_path() -> None:
    """A key of any length makes a path of bounded length."""
    error = refusal({"k" * 10_000: object()})
    assert len(error.path) < PATH_PART_CHARS_MAX + 20


def test_a_key_that_cannot_be_shown_is_named_by_its_type() -> None:
    """Not even a key whose own text fails keeps the path from being told."""
    assert refusal({10**5000: object()}).path == "root[int]"


# --- What is malformed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        ({"$": "nope", "v": 1}, "the kind 'nope' is not known"),
        ({"$": ["tuple"], "v": []}, "the kind a value of type list is not known"),
        ({"$": "tuple"}, "a tagged tuple does not have the keys v"),
        ({"$": "tuple", "v": [], "w": 1}, "a tagged tuple does not have the keys v"),
        ({"$": "tuple", "v": "ab"}, "expected list, found str"),
        ({"$": "int", "v": "0x_1"}, "not a hexadecimal number"),
        ({"$": "int", "v": "12"}, "not a hexadecimal number"),
        ({"$": "float", "v": "1.5"}, "a finite number"),
        ({"$": "decimal", "v": " 1"}, "not a decimal number"),
        ({"$": "decimal", "v": "one"}, "no decimal can be made of it: InvalidOperation"),
        ({"$": "bytes", "v": "a"}, "no bytes can be made of it"),
        ({"$": "bytes", "v": "AP8=*"}, "no bytes can be made of it"),
        ({"$": "date", "v": "2024-02-30"}, "no date can be made of it: ValueError"),
        ({"$": "date", "v": "20240229"}, "not in the form"),
        ({"$": "datetime", "v": "2024-01-01"}, "not ISO 8601"),
        ({"$": "datetime", "v": "2024-01-01T00:00:00", "fold": 0}, "a fold other than 1"),
        ({"$": "datetime", "v": "2024-01-01T00:00:00", "tz": "UTC"}, "a time zone that is none"),
        ({"$": "timedelta", "v": [1, 2]}, "no timedelta can be made of it"),
        ({"$": "timedelta", "v": [10**12, 0, 0]}, "no timedelta can be made of it: OverflowError"),
        ({"$": "zone", "v": "Mars/Olympus"}, "'No time zone found with key Mars/Olympus'"),
        ({"$": "zone", "v": "../x"}, "no zone can be made of it"),
        ({"$": "path", "class": "Path", "v": "a"}, "'Path' is no class of paths"),
        ({"$": "set", "v": [[1]]}, "no set can be made of it: TypeError"),
        ({"$": "set", "v": [1, 1.0]}, "two of its members or keys are equal"),
        ({"$": "dict", "v": [1, 2, True, 3]}, "two of its members or keys are equal"),
        ({"$": "dict", "v": [1]}, "no dict can be made of it"),
        ({"$": "defaultdict", "factory": "eval", "v": []}, "'eval' is no factory"),
        ({"$": "deque", "v": [1, 2], "maxlen": 1}, "more items than its bound"),
        ({"$": "error", "type": 1, "v": "a"}, "expected str, found int"),
        ({"$": "object", "class": "os:system", "v": {}}, "no class is registered as 'os:system'"),
        ({"$": "enum", "class": "tests.plain", "v": "RED"}, "is not registered as an enum"),
        ({"$": "object", "class": "tests.plain", "v": {}, "set": []}, "its class has no set"),
        ({"$": "object", "class": "tests.plain", "v": {}, "extra": {}}, "declares none"),
        ({"$": "object", "class": "tests.plain", "v": {}, "base": 1}, "extends no built-in type"),
        (float, "type is not JSON"),
        ((1,), "tuple is not JSON"),
    ],
)
def test_a_malformed_structure_is_refused_with_a_reason(plain: object, says: str) -> None:
    """Nothing that was never written decodes; the reason says what is wrong with it."""
    assert says in problem(plain)


def test_a_decode_error_names_the_place() -> None:
    """The reason begins with the path to the part that is malformed."""
    plain = {"a": [1, {"$": "tuple", "v": [{"$": "uuid", "v": "7"}]}]}
    assert problem(plain).startswith("value.a[1][0]: no uuid can be made of it")


def test_a_name_in_bytes_is_never_imported() -> None:
    """A class that a blob names is looked up in the registry and nowhere else."""
    before = set(sys.modules)
    reason = problem({"$": "object", "class": "antigravity:geohash", "v": {}})
    assert "no class is registered as 'antigravity:geohash'; register it: Machine(" in reason
    assert set(sys.modules) == before


def test_an_unknown_kind_of_any_length_is_shown_cut() -> None:
    """The reason of an error does not grow with what was found."""
    assert len(problem({"$": "x" * 10_000, "v": 1})) < 2 * PATH_PART_CHARS_MAX + 60


# --- Text ---------------------------------------------------------------------------------------


def test_a_fragment_is_embedded_as_it_is() -> None:
    """Bytes that are JSON already become part of the text around them, white space included."""
    data = dump({"a": Fragment(b'{"x": 1}  '), "b": [Fragment(b"2")]})
    assert data == b'{"a":{"x": 1}  ,"b":[2]}'
    assert load(data) == {"a": {"x": 1}, "b": [2]}


@pytest.mark.parametrize("plain", [2**64, "\ud800", {1: 2}, object(), {"a": {1, 2}}, Label("a")])
def test_what_json_cannot_say_is_not_dumped(plain: object) -> None:
    """`dump` raises its own error for what is no JSON structure."""
    with pytest.raises(EncodeError):
        dump(plain)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b"1e999", b'"\\ud800"', b'"\xff"', b"\xef\xbb\xbf1", b"[" * 2000]
)
def test_what_is_not_json_is_not_loaded(data: bytes) -> None:
    """`load` is strict, and raises its own error."""
    with pytest.raises(DecodeError, match="not JSON"):
        load(data)


def test_white_space_is_not_part_of_the_format() -> None:
    """Padding around a value, and inside it, changes nothing."""
    assert CODEC.decode(b'  { "$" : "tuple" , "v" : [ 1 ] }  \n') == (1,)


# --- Registry -----------------------------------------------------------------------------------


def test_a_class_is_named_by_its_mark_or_its_place() -> None:
    """`persistent` gives a name, its own or the class's; without it module and name are stored."""

    @persistent("shop.order")
    class Order:
        pass

    @persistent
    class Basket:
        pass

    codec = Codec([Order, Basket, Unknown])
    names = [codec.to_plain(cls())["class"] for cls in (Order, Basket, Unknown)]
    assert names == ["shop.order", "Basket", f"{__name__}:Unknown"]


def test_a_mark_registers_nothing_and_is_not_inherited() -> None:
    """A marked class is unknown until a codec is given it; its subclass has a name of its own."""

    @persistent("first")
    class First:
        pass

    class Second(First):
        pass

    assert "not registered" in refusal(First()).reason
    assert "not registered" in refusal(Second(), Codec([First])).reason
    assert Codec([First, Second]).to_plain(Second())["class"].endswith("Second")


def test_two_classes_of_one_name_are_refused_at_once() -> None:
    """A codec is not built while it is unclear which class a name means."""

    @persistent("twin")
    class First:
        pass

    @persistent("twin")
    class Second:
        pass

    with pytest.raises(ValueError, match=r"First and .*Second are both named 'twin'"):
        Codec([First, Second])
    with pytest.raises(ValueError, match="twin"):
        Codec([First]).with_types(Second)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "\ud800"])
def test_a_name_is_short_and_printable(name: str) -> None:
    """A name that could not be shown or stored is refused where it is given."""
    with pytest.raises(ValueError, match="is not a name for a class"):
        persistent(name)(Unknown)


def test_a_class_given_twice_and_built_in_types_are_no_matter() -> None:
    """What is known already may be given again."""
    codec = Codec([Unknown, Unknown, dict, datetime]).with_types(Unknown)
    assert isinstance(codec.decode(codec.encode(Unknown())), Unknown)
    assert repr(codec) == "Codec(types=[Unknown])"


def test_with_types_leaves_the_codec_as_it_was() -> None:
    """A codec never changes: one with more types is another one, with the same redaction."""
    first = Codec(redact=lambda _text: "-")
    second = first.with_types(Unknown)
    assert "not registered" in refusal(Unknown(), first).reason
    assert second.to_plain([Unknown(), ValueError("a")])[1]["v"] == "-"


class Heaped(OrderedDict):  # type: ignore[type-arg]  # any subclass
    pass


class Moment(datetime):
    pass


class Tally(Counter):  # type: ignore[type-arg]  # any subclass
    pass


class Key(UUID):
    pass


class Numbers(array.array):  # type: ignore[type-arg]  # any subclass
    pass


class Token(Secret):
    pass


@pytest.mark.parametrize(
    ("cls", "says"),
    [
        ("Order", "is not a class"),
        (list[int], "is not a class"),
        (object, "could not come back"),
        (type(NotImplemented), "could not come back"),
        (threading.local, "could not come back"),
        (type(threading.Lock()), "could not come back"),
        (array.array, "could not come back"),
        (Numbers, "could not come back"),
        (Heaped, "could not come back"),
        (Moment, "could not come back"),
        (type, "holds more than its attributes say"),
        (Tally, "holds more than its attributes say"),
        (Key, "holds more than its attributes say"),
        (OtherZone, "only datetime.timezone"),
        (Secret, "a secret is never stored"),
        (Token, "a secret is never stored"),
    ],
)
def test_a_class_whose_values_could_not_come_back_is_not_registered(cls: Any, says: str) -> None:
    """State outside Python attributes would be lost without a word, so its class is refused."""
    with pytest.raises(TypeError, match=says):
        Codec([cls])


def test_a_class_that_python_made_is_registered_whatever_it_is() -> None:
    """Generic, abstract and nested classes, and those with slots, all hold attributes only."""

    class Empty:
        __slots__ = ()

    @dataclass(slots=True, weakref_slot=True)
    class Weak:
        a: int

    class Nested(Enum):
        A = 1

    codec = Codec([Empty, Weak, Nested, Late])
    assert codec.decode(codec.encode(Weak(1))) == Weak(1)
    assert isinstance(codec.decode(codec.encode(Empty())), Empty)
    assert codec.decode(codec.encode(Nested.A)) is Nested.A
