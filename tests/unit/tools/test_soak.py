"""What the soak says of what it measured: what is flat passes, what leaks or grows does not."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from machines import Host, Machine
from machines.demo.log import Log
from snapshots import open_store
from tools.soak import table
from tools.soaking import drawing, samples
from tools.soaking.books import LongWitness
from tools.soaking.charts import Logbook
from tools.soaking.judging import POINTS_MIN, Allowance, Point, Series, judge, quantile, slope
from tools.soaking.samples import Sample, Samples, bounds, longest_life, to_judge
from tools.soaking.siege import kept_s, lives

SECONDS = 600
MB = samples.MB
Curve = Callable[[float], float]


def curve(value: Curve, *, noise: float = 0.0, every: int = 1) -> list[Point]:
    """Return points of a curve, each with some noise that has a seed."""
    dice = random.Random(6)
    return [
        (float(at), value(at) * (1 + dice.uniform(-noise, noise)))
        for at in range(0, SECONDS, every)
    ]


def series(points: list[Point], allowance: Allowance, quantile: float = 0.5) -> Series:
    """Return a series to be judged."""
    return Series(name="x", unit="MB", points=points, allowance=allowance, quantile=quantile)


def saw(at: float) -> float:
    """A log: it grows for 20 seconds, and is started anew."""
    return 1.0 + at % 20 / 5


def warming(at: float) -> float:
    """Memory of a process: it takes 100 seconds to find its level."""
    return 80.0 - 30.0 * max(0.0, 1 - at / 100)


FLAT = [
    ("memory at its level", curve(lambda _: 60.0, noise=0.02), samples.MEMORY),
    ("memory that warms up first", curve(warming, noise=0.01), samples.MEMORY),
    ("memory that shrinks", curve(lambda at: 90.0 - at / 20), samples.MEMORY),
    ("a file that breathes", curve(lambda at: 5.0 + at % 30 / 100), samples.FILE),
    ("a log that is started anew", curve(saw), samples.LOG),
    (
        "a log that keeps the length it had under a reader",
        curve(lambda at: 8.0 if at < 400 else samples.LOG.free),
        samples.LOG,
    ),
    ("a send with a bad moment", curve(lambda at: 400.0 if at == 590 else 1.0), samples.P99),
    ("sends on a machine with neighbours", curve(lambda _: 2.0, noise=0.4), samples.P50),
    ("nothing at all", curve(lambda _: 0.0), samples.ROWS),
]
GROWING = [
    ("memory: 40 KB a second leak", curve(lambda at: 60.0 + at * 0.04, noise=0.02), samples.MEMORY),
    ("a log that nobody starts anew", curve(lambda at: at * 0.1), samples.LOG),
    ("a log whose crests grow", curve(lambda at: saw(at) * (1 + at / 100)), samples.LOG),
    ("a file whose free pages are lost", curve(lambda at: 2.0 + at * 0.01), samples.FILE),
    ("a file that jumps and stays", curve(lambda at: 2.0 if at < 450 else 4.0), samples.FILE),
    ("sends that slow down", curve(lambda at: 1.0 + at / 100, noise=0.3), samples.P50),
    ("tails that grow", curve(lambda at: 5.0 + at / 4, noise=0.3), samples.P999),
    ("rows that nobody sweeps", curve(lambda at: at * 3.0), samples.ROWS),
]


@pytest.mark.parametrize(("points", "allowance"), [c[1:] for c in FLAT], ids=[c[0] for c in FLAT])
def test_what_is_flat_is_called_flat(points: list[Point], allowance: Allowance) -> None:
    """Noise, warming up, a single bad moment and shrinking are no growth."""
    share = samples.CRESTS if allowance is samples.LOG else 0.5
    assert judge(series(points, allowance, share)).is_flat


@pytest.mark.parametrize(
    ("points", "allowance"), [c[1:] for c in GROWING], ids=[c[0] for c in GROWING]
)
def test_what_grows_is_not_called_flat(points: list[Point], allowance: Allowance) -> None:
    """A leak, a log, a file, times: each of them is found by the allowance that it is judged by."""
    share = samples.CRESTS if allowance is samples.LOG else 0.5
    verdict = judge(series(points, allowance, share))
    assert not verdict.is_flat
    assert verdict.slope_per_hour is not None
    assert verdict.slope_per_hour > 0 or points[0][1] == points[1][1]


def test_exactly_the_allowance_is_flat_and_anything_more_is_not() -> None:
    """The most that is allowed is told, and is allowed."""
    allowance = Allowance(share=0.5, amount=1.0)
    at_the_limit = judge(series(curve(lambda at: 2.0 if at < 300 else 4.0), allowance))
    assert (at_the_limit.before, at_the_limit.after, at_the_limit.most) == (2.0, 4.0, 4.0)
    assert at_the_limit.is_flat
    assert not judge(series(curve(lambda at: 2.0 if at < 300 else 4.001), allowance)).is_flat


def test_the_first_quarter_is_left_out_and_the_third_is_not_looked_at() -> None:
    """Only the second quarter and the last one are compared."""
    wild = curve(lambda at: 1.0 if 150 <= at < 300 or at >= 450 else 900.0)
    assert judge(series(wild, samples.FILE)).is_flat


@pytest.mark.parametrize("points", [[], [(0.0, 1.0)], curve(lambda _: 1.0, every=SECONDS // 16)])
def test_too_few_points_are_not_called_flat(points: list[Point]) -> None:
    """Nothing is claimed of what was not measured."""
    verdict = judge(series(points, samples.FILE))
    assert (verdict.is_flat, verdict.after, verdict.most) == (False, None, None)


def test_enough_points_in_the_two_quarters_suffice() -> None:
    """Quarters are of the time: what was measured meanwhile does not count."""
    second = [(25.0 + number, 1.0) for number in range(POINTS_MIN)]
    last = [(90.0 + number, 1.0) for number in range(POINTS_MIN)]
    assert judge(series([(0.0, 1.0), *second, *last, (100.0, 1.0)], samples.FILE)).is_flat
    assert not judge(series([(0.0, 1.0), *second[1:], *last, (100.0, 1.0)], samples.FILE)).is_flat


def test_the_order_of_points_does_not_matter() -> None:
    """They are put in the order of their times."""
    points = curve(lambda at: at * 0.1)
    mixed = random.Random(1).sample(points, len(points))
    assert judge(series(mixed, samples.LOG)) == judge(series(points, samples.LOG))


def test_a_quantile_is_one_of_the_values() -> None:
    """The least one that so many do not exceed."""
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [50, 99, 100, 100]
    assert [quantile([7.0], share) for share in (0.0, 0.5, 1.0)] == [7.0, 7.0, 7.0]


def test_a_slope_stands_a_few_wild_points() -> None:
    """The median of all slopes; without two times there is none."""
    points = [(at, 5_000.0 if at == 77 else value) for at, value in curve(lambda at: 3.0 * at)]
    assert slope(points) == pytest.approx(3.0)
    assert slope([(1.0, 2.0), (1.0, 3.0)]) == 0.0


# -- what is measured -----------------------------------------------------------------------------


def sample(at: float, **given: object) -> Sample:
    """Return a sample of a healthy host."""
    usual: dict[str, object] = {
        "at_s": at,
        "life": 0,
        "age_s": at,
        "host_bytes": 60 * MB,
        "host_files": 16,
        "file_bytes": 2 * MB,
        "log_bytes": 3 * MB,
        "live": 32,
        "ended": 80,
        "is_pinned": False,
    }
    return Sample(**{**usual, **given})  # type: ignore[arg-type]  # the names are checked as it is made


def healthy() -> Samples:
    """Return what was measured where all was well."""
    measured = Samples([sample(at) for at in range(SECONDS)])
    for at in range(SECONDS):
        measured.take_window(at, [1_000] * 60)
    return measured


def judged(measured: Samples) -> set[str]:
    """Return the names of what is not flat, or beyond its bound."""
    found = {series.name for series in to_judge(measured) if not judge(series).is_flat}
    return found | {bound.name for bound in bounds(measured, 32) if not bound.holds}


def test_all_that_is_judged_of_a_healthy_host_is_flat() -> None:
    """Memory, file, log, times and rows, and no bound is passed."""
    assert judged(healthy()) == set()
    assert len(to_judge(healthy())) == 8


@pytest.mark.parametrize(
    ("field", "per_second", "found"),
    [
        ("host_bytes", 30_000, {"memory of the host, longest life"}),
        ("host_files", 1, {"files the host has open, same life"}),
        ("file_bytes", 10_000, {"file"}),
        ("log_bytes", 60_000, {"log, near its crests", "log while no reader pins it"}),
        ("ended", 1, {"finished rows"}),
    ],
)
def test_whatever_grows_in_the_samples_is_named(
    field: str, per_second: int, found: set[str]
) -> None:
    """Each field is judged, and no other is blamed."""
    measured = healthy()
    measured.samples = [
        sample(at, **{field: getattr(sample(at), field) + at * per_second}) for at in range(SECONDS)
    ]
    assert judged(measured) == found


def test_sends_that_grow_slower_are_named_at_each_quantile() -> None:
    """All of them, or only the worst of each window."""
    measured, worst = healthy(), healthy()
    measured.windows, worst.windows = [], []
    for at in range(SECONDS):
        measured.take_window(at, [1_000 + 300 * at] * 60)
        worst.take_window(at, [1_000] * 59 + [1_000 + 300 * at])
    names = [f"send, {name} of a window" for name in ("p50", "p99", "p99.9")]
    assert judged(measured) == set(names)
    assert judged(worst) == set(names[1:])


def test_a_window_with_few_sends_says_nothing() -> None:
    """While a host is restarted hardly anybody sends."""
    measured = Samples()
    measured.take_window(0.0, [1] * (samples.SENDS_MIN - 1))
    assert measured.latencies(0.5) == []
    measured.take_window(samples.WINDOW_S - 1, [2_000])
    measured.take_window(samples.WINDOW_S, [3_000] * samples.SENDS_MIN)
    assert measured.latencies(1.0) == [(0.0, 2.0), (samples.WINDOW_S, 3.0)]


def test_memory_is_judged_over_the_longest_life_only() -> None:
    """A host that was killed and came back has less, which hides a leak."""
    lived = [sample(at, life=int(at >= 100) + int(at >= 500)) for at in range(SECONDS)]
    dead = [sample(at, life=3, host_bytes=None) for at in range(SECONDS, 2 * SECONDS)]
    assert {one.life for one in longest_life([*lived, *dead])} == {1}
    assert longest_life([]) == []


def test_the_log_has_a_cap_that_only_a_reader_lifts() -> None:
    """Too long at one moment is too long, unless it was pinned."""
    measured, long = healthy(), samples.limits.WAL_BYTES_MAX + 1
    measured.samples[300] = sample(300, log_bytes=long, is_pinned=True)
    assert judged(measured) == set()
    measured.samples[300] = sample(300, log_bytes=long)
    assert judged(measured) == {"log while no reader pins it"}


def test_more_live_runs_than_there_are_are_named() -> None:
    """The load is bounded, so the rows are."""
    measured = healthy()
    measured.samples[5] = sample(5, live=33)
    assert judged(measured) == {"live rows"}


@pytest.mark.parametrize(("more_mb", "is_found"), [(0, False), (1, False), (2, True)])
def test_later_hosts_that_begin_with_more_are_named(more_mb: int, is_found: bool) -> None:
    """What each start adds is not hidden by the kill."""
    measured = healthy()
    measured.samples = [
        sample(at, life=at // 40, age_s=at % 40, host_bytes=(60 + more_mb * (at // 40)) * MB)
        if at < 300
        else sample(at, life=8)
        for at in range(SECONDS)
    ]
    name = "memory of later hosts at the same age"
    assert (name in {bound.name for bound in bounds(measured, 32) if not bound.holds}) == is_found


@pytest.mark.parametrize("total_s", [15.0, 30.0, 300.0, 720.0, 3_600.0])
def test_one_host_lives_long_enough_and_the_lives_fill_the_time(total_s: float) -> None:
    """Whatever the seed: its memory is judged over nearly half of the time."""
    for seed in range(20):
        drawn = lives(total_s, seed)
        assert sum(drawn) == pytest.approx(total_s)
        assert any(life == pytest.approx(0.45 * total_s) for life in drawn)
        assert len(drawn) >= 3
        assert min(drawn) > 0
    assert lives(total_s, 1) == lives(total_s, 1)
    assert kept_s(total_s) < total_s / 2


# -- what is held against the rows ---------------------------------------------------------------

RUN = "logbook-1"


async def noted(path: Path, *numbers: int) -> LongWitness:
    """Return the witness of a logbook that was told these notes, each under its own delivery."""
    async with Host(path, [Machine(Logbook, name="logbook")], verify=True) as host:
        await host.start("logbook", {"number": RUN, "service": "", "items": 0}, run_id=RUN)
        for at, number in enumerate(numbers):
            await host.send(RUN, "note", number=number, text="", delivery=str(at))
    witness = LongWitness(path, Log(path.with_name("log")), cyclic=frozenset({"logbook"}))
    witness.take_start(RUN)
    return witness


def found_by(witness: LongWitness) -> list[str]:
    """Return everything that a witness has found."""
    lists = (witness.lost, witness.twisted, witness.unannounced, witness.misled, witness.misnoted)
    return [sentence for found in lists for sentence in found]


async def test_notes_that_were_told_and_are_there_once_are_right(tmp_path: Path) -> None:
    """So are those whose answer nobody has heard."""
    witness = await noted(tmp_path / "state.db", 0, 1, 2)
    for number in (0, 1):
        witness.take_note(RUN, number)
    witness.examine([RUN])
    assert found_by(witness) == []


async def test_a_note_that_was_told_and_is_not_there_is_found(tmp_path: Path) -> None:
    """Taken, somebody was told: then it must be in the row."""
    witness = await noted(tmp_path / "state.db", 0)
    witness.take_note(RUN, 1)
    witness.examine([RUN])
    assert found_by(witness) == [f"{RUN}: [1] told as taken, and not found"]


async def test_a_note_that_is_there_twice_is_found(tmp_path: Path) -> None:
    """Whatever deliveries it came with."""
    witness = await noted(tmp_path / "state.db", 4, 0, 4)
    witness.examine([RUN])
    assert found_by(witness) == [f"{RUN}: [4, 4] twice"]


async def test_a_run_that_is_gone_before_leave_was_taken_is_lost(tmp_path: Path) -> None:
    """A sweep that takes what has just ended, for instance; afterwards it may go."""
    path = tmp_path / "state.db"
    witness = await noted(path, 0)
    async with Host(path, [Machine(Logbook, name="logbook")]) as host:
        await host.cancel(RUN)
    witness.retire([RUN], set())
    assert found_by(witness) == [f"{RUN}: cancelled, cancelled"]
    with open_store(path) as store:
        store.database.run("delete from runs", ())
    witness.examine([])
    assert len(found_by(witness)) == 1
    witness.take_start(RUN)
    witness.retire([RUN], set())
    assert found_by(witness)[0] == f"{RUN}: acknowledged, ended, and not in the file"


# -- how it is told -------------------------------------------------------------------------------


def test_a_short_run_claims_nothing_and_a_long_one_says_what_grows() -> None:
    """The same numbers are flat, grown, or not judged, and that is said."""
    grown = judge(series(curve(lambda at: at * 0.1), samples.LOG))
    flat = judge(series(curve(lambda _: 1.0), samples.LOG))
    few = judge(series([], samples.LOG))
    ends = [line.split()[-1] for line in table([grown, flat, few], is_claimed=True)[1:]]
    assert ends == ["GROWS", "flat", "flat"]
    assert table([few], is_claimed=True)[1].endswith("too few points: not flat")
    assert not any("flat" in line for line in table([grown, flat, few], is_claimed=False))


def test_without_matplotlib_a_table_is_written_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample is a line, and the windows follow behind an empty one."""
    monkeypatch.setattr(drawing, "find_spec", lambda _: None)
    said = drawing.draw(healthy(), "title", tmp_path / "soak.png")
    assert 'the extra "bench"' in said
    assert not (tmp_path / "soak.png").exists()
    with (tmp_path / "soak.csv").open(newline="") as table:
        rows = list(csv.reader(table))
    assert rows[0] == list(drawing.COLUMNS)
    assert rows[SECONDS][0] == str(SECONDS - 1)
    assert rows[SECONDS + 1] == []
    assert rows[SECONDS + 2][0] == "at_s"
    assert len(rows) == SECONDS + 3 + SECONDS // round(samples.WINDOW_S)
