"""Have the disk fail at the first thing that is asked of it, at the second, and so on.

    python tools/inject.py [--operation NAME …] [--kind KIND …] [--short] [--long-rows]

Whatever a host can be asked is done while the n-th read, write, sync, open, cut or deletion fails,
or the n-th transaction finds the file locked: once, or from then on until it is mended. n goes up
until a pass in which nothing failed. Each time the error must be the right one, no effect may come
after it, no row may be lost or mixed, and the same host must be able to do it again. Exit code 1 if
not. With `--long-rows` every save writes over a part of its row, as those of runs of 64 KB do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.disk.failing import FAULTS, Fault
from tools.disk.operations import OPERATIONS, Operation
from tools.disk.trials import attempt
from tools.lengths import as_long_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER_MAX: Final = 400
"""By this n at the latest a pass is clean."""
SHOWN: Final = 10
FAST: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@dataclass(slots=True)
class Count:
    """What was seen of one operation."""

    name: str
    trials: int = 0
    hits: int = 0
    raised: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        raised = ", ".join(f"{n} {name}" for name, n in sorted(self.raised.items())) or "none"
        return (
            f"{self.name}: {self.trials} passes, {self.hits} with a fault, raised {raised},"
            f" {len(self.failures)} failures"
        )


def numbers(*, short: bool) -> Iterator[int]:
    """Yield the n: each, or if `short` the first few and then ever fewer, which miss no end."""
    number = 1
    while number <= NUMBER_MAX:
        yield number
        number += max(1, number // 3) if short else 1


def disturb(
    operation: Operation, faults: tuple[Fault, ...], folder: Path, *, short: bool = False
) -> Count:
    """Disturb an operation by each fault, at each n until a clean pass."""
    count = Count(name=operation.name)
    for fault in faults:
        for number in numbers(short=short):
            with tempfile.TemporaryDirectory(dir=folder) as name:
                trial = attempt(operation, fault, number, Path(name))
            count.trials += 1
            count.hits += bool(trial.hits)
            if trial.raised:
                count.raised[trial.raised] += 1
            count.failures += [f"{number}. {fault}: {wrong}" for wrong in trial.wrong]
            if not trial.hits:
                break
        else:
            count.failures.append(f"{fault}: no clean pass by number {NUMBER_MAX}")
    return count


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says."""
    names = [operation.name for operation in OPERATIONS]
    parser = argparse.ArgumentParser(prog="tools/inject.py", description="Have the disk fail.")
    parser.add_argument("--operation", choices=names, action="append", help="default: all")
    kinds = sorted({fault.kind for fault in FAULTS})
    parser.add_argument("--kind", choices=kinds, action="append", help="default: all")
    parser.add_argument("--short", action="store_true", help="leave out most n beyond the fifth")
    parser.add_argument("--long-rows", action="store_true", help="save as long rows are saved")
    options = parser.parse_args(arguments)
    faults = tuple(fault for fault in FAULTS if not options.kind or fault.kind in options.kind)
    failures, begun_s = 0, time.monotonic()
    with (
        tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as name,
        as_long_rows(if_so=options.long_rows),
    ):
        for operation in OPERATIONS:
            if options.operation and operation.name not in options.operation:
                continue
            count = disturb(operation, faults, Path(name), short=options.short)
            print(count, flush=True)
            for failure in count.failures[:SHOWN]:
                print(f"  {failure}", flush=True)
            failures += len(count.failures)
    print(f"failures: {failures} in {time.monotonic() - begun_s:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
