"""`python -m bench bars`: measures every bar, prints each beside it, says whether all hold."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from bench.bars.values import Bar, Measure, Verdict
from bench.machine import header, measured_on
from bench.tables import as_markdown, as_text, number

ALL_HOLD: Final = 0
SOME_FAIL: Final = 1
UNKNOWN_NAME: Final = 2
HEADINGS: Final = ("what", "value", "bar", "goal", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One measurement: the verdicts of its bars, what it tells people, and its duration."""

    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    took_s: float


def choose(bars: Sequence[Bar], names: Sequence[str]) -> list[Bar]:
    """Return the bars of these names, which may be patterns; all of them if there is none.

    Raises KeyError with a name that no bar has.
    """
    for name in names:
        if not any(fnmatchcase(bar.name, name) for bar in bars):
            raise KeyError(name)
    return [bar for bar in bars if not names or any(fnmatchcase(bar.name, name) for name in names)]


def take_all(bars: Sequence[Bar]) -> Iterator[Taken]:
    """Take each measurement once, whatever became of the one before."""
    for measure in dict.fromkeys(bar.measure for bar in bars):
        yield take(measure, [bar for bar in bars if bar.measure is measure])


def take(measure: Measure, bars: Sequence[Bar]) -> Taken:
    """Take a measurement; a bar that it says nothing of fails, and so do all if it raises."""
    start = perf_counter()
    notes: tuple[str, ...] = ()
    try:
        with TemporaryDirectory(prefix="bench-") as folder:
            found = measure(Path(folder))
    except Exception as error:  # noqa: BLE001 - what cannot be measured fails by its name
        failure = _said(error)
        verdicts = [Verdict(bar=bar, value=None, failure=failure) for bar in bars]
    else:
        notes = found.notes
        verdicts = [
            Verdict(bar=bar, value=found.values[bar.name])
            if bar.name in found.values
            else Verdict(bar=bar, value=None, failure="its measurement did not find it")
            for bar in bars
        ]
    return Taken(verdicts=tuple(verdicts), notes=notes, took_s=perf_counter() - start)


def _said(error: Exception) -> str:
    """Return the error with the place where it was raised: an assertion may say nothing more."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"


def row(verdict: Verdict) -> tuple[str, str, str, str, str]:
    """Return the cells of a verdict."""
    bar = verdict.bar
    sign, unit = (">=" if bar.is_floor else "<="), bar.unit if bar.unit == "x" else f" {bar.unit}"
    value = "none" if verdict.value is None else f"{number(verdict.value)}{unit}"
    limit = "" if bar.bar is None else f"{sign} {number(bar.bar)}{unit}"
    goal = "" if bar.goal is None else f"{number(bar.goal)}{unit}"
    return f"{bar.name}: {bar.what}", value, limit, goal, _word(verdict)


def _word(verdict: Verdict) -> str:
    if not verdict.holds:
        return "FAILED"
    if verdict.bar.bar is None:
        return "shown"
    reaches = verdict.bar.goal is not None and verdict.bar.reaches_goal(verdict.value or 0)
    return "goal" if reaches else "ok"


def main(
    bars: Sequence[Bar], *, only: Sequence[str], json_file: Path | None, markdown: bool
) -> int:
    """Measure, print as it goes, and return the exit code."""
    try:
        chosen = choose(bars, only)
    except KeyError as unknown:
        known = ", ".join(bar.name for bar in bars)
        print(f"no bar is called {unknown.args[0]!r}; there are: {known}", file=sys.stderr)
        return UNKNOWN_NAME
    print(header(), flush=True)
    start = perf_counter()
    verdicts: list[Verdict] = []
    for taken in take_all(chosen):
        verdicts += taken.verdicts
        names = ", ".join(verdict.bar.name for verdict in taken.verdicts)
        print(f"\n{names} ({taken.took_s:.1f} s)", flush=True)
        failures = dict.fromkeys(each.failure for each in taken.verdicts if each.failure)
        for line in (*taken.notes, *failures):
            print(f"  {line}", flush=True)
    took_s = perf_counter() - start
    shown = as_markdown if markdown else as_text
    print(f"\n{shown(HEADINGS, [row(verdict) for verdict in verdicts])}\n")
    failed = [verdict.bar.name for verdict in verdicts if not verdict.holds]
    said = f"{len(failed)} failed: {', '.join(failed)}" if failed else "all hold"
    print(f"{len(verdicts)} values in {took_s:.1f} s, {said}")
    if json_file is not None:
        write(json_file, verdicts, took_s)
    return SOME_FAIL if failed else ALL_HOLD


def write(file: Path, verdicts: Sequence[Verdict], took_s: float) -> None:
    """Write the verdicts and the machine as JSON."""
    found = {
        "machine": measured_on(),
        "took_s": round(took_s, 1),
        "holds": all(verdict.holds for verdict in verdicts),
        "bars": [verdict.as_json() for verdict in verdicts],
    }
    file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
