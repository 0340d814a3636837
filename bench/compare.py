"""`python -m bench compare`: us and the peers in turns, each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.figures import Figures, ratio_of_medians
from bench.machine import header, measured_on
from bench.payloads import RUN_VALUES, WORKER_VALUES, records
from bench.peers.folder import PEERS, Folder, Peer
from bench.peers.process import PeerError, PeerProcess
from bench.peers.protocol import Step, Values
from bench.tables import as_markdown, as_text, number
from bench.turns import Rounds, rotate

ALL_HOLD: Final = 0
SOME_FAIL: Final = 1
MISSING: Final = 2
ROUNDS: Final = 40
WARM_UPS: Final = 5
"""Rounds that do not count: a compiler that works while the program runs has seen it by then."""
RAW: Final = Peer(name="raw upsert", module="raw", requirements=())
OURS: Final = Peer(name="ours", module="ours", requirements=())
HEADINGS: Final = (
    *("program", "p50", "p99", "p99.9", "max (us)"),
    *("p50 : raw", "p99 : raw", "p99.9 : raw", "max : raw"),
    *("ours : it", "bar", ""),
)
_NS_PER_US: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of run: its charts, of which one gets new values at a time, and its bars."""

    name: str
    charts: int
    values: int
    """Values of each chart."""
    steps: int
    """Steps of a turn."""
    bars: dict[str, float] = field(default_factory=dict)
    """How many times a peer's p50 ours may take at most, by the peer's name."""


_FASTER: Final = dict.fromkeys(("langgraph", "dbos", "burr", "xstate-statemachine"), 1.0)
KINDS: Final = (
    Kind(name="1 KB", charts=1, values=RUN_VALUES, steps=100, bars={"xstate": 2.0, **_FASTER}),
    Kind(name="100 KB", charts=40, values=WORKER_VALUES, steps=20, bars={"xstate": 0.3, **_FASTER}),
)
WHOLE: Final = Kind(name="100 KB, all of it new", charts=1, values=100 * RUN_VALUES, steps=10)
"""Nobody's best case, on request: one chart, nothing of which stays."""


class Contest:
    """One kind of run, in all programs at once."""

    def __init__(self, kind: Kind, folder: Path, processes: Sequence[PeerProcess]) -> None:
        """Have each program start its run, in a folder of its own, with the same values."""
        self._kind = kind
        self._processes = processes
        self._records = records(kind.values)
        self._told: list[Values] = list(islice(self._records, kind.charts))
        self._turn: list[Step] = []
        self._places = cycle(range(kind.charts))
        for process in processes:
            own = folder / kind.name / process.name
            own.mkdir(parents=True)
            process.open(kind.name, own, self._told)

    def measure(self, rounds: int) -> list[Rounds]:
        """Take rounds, in each of which every program does the same steps."""
        turns = [partial(self._measure, process) for process in self._processes]
        return rotate(turns, rounds=rounds, warm_ups=WARM_UPS, before=self._next)

    def _next(self) -> None:
        steps = islice(zip(self._places, self._records, strict=False), self._kind.steps)
        self._turn = list(steps)
        for place, values in self._turn:
            self._told[place] = values

    def _measure(self, process: PeerProcess) -> list[int]:
        return process.measure(self._kind.name, self._turn)

    def check(self) -> None:
        """Assert that each program has on disk what it was told."""
        for process in self._processes:
            stored = process.read(self._kind.name)
            assert stored is None or stored == self._told, f"{process.name} stored something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One program's figures for one kind of run."""

    name: str
    figures: Figures
    to_raw: tuple[float, float, float, float]
    """p50 as the median over rounds, each with its own raw upserts; the others over all rounds."""
    ours_to_it: float
    bar: float | None

    @property
    def holds(self) -> bool:
        """Whether we keep our bar beside it."""
        return self.bar is None or self.ours_to_it <= self.bar

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        times = (number(ns / _NS_PER_US) for ns in self.figures.in_order())
        ratios = (number(ratio) for ratio in self.to_raw)
        ours = "" if self.name == OURS.name else number(self.ours_to_it)
        bar = "" if self.bar is None else f"<= {number(self.bar)}"
        word = "" if self.bar is None else "ok" if self.holds else "FAILED"
        return self.name, *times, *ratios, ours, bar, word

    def as_json(self) -> dict[str, object]:
        """Return it as JSON's values; times are in ns."""
        return {
            "name": self.name,
            "saves": self.figures.count,
            "ns": dict(zip(("p50", "p99", "p99.9", "max"), self.figures.in_order(), strict=True)),
            "to_raw": dict(zip(("p50", "p99", "p99.9", "max"), self.to_raw, strict=True)),
            "ours_to_it": self.ours_to_it,
            "bar": self.bar,
            "holds": self.holds,
        }


