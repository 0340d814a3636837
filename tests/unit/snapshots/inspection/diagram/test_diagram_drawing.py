"""Pictures as SVG, PNG, DOT and Mermaid: what is lit, and that no name out of a file is obeyed."""

from __future__ import annotations

import pickle
import random
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from machines.shape import shape_bytes
from snapshots.errors import ExtraNotInstalledError
from snapshots.inspection.diagram import (
    DrawingError,
    Mark,
    Picture,
    PictureEdge,
    PictureState,
    compare,
    picture_of_shape,
    rendering,
    style_sheet,
    to_dot,
    to_mermaid,
    to_png,
    to_svg,
)
from snapshots.inspection.diagram.labels import shown
from snapshots.inspection.diagram.metrics import width_of
from snapshots.inspection.diagram.palette import COLORS
from snapshots.inspection.limits import STATE_DEPTH_MAX
from tests.unit.snapshots.inspection.diagram.diagram_samples import (
    NESTED,
    WAITING,
    WAITING_RUN,
    changed_shape,
    drawn,
    placed,
    shape_of,
)
from tests.unit.snapshots.inspection.stored_runs import SHAPE, encoded, run_value, state
from tools.charts.build import chart_class
from tools.charts.generate import chart

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "g", "title", "style", "path", "polygon", "polyline", "ellipse", "text"}
HOSTILE = [
    '"', "<", ">", "&", "'", "\\", "\\N", "\\G", '\\"', "a\\", "a\nb", "\r", "\t", "\x00",
    "\x1b[31m", "\x7f", "\u2028", "\u202e", "\ufeff", "\ufffe", "%%", "%%{init: {}}%%", "-->",
    "<!--", "]]>", "--", "<B>", "</B>", "<HR/>", "<script>alert(1)</script>", "&lt;", "&#x22;",
    "#35;", "#quot;", "[*]", "<<fork>>", "{", "}", ";", ":", "::", "`", "$x", '"];x[', "|", "=",
    "state", "end", "note", "class", "click", "digraph", "subgraph", "", " ", "x" * 500, "Käse",
    "日本", "\U0001f600", "https://a.b/c",
]  # fmt: skip


def hostile_shape(names: list[str]) -> Any:
    """Return a shape in which every name, kind, event and invoke is one of `names`."""
    chosen = list(dict.fromkeys(names))
    states = [
        placed(name, chosen[0] if place in {1, 2} else None, name, invokes=[name, f"gate:{name}"])
        for place, name in enumerate(chosen)
    ]
    # White space parts the events of a transition: it is no part of a name.
    steps = [
        (name, "".join(name.split()), [chosen[place - 1]]) for place, name in enumerate(chosen)
    ]
    child = shape_of(placed(chosen[-1], kind="final"), name=chosen[-1])
    children = {f"{chosen[-1]}.0": child}
    return shape_of(*states, transitions=steps, name=chosen[0], children=children)


def parsed(svg: str) -> ET.Element:
    """Return the root of an SVG."""
    return ET.fromstring(svg)  # noqa: S314 - drawn by the test itself


def elements(svg: str, picked: str) -> list[str]:
    """Return the titles of the groups of an SVG that have a class, in order."""
    return [
        group.findtext(f"{SVG}title", "")
        for group in parsed(svg).iter(f"{SVG}g")
        if picked in group.get("class", "").split()
    ]


# -- SVG ---------------------------------------------------------------------------------------


def test_the_svg_lights_what_is_active_and_marks_what_is_open() -> None:
    """Groups carry classes for what their states are, and titles that say it."""
    svg = to_svg(drawn(run_value()))
    assert sorted(title.split(";")[0] for title in elements(svg, "active")) == [
        "atomic state asking",
        "atomic state review",
        "atomic state wait",
        "compound state paying",
        "parallel state working",
    ]
    assert [title.split(";")[0] for title in elements(svg, "urgent")] == ["atomic state asking"]
    assert elements(svg, "last") == ["transition go from cart to working; the last one taken"]
    assert "accepts approve, reject" in elements(svg, "gate")[0]


def test_the_title_of_an_svg_says_what_is_active() -> None:
    """Whoever hears the picture instead of seeing it learns where the run stands."""
    root = parsed(to_svg(drawn(WAITING_RUN, WAITING)))
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == "statechart Waiting; active: asking"


def test_every_state_and_transition_of_an_svg_has_a_title() -> None:
    """A group without one is a dot or an arrow to an initial state."""
    svg = parsed(to_svg(picture_of_shape(encoded(NESTED))))
    for group in svg.iter(f"{SVG}g"):
        classes = set(group.get("class", "").split())
        is_named = group.find(f"{SVG}title") is not None
        assert is_named == bool(classes & {"state", "transition", "chart"})


