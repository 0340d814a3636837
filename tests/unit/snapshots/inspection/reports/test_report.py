"""What a blob says of its run, whoever wrote it and whatever became of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.codec import dump, load
from snapshots.errors import DecodeError, EncodeError
from snapshots.inspection import RunReport, read_report
from snapshots.inspection.limits import CHART_DEPTH_MAX, NAME_CHARS_MAX, STATE_DEPTH_MAX
from snapshots.inspection.printable import moment, relative, span, visible
from snapshots.inspection.reports.states import StateReport
from snapshots.inspection.reports.values import readable
from snapshots.inspection.text.documents import run_document, written
from snapshots.inspection.text.reports import run_text
from snapshots.inspection.text.screen import Screen, rendered
from snapshots.testing import START_MS
from tests.unit.snapshots.inspection.stored_runs import (
    MACHINE,
    PAYMENT_SHAPE,
    RUN,
    SECOND,
    SHAPE,
    effect,
    encoded,
    header,
    root_node,
    run_value,
    state,
)

NOW_MS = START_MS + 5 * SECOND
PLAIN = Screen(columns=200, is_colored=False, is_ascii=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from("$v"), inner),
    max_leaves=20,
)  # fmt: skip


def report_of(value: object, shape: object = SHAPE, **changes: Any) -> RunReport:
    """Read a JSON structure as the blob of a run."""
    stored = None if shape is None else encoded(shape)
    return read_report(header(**changes), encoded(value), stored, now_ms=NOW_MS)


def outline(states: tuple[StateReport, ...]) -> dict[str, Any]:
    """Return the nesting of states by name, active ones with a star."""
    return {f"{s.name}{'*' * s.active}": outline(s.states) for s in states}


def everything(value: object) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every part of a JSON structure."""
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        yield (key,)
        for path in everything(part):
            yield (key, *path)


def replaced(value: object, path: tuple[str | int, ...], part: object) -> object:
    """Return a copy of a structure with one part replaced."""
    changed: Any = deepcopy(value)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = part
    return changed


# -- the tree of charts ------------------------------------------------------------------------


def test_states_nest_as_the_stored_shape_says() -> None:
    """The tree is the whole chart, with every active state marked and no other."""
    report = report_of(run_value())
    assert report.root.shaped
    assert outline(report.root.states) == {
        "cart": {},
        "working*": {"paying*": {"asking*": {}, "before": {}}, "review*": {}},
        "closed": {},
    }


def test_without_a_shape_the_active_states_are_a_flat_list() -> None:
    """A run whose shape is not stored still says in which states it is."""
    report = report_of(run_value(), shape=None)
    assert not report.root.shaped
    assert outline(report.root.states) == {
        "working*": {}, "paying*": {}, "asking*": {}, "review*": {},
    }  # fmt: skip


@pytest.mark.parametrize("shape", [7, [], {}, {"name": "x", "states": 7}, {"states": []}])
def test_a_damaged_shape_counts_as_none(shape: object) -> None:
    """The shape only decorates: without a good one the run is still shown."""
    report = report_of(run_value(), shape)
    assert not report.root.shaped
    assert len(report.root.states) == 4


def test_an_active_state_that_the_shape_does_not_know_is_listed() -> None:
    """Nothing that is active is left out, whatever the shape says."""
    report = report_of(run_value(root=root_node(configuration=["cart", "elsewhere"])))
    assert report.root.states[-1] == StateReport(
        name="elsewhere", kind="unknown", initial=False, active=True
    )


@pytest.mark.parametrize(
    "states",
    [
        [state("cart", "closed"), state("closed", "cart")],
        [state("cart", "cart")],
        [state("cart", "nowhere")],
        [state("cart", f"s{0}")]
        + [state(f"s{n}", f"s{n + 1}") for n in range(STATE_DEPTH_MAX)]
        + [state(f"s{STATE_DEPTH_MAX}")],
    ],
    ids=["circle", "itself", "unknown parent", "too deep"],
)
def test_a_state_whose_parents_lead_nowhere_stands_at_the_top(states: list[Any]) -> None:
    """A shape with parents in a circle, unknown or without end hides no state."""
    report = report_of(
        run_value(root=root_node(configuration=["cart"])), SHAPE | {"states": states}
    )
    assert report.root.shaped
    assert "cart*" in outline(report.root.states)


