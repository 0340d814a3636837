"""What the codec costs by itself: the typed walk, and the JSON text, of 60 values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from bench.payloads import records
from snapshots.codec import Codec, dump

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)

ACTS = 20


class Works:
    """Does one thing with a record, 20 times over, since once is short beside a clock's tick."""

    def __init__(self, name: str, work: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
        self.name = name
        self._work = work
        self._back = back
        self._records: Iterator[dict[str, Any]] = records()
        self._record: dict[str, Any] = {}
        self._result: Any = None

    def prepare(self) -> None:
        """Take the next record."""
        self._record = next(self._records)

    def act(self) -> None:
        """Do the work."""
        work, record = self._work, self._record
        for _ in range(ACTS):
            self._result = work(record)

    def check(self) -> None:
        """Assert that what was made of the last record leads back to it, and is not it."""
        assert self._result is not self._record
        assert self._back(self._result) == self._record


def floor() -> Works:
    """Return the work that any JSON costs: orjson alone, no type looked at."""
    return Works("orjson.dumps of the same", orjson.dumps, orjson.loads)


@pytest.mark.benchmark(group=f"codec, {ACTS} times")
def test_typed_walk(beside: Beside) -> None:
    """`Codec.to_plain`: every type decided, every container made anew."""
    codec = Codec()
    walk = Works("Codec.to_plain of 60 values", codec.to_plain, codec.from_plain)
    beside(walk, floor(), rounds=1_000, acts=ACTS)


@pytest.mark.benchmark(group=f"codec, {ACTS} times")
def test_dump(beside: Beside) -> None:
    """`dump`: the text alone, of a structure that is plain already."""
    beside(Works("dump of 60 values", dump, orjson.loads), floor(), rounds=1_000, acts=ACTS)


@pytest.mark.benchmark(group=f"codec, {ACTS} times")
def test_encode(beside: Beside) -> None:
    """`Codec.encode`: the walk and the text."""
    codec = Codec()
    encode = Works("Codec.encode of 60 values", codec.encode, codec.decode)
    beside(encode, floor(), rounds=1_000, acts=ACTS)


@pytest.mark.benchmark(group=f"codec, {ACTS} times")
def test_orjson(alone: Callable[[Arm, int], None]) -> None:
    """The floor by itself."""
    alone(floor(), 1_000)
