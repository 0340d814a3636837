"""What was measured, as a picture, or as a table where no picture can be made."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tools.soaking.samples import MB

if TYPE_CHECKING:
    from pathlib import Path

    from tools.soaking.samples import Sample, Samples

DOTS_PER_INCH: Final = 110
INCHES: Final = (11, 13)
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
COLUMNS: Final = (
    *("at_s", "life", "age_s", "host_bytes", "host_files", "file_bytes", "log_bytes"),
    *("live", "ended", "is_pinned"),
)


def draw(measured: Samples, title: str, file: Path) -> str:
    """Write a PNG file, or a CSV file beside it without matplotlib; return what was done."""
    if find_spec("matplotlib") is None:
        table = file.with_suffix(".csv")
        write_table(measured, table)
        return f'no picture, as matplotlib is not installed (the extra "bench" has it): {table}'
    _picture(measured, title).savefig(file, format="png", dpi=DOTS_PER_INCH)
    return f"drawn: {file}"


def write_table(measured: Samples, file: Path) -> None:
    """Write the samples, a line each, then the windows of sends behind an empty line."""
    with file.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(COLUMNS)
        for sample in measured.samples:
            table.writerow([getattr(sample, name) for name in COLUMNS])
        table.writerow([])
        table.writerow(["at_s", *(f"send_{name}_ms" for name in SHARES)])
        curves = [measured.latencies(share) for share in SHARES.values()]
        for points in zip(*curves, strict=True):
            table.writerow([points[0][0], *(value for _, value in points)])


def _picture(measured: Samples, title: str) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra that need not be installed

    figure = Figure(figsize=INCHES, layout="constrained")
    figure.suptitle(title, fontsize="small")
    axes = figure.subplots(5, 1, sharex=True)
    samples = measured.samples
    hosted = [sample for sample in samples if sample.host_bytes is not None]
    memory = [(sample.host_bytes or 0) / MB for sample in hosted]
    _curve(axes[0], hosted, memory, "resident memory of the host, MB")
    _curve(axes[1], samples, [s.file_bytes / MB for s in samples], "file, MB")
    _curve(axes[2], samples, [s.log_bytes / MB for s in samples], "log, MB (grey: pinned)")
    for sample in samples:
        if sample.is_pinned:
            axes[2].axvspan(sample.at_s - 1, sample.at_s, color="grey", alpha=0.2, linewidth=0)
    for name, share in SHARES.items():
        points = measured.latencies(share)
        axes[3].plot([at for at, _ in points], [ms for _, ms in points], label=name)
    axes[3].set(yscale="log", ylabel="send, ms, by window")
    axes[3].legend(fontsize="small")
    seen = [sample for sample in samples if sample.live is not None]
    at = [sample.at_s for sample in seen]
    axes[4].plot(at, [sample.live for sample in seen], label="live")
    axes[4].plot(at, [sample.ended for sample in seen], label="finished, not swept")
    axes[4].set(ylabel="rows", xlabel="seconds; dotted: a host was killed")
    axes[4].legend(fontsize="small")
    for axis in axes:
        _finish(axis, samples)
    return figure


def _curve(axis: Any, samples: list[Sample], values: list[float], label: str) -> None:
    axis.plot([sample.at_s for sample in samples], values, ".-", markersize=2, linewidth=0.7)
    axis.set(ylabel=label)


def _finish(axis: Any, samples: list[Sample]) -> None:
    axis.grid(visible=True, alpha=0.3)
    axis.set_ylim(bottom=None if axis.get_yscale() == "log" else 0)
    for before, after in pairwise(samples):
        if after.life != before.life:
            axis.axvline(after.at_s, color="black", linestyle=":", linewidth=0.6, alpha=0.5)
