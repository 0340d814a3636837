"""Measures two arms in turns, so that whatever else the machine does falls on both alike.

pytest-benchmark times one test after the other; on a machine with other work the ratio of two of
its rows is mostly noise. The fixture `beside` gives one arm to pytest-benchmark and times the other
between its rounds. The ratios are printed above the tables, and saved with `--benchmark-json`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, Protocol

import pytest

TURN_ROUNDS: Final = 10
"""Rounds of one arm before the other's turn: a processor's caches are warm for most of them."""
_NS_PER_S: Final = 1_000_000_000
_US_PER_S: Final = 1_000_000


class Timing(Protocol):
    """What is used here of pytest-benchmark's fixture, which declares no types."""

    enabled: bool
    stats: Any
    extra_info: dict[str, Any]

    def pedantic(
        self,
        target: Callable[[], object],
        *,
        setup: Callable[[], None],
        rounds: int,
        warmup_rounds: int,
    ) -> object:
        """Time the target for a number of rounds; call it once if timing is off."""


class Arm(Protocol):
    """One of two things that are compared."""

    @property
    def name(self) -> str:
        """What it is, in a few words."""

    def prepare(self) -> None:
        """Make ready what the next act needs; not timed."""

    def act(self) -> object:
        """Do what is measured."""

    def check(self) -> None:
        """Assert that the acts had their effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as long one arm takes as the other; the times are medians of one act."""

    of_medians: float
    of_minima: float
    """Both are taken in each turn, whose rounds ran side by side; of the turns it is the median."""
    name: str
    us: float
    beside: str
    beside_us: float

    def __str__(self) -> str:
        """Return a line for people."""
        return (
            f"{self.of_medians:6.2f} {self.of_minima:6.2f}  "
            f"{self.name} ({self.us:,.1f} us) : {self.beside} ({self.beside_us:,.1f} us)"
        )


RATIOS: Final = pytest.StashKey[list[Ratio]]()


@dataclass(frozen=True, slots=True)
class Beside:
    """Measures an arm with pytest-benchmark, and another one between its rounds."""

    timing: Timing
    ratios: list[Ratio]

    def __call__(
        self, ours: Arm, theirs: Arm, *, rounds: int, turn: int = TURN_ROUNDS, acts: int = 1
    ) -> None:
        """Time `rounds` rounds of each arm and keep the ratio; do each once as a plain test.

        An arm has `turn` rounds before the other one's turn; the first turns are not counted.
        `acts` says how often one round does what the arm's name says.
        """
        assert rounds % turn == 0, "the last turn would be shorter"
        times: list[float] = []
        prepare = _alternate(ours, theirs, turn if self.timing.enabled else 1, times)
        self.timing.pedantic(ours.act, setup=prepare, rounds=rounds, warmup_rounds=turn)
        ours.check()
        theirs.check()
        if self.timing.stats is None:
            return
        names = ours.name, theirs.name
        ratio = _compare(names, self.timing.stats.stats.data, times[turn:], turn, acts)
        self.ratios.append(ratio)
        self.timing.extra_info |= {
            "acts": acts,
            "beside": ratio.beside,
            "ratio_of_medians": ratio.of_medians,
            "ratio_of_minima": ratio.of_minima,
        }


def _alternate(ours: Arm, theirs: Arm, turn: int, times: list[float]) -> Callable[[], None]:
    """Return what prepares a round of `ours`: where a turn begins, the other arm has its own."""
    done = 0

    def prepare() -> None:
        nonlocal done
        if done % turn == 0:
            for _ in range(turn):
                theirs.prepare()
                start_ns = perf_counter_ns()
                theirs.act()
                times.append((perf_counter_ns() - start_ns) / _NS_PER_S)
        done += 1
        ours.prepare()

    return prepare


def _compare(
    names: tuple[str, str], ours: Sequence[float], theirs: Sequence[float], turn: int, acts: int
) -> Ratio:
    def in_turns(pick: Callable[[Sequence[float]], float]) -> float:
        starts = range(0, len(ours), turn)
        return median(pick(ours[at : at + turn]) / pick(theirs[at : at + turn]) for at in starts)

    return Ratio(
        of_medians=in_turns(median),
        of_minima=in_turns(min),
        name=names[0],
        us=median(ours) / acts * _US_PER_S,
        beside=names[1],
        beside_us=median(theirs) / acts * _US_PER_S,
    )


@pytest.fixture
def beside(benchmark: Timing, pytestconfig: pytest.Config) -> Beside:
    """Return what measures two arms in turns."""
    return Beside(benchmark, pytestconfig.stash.setdefault(RATIOS, []))


@pytest.fixture
def alone(benchmark: Timing) -> Callable[[Arm, int], None]:
    """Return what measures one arm for a number of rounds."""

    def measure(arm: Arm, rounds: int) -> None:
        benchmark.pedantic(arm.act, setup=arm.prepare, rounds=rounds, warmup_rounds=TURN_ROUNDS)
        arm.check()

    return measure


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the ratios, before the tables of pytest-benchmark."""
    ratios = config.stash.get(RATIOS, [])
    if not ratios:
        return
    terminalreporter.section("ratios of arms measured in turns")
    terminalreporter.write_line("median    min  one arm : the one beside it (median of one act)")
    for ratio in ratios:
        terminalreporter.write_line(str(ratio))