def test_a_text_stays_in_its_box_whatever_font_its_reader_has() -> None:
    """It is told to be as long as in the font that Graphviz left room for."""
    names = ["waiting_for_approval", "mmmmwwww", "WWWWMMMM", "iiiillll", "größe prüfen", "done.1"]
    states = [state(name) for name in names]
    shape = {"name": "Names", "states": states, "transitions": [], "children": {}}
    root = parsed(to_svg(picture_of_shape(encoded(shape), active=names[:3])))
    seen = set()
    for group in root.iter(f"{SVG}g"):
        text, box = group.find(f"{SVG}text"), group.find(f"{SVG}path")
        if text is None or box is None or "state" not in group.get("class", "").split():
            continue
        begin, length = float(text.get("x", "")), float(text.get("textLength", ""))
        corners = [float(x) for x in re.findall(r"(-?[\d.]+),-?[\d.]+", box.get("d", ""))]
        assert text.get("text-anchor") == "start"
        assert min(corners) < begin < begin + length < max(corners), text.text
        assert text.get("lengthAdjust") == "spacingAndGlyphs"
        seen.add(text.text)
    assert seen == set(names)


@pytest.mark.parametrize(
    ("text", "is_bold", "expected"),
    [
        ("", False, 0),
        ("Helvetica", False, 41.12),
        ("Helvetica", True, 43.91),
        ("Helvética", False, 41.12),
        ("a\u00a0b", False, 13.9),
        ("状態", False, None),
    ],
)
def test_a_width_is_that_of_adobe_s_metrics(
    text: str, is_bold: bool, expected: float | None
) -> None:
    """Of ten points, by the letter; a text with an unknown letter has none."""
    assert width_of(text, 10, is_bold=is_bold) == (
        expected if expected is None else pytest.approx(expected)
    )


def test_an_svg_refers_to_nothing_and_runs_nothing() -> None:
    """No link, script, handler, entity, import or address is in it, its name space apart."""
    for picture in (drawn(run_value()), picture_of_shape(encoded(hostile_shape(HOSTILE)))):
        svg = to_svg(picture)
        root = parsed(svg)
        assert {element.tag.removeprefix(SVG) for element in root.iter()} <= TAGS
        names = {name for element in root.iter() for name in element.attrib}
        assert not any("href" in name or name.startswith("on") for name in names)
        style = root.findtext(f"{SVG}style", "")
        assert not re.search(r"url|@import|https?:|expression", style)
        assert svg.startswith("<svg ")
        for forbidden in ("<!DOCTYPE", "<!--", "<script", "<?xml"):
            assert forbidden not in svg


def test_an_svg_is_light_or_dark_as_its_reader_prefers() -> None:
    """Every color is a property that the style sheet gives twice; none is fixed."""
    svg = to_svg(drawn(run_value()))
    style = style_sheet()
    assert style in svg
    for element in parsed(svg).iter():
        for attribute, letter in (("fill", "f"), ("stroke", "s")):
            color = element.get(attribute, "none")
            if color not in {"none", "transparent"}:
                named = [c for c in element.get("class", "").split() if c.startswith(f"{letter}-")]
                assert [COLORS[name[2:]][0] for name in named] == [color]
    light, dark = style.split("@media(prefers-color-scheme:dark)")
    assert all(f"--p-{name}:{both[0]};" in light for name, both in COLORS.items())
    assert all(f"--p-{name}:{both[1]};" in dark for name, both in COLORS.items())


def luminance(color: str) -> float:
    """Return the relative luminance of a color, as WCAG 2.2 defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


GROUNDS = ("paper", "active", "around", "alarm", "goneback", "newback", "changedback")


@pytest.mark.parametrize("side", ["light", "dark"])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        *((text, g) for text in ("ink", "faint", "gate", "timer", "effect") for g in GROUNDS),
        *(("ink", f"visited{heat}") for heat in (1, 2, 3)),
        *(("doubt", "alarm"), ("doubt", "paper")),
        *((change, f"{change}back") for change in ("gone", "new", "changed")),
    ],
)
def test_text_stands_out_from_its_ground(side: str, text: str, ground: str) -> None:
    """Contrast is at least 4.5 to 1 (WCAG 2.2, 1.4.3), on a light and on a dark page."""
    both = sorted(luminance(COLORS[name][side == "dark"]) for name in (text, ground))
    assert (both[1] + 0.05) / (both[0] + 0.05) >= 4.5


def test_several_pictures_fit_on_one_page() -> None:
    """With prefixes of their own no two elements share an id; the style sheet may be left out."""
    picture = drawn(run_value())
    first = to_svg(picture, prefix="a", styled=False)
    second = to_svg(picture, prefix="b", styled=False)
    assert "<style" not in first
    ids = [set(re.findall(r' id="([^"]+)"', svg)) - {"graph0"} for svg in (first, second)]
    assert not ids[0] & ids[1]


def test_a_chart_may_be_drawn_without_those_below_it() -> None:
    """The charts below are pictures of their own, drawn one by one where a page opens them."""
    picture = drawn(run_value())
    assert "Payment" in to_svg(picture)
    assert "Payment" not in to_svg(picture, with_children=False)
    assert "Payment" in to_svg(picture.children[0])
    assert "Payment" not in to_mermaid(picture, with_children=False)


def test_a_png_is_drawn_too() -> None:
    """It begins as PNG files do (ISO/IEC 15948, 5.2)."""
    assert to_png(picture_of_shape(encoded(NESTED))).startswith(b"\x89PNG\r\n\x1a\n")


# -- names out of files ------------------------------------------------------------------------


def test_every_hostile_name_is_drawn_as_text() -> None:
    """What means something to DOT, XML or Graphviz's markup appears as it is written."""
    svg = parsed(to_svg(picture_of_shape(encoded(hostile_shape(HOSTILE)))))
    texts = {"".join(element.itertext()) for element in svg.iter(f"{SVG}text")}
    assert {shown(name) for name in HOSTILE} <= texts