def test_a_child_chart_has_the_shape_that_its_state_invokes() -> None:
    """The child is found under its state and place, with its own path and states."""
    (child,) = report_of(run_value()).children
    assert (child.path, child.name, child.shaped) == ("asking.2", "Payment", True)
    assert outline(child.states) == {"wait*": {}, "paid": {}}


def test_a_chart_that_invokes_itself_has_the_shape_above() -> None:
    """The stored shape leaves a recursive child out; it is the same as its parent's."""
    inner = root_node(configuration=["cart"], children={}, invokes=[])
    value = run_value(root=root_node(children={"asking.2": inner}))
    (child,) = report_of(value, SHAPE | {"children": {}}).children
    assert outline(child.states)["cart*"] == {}
    assert len(child.states) == len([s for s in SHAPE["states"] if s["parent"] is None])


def test_a_child_of_an_unknown_chart_is_flat_and_so_are_those_below() -> None:
    """A grandchild is not taken for its grandparent's child."""
    grandchild = {"class": "Payment", "status": "active", "configuration": ["wait"]}
    child = {
        "class": "Document",
        "status": "active",
        "configuration": ["x"],
        "children": {"x.1": grandchild},
    }
    report = report_of(run_value(root=root_node(children={"c.1": child})))
    assert [(node.path, node.shaped) for node in report.children] == [
        ("c.1", False),
        ("c.1/x.1", False),
    ]


def nested(depth: int) -> dict[str, Any]:
    """Return a chart with `depth` charts below it, one in the other."""
    node: dict[str, Any] = {"class": "C", "status": "active", "configuration": ["s"]}
    for _ in range(depth):
        node = {"class": "C", "status": "active", "configuration": ["s"], "children": {"s.1": node}}
    return node


def test_charts_nest_to_a_bound() -> None:
    """At the bound a run is read; one chart deeper it is refused, and no stack overflows."""
    assert len(report_of(run_value(root=nested(CHART_DEPTH_MAX))).children) == CHART_DEPTH_MAX
    with pytest.raises(DecodeError, match="deeper"):
        report_of(run_value(root=nested(CHART_DEPTH_MAX + 1)))


def test_shapes_nest_to_a_bound() -> None:
    """A shape of endless child charts is no shape."""
    shape: dict[str, Any] = PAYMENT_SHAPE
    for _ in range(CHART_DEPTH_MAX + 1):
        shape = SHAPE | {"children": {"asking.1": shape}}
    assert not report_of(run_value(), shape).root.shaped


# -- the ledgers -------------------------------------------------------------------------------


def test_effects_in_doubt_come_first() -> None:
    """What a person must settle leads, what is over closes the list; order is kept within."""
    rows = [effect(f"a.{n}", status) for n, status in enumerate(
        ["done", "unknown", "failed", "intent", "calling", "unknown", "done"]
    )]  # fmt: skip
    effects = report_of(run_value(effects=rows)).effects
    assert [(e.id.rpartition(".")[2], e.status) for e in effects] == [
        ("1", "unknown"), ("5", "unknown"), ("4", "calling"), ("3", "intent"), ("2", "failed"),
        ("0", "done"), ("6", "done"),
    ]  # fmt: skip


def test_a_timer_has_its_time_left_and_the_nearest_is_first() -> None:
    """The time left counts from the report's own now, and is negative once overdue."""
    timers = report_of(run_value()).timers
    assert [(t.id, t.left_ms, t.policy) for t in timers] == [
        ("t1", 250 * SECOND, "remaining"),
        ("t2", 895 * SECOND, "deadline"),
    ]
    (overdue,) = report_of(
        run_value(timers=[{"id": "t", "node": "", "event": "e", "due": START_MS, "seq": 1}])
    ).timers
    assert overdue.left_ms == -5 * SECOND


def test_timers_due_at_once_keep_the_order_in_which_they_were_set() -> None:
    """The sequence number decides between equal times, and only there."""
    rows = [("c", 2, 1), ("b", 1, 9), ("a", 1, 4)]
    timers = [{"id": name, "node": "", "due": due, "seq": seq} for name, due, seq in rows]
    assert [t.id for t in report_of(run_value(timers=timers)).timers] == ["a", "b", "c"]


