"""What a picture of a run, of a shape and of two shapes says of their parts."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from snapshots.errors import DecodeError
from snapshots.inspection.diagram import (
    Picture,
    PictureEdge,
    PictureState,
    compare,
    picture_of,
    picture_of_shape,
    to_dot,
    to_mermaid,
    to_tree,
)
from snapshots.inspection.limits import PICTURE_CHARTS_MAX
from snapshots.testing import START_MS
from tests.unit.snapshots.inspection.diagram.diagram_samples import (
    FOLDER,
    NESTED,
    NOW_MS,
    WAITING,
    WAITING_RUN,
    changed_shape,
    drawn,
    placed,
    report_of,
    shape_of,
    texts,
)
from tests.unit.snapshots.inspection.stored_runs import (
    PAYMENT_SHAPE,
    RUN,
    SECOND,
    SHAPE,
    effect,
    encoded,
    root_node,
    run_value,
)


def states(picture: Picture) -> dict[str, PictureState]:
    """Return the states of one chart by name."""
    return {state.name: state for state in picture.every_state()}


def edges(picture: Picture) -> dict[tuple[str, str], PictureEdge]:
    """Return the transitions of one chart by their source and first event."""
    return {(edge.source, "".join(edge.events[:1])): edge for edge in picture.edges}


def marks(state: PictureState) -> list[tuple[str, str, str]]:
    """Return what a state carries."""
    return [(mark.kind, mark.status, mark.text) for mark in state.marks]


# -- a run -------------------------------------------------------------------------------------


def test_the_picture_of_a_run_lights_what_is_active_and_tints_what_was() -> None:
    """States are lit by the configuration, and tinted by how lately the trail saw them."""
    found = states(drawn(run_value()))
    assert [name for name, state in found.items() if state.active] == [
        "working",
        "paying",
        "asking",
        "review",
    ]
    assert (found["cart"].heat, found["closed"].heat) == (3, 0)
    assert found["cart"].visited
    assert found["before"].remembers == ("asking",)


def test_a_tint_fades_with_the_macrosteps() -> None:
    """The newest step is 3, the few before it 2, all earlier ones 1."""
    way = ["cart", "working", "paying", "asking", "before", "review", "closed"]
    trail = [[n, "", "e", [a], [b]] for n, (a, b) in enumerate(pairwise(way))]
    found = states(drawn(run_value(trail=trail)))
    assert {name: state.heat for name, state in found.items()} == {
        "cart": 1,
        "working": 1,
        "paying": 2,
        "asking": 2,
        "before": 2,
        "review": 3,
        "closed": 3,
    }


def test_gates_effects_and_invokes_are_marked_where_they_are_open() -> None:
    """A gate says what it accepts, an effect in doubt is urgent, what has ended is not there."""
    found = states(drawn(run_value()))
    assert marks(found["review"]) == [
        ("gate", "open", "accepts approve, reject"),
        ("invoke", "running", "call running"),
        ("invoke", "starting", "call starting"),
    ]
    assert found["review"].marks[0].detail == (
        "gate accepts approve, reject, key approval, meta {'role': 'editor'}"
    )
    assert marks(found["asking"])[0] == ("effect", "in doubt", "charge in doubt")
    assert found["asking"].is_urgent
    assert not found["review"].is_urgent


@pytest.mark.parametrize(
    ("status", "said"), [("intent", "to call"), ("calling", "calling"), ("done", "done")]
)
def test_an_effect_is_marked_with_its_status(status: str, said: str) -> None:
    """Only an effect whose outcome is not known is urgent."""
    picture = drawn(run_value(effects=[effect("asking.1", status)]))
    mark = states(picture)["asking"].marks[0]
    assert (mark.status, mark.is_urgent) == (said, False)


def test_timers_say_how_much_time_is_left() -> None:
    """A timeout stands at its state, a delayed event at the transition that it will take."""
    picture = drawn(WAITING_RUN, WAITING)
    assert marks(states(picture)["asking"])[1] == ("timer", "overdue", "overdue by 1 s")
    found = edges(picture)
    assert [mark.text for mark in found["asking", "remind"].marks] == ["in 4 m 10 s"]
    assert found["asking", "remind"].marks[0].detail == (
        "timer due 2026-01-01T00:05:10.000Z (in 4 m 10 s), sends remind"
    )
    assert found["asking", "approve"].marks == ()


def test_time_left_counts_from_the_time_that_is_asked_for() -> None:
    """A picture may be drawn later than its report was read."""
    report = report_of(WAITING_RUN, WAITING)
    later = picture_of(report, encoded(WAITING), now_ms=NOW_MS + 240 * SECOND)
    assert [mark.text for mark in edges(later)["asking", "remind"].marks] == ["in 10 s"]


def test_the_last_transition_is_marked() -> None:
    """It is the one that the newest entry of its chart's trail is explained by."""
    found = edges(drawn(WAITING_RUN, WAITING))
    assert [key for key, edge in found.items() if edge.is_last] == [("cart", "pay")]
    assert found["cart", "pay"].taken == 1
    assert found["asking", "approve"].taken == 0


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (["dive", ["idle"], ["outer", "inner", "y"]], ("idle", "dive")),
        (["enter", ["idle"], ["outer", "first"]], ("idle", "enter")),
        (["done.invoke.idle", ["idle"], ["outer", "first"]], ("idle", "done.invoke.idle")),
        (["done.invoke.idle.3", ["idle"], ["outer", "first"]], ("idle", "done.invoke.idle")),
        (["", ["outer", "first"], ["outer", "inner", "x"]], ("first", "")),
        (["leave", ["outer", "inner", "x"], ["over"]], ("outer", "leave")),
        (["up", ["outer", "inner", "x"], ["outer", "first"]], ("x", "up")),
        (["stay", ["outer", "inner", "x"], ["outer", "inner", "x"]], ("x", "stay")),
        (["leave", ["idle"], ["over"]], None),
        (["done.invoke.idler", ["idle"], ["outer"]], None),
    ],
)
def test_a_step_is_explained_by_the_transition_that_fits(
    entry: list[Any], expected: tuple[str, str] | None
) -> None:
    """Its event, the states before and those after must fit; a longer name has more tokens."""
    root = root_node(**{"class": "Nested"}, configuration=["idle"], invokes=[], children={})
    event, before, after = entry
    trail = [[START_MS, "", event, before, after]]
    picture = drawn(run_value(root=root, trail=trail), NESTED)
    assert [key for key, edge in edges(picture).items() if edge.is_last] == [expected] * (
        expected is not None
    )


