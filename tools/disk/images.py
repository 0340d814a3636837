"""What may be on a disk after a power loss: what was synced, and any part of what was not.

The rules are those that SQLite relies on and no kinder (https://sqlite.org/atomiccommit.html,
section 2): a sync makes lasting what was written before it began; of what came later each sector
may be there or not, in whatever order; a file may be longer than what arrived, with anything in
between; a name in a folder is lasting once the folder was synced. Bytes that nobody wrote stay.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.disk.watching import Op

SECTOR_BYTES: Final = 512
_CHANCES: Final = (0.0, 0.02, 0.1, 0.5, 0.9, 0.98, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The files of a folder as they may be found after a power loss behind `at` operations."""

    at: int
    told: str
    """How it was made, for a person."""
    files: dict[str, bytes]

    def write(self, folder: Path) -> None:
        """Write the files into a folder, by the last parts of their names."""
        for path, data in self.files.items():
            (folder / path.rpartition("/")[2]).write_bytes(data)


@dataclass(slots=True)
class _Content:
    """A file: what of it is lasting, and what was done to it since, by number in the log."""

    lasting: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, Op]] = field(default_factory=list)

    def sync(self, began: int) -> None:
        kept = []
        for number, op in self.since:
            if number < began:
                _apply(self.lasting, op)
            else:
                kept.append((number, op))
        self.since = kept


class Surface:
    """A disk that is taken through a log, operation by operation."""

    def __init__(self, before_it: Mapping[str, bytes]) -> None:
        """Begin with files that are lasting."""
        self.at = 0
        self._numbers = {path: -1 - n for n, path in enumerate(before_it)}
        self._contents = {
            self._numbers[path]: _Content(bytearray(data)) for path, data in before_it.items()
        }
        self._names: dict[str, int] = dict(self._numbers)
        """The file that each name stands for, lasting."""
        self._now: dict[str, int | None] = dict(self._numbers)
        self._moves: list[tuple[int, str, int | None]] = []
        """What each name was made to stand for since the folder was synced."""

    def take(self, op: Op) -> None:
        """Go one operation on."""
        number, self.at = self.at, self.at + 1
        if op.kind == "open":
            self._open(number, op)
        elif op.kind == "delete":
            self._now[op.path] = None
            self._moves.append((number, op.path, None))
        elif op.kind == "folder":
            self._sync_folder(op.began)
        elif op.kind == "sync":
            self._contents[self._of(op)].sync(op.began)
        else:
            self._contents[self._of(op)].since.append((number, op))

    def _of(self, op: Op) -> int:
        return op.file if op.file in self._contents else self._numbers[op.path]

    def _open(self, number: int, op: Op) -> None:
        if self._now.get(op.path) is not None:
            return
        self._numbers[op.path] = op.file
        self._contents[op.file] = _Content()
        self._now[op.path] = op.file
        self._moves.append((number, op.path, op.file))

    def _sync_folder(self, began: int) -> None:
        kept = []
        for number, path, file in self._moves:
            if number >= began:
                kept.append((number, path, file))
            elif file is None:
                self._names.pop(path, None)
            else:
                self._names[path] = file
        self._moves = kept

    def image(self, rng: random.Random) -> Image:
        """Return what a power loss may leave at this moment."""
        names: dict[str, int | None] = {**self._names}
        for path in {path: None for _, path, _ in self._moves}:
            choices = [names.get(path), *(file for _, of, file in self._moves if of == path)]
            names[path] = _late(rng, choices)
        common = _Way.draw(rng)
        told, files = [], {}
        for path, number in sorted(names.items()):
            if number is None:
                continue
            content = self._contents[number]
            way = common if rng.random() < 0.5 else _Way.draw(rng)
            files[path] = bytes(_left_of(content, way, rng))
            told.append(f"{path.rpartition('/')[2]}: {way.told} of {len(content.since)}")
        return Image(at=self.at, told="; ".join(told), files=files)