def lines(names: Sequence[str], found: Sequence[Rounds], kind: Kind) -> list[Line]:
    """Return the figures of each program beside the raw upserts, and ours beside it."""
    rounds = dict(zip(names, found, strict=True))
    raw = Figures.of(ns for turn in rounds[RAW.name] for ns in turn)
    made = []
    for name, own in rounds.items():
        figures = Figures.of(ns for turn in own for ns in turn)
        tail = [
            one / floor
            for one, floor in zip(figures.in_order()[1:], raw.in_order()[1:], strict=True)
        ]
        made.append(
            Line(
                name=name,
                figures=figures,
                to_raw=(ratio_of_medians(own, rounds[RAW.name]), tail[0], tail[1], tail[2]),
                ours_to_it=ratio_of_medians(rounds[OURS.name], own),
                bar=kind.bars.get(name),
            )
        )
    return made


def chosen(without: Sequence[str]) -> list[Peer]:
    """Return the peers but those that are named; KeyError with a name that none has."""
    for name in without:
        if name not in {peer.name for peer in PEERS}:
            raise KeyError(name)
    return [peer for peer in PEERS if peer.name not in without]


def main(
    folder: Folder,
    *,
    without: Sequence[str],
    rounds: int,
    kinds: Sequence[Kind],
    json_file: Path | None,
    markdown: bool,
) -> int:
    """Measure and print; return the exit code."""
    try:
        peers = chosen(without)
    except KeyError as unknown:
        known = ", ".join(repr(peer.name) for peer in PEERS)
        print(f"no peer is called {unknown.args[0]!r}; there are: {known}", file=sys.stderr)
        return MISSING
    gone = {peer.name: what for peer in peers if (what := folder.missing(peer))}
    if gone:
        return _tell_missing(gone, folder)
    try:
        with ExitStack() as opened:
            processes = [
                opened.enter_context(PeerProcess(peer.name, folder.command(peer)))
                for peer in (RAW, OURS, *peers)
            ]
            return _compare(processes, rounds, kinds, json_file, markdown=markdown)
    except PeerError as error:
        print(error, file=sys.stderr)
        return MISSING


def _tell_missing(gone: dict[str, str], folder: Folder) -> int:
    for name, what in gone.items():
        print(f"{name} is missing: there is no {what} in {folder.path}", file=sys.stderr)
    print(
        "install what is missing with `python -m bench peers`, or leave it out by name:"
        f" {' '.join(f'--without {name!r}' for name in gone)}",
        file=sys.stderr,
    )
    return MISSING


def _compare(
    processes: Sequence[PeerProcess],
    rounds: int,
    kinds: Sequence[Kind],
    json_file: Path | None,
    *,
    markdown: bool,
) -> int:
    print(header(), flush=True)
    for process in processes:
        print(f"  {process.name}: {_versions(process)}")
    names = [process.name for process in processes]
    found: dict[str, list[Line]] = {}
    with TemporaryDirectory(prefix="bench-") as folder:
        for kind in kinds:
            contest = Contest(kind, Path(folder), processes)
            found[kind.name] = lines(names, contest.measure(rounds), kind)
            contest.check()
            shown = as_markdown if markdown else as_text
            count = found[kind.name][0].figures.count
            print(f"\n{kind.name}, {count:,} saves each in {rounds} rounds\n")
            print(shown(HEADINGS, [line.cells() for line in found[kind.name]]), flush=True)
    if json_file is not None:
        versions = {process.name: process.versions for process in processes}
        write(json_file, versions, found)
    every = [(kind, line) for kind, of in found.items() for line in of]
    failed = [f"{line.name} at {kind}" for kind, line in every if not line.holds]
    print(f"\n{len(failed)} failed: {', '.join(failed)}" if failed else "\nall hold")
    return SOME_FAIL if failed else ALL_HOLD


def _versions(process: PeerProcess) -> str:
    return ", ".join(f"{name} {version}" for name, version in process.versions.items())


def write(file: Path, versions: dict[str, dict[str, str]], found: dict[str, list[Line]]) -> None:
    """Write the figures, the machine and the versions as JSON."""
    value = {
        "machine": measured_on(),
        "versions": versions,
        "runs": {kind: [line.as_json() for line in of] for kind, of in found.items()},
    }
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