def test_a_live_run_waits_for_what_is_open() -> None:
    """Gates, effects without an outcome, plain invokes and timers; nothing that has ended."""
    waits = report_of(run_value()).waits
    assert [(w.kind, w.id and w.id.rpartition("/")[2], w.status) for w in waits] == [
        ("gate", "review.3", None),
        ("effect", "asking.1", "unknown"),
        ("effect", "asking.4", "calling"),
        ("effect", "asking.3", "intent"),
        ("invoke", "review.4", None),
        ("invoke", None, "starting"),
        ("timer", "t1", None),
        ("timer", "t2", None),
    ]
    assert (waits[0].key, waits[0].events) == ("approval", ("approve", "reject"))
    assert (waits[-2].events, waits[-2].left_ms) == (("remind",), 250 * SECOND)


@pytest.mark.parametrize("status", ["done", "failed", "error", "cancelled", "lost", "drifted"])
def test_a_run_that_is_not_live_waits_for_nothing(status: str) -> None:
    """Its ledgers stay, and nobody waits for them."""
    report = report_of(run_value(), status=status, ended_ms=NOW_MS)
    assert report.waits == ()
    assert report.effects[0].status == "unknown"


def test_queue_holds_what_every_chart_accepted() -> None:
    """Events that arrived during a macrostep wait behind those in the charts' queues."""
    assert [(e.node, e.event) for e in report_of(run_value()).queue] == [
        ("", "pay"),
        ("asking.2", "late"),
    ]


def test_the_trail_keeps_its_order() -> None:
    """The last transitions, oldest first."""
    trail = [[START_MS + n, "", f"e{n}", ["a"], ["b"]] for n in range(3)]
    found = report_of(run_value(trail=trail)).trail
    assert [(t.event, t.sources, t.targets) for t in found] == [
        (f"e{n}", ("a",), ("b",)) for n in range(3)
    ]


def test_every_other_ledger_is_there_by_its_keys() -> None:
    """Whatever a run wrote down is shown, in words of its own; empty ledgers are not."""
    report = report_of(run_value())
    assert {name: list(ledger) for name, ledger in report.ledgers.items()} == {
        "admissions": ["asking.3"],
        "epochs": ["chat"],
        "notices": ["build"],
        "pushes": ["slot"],
        "picks": ["chat"],
    }
    bare = run_value(admissions={}, epochs={}, notices={}, picks=[], pushes={})
    assert report_of(bare).ledgers == {}


def test_a_step_without_an_event_is_shown_as_one() -> None:
    """The first macrostep has no event, and its column is not left blank."""
    report = report_of(run_value(trail=[[START_MS, "", "", [], ["cart"]]]))
    line = rendered(run_text(report, screen=PLAIN), PLAIN).splitlines()[-1]
    assert line.split()[1:] == ["-", "(root)", "-", "-", "->", "cart"]


def test_a_blob_of_its_bare_fields_is_a_report() -> None:
    """Absent means empty: a run without ledgers is read."""
    root = {"class": "C", "status": "finished", "configuration": ["end"]}
    report = report_of({"v": 1, "run": RUN, "machine": MACHINE, "root": root})
    assert (report.waits, report.effects, report.timers, report.queue, report.trail) == ((),) * 5


def test_fields_of_a_later_release_are_left_alone() -> None:
    """What this release does not know does not keep a run from being read."""
    report = report_of(run_value(later={"x": 1}, root=root_node(later=[1])))
    assert report == report_of(run_value())


def test_padding_is_not_part_of_the_format() -> None:
    """Spaces between and behind fragments do not matter."""
    padded = b"  " + encoded(run_value()).replace(b", ", b",    ") + b" " * 512
    assert read_report(header(), padded, encoded(SHAPE), now_ms=NOW_MS) == report_of(run_value())


# -- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [None, 7, -1.5, True, "x", [], {}, [[]], {"$": "tuple", "v": []}])
def test_a_field_of_another_kind_is_shown_or_refused_never_a_crash(part: object) -> None:
    """With any one part replaced the run is read, or refused by a typed error, nothing else."""
    value = run_value()
    refusals = []
    for path in everything(value):
        try:
            report = report_of(replaced(value, path, part))
        except DecodeError as error:
            refusals.append(error)
            continue
        rendered(run_text(report, screen=PLAIN), PLAIN)
        written(run_document(report))
    assert len(refusals) > 10
    assert all(error.run_id == RUN and error.reason for error in refusals)


