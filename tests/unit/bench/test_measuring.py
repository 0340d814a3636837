"""What is under measurement is what it says: passes, logged bytes, sizes, the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bench import machine
from bench.__main__ import main as bench
from bench.charts import Holder, Looper, Waiter, pool_of
from bench.growing import by_rows, by_size
from bench.logged import FRAME_HEADER_BYTES, steps
from bench.looping import effects, later, passes
from bench.payloads import RUN_VALUES
from bench.raw import raw_upsert
from bench.saving import saves
from bench.tables import as_markdown, as_text, number
from machines import open_run
from snapshots import limits, open_store
from snapshots.codec import load


def passed(folder: Path, run_id: str, count: int) -> bytes:
    """Return the blob of a run that has really had so many passes."""
    folder.mkdir()
    with open_store(folder / "state.db") as store:
        with open_run(store, Looper, run_id) as chart:
            for _ in range(count):
                chart.send("call")
        return bytes(store.load(run_id).blob)


def test_a_late_pass_that_was_made_is_like_one_that_was_reached(tmp_path: Path) -> None:
    """But for times, and for numbers that only count."""
    reached = passed(tmp_path / "reached", "loop-b", 70)
    made = later(passed(tmp_path / "first", "loop-a", 3), "loop-b", 70)
    assert load(made)["root"] == load(reached)["root"]
    rows = [[{**row, "at": 0} for row in effects(blob)] for blob in (made, reached)]
    rows[1][-1].pop("tail", None)  # the last outcome goes with the next save
    assert rows[0] == rows[1]
    assert len(rows[0]) == 70


def test_a_made_run_goes_on_with_the_next_pass(tmp_path: Path) -> None:
    """Its effects are called once each, under the names that follow."""
    with passes(tmp_path / "state.db", 130) as late:
        late.act()
        late.act()
        late.check()
        assert late.taken == 132


def test_the_log_counts_what_each_save_adds(tmp_path: Path) -> None:
    """Whole frames, one entry for each commit."""
    frame = limits.PAGE_BYTES + FRAME_HEADER_BYTES
    with steps(tmp_path / "state.db", pool_of(Waiter, 4), RUN_VALUES) as tell:
        log = tell.log()
        tell(20)
        tell.check()
        assert len(log.commits_bytes) == 20
        assert all(logged > 0 and logged % frame == 0 for logged in log.commits_bytes)
        size = (tmp_path / "state.db-wal").stat().st_size
        assert sum(log.commits_bytes) <= size


def test_the_content_of_a_run_has_no_room_to_grow(tmp_path: Path) -> None:
    """What a raw upsert is given to write is not more than the values need."""
    with saves(tmp_path / "ours.db", Holder, "a run", RUN_VALUES) as ours:
        stored = ours.run.store.load(ours.run.run_id).blob
        assert ours.content_bytes <= len(stored)
        assert ours.leaves() == RUN_VALUES
        ours.prepare()
        ours.act()
        ours.check()


def test_raw_upserts_vary_in_length_and_content(tmp_path: Path) -> None:
    """By 5 % to either side; constant bytes would log nothing."""
    written = []
    with raw_upsert(tmp_path / "raw.db", 1_000) as raw:
        for _ in range(50):
            raw.prepare()
            raw.act()
            raw.check()
            written.append(raw._blob)
    assert len(set(written)) == 50
    assert 940 < min(map(len, written)) < max(map(len, written)) < 1_060


@pytest.mark.parametrize("size_bytes", [1_000, 100_000])
def test_a_point_of_the_drawing_has_both_arms(tmp_path: Path, size_bytes: int) -> None:
    """The times of ours and of raw upserts, and the bytes that a save logs."""
    point = by_size(tmp_path, size_bytes, 1)
    assert point.at == size_bytes
    assert point.ours.count == point.raw.count == 5
    assert point.logged_bytes >= limits.PAGE_BYTES


def test_a_point_over_rows_has_them_in_its_file(tmp_path: Path) -> None:
    """Live and finished ones, beside the run that is saved."""
    point = by_rows(tmp_path, live=3, finished=6, rounds=1)
    assert point.at == 9
    with open_store(tmp_path / "rows-3-6" / "ours.db") as store:
        found = [header.status for header in store.headers(limit=100)]
    assert (found.count("live"), found.count("done")) == (4, 6)


def test_the_drawing_needs_its_extra_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the name of the extra."""
    absent: Any = None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", absent)
    monkeypatch.delitem(sys.modules, "bench.growth", raising=False)
    assert bench(["growth"]) == 2
    assert "extra `bench`" in capsys.readouterr().err


def test_the_header_names_the_machine() -> None:
    """Without it a number means nothing."""
    facts = machine.measured_on()
    assert list(facts) == [
        "interpreter",
        "SQLite",
        "file system",
        "page size",
        "processors",
        "kernel",
    ]
    assert all(value in machine.header() for value in facts.values())


def test_a_processor_without_a_name_is_called_by_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one with a name by that."""
    monkeypatch.setattr(machine, "PROCESSORS", tmp_path / "cpuinfo")
    plain = machine.processor()
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Abacus 9\n", encoding="utf-8")
    assert machine.processor() == "Abacus 9" != plain


def test_a_table_is_aligned_and_becomes_markdown() -> None:
    """The first column to the left, the others to the right."""
    rows = [("a save", "1.00"), ("b", "12,345")]
    assert as_text(("what", "us"), rows) == "what        us\na save    1.00\nb       12,345"
    assert as_markdown(("what", "us"), rows).splitlines() == [
        "| what | us |",
        "| --- | ---: |",
        "| a save | 1.00 |",
        "| b | 12,345 |",
    ]


@pytest.mark.parametrize(
    ("value", "expected"), [(0.123, "0.12"), (9.99, "9.99"), (12.34, "12.3"), (12345.6, "12,346")]
)
def test_a_number_has_as_many_digits_as_one_reads(value: float, expected: str) -> None:
    """More of them the smaller it is."""
    assert number(value) == expected
