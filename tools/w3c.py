"""Run every W3C SCXML test of a folder under the library's engine and under the durable one.

    python tools/w3c.py DIR

A document passes if it comes to rest in its state `pass`. What the library's own engine passes
plain is the measure; the durable engine must pass the same without a restart and with one at every
macrostep boundary, before and after the invokes begin, with the sync and the async engine. In each
mode the sync engine runs by plans and without them, and both must go through the same states. One
line `mode: N of M` a mode; exit code 1 if any N is not M.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemachine.io import load

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machines.definition import Machine
from machines.engine import fast
from tools.harness import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine import StateChart

    from machines.engine.tree import Tree

PLAIN_S = 4
"""How long the library's own engine may take over one document, in seconds."""
MODES: dict[str, dict[str, Any]] = {
    "durable": {},
    "restart before invokes": {"before": True},
    "restart after invokes": {"after": True},
    "restart before and after": {"before": True, "after": True},
}


def quiet() -> contextlib.AbstractContextManager[io.StringIO]:
    """Keep what documents log (SCXML <log> prints) out of the report."""
    return contextlib.redirect_stdout(io.StringIO())


class AsyncListener:
    """A listener whose coroutine makes the library choose its async engine."""

    async def after_transition(self) -> None:
        """Do nothing."""


def document(path: Path, *, asynchronous: bool) -> type[StateChart[Any]]:
    """Return a fresh class of a document: the library keeps a run's flags on the class."""
    chart: type[StateChart[Any]] = load(path, trusted=True)
    if asynchronous:
        chart._class_listeners = [*chart._class_listeners, AsyncListener]  # noqa: SLF001 - no public way in for a loaded class
    return chart


def passed(chart: StateChart[Any]) -> bool:
    """Whether the chart rests in the state `pass`."""
    return "pass" in {state.id for state in chart.configuration}


def plain(path: Path, *, asynchronous: bool) -> bool:
    """Run a document under the library's own engine, in real time."""
    verdict: list[bool] = []

    def body() -> None:
        try:
            if asynchronous:
                asyncio.run(_plain_async(path, verdict))
            else:
                chart = document(path, asynchronous=False)()
                _wait(lambda: chart.is_terminated)
                verdict.append(passed(chart))
        except Exception:  # noqa: BLE001 - every failure is reported by its document
            verdict.append(False)

    worker = threading.Thread(target=body, daemon=True)
    worker.start()
    worker.join(PLAIN_S)
    return verdict == [True]


async def _plain_async(path: Path, verdict: list[bool]) -> None:
    chart = document(path, asynchronous=True)()
    await chart.activate_initial_state()
    for _ in range(PLAIN_S * 100):
        if chart.is_terminated:
            break
        await asyncio.sleep(0.01)
    verdict.append(passed(chart))


def _wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + PLAIN_S
    while not done() and time.monotonic() < until:
        time.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of a document came to."""

    passed: bool
    restarts: int
    steps: tuple[tuple[str, tuple[str, ...]], ...]
    """At each boundary, each chart's path and active states."""


def durable(
    path: Path, where: dict[str, Any], *, asynchronous: bool, plans: bool = True
) -> Outcome:
    """Run a document under the durable engine."""
    chart = document(path, asynchronous=asynchronous)
    bench = Bench(Machine(chart), asynchronous=asynchronous, **where)
    steps: list[tuple[str, tuple[str, ...]]] = []

    def look(tree: Tree) -> None:
        assert tree.root is not None
        steps.extend((node.path, tuple(node.shown_now())) for node in tree.root.walk())

    bench.on_boundary = look

    async def script() -> None:
        bench.begin()
        await bench.settle()

    with fast.enabled(plans):
        asyncio.run(script())
    assert bench.tree.root is not None
    ended = passed(bench.tree.root.chart)
    return Outcome(passed=ended, restarts=bench.restarts, steps=tuple(steps))


def main(folder: Path) -> int:
    """Print a line a mode; return the exit code."""
    paths = sorted(folder.glob("test*.scxml"))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if not paths:
        print(f"no test*.scxml in {folder}")
        return 2
    worst = 0
    for asynchronous in (False, True):
        flavour = "async" if asynchronous else "sync"
        with quiet():
            measure = [path for path in paths if plain(path, asynchronous=asynchronous)]
        print(f"{flavour}, the library's own engine: {len(measure)} of {len(paths)} pass plain")
        for mode, where in MODES.items():
            good, restarts, bad = _mode(measure, where, asynchronous=asynchronous)
            print(f"{flavour}, {mode}: {good} of {len(measure)} ({restarts} restarts)")
            for name, reason in bad:
                print(f"  {name}: {reason}")
            worst = max(worst, int(good != len(measure)))
    return worst


def _mode(
    paths: list[Path], where: dict[str, Any], *, asynchronous: bool
) -> tuple[int, int, list[tuple[str, str]]]:
    good, total, bad = 0, 0, []
    for path in paths:
        try:
            with quiet():
                found = durable(path, where, asynchronous=asynchronous)
                other = found
                if not asynchronous:
                    other = durable(path, where, asynchronous=False, plans=False)
        except Exception as error:  # noqa: BLE001 - every failure is reported by its document
            bad.append((path.stem, f"{type(error).__name__}: {error}"))
            continue
        ok = found.passed and found == other
        good, total = good + ok, total + found.restarts
        if not ok:
            missed = "did not reach its state 'pass'"
            bad.append((path.stem, "goes another way without plans" if found.passed else missed))
    return good, total, bad


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1])))
