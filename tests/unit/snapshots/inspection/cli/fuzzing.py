"""Calls commands with anything, and says what holds of each answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from snapshots.inspection.cli.app import call

OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would obey."""

Words = Callable[[Path, random.Random, int], list[str]]
Refused = Callable[[list[str], str, str], None]


def damaged(path: Path, chance: random.Random, number: int) -> str:
    """Return the name of another file: noise, or this one with bytes changed or cut off."""
    data = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        data = bytearray(chance.randbytes(chance.choice((0, 1, 100, 5_000))))
    for _ in range(chance.choice((1, 3, 30)) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.3:
        data = data[: len(data) // 2]
    other = path.with_name(f"damaged-{number}.db")
    other.write_bytes(data)
    if chance.random() < 0.3:
        path.with_name(f"{other.name}-wal").write_bytes(chance.randbytes(5_000))
    return str(other)


def one_line(given: list[str], out: str, err: str) -> None:
    """Assert that an error is one line on stderr, and nothing else."""
    assert (out, err.count("\n")) == ("", 1), (given, err)


def call_with_anything(
    words: Words,
    file: Path,
    capfd: pytest.CaptureFixture[str],
    seed: int,
    *,
    calls: int,
    refused: Refused = one_line,
    is_raw: Callable[[list[str]], bool] = lambda _: False,
) -> None:
    """Assert that each of so many calls has an exit code, and prints nothing that is obeyed.

    `refused` asserts what an error looks like; what is asked for raw is printed as it is.
    """
    chance, codes = random.Random(seed), Counter[int]()
    for number in range(calls):
        given = words(file, chance, number)
        code = call(given)
        out, err = capfd.readouterr()
        assert code in (0, 1, 2), given
        assert "unexpected error" not in err, (given, err)
        if not is_raw(given):
            assert not OBEYED.search(out), given
        assert not OBEYED.search(err), given
        if code == 2:
            refused(given, out, err)
        codes[code] += 1
    assert codes.keys() == {0, 1, 2}
