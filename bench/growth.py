"""`python -m bench growth`: draws what a save costs and logs as its run and its file grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from matplotlib.figure import Figure

from bench.figures import NS_PER_US, shown
from bench.growing import ROWS, SIZES_BYTES, Point, by_rows, by_size
from bench.machine import header

ROUNDS: Final = 20
DOTS_PER_INCH: Final = 120
INCHES: Final = (12, 9)
KIB: Final = 1_024

Curves = dict[str, Sequence[Point]]
"""Points by what the curve is called."""


def measure(sizes: Sequence[int], rows: Sequence[int], rounds: int) -> tuple[Curves, Curves]:
    """Return the curves over the run's size, and those over the rows beside it."""
    with TemporaryDirectory(prefix="bench-") as made:
        folder = Path(made)
        sized = [_told("bytes", by_size(folder, size, rounds)) for size in sizes]
        live = [
            _told("live rows", by_rows(folder, live=count, finished=0, rounds=rounds))
            for count in rows
        ]
        finished = [
            _told(
                "rows, all but one finished", by_rows(folder, live=1, finished=count, rounds=rounds)
            )
            for count in rows
        ]
    return {"run": sized}, {"live rows": live, "finished rows": finished}


def _told(what: str, point: Point) -> Point:
    print(
        f"{point.at:>12,} {what:<28} save {shown(point.ours.p50):>10}  "
        f"raw {shown(point.raw.p50):>10}  {point.logged_bytes / KIB:,.1f} KiB logged",
        flush=True,
    )
    return point


def draw(by_size_: Curves, by_rows_: Curves, title: str) -> Figure:
    """Return the drawing: time and log above the run's size, and above the rows."""
    figure = Figure(figsize=INCHES, layout="constrained")
    figure.suptitle(title, fontsize="small")
    axes = figure.subplots(2, 2)
    for row, curves, below in (
        (0, by_size_, "bytes of the run, of which 2.5 KB change"),
        (1, by_rows_, "other rows in the file; the run has 1 KB"),
    ):
        _draw_times(axes[row][0], curves, below)
        _draw_logs(axes[row][1], curves, below)
    return figure


def _draw_times(axes: Any, curves: Curves, below: str) -> None:
    for name, points in curves.items():
        at = [point.at for point in points]
        (line,) = axes.plot(
            at, [point.ours.p50 / NS_PER_US for point in points], "o-", label=f"save, {name}"
        )
        axes.plot(
            at,
            [point.raw.p50 / NS_PER_US for point in points],
            "x--",
            color=line.get_color(),
            alpha=0.5,
            label=f"raw upsert beside it, {name}",
        )
    axes.set(xscale="log", yscale="log", xlabel=below, ylabel="p50, microseconds")
    axes.set_title("a save")
    _finish(axes)


def _draw_logs(axes: Any, curves: Curves, below: str) -> None:
    for name, points in curves.items():
        logged = [point.logged_bytes / KIB for point in points]
        axes.plot([point.at for point in points], logged, "o-", label=name)
    axes.set(xscale="log", xlabel=below, ylabel="KiB")
    axes.set_ylim(bottom=0)
    axes.set_title("what a save adds to the write-ahead log")
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")


def main(file: Path, *, rounds: int = ROUNDS) -> int:
    """Measure, draw into a PNG file, and return the exit code."""
    print(header(), flush=True)
    by_size_, by_rows_ = measure(SIZES_BYTES, ROWS, rounds)
    draw(by_size_, by_rows_, header()).savefig(file, dpi=DOTS_PER_INCH)
    print(f"drawn: {file}")
    return 0
