"""What is saved: values and bytes that differ from save to save, in content and by 5 % in length.

Constant ones would flatter SQLite: a page whose bytes are the old ones is not logged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any, Final

RUN_VALUES: Final = 60
"""Values of a run of 1 KB, a fifth of them nested."""
WORKER_VALUES: Final = 173
"""Values of one of 40 charts in a run of 100 KB."""
KEPT: Final = 101
"""How many payloads are made before the clock runs; then they come again."""
SPREAD: Final = 0.05
_VALUE_BYTES: Final = 15
"""About what one value takes as JSON, its name included."""
_TEXT: Final = "abcdefghijklmnopqrstuvwxyz "


def record(random: Random, values: int = RUN_VALUES) -> dict[str, Any]:
    """Return that many named values, all made anew: texts, numbers, flags, and a fifth nested.

    The nested ones are the pairs of an order's lines. A note, counted among the rest, makes the
    length differ by 5 % to either side.
    """
    lines = values // 10
    found = {f"k{number}": _scalar(random, number) for number in range(values - 2 * lines - 1)}
    found["lines"] = [
        {"sku": _text(random, 3), "count": random.randrange(10, 100)} for _ in range(lines)
    ]
    found["note"] = _text(random, round(random.uniform(0, 2 * SPREAD) * _VALUE_BYTES * values))
    return found


def _scalar(random: Random, number: int) -> object:
    kind = number % 5
    if kind == 0:
        return random.randrange(1_000, 10_000)
    if kind == 1:
        return _text(random, 4)
    if kind == 2:
        return random.randrange(1_000, 10_000) / 100
    if kind == 3:
        return random.random() < 0.5
    return _text(random, 3) if random.random() < 0.5 else None


def _text(random: Random, length: int) -> str:
    return "".join(random.choices(_TEXT, k=length))


def records(values: int = RUN_VALUES, *, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield records without end; each differs from the one before."""
    random = Random(seed)
    return cycle([record(random, values) for _ in range(KEPT)])


def blobs(size_bytes: int, *, seed: int = 2) -> Iterator[bytes]:
    """Yield bytes without end, of about a size; all of each differ from those of the one before."""
    random = Random(seed)
    spread = [random.uniform(1 - SPREAD, 1 + SPREAD) for _ in range(KEPT)]
    return cycle([random.randbytes(round(size_bytes * factor)) for factor in spread])