def test_of_two_transitions_for_one_event_the_inner_one_is_marked() -> None:
    """As SCXML selects them, a transition of an inner state goes before that of an outer one."""
    shape = shape_of(
        placed("a", kind="compound"),
        placed("b", "a"),
        placed("c"),
        transitions=[("a", "go", ["c"]), ("b", "go", ["c"])],
    )
    root = root_node(configuration=["c"], invokes=[], children={})
    trail = [[START_MS, "", "go", ["a", "b"], ["c"]]]
    picture = drawn(run_value(root=root, trail=trail), shape)
    assert [edge.source for edge in picture.edges if edge.is_last] == ["b"]


def test_charts_below_are_pictures_of_their_own() -> None:
    """A child has its class, its path, the state that invoked it and its own active states."""
    root = drawn(run_value())
    child = root.children[0]
    assert list(root.every_picture()) == [root, child]
    assert (child.title, child.path, child.state, child.status) == (
        "Payment",
        "asking.2",
        "asking",
        "active",
    )
    assert [name for name, state in states(child).items() if state.active] == ["wait"]


def test_of_too_many_charts_those_in_doubt_are_drawn_and_the_rest_counted() -> None:
    """A pool of many workers stays a picture; the worker that needs a person is in it."""
    node = root_node()["children"]["asking.2"]
    children = {f"w{n:03}": node for n in range(2 * PICTURE_CHARTS_MAX)}
    last = f"w{2 * PICTURE_CHARTS_MAX - 1:03}"
    doubt = effect("x.0", "unknown", node=last)
    picture = drawn(run_value(root=root_node(children=children), effects=[doubt]))
    paths = [child.path for child in picture.children]
    assert len(paths) == PICTURE_CHARTS_MAX - 1
    assert paths == [*sorted(paths)[:-1], last]
    assert picture.left_out == PICTURE_CHARTS_MAX + 1