def test_a_refusal_names_the_path() -> None:
    """Whoever repairs a blob is told where, what is there and what was expected."""
    value = replaced(run_value(), ("root", "children", "asking.2", "configuration", 0), 7)
    with pytest.raises(DecodeError) as refused:
        report_of(value)
    where = "root.children.asking.2.configuration[0]"
    assert refused.value.reason == f"{where} is a number, expected a string"


@pytest.mark.parametrize(
    "path", [("step",), ("timers", 0, "due"), ("effects", 0, "attempt"), ("trail", 0, 0)]
)
def test_a_boolean_is_no_number(path: tuple[str | int, ...]) -> None:
    """Python counts True as 1; a blob does not."""
    with pytest.raises(DecodeError):
        report_of(replaced(run_value(), path, True))


def test_a_missing_part_is_named() -> None:
    """What must be there and is not is said to be missing."""
    value = run_value()
    del value["root"]
    with pytest.raises(DecodeError, match="root is missing, expected an object"):
        report_of(value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": "0199-other"}, "another row"),
        ({"machine": "other"}, "another row"),
        ({"v": 2}, "format 1"),
        ({"effects": [effect("a", "maybe")]}, "'maybe', expected one of unknown"),
    ],
)
def test_what_is_not_this_run_is_refused(changes: dict[str, Any], reason: str) -> None:
    """The bytes of another run, another format, or a status that no effect has."""
    with pytest.raises(DecodeError, match=reason):
        report_of(run_value(**changes))


def test_a_later_format_is_named() -> None:
    """The version of the bytes is a field of the error."""
    with pytest.raises(DecodeError) as refused:
        report_of(run_value(v=9))
    assert refused.value.version == 9


def test_flipped_and_missing_bytes_are_shown_or_refused_never_a_crash() -> None:
    """A blob with one byte changed or its end cut is read, or refused by a typed error."""
    good = encoded(run_value())
    dice = random.Random(1)
    refusals = []
    for _ in range(150):
        place = dice.randrange(len(good))
        flipped = bytearray(good)
        flipped[place] ^= 1 << dice.randrange(8)
        for damaged in (bytes(flipped), good[:place]):
            try:
                report = read_report(header(), damaged, encoded(SHAPE), now_ms=NOW_MS)
            except DecodeError as error:
                refusals.append(error)
                continue
            rendered(run_text(report, screen=PLAIN), PLAIN)
    assert len(refusals) > 150
    assert all(error.run_id == RUN for error in refusals)


@pytest.mark.parametrize("blob", [b"", b"null", b"[]", b"\xff", b'{"v":', b"[" * 5_000])
def test_what_is_no_object_is_refused(blob: bytes) -> None:
    """Empty, cut, not UTF-8, not an object, nested without end: a typed error."""
    with pytest.raises(DecodeError):
        read_report(header(), blob, None, now_ms=NOW_MS)


def test_a_value_nested_too_deep_is_cut_in_text_and_refused_in_json() -> None:
    """500 lists in each other are shown as an ellipsis; as JSON they are a typed error."""
    blob = encoded(run_value()).replace(b'"fragile"', b"[" * 500 + b"]" * 500)
    report = read_report(header(), blob, None, now_ms=NOW_MS)
    assert "...]" in rendered(run_text(report, screen=PLAIN), PLAIN)
    with pytest.raises(EncodeError):
        written(run_document(report))


