"""Any value comes back as it was, and any JSON decodes or is refused by name."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapshots.codec import Codec, dump, load
from snapshots.errors import DecodeError
from tests.unit.snapshots.codec import codec_samples as samples
from tests.unit.snapshots.codec.codec_samples import CODEC, same

ROOT = Path(__file__).parents[4]


def opaque(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy that does not write out its parts, of which there are too many."""

    @st.composite
    def values(draw: st.DrawFn) -> object:
        return draw(strategy)

    return values()


ZONES = st.sampled_from(
    [
        None,
        UTC,
        timezone(timedelta(hours=5, minutes=30)),
        timezone(timedelta(minutes=-1)),
        timezone(timedelta(seconds=-1, microseconds=7)),
        timezone(timedelta(hours=-23, seconds=-59)),
        timezone(timedelta(hours=2), "summer"),
        timezone(timedelta(0), "zero"),
        ZoneInfo("Europe/Berlin"),
        ZoneInfo("UTC"),
    ]
)
FOLDS = st.sampled_from([0, 1])
TEXTS = st.text(max_size=8) | st.sampled_from(["$", "v", "\x00", "\U0001f600", "a\u0301"])
ENUMS = st.sampled_from(
    [
        *(*samples.Colour, *samples.Level, *samples.Word, *samples.Access, *samples.Bits),
        *(samples.Access(0), samples.Access.READ | samples.Access.RUN, samples.Access(7)),
        *(samples.Bits(0), samples.Bits(1 << 70 | 1)),
    ]
)
HASHABLE_SCALARS = opaque(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(2**70), max_value=2**70),
        st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64]),
        st.floats(),
        TEXTS,
        st.binary(max_size=8),
        st.dates(),
        st.builds(
            lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), ZONES, FOLDS
        ),
        st.builds(
            lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.times(), ZONES, FOLDS
        ),
        ZONES,
        st.timedeltas(),
        st.decimals().filter(lambda number: not number.is_snan()),
        st.uuids(),
        ENUMS,
        st.sampled_from(
            [
                Path("a/b"),
                PurePosixPath("/x y"),
                PureWindowsPath("c:\\d"),
                Path(),
                Path("//\U0001f600"),
            ]
        ),
        TEXTS.map(samples.Label),
        st.integers().map(samples.Amount),
        st.binary(max_size=4).map(samples.Blob),
    )
)
SCALARS = opaque(
    st.one_of(
        HASHABLE_SCALARS,
        st.just(Decimal("sNaN123")),
        st.binary(max_size=8).map(bytearray),
        st.floats().map(samples.Ratio),
        TEXTS.map(ValueError),
        TEXTS.map(KeyError),
        TEXTS.map(samples.DeclinedError),
        st.builds(samples.CodedError, st.integers(0, 9), TEXTS).map(
            lambda error: CODEC.decode(CODEC.encode(error))
        ),
    )
)
HASHABLE = opaque(
    st.recursive(
        HASHABLE_SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(tuple),
            st.frozensets(inner, max_size=3),
            st.builds(samples.Point, inner, inner),
            st.lists(inner, max_size=3).map(samples.Pair),
            st.frozensets(inner, max_size=3).map(samples.Frozen),
            st.builds(samples.Sealed, first=inner, second=inner),
        ),
        max_leaves=4,
    )
)


def with_attributes(point: samples.Spot, attributes: dict[str, Any]) -> samples.Spot:
    """Give a value attributes and return it."""
    point.__dict__.update(attributes)
    return point