def test_without_a_shape_the_active_states_are_a_picture() -> None:
    """A run whose shape is gone is drawn by what is active, and a note says so."""
    report = report_of(run_value(), None)
    picture = picture_of(report, None)
    assert [state.name for state in picture.states] == ["working", "paying", "asking", "review"]
    assert all(state.kind == "unknown" for state in picture.states)
    assert "not stored" in picture.notes[0]
    assert picture.edges == ()


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (b"\x00", "cannot be read"),
        (b"[]", "shape is a list, expected an object"),
        (encoded({"name": 7}), "shape.name is a number"),
        (encoded(SHAPE | {"transitions": [["a", "b"]]}), "shape.transitions[0] is a list"),
        (encoded(SHAPE | {"transitions": [["a", "b", [1], False, False]]}), "transitions[0][2][0]"),
        (encoded(SHAPE | {"states": [{"name": "a", "kind": "x", "invokes": [1]}]}), "invokes[0]"),
        (encoded(SHAPE | {"children": {"a": 1}}), "shape.children.a is a number"),
    ],
)
def test_a_damaged_shape_is_refused_with_the_place(shape: bytes, said: str) -> None:
    """The run is named, and what of the shape is wrong."""
    with pytest.raises(DecodeError) as refused:
        picture_of(report_of(run_value()), shape)
    assert refused.value.run_id == RUN
    assert said in refused.value.reason


# -- shapes without a run ----------------------------------------------------------------------


def test_a_shape_alone_is_a_picture_of_what_is_declared() -> None:
    """Gates, timeouts and charts below stand where the shape says that they will be."""
    picture = picture_of_shape(encoded(WAITING))
    assert marks(states(picture)["asking"]) == [
        ("gate", "declared", "gate approve, reject"),
        ("timer", "declared", "timeout late"),
    ]
    assert not any(state.active or state.heat for state in picture.every_state())


@pytest.mark.parametrize(
    ("word", "kind", "text"),
    [
        ("effect", "effect", "effect"),
        ("gate:", "gate", "gate"),
        ("timeout:", "timer", "timeout"),
        ("child:3f2a9c01b7de", "child", "child chart"),
        ("children:3f2a9c01b7de", "child", "child charts"),
        ("document:3f2a9c01b7de", "child", "document"),
        ("group:3", "invoke", "group of 3"),
        ("call", "invoke", "call"),
        ("of a later release:x", "invoke", "of a later release"),
    ],
)
def test_every_word_for_an_invoke_has_a_mark(word: str, kind: str, text: str) -> None:
    """Words that this release does not know are shown as they are."""
    picture = picture_of_shape(encoded(shape_of(placed("a", invokes=[word]))))
    assert marks(picture.states[0]) == [(kind, "declared", text)]


def test_a_shape_may_be_drawn_with_states_lit() -> None:
    """Whoever holds a live chart says which of its states are active."""
    found = states(picture_of_shape(encoded(NESTED), active=["outer", "first"]))
    assert [name for name, state in found.items() if state.active] == ["outer", "first"]


def test_an_event_and_its_spelling_with_underscores_are_one() -> None:
    """The library declares both for `done.invoke.x`; one of them is enough to read."""
    assert ("idle", "done.invoke.idle") in edges(picture_of_shape(encoded(NESTED)))
    kept = shape_of(placed("a"), transitions=[("a", "x_y z", ["a"])])
    assert picture_of_shape(encoded(kept)).edges[0].events == ("x_y", "z")


# -- drift -------------------------------------------------------------------------------------


def test_two_equal_shapes_differ_in_nothing() -> None:
    """A comparison with itself marks nothing."""
    for shape in (SHAPE, NESTED, WAITING):
        same = compare(encoded(shape), encoded(shape))
        assert {state.change for state in same.every_state()} == {""}
        assert {edge.change for edge in same.edges} <= {""}


