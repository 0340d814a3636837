"""A blob that is drawn over: always the JSON of what was drawn, and only what changed moves."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots.layout import Canvas
from snapshots.limits import PAGE_BYTES

BEGIN = b'{"v":1'
BESIDES = 100


@dataclass(eq=False)
class Chart:
    """A chart as a canvas is given one."""

    value: dict[str, Any]
    above: Chart | None = None
    key: str = ""
    children: dict[str, Chart] = field(default_factory=dict)
    encoded: bytes | None = None

    @property
    def fragment(self) -> bytes:
        """Its own JSON, the same object until it moves."""
        if self.encoded is None:
            self.encoded = json.dumps(self.value, separators=(",", ":")).encode()
        return self.encoded

    @property
    def keys(self) -> list[str]:
        """What leads to it."""
        return [] if self.above is None else [*self.above.keys, self.key]

    def add(self, key: str, value: dict[str, Any]) -> Chart:
        """Put another chart below it."""
        self.children[key] = made = Chart(value, self, key)
        return made

    def whole(self) -> dict[str, Any]:
        """Return what it is as JSON values, with those below it."""
        if not self.children:
            return self.value
        return self.value | {"children": {k: c.whole() for k, c in self.children.items()}}

    def all(self) -> list[Chart]:
        """Return it and all below it."""
        return [self, *(c for child in self.children.values() for c in child.all())]


def text(length: int, seed: int = 0) -> str:
    """Return a text whose every part depends on its seed."""
    return "".join(random.Random(seed).choices("abcdefghij", k=length))


class Easel:
    """Draws, and checks what was drawn."""

    def __init__(self) -> None:
        self.canvas = Canvas(BESIDES)
        self.hot: dict[str, Any] = {"step": 1}
        self.cold: dict[str, Any] = {"input": {}}
        self.root = Chart({"status": "active"})
        self.moved: list[Chart] = [self.root]

    def draw(self, *, charts: bool = True) -> bytes:
        """Draw all, and return the blob as it lies there; it must say what was drawn."""
        hot = {name: json.dumps(value).encode() for name, value in self.hot.items()}
        cold = {name: json.dumps(value).encode() for name, value in self.cold.items()}
        root, moved = (self.root, self.moved) if charts else (None, [])
        known = bytearray(self.canvas.blob)
        blob = bytes(self.canvas.draw(BEGIN, hot, cold, root, moved))
        if self.canvas.changed is not None:
            for start, end in self.canvas.changed:
                known[start:end] = blob[start:end]
            assert known == blob, "it differs where it says that it does not"
        if charts:
            self.moved = []
            expected = {"v": 1, **self.hot, **self.cold, "root": self.root.whole()}
            assert json.loads(blob) == expected
        return blob


@pytest.fixture
def easel() -> Easel:
    """An easel with 40 charts of about 2.5 KB below its root, drawn once."""
    easel = Easel()
    for number in range(40):
        easel.root.add(f"w{number}", {"context": text(2_500, number)})
    easel.draw()
    return easel


def pages(before: bytes, after: bytes) -> int:
    """Return how many pages differ, of two blobs of one length."""
    assert len(before) == len(after)
    size = PAGE_BYTES - 4
    return sum(
        before[at : at + size] != after[at : at + size] for at in range(0, len(before), size)
    )


def test_a_chart_that_moved_changes_the_pages_that_it_lies_in(easel: Easel) -> None:
    """One of 40 charts, as long as a page at most, touches two; the blob keeps its length."""
    before = easel.draw()
    for number in range(40):
        worker = easel.root.children[f"w{number}"]
        worker.value, worker.encoded = {"context": text(2_480 + number, 100 + number)}, None
        easel.moved = [worker]
        after = easel.draw()
        assert 1 <= pages(before, after) <= 2
        before = after


def test_what_every_save_changes_lies_in_the_first_page(easel: Easel) -> None:
    """Counters that grow, and a trail that fills up, leave all other pages as they are."""
    easel.hot["trail"] = [text(60)]
    before = easel.draw()
    for step in range(2, 40):
        easel.hot = {"step": 10**step, "trail": [text(60, n) for n in range(step)]}
        after = easel.draw()
        size = PAGE_BYTES - BESIDES
        assert before[size:] == after[size:]
        before = after


def test_the_row_fills_its_first_page(easel: Easel) -> None:
    """However long a blob is, its length leaves nearly a page of it beside the other columns.

    The rule is SQLite's: of a payload P so much stays local (file format, 1.6).
    """
    smallest = (PAGE_BYTES - 12) * 32 // 255 - 23
    for number in range(200):
        easel.root.add(f"x{number}", {"context": text(random.Random(number).randrange(4_000))})
        easel.moved = [easel.root]
        payload = BESIDES + len(easel.draw())
        local = smallest + (payload - smallest) % (PAGE_BYTES - 4)
        assert PAGE_BYTES - 35 - 100 < local <= PAGE_BYTES - 35


def test_a_chart_that_outgrows_its_place_moves_and_the_others_stay(easel: Easel) -> None:
    """Only its old pages and its new ones differ."""
    before = easel.draw()
    worker = easel.root.children["w7"]
    worker.value, worker.encoded = {"context": text(4_000)}, None
    easel.moved = [worker]
    after = easel.draw()
    assert 2 <= pages(before, after) <= 5


def test_the_place_of_a_chart_that_went_is_used_again(easel: Easel) -> None:
    """Charts that come and go for ever do not make the blob grow."""
    length = len(easel.draw())
    for number in range(300):
        del easel.root.children[next(iter(easel.root.children))]
        easel.root.add(f"n{number}", {"context": text(2_500, number)})
        easel.moved = [easel.root, easel.root.children[f"n{number}"]]
        easel.draw()
    assert len(easel.draw()) == length


@pytest.mark.parametrize("breadth", [1, 2])
def test_room_does_not_multiply_from_level_to_level(breadth: int) -> None:
    """Charts in charts in charts take a few times what they say, however deep they lie."""
    easel = Easel()
    above = [easel.root]
    for level in range(12 // breadth):
        charts = [
            chart.add(f"c{number}", {"context": text(300, level)})
            for chart in above
            for number in range(breadth)
        ]
        above = charts[:40]
    content = len(json.dumps(easel.root.whole()))
    assert len(easel.draw()) < 4 * content + 2 * PAGE_BYTES


def test_the_first_chart_has_no_comma_whichever_it_is(easel: Easel) -> None:
    """The one that lies first goes, and another comes into its place."""
    for key in ("w0", "w1", "w2"):
        del easel.root.children[key]
        easel.moved = [easel.root]
        easel.draw()
    easel.root.add("late", {"context": "x"})
    easel.moved = [easel.root]
    easel.draw()


def test_without_the_charts_they_stay_as_they_are_drawn(easel: Easel) -> None:
    """Also where the rest outgrows its room and all is laid out anew."""
    before = easel.draw()
    easel.root.children["w3"].value = {"context": "moved, and not drawn yet"}
    easel.cold["picks"] = text(9_000)
    blob = easel.draw(charts=False)
    assert json.loads(blob)["root"] == json.loads(before)["root"]
    assert json.loads(blob)["picks"] == text(9_000)


@pytest.mark.parametrize("charts", [True, False])
@pytest.mark.parametrize("size", [10, 50_000], ids=["in place", "laid out anew"])
def test_undo_puts_every_byte_back(easel: Easel, size: int, *, charts: bool) -> None:
    """What was not saved is gone, and what is drawn next is right."""
    before = easel.draw()
    easel.cold["picks"] = text(size)
    if charts:
        easel.root.children["w3"].value, easel.root.children["w3"].encoded = {"a": text(size)}, None
        easel.moved = [easel.root.children["w3"]]
    assert easel.draw(charts=charts) != before
    easel.canvas.undo()
    assert bytes(easel.canvas.blob) == before
    assert json.loads(b"{" + easel.canvas.charts[1:] + b"}")["root"] == json.loads(before)["root"]
    easel.draw(charts=False)
    easel.draw()


def test_what_changed_is_told_until_it_is_kept_or_undone(easel: Easel) -> None:
    """Whoever asks later writes all: nothing is told that would leave a part of it out."""
    assert easel.canvas.changed is None
    easel.hot["step"] = 2
    easel.draw()
    assert easel.canvas.changed is not None
    ((start, end),) = easel.canvas.changed
    assert 0 == start < end < PAGE_BYTES
    easel.draw()
    assert easel.canvas.changed == []
    easel.canvas.keep()
    assert easel.canvas.changed is None
    easel.hot["step"] = 3
    easel.draw()
    easel.canvas.undo()
    assert easel.canvas.changed is None
    easel.draw()
    assert easel.canvas.changed is None, "all was laid out anew"


def test_what_was_saved_is_held_once(easel: Easel) -> None:
    """The former blob goes once the new one is saved; to undo then changes no byte."""
    former = easel.canvas.blob
    easel.cold["picks"] = text(50_000)
    after = easel.draw()
    assert easel.canvas.blob is not former
    held = sys.getrefcount(former)
    easel.canvas.keep()
    assert sys.getrefcount(former) == held - 1
    easel.canvas.undo()
    assert bytes(easel.canvas.blob) == after


Change = Callable[[Easel, random.Random], None]


def change_hot(easel: Easel, rng: random.Random) -> None:
    """Another step, and a member that may come, grow or go."""
    easel.hot["step"] += 1
    if rng.random() < 0.5:
        easel.hot["timers"] = [text(rng.choice((10, 500, 5_000)), easel.hot["step"])]
    else:
        easel.hot.pop("timers", None)


def change_cold(easel: Easel, rng: random.Random) -> None:
    """A ledger comes, changes or goes."""
    name = rng.choice(("picks", "epochs", "pushes"))
    if rng.random() < 0.3:
        easel.cold.pop(name, None)
    else:
        easel.cold[name] = text(rng.choice((5, 100, 3_000)), rng.random().__hash__())


def move_chart(easel: Easel, rng: random.Random) -> None:
    """A chart has other values, shorter or longer ones."""
    chart = rng.choice(easel.root.all())
    chart.value, chart.encoded = {"context": text(rng.choice((0, 50, 900, 6_000)))}, None
    easel.moved.append(chart)


def add_chart(easel: Easel, rng: random.Random) -> None:
    """A chart comes below any other; its key needs escaping."""
    above = rng.choice(easel.root.all())
    made = above.add(f'"{rng.randrange(6)}', {"context": text(rng.choice((1, 400)))})
    easel.moved += [above, made]


def drop_chart(easel: Easel, rng: random.Random) -> None:
    """A chart goes, with all below it."""
    chart = rng.choice(easel.root.all())
    if chart.above is not None:
        del chart.above.children[chart.key]
        easel.moved.append(chart.above)
        gone = chart.all()
        easel.moved = [one for one in easel.moved if one not in gone]


def undo(easel: Easel, _: random.Random) -> None:
    """A save fails: the bytes of the one before it are back, and all is drawn again."""
    easel.draw()
    before = bytes(easel.canvas.blob)
    easel.hot["step"] += 1
    easel.draw()
    easel.canvas.undo()
    assert bytes(easel.canvas.blob) == before


CHANGES: tuple[Change, ...] = (
    change_hot, change_cold, move_chart, add_chart, drop_chart, undo,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(CHANGES), max_size=60))
def test_whatever_changes_the_blob_is_the_json_of_what_was_drawn(
    seed: int, steps: list[Change]
) -> None:
    """Any changes, in any order: `draw` compares with the plain values each time."""
    rng, easel = random.Random(seed), Easel()
    easel.draw()
    for change in steps:
        change(easel, rng)
        easel.draw()