# -- values, names and times -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, "None"),
        (True, "True"),
        ([1, "a", {"b": 2.5}], "[1, 'a', {'b': 2.5}]"),
        ({"$": "decimal", "v": "1.20"}, "Decimal('1.20')"),
        ({"$": "uuid", "v": "0199"}, "UUID('0199')"),
        ({"$": "int", "v": "0x1ffffffffffffffff"}, "0x1ffffffffffffffff"),
        ({"$": "float", "v": "nan"}, "nan"),
        ({"$": "tuple", "v": [1]}, "(1,)"),
        ({"$": "tuple", "v": [1, 2]}, "(1, 2)"),
        ({"$": "set", "v": [1]}, "{1}"),
        ({"$": "frozenset", "v": [1]}, "frozenset({1})"),
        ({"$": "bytes", "v": "AP8="}, r"b'\x00\xff'"),
        ({"$": "bytearray", "v": "AP8="}, r"bytearray(b'\x00\xff')"),
        ({"$": "dict", "v": [1, "a", "$", 2]}, "{1: 'a', '$': 2}"),
        ({"$": "counter", "v": ["a", 2]}, "Counter({'a': 2})"),
        ({"$": "defaultdict", "factory": "list", "v": ["a", []]}, "defaultdict(list, {'a': []})"),
        ({"$": "deque", "v": [1], "maxlen": 8}, "deque([1], maxlen=8)"),
        ({"$": "datetime", "v": "2026-01-01T00:00:00"}, "datetime('2026-01-01T00:00:00')"),
        (
            {"$": "datetime", "v": "2026-01-01T00:00:00", "tz": {"$": "zone", "v": "Europe/Rome"}},
            "datetime('2026-01-01T00:00:00', tz=ZoneInfo('Europe/Rome'))",
        ),
        ({"$": "timedelta", "v": [1, 2, 3]}, "timedelta([1, 2, 3])"),
        ({"$": "path", "class": "PosixPath", "v": "/x"}, "PosixPath('/x')"),
        ({"$": "error", "type": "ValueError", "v": "no"}, "ValueError('no')"),
        ({"$": "enum", "class": "shop:Color", "v": "RED"}, "Color.RED"),
        ({"$": "enum", "class": "shop:Flags", "v": 3}, "Flags(3)"),
        ({"$": "object", "class": "shop:Line", "v": {"sku": "a", "n": 3}}, "Line(sku='a', n=3)"),
        ({"$": "object", "class": "Money", "v": {}, "base": 3}, "Money(base=3)"),
        ({"$": "unheard of", "v": [1], "more": 2}, "unheard of([1], more=2)"),
        ({"$": "tuple"}, "tuple(None)"),
        ({"$": "dict", "v": [1]}, "dict([1])"),
        ({"$": "bytes", "v": "*"}, "bytes('*')"),
        ({"$": 7, "v": 1}, "7(1)"),
        ({"$": "object", "v": 7}, "object(7)"),
        ({"$": "enum"}, "?(None)"),
    ],
)
def test_a_tagged_value_reads_as_python_would_write_it(raw: object, shown: str) -> None:
    """No class is needed; a malformed tag is shown as it stands."""
    assert readable(raw) == shown


@given(value=JSON)
def test_any_value_is_one_bounded_printable_line(value: object) -> None:
    """Whatever a blob holds, what is shown of it is printable and no longer than asked."""
    shown = readable(value, chars_max=60)
    assert shown.isprintable()
    assert len(shown) <= 60 + len("...")


@given(value=JSON)
def test_a_document_is_the_same_json_without_what_terminals_obey(value: object) -> None:
    """Escapes inside strings change how a document is written and not what it says."""
    text = written({"x": value}).removesuffix("\n")
    assert text.isprintable()
    assert load(text.encode()) == load(dump({"x": value}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/]", "plain [bold]text[/]"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r\t\x00", r"two\nlines\r\t\x00"),
        ("\x9b\u202e\u2028\ufeff\u200b", r"\x9b\u202e\u2028\ufeff\u200b"),
        ("\ud800", r"\ud800"),
        ("Füße 日本 😀", "Füße 日本 😀"),
        ("x" * NAME_CHARS_MAX, "x" * NAME_CHARS_MAX),
        ("x" * (NAME_CHARS_MAX + 1), "x" * NAME_CHARS_MAX + "..."),
    ],
)
def test_a_name_is_shown_so_that_no_terminal_obeys_it(text: str, shown: str) -> None:
    """Controls, line ends and direction marks become escapes; letters of all scripts stay."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("span_ms", "shown"),
    [
        (1, "1 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (250_000, "4 m 10 s"),
        (240_000, "4 m"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (86_400_000 + 61_000, "1 d"),
        (-250_000, "4 m 10 s"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(span_ms: int, shown: str) -> None:
    """Long enough to be exact for a person, short enough for a column."""
    assert span(span_ms) == shown


def test_a_time_is_iso_8601_in_utc() -> None:
    """No local time zone changes it, and one that no calendar holds is its number."""
    assert moment(START_MS + 7) == "2026-01-01T00:00:00.007Z"
    assert moment(2**62) == f"{2**62} ms"
    assert moment(-(2**62)) == f"{-(2**62)} ms"


def test_a_time_is_told_from_now() -> None:
    """Ahead, behind, and exactly now."""
    assert [relative(ms) for ms in (250_000, -3_000, 0)] == ["in 4 m 10 s", "3 s ago", "now"]