def test_what_drifted_is_marked_as_gone_new_or_changed() -> None:
    """States and transitions of both shapes are there, and a changed state says how."""
    found = compare(encoded(SHAPE), encoded(changed_shape()))
    assert {name: (s.change, s.note) for name, s in states(found).items() if s.change} == {
        "cart": ("gone", ""),
        "basket": ("new", ""),
        "paying": ("changed", "invoked nothing"),
    }
    assert {key: edge.change for key, edge in edges(found).items()} == {
        ("cart", "go"): "gone",
        ("basket", "go"): "new",
    }


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"kind": "final"}, "was atomic"),
        ({"parent": "working"}, "lay in paying"),
        ({"parent": None}, "lay in paying"),
        ({"value": 7}, "had the value 'asking'"),
        ({"initial": True}, "was not initial"),
        ({"invokes": ["effect"]}, "invoked nothing"),
    ],
)
def test_a_changed_state_says_what_it_was(changes: dict[str, Any], note: str) -> None:
    """It stands where it stands now."""
    later = deepcopy(SHAPE)
    later["states"][3] |= changes
    found = states(compare(encoded(SHAPE), encoded(later)))["asking"]
    assert (found.change, found.note) == ("changed", note)


def test_what_lay_in_a_state_that_is_gone_is_gone_with_it_or_stands_elsewhere() -> None:
    """No state of either shape is lost, and none is there twice."""
    old = shape_of(placed("a", kind="compound"), placed("b", "a"), placed("c", "b"))
    new = shape_of(placed("c", kind="compound"), placed("d", "c"))
    picture = compare(encoded(old), encoded(new))
    names = [state.name for state in picture.every_state()]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert states(picture)["a"].states == (states(picture)["b"],)


def test_a_comparison_keeps_where_the_run_stands() -> None:
    """The drifted run's active states and marks stand in the picture of both shapes."""
    found = states(compare(drawn(run_value()), encoded(changed_shape())))
    assert found["asking"].active
    assert found["asking"].is_urgent
    assert found["cart"].heat == 3


def test_charts_below_are_compared_by_the_state_that_invokes_them() -> None:
    """A run names them by their invoke, a shape by their place: both name the state."""
    later = changed_shape()
    later["children"]["asking.1"] = PAYMENT_SHAPE | {"states": PAYMENT_SHAPE["states"][:1]}
    child = compare(drawn(run_value()), encoded(later)).children[0]
    assert {name: state.change for name, state in states(child).items()} == {
        "wait": "",
        "paid": "gone",
    }
    gone = compare(encoded(SHAPE), encoded(SHAPE | {"children": {}})).children
    new = compare(encoded(SHAPE | {"children": {}}), encoded(SHAPE)).children
    assert [child.change for child in (*gone, *new)] == ["gone", "new"]


# -- texts -------------------------------------------------------------------------------------


def test_the_texts_of_the_samples_are_those_in_the_files() -> None:
    """Nobody changes how charts are drawn by accident; the samples' module writes the files."""
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert texts() == written


def test_a_picture_is_drawn_the_same_each_time() -> None:
    """Two readings of one row give equal pictures and equal texts."""
    first, second = drawn(run_value()), drawn(run_value())
    assert first == second
    assert to_dot(first) == to_dot(second)
    assert to_mermaid(first) == to_mermaid(second)


def test_the_tree_has_every_state_and_chart_in_its_place() -> None:
    """Each row is a chart or a state, below what it is in; a chart is below its state."""
    rows = [
        (row.depth, row.item.title if isinstance(row.item, Picture) else row.item.name)
        for row in to_tree(drawn(run_value()))
    ]
    assert rows == [
        (0, "Checkout"),
        (1, "cart"),
        (1, "working"),
        (2, "paying"),
        (3, "asking"),
        (4, "Payment"),
        (5, "wait"),
        (5, "paid"),
        (3, "before"),
        (2, "review"),
        (1, "closed"),
    ]


def test_a_chart_whose_state_is_unknown_is_below_the_chart_that_has_it() -> None:
    """Without the invoke that started it a child is still in the tree."""
    root = root_node(invokes=[])
    rows = to_tree(drawn(run_value(root=root)))
    assert [(row.depth, row.item.title) for row in rows if isinstance(row.item, Picture)] == [
        (0, "Checkout"),
        (1, "Payment"),
    ]