def test_a_class_of_an_svg_is_a_word_of_ours() -> None:
    """A kind out of a file is no class: a page's own rules may hang on classes."""
    svg = to_svg(picture_of_shape(encoded(shape_of(placed("a", kind="x active")))))
    assert elements(svg, "unknown") == ["x active state a"]
    assert elements(svg, "active") == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names=st.lists(st.text(max_size=12) | st.sampled_from(HOSTILE), min_size=1, max_size=6))
def test_any_names_make_a_picture(names: list[str]) -> None:
    """Whatever the names are, DOT can be drawn, and the SVG is XML with all of them."""
    readable = [name.encode("utf-8", "replace").decode() for name in names]
    picture = picture_of_shape(encoded(hostile_shape(readable)))
    svg = parsed(to_svg(picture))
    titles = [element.text or "" for element in svg.iter(f"{SVG}title")]
    states = [state for chart in picture.every_picture() for state in chart.every_state()]
    assert len([title for title in titles if " state " in title]) >= len(states)
    assert all(line.isprintable() for line in to_mermaid(picture).splitlines())


def mermaid_states(text: str) -> list[str]:
    """Return the ids that a Mermaid text declares, in order."""
    return re.findall(r'^ *state "[^"]*" as (\w+)$', text, re.MULTILINE)


def test_mermaid_has_every_hostile_name_once_and_as_numbers() -> None:
    """Each line is one of five kinds, whatever the names are; none opens a comment or a block."""
    picture = picture_of_shape(encoded(hostile_shape(HOSTILE)))
    text = to_mermaid(picture)
    label = r"(?:[\w .,=()*]|#\d+;|<br/>)*"
    line = re.compile(
        rf'stateDiagram-v2| *state "{label}" as \w+| *state \w+ \{{| *\}}| *--'
        rf"| *(?:\w+|\[\*\]) --> (?:\w+|\[\*\])(?: : {label})?"
        rf"| *note right of \w+ : {label}| *classDef \w+ [\w:#,]+| *class \w+ \w+"
    )
    strange = [found for found in text.splitlines() if not line.fullmatch(found)]
    assert strange == []
    declared = mermaid_states(text)
    assert len(declared) == len(set(declared)) == len(set(HOSTILE)) + 2


# -- many charts -------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_any_chart_is_drawn_and_mermaid_has_every_state_once(seed: int) -> None:
    """Random charts, with parallel states, histories, children and timeouts in them."""
    picture = picture_of_shape(shape_bytes(chart_class(chart(random.Random(seed)))))
    svg = to_svg(picture)
    charts = list(picture.every_picture())
    states = [state for one in charts for state in one.every_state()]
    assert len(elements(svg, "state")) == len(states)
    assert len(elements(svg, "chart")) == len(charts)
    declared = mermaid_states(to_mermaid(picture))
    assert len(declared) == len(set(declared)) == len(states) + len(charts) - 1


@pytest.mark.parametrize("seed", [33, 148])
def test_a_chart_that_graphviz_cannot_rank_is_ranked_otherwise(seed: int) -> None:
    """Graphviz gives up on some nests of clusters; its other way to rank draws them all."""
    picture = picture_of_shape(shape_bytes(chart_class(chart(random.Random(seed)))))
    with pytest.raises(DrawingError, match="init_rank"):
        rendering._drawn(rendering._program(), to_dot(picture).encode(), "-Tsvg")
    assert len(elements(to_svg(picture), "state")) > 0