def images(
    log: Sequence[Op], before_it: Mapping[str, bytes], points: Sequence[int], seed: int
) -> Iterator[Image]:
    """Yield an image for each point, which is a number of operations; points may come again."""
    rng, surface = random.Random(seed), Surface(before_it)
    for point in sorted(points):
        while surface.at < point:
            surface.take(log[surface.at])
        yield surface.image(rng)


def draw_points(log: Sequence[Op], count: int, rng: random.Random) -> list[int]:
    """Return moments of a log, many of them directly before and after what orders the rest."""
    marked = [n for n, op in enumerate(log) if op.kind not in ("write", "open")]
    points = []
    for _ in range(count):
        if marked and rng.random() < 0.4:
            points.append(min(len(log), max(0, rng.choice(marked) + rng.randint(-3, 4))))
        else:
            points.append(rng.randint(0, len(log)))
    return points


def _late(rng: random.Random, choices: list[int | None]) -> int | None:
    """Return one of a name's meanings, the last one as often as all others together."""
    return choices[-1] if rng.random() < 0.5 else rng.choice(choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How what was not synced is treated: a prefix of it, all but one, or each sector by chance."""

    kind: str
    chance: float
    garbage: bool
    bytewise: bool

    @property
    def told(self) -> str:
        filled = ", filled with garbage" if self.garbage else ""
        return f"{self.kind} {self.chance}{filled}"

    @staticmethod
    def draw(rng: random.Random) -> _Way:
        return _Way(
            kind=rng.choice(("sectors", "sectors", "prefix", "all but one")),
            chance=rng.choice(_CHANCES),
            garbage=rng.random() < 0.3,
            bytewise=rng.random() < 0.3,
        )


def _left_of(content: _Content, way: _Way, rng: random.Random) -> bytearray:
    """Return what is left of one file."""
    left = bytearray(content.lasting)
    for op in _arrived([op for _, op in content.since], way, rng):
        gap = op.offset - len(left)
        if way.garbage and op.data and gap > 0:
            left += rng.randbytes(gap)
        _apply(left, op)
    return left


def _arrived(ops: list[Op], way: _Way, rng: random.Random) -> Iterator[Op]:
    """Yield what of a file's operations reached the disk, or the parts of them that did."""
    if way.kind == "prefix":
        whole = rng.randint(0, len(ops))
        yield from ops[:whole]
        if whole < len(ops):
            yield _torn(ops[whole], rng, bytewise=way.bytewise)
    elif way.kind == "all but one":
        gone = rng.randrange(len(ops)) if ops else -1
        yield from (op for number, op in enumerate(ops) if number != gone)
    else:
        parts = (part for op in ops for part in _sectors(op))
        yield from (part for part in parts if rng.random() < way.chance)


def _torn(op: Op, rng: random.Random, *, bytewise: bool) -> Op:
    """Return the beginning of a write, cut at the end of a sector unless told otherwise."""
    if op.kind != "write":
        return op
    cut = rng.randint(0, len(op.data))
    if not bytewise:
        end = (op.offset + cut) // SECTOR_BYTES * SECTOR_BYTES
        cut = max(0, end - op.offset)
    return _part(op, 0, cut)


def _sectors(op: Op) -> Iterator[Op]:
    """Yield the parts of a write that lie in one sector each."""
    if op.kind != "write":
        yield op
        return
    begin = 0
    while begin < len(op.data):
        end = ((op.offset + begin) // SECTOR_BYTES + 1) * SECTOR_BYTES - op.offset
        yield _part(op, begin, min(end, len(op.data)))
        begin = end


def _part(op: Op, begin: int, end: int) -> Op:
    return type(op)(
        kind="write",
        path=op.path,
        file=op.file,
        offset=op.offset + begin,
        data=op.data[begin:end],
    )


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        if op.size < len(content):
            del content[op.size :]
        else:
            content += bytes(op.size - len(content))
        return
    if not op.data:
        return
    if op.offset > len(content):
        content += bytes(op.offset - len(content))
    content[op.offset : op.offset + len(op.data)] = op.data