def containers_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return every kind of container around values of `inner`."""
    dicts = st.dictionaries(TEXTS, inner, max_size=4)
    keyed = st.dictionaries(HASHABLE, inner, max_size=3)
    lists = st.lists(inner, max_size=4)
    named = st.dictionaries(st.from_regex(r"at_[a-z_]{0,2}", fullmatch=True), inner, max_size=3)
    return st.one_of(
        lists,
        dicts,
        keyed,
        lists.map(tuple),
        lists.map(deque),
        lists.map(lambda items: deque(items, maxlen=len(items) + 1)),
        keyed.map(OrderedDict),
        keyed.map(lambda found: defaultdict(list, found)),
        dicts.map(lambda found: defaultdict(None, found)),
        st.dictionaries(HASHABLE, st.integers(), max_size=3).map(Counter),
        st.sets(HASHABLE, max_size=4),
        st.sets(HASHABLE, max_size=4).map(samples.Tags),
        lists.map(samples.Bag),
        keyed.map(samples.Settings),
        st.builds(samples.Line, TEXTS, inner, inner),
        st.builds(samples.Sealed, first=inner, second=inner),
        st.builds(samples.Point, inner, inner),
        st.builds(with_attributes, st.builds(samples.Spot, inner, inner), named),
        st.builds(samples.Parcel, inner, inner),
        st.builds(samples.Slotted, inner, inner),
        st.builds(samples.Late, st.integers()),
        named.map(lambda attributes: samples.Plain(**attributes)),
    )


VALUES = opaque(st.recursive(SCALARS | HASHABLE, containers_of, max_leaves=12))

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
TAGS = [
    *("int", "float", "decimal", "bytes", "bytearray", "uuid", "path", "timezone", "zone"),
    *("date", "datetime", "time", "timedelta", "tuple", "set", "frozenset", "deque"),
    *("dict", "ordereddict", "counter", "defaultdict", "error", "enum", "object"),
]
CLASSES = [CODEC.to_plain(samples.Level.LOW)["class"], "tests.plain", "DeclinedError"]
CLASSES += [f"{cls.__module__}:{cls.__qualname__}" for cls in samples.ALL]


@given(VALUES)
@example([-0.0, 0.1 + 0.2, 5e-324, 1e300, float("nan"), float("-inf")])
@example({1: "a", "1": "b", False: "c", None: 1.5, (1, (2,)): {"$": "tuple", "v": []}})
@example({"$": {"$": "$"}, "\x00": "\U0001f600", "": ""})
@example(datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1))
@example(time(1, 2, 3, 4, tzinfo=ZoneInfo("Europe/Berlin")))
def test_a_value_comes_back_equal_and_of_the_same_types(value: object) -> None:
    """What is decoded equals what was encoded, type for type, to the sign of zero."""
    assert same(CODEC.decode(CODEC.encode(value)), value)


@given(VALUES)
def test_encoding_is_a_function_of_the_value(value: object) -> None:
    """A value that came back is encoded to the bytes it came from."""
    data = CODEC.encode(value)
    assert CODEC.encode(CODEC.decode(data)) == data


@given(VALUES)
def test_what_is_written_is_json_to_any_parser(value: object) -> None:
    """The standard library reads the bytes strictly, and finds the structure that was written."""
    plain = CODEC.to_plain(value)

    def refuse(literal: str) -> None:
        pytest.fail(f"{literal} is not JSON")

    assert json.loads(dump(plain).decode(), parse_constant=refuse) == plain
    assert load(dump(plain)) == plain


@given(VALUES)
def test_reading_leaves_the_structure_as_it_was(value: object) -> None:
    """A structure can be read twice, and gives the same value twice."""
    plain = CODEC.to_plain(value)
    kept = copy.deepcopy(plain)
    first, second = CODEC.from_plain(plain), CODEC.from_plain(plain)
    assert plain == kept
    assert same(first, second)


@given(VALUES)
def test_a_structure_shares_no_container_with_its_value(value: object) -> None:
    """Neither the structure nor what is read from it holds a list or dict of the other side."""
    plain = CODEC.to_plain(value)
    back = CODEC.from_plain(plain)
    theirs = mutable_parts(value)
    assert theirs.isdisjoint(mutable_parts(plain))
    assert mutable_parts(plain).isdisjoint(mutable_parts(back))


def mutable_parts(value: object) -> set[int]:
    """Return the identities of the lists and dicts in a value."""
    found: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, (list, tuple, set, frozenset, deque)):
            waiting += part
        if type(part) in samples.ALL and not isinstance(part, Enum):
            waiting += getattr(part, "__dict__", {}).values()
        if isinstance(part, (list, dict, set, deque)):
            found.add(id(part))
    return found


@given(JSON)
def test_any_json_decodes_or_is_refused(plain: object) -> None:
    """Decoding raises nothing but `DecodeError`, whatever JSON it is given."""
    decode_or_refuse(plain)


@given(
    st.fixed_dictionaries(
        {"$": st.sampled_from(TAGS), "v": JSON},
        optional={
            "class": st.sampled_from(CLASSES) | TEXTS,
            "type": st.sampled_from(CLASSES) | st.sampled_from(["KeyError", "OSError", "None"]),
            **dict.fromkeys(("tz", "fold", "name", "factory", "maxlen"), JSON),
            **dict.fromkeys(("base", "extra", "unset", "set", "private", "more"), JSON),
        },
    )
)
@settings(max_examples=300)
def test_any_tagged_object_decodes_or_is_refused(plain: object) -> None:
    """Each kind of tagged object, with contents of any sort, decodes or raises `DecodeError`."""
    decode_or_refuse(plain)


@given(VALUES, st.data())
@settings(max_examples=300)
def test_a_damaged_structure_decodes_or_is_refused(value: object, data: st.DataObject) -> None:
    """A valid structure with one part replaced, added or gone decodes or raises `DecodeError`."""
    plain = [CODEC.to_plain(value)]
    places = list(places_of(plain))
    holder, key = data.draw(st.sampled_from(places))
    damage = data.draw(st.sampled_from(["replace", "drop", "add"]))
    if damage == "replace" or holder is plain:
        holder[key] = data.draw(JSON | st.sampled_from([None, 7, "x", [], {}]))
    elif damage == "drop":
        del holder[key]
    elif isinstance(holder, dict):
        holder[data.draw(TEXTS | st.sampled_from(["extra", "unset", "base"]))] = data.draw(JSON)
    else:
        holder.append(data.draw(JSON))
    decode_or_refuse(plain[0])


def places_of(plain: Any) -> Any:
    """Yield each container of a structure with each key or index of it."""
    keys = plain if isinstance(plain, dict) else range(len(plain))
    for key in keys:
        yield plain, key
        if isinstance(plain[key], (list, dict)):
            yield from places_of(plain[key])


def decode_or_refuse(plain: object) -> None:
    """Decode a structure through its bytes; what decodes can be encoded again."""
    data = dump(plain)
    try:
        value = CODEC.decode(data)
    except DecodeError:
        return
    again = CODEC.encode(value)
    assert same(CODEC.decode(again), value)


@given(st.binary(max_size=40))
@example(b"\xff")
@example(b'"\xed\xa0\x80"')
@example(b'"\\ud800"')
@example(b"NaN")
@example(b"1e999")
@example(b"[" * 2000)
@example(b"[" * 1000 + b"]" * 1000)
@example(b'{"$":"tuple","v":[' * 300 + b"]}" * 300)
@example(b"")
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    """Bytes that are no JSON, or JSON nested without end, raise `DecodeError`."""
    try:
        value = Codec().decode(data)
    except DecodeError:
        return
    assert same(Codec().decode(Codec().encode(value)), value)


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    """Sets of texts are written in one order, whatever order a process keeps them in."""
    program = (
        "from snapshots.codec import Codec\n"
        "words = {f'w{n}' for n in range(50)}\n"
        "nested = {frozenset([word, 1]) for word in words}\n"
        "value = [words, frozenset(words), {('a', word) for word in words}, nested]\n"
        "print(list(words)[:20], Codec().encode(value).decode(), sep='\\n')\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    (first_order, first_bytes), (second_order, second_bytes) = outputs
    assert first_order != second_order
    assert first_bytes == second_bytes