def test_a_chart_of_200_states_is_drawn() -> None:
    """In nests of ten, with as many transitions."""
    states = [
        placed(f"s{n}", f"s{n - n % 10}" if n % 10 else None, "atomic" if n % 10 else "compound")
        for n in range(200)
    ]
    steps = [(f"s{n}", f"e{n}", [f"s{(n * 7 + 3) % 200}"]) for n in range(200)]
    svg = to_svg(picture_of_shape(encoded(shape_of(*states, transitions=steps))))
    assert len(elements(svg, "state")) == 200


def test_the_deepest_nest_that_is_read_is_drawn() -> None:
    """As deep as shapes are read, each state in the one before it."""
    states = [
        placed(f"s{n}", f"s{n - 1}" if n else None, "compound") for n in range(STATE_DEPTH_MAX)
    ]
    picture = picture_of_shape(encoded(shape_of(*states, transitions=[("s0", "in", ["s40"])])))
    assert len(elements(to_svg(picture), "state")) == STATE_DEPTH_MAX
    assert len(mermaid_states(to_mermaid(picture))) == STATE_DEPTH_MAX


def test_edges_that_lead_nowhere_are_left_out() -> None:
    """A transition from or to a state that the shape does not have is no arrow."""
    shape = shape_of(placed("a"), transitions=[("a", "x", ["gone"]), ("gone", "y", ["a"])])
    picture = picture_of_shape(encoded(shape))
    assert elements(to_svg(picture), "transition") == []
    assert "-->" not in to_mermaid(picture)


def test_a_picture_by_hand_is_drawn() -> None:
    """The records are all that a picture needs; an empty chart is a frame."""
    mark = Mark(kind="gate", status="open", text="accepts yes")
    state = PictureState(name="a", kind="atomic", active=True, marks=(mark,))
    edge = PictureEdge(source="a", targets=("a",), events=("yes",))
    child = Picture(title="Empty", state="a", left_out=3)
    picture = Picture(title="T", states=(state,), edges=(edge,), children=(child,))
    svg = to_svg(picture)
    assert "gate accepts yes" in svg
    assert "charts below it that are not drawn: 3" in svg


def test_a_drift_is_drawn_with_its_differences() -> None:
    """What is gone, new and changed is told apart by class, and its title says which."""
    svg = to_svg(compare(encoded(SHAPE), encoded(changed_shape())))
    assert elements(svg, "gone") == [
        "atomic state cart; gone",
        "transition go from cart to working; gone",
    ]
    assert len(elements(svg, "new")) == 2
    assert elements(svg, "changed") == ["compound state paying; changed; invoked nothing"]


# -- Graphviz ----------------------------------------------------------------------------------


def without_graphviz(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let no Graphviz be found but what lies in `folder`."""
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(folder))
    monkeypatch.setenv("PATH", str(folder))


def program(folder: Path, name: str, text: str) -> Path:
    """Put a program of a few words into `folder`."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o700)
    return path


def test_without_graphviz_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """DOT and Mermaid need nothing; SVG and PNG say what to install."""
    without_graphviz(monkeypatch, tmp_path)
    picture = picture_of_shape(encoded(NESTED))
    for draw in (to_svg, to_png):
        with pytest.raises(ExtraNotInstalledError, match=r"machine-snapshots\[console\]"):
            draw(picture)
    assert to_dot(picture)
    assert to_mermaid(picture)


def test_a_dot_on_the_path_does_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra's program goes first; without it Graphviz's own is called."""
    without_graphviz(monkeypatch, tmp_path)
    program(tmp_path, "dot", 'echo "$1"')
    assert to_png(picture_of_shape(encoded(NESTED))) == b"-Tpng\n"
    program(tmp_path, "graphviz-pure", "echo pure")
    assert to_png(picture_of_shape(encoded(NESTED))) == b"pure\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo no such font >&2; exit 3", "no such font"),
        ("exit 0", "it said nothing"),
        ("printf '\\033[31m\\377' >&2; exit 1", r"\x1b[31m"),
    ],
)
def test_a_graphviz_that_fails_is_an_error_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str
) -> None:
    """One line, printable, with what to do instead; the error survives pickling."""
    without_graphviz(monkeypatch, tmp_path)
    path = program(tmp_path, "dot", text)
    with pytest.raises(DrawingError) as refused:
        to_svg(picture_of_shape(encoded(NESTED)))
    assert refused.value.program == str(path)
    assert said in str(refused.value)
    assert str(refused.value).isprintable()
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - its own bytes
    assert (again.program, str(again)) == (refused.value.program, str(refused.value))


def test_a_graphviz_that_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A chart that it cannot lay out in time costs that time and no more."""
    without_graphviz(monkeypatch, tmp_path)
    program(tmp_path, "dot", "while :; do :; done")
    monkeypatch.setattr(rendering, "RENDER_S_MAX", 0.05)
    with pytest.raises(DrawingError, match=r"more than 0\.05 s"):
        to_svg(picture_of_shape(encoded(NESTED)))
