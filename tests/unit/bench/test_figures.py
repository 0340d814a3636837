"""Figures of durations, and rounds of turns."""

from __future__ import annotations

import pytest

from bench.figures import Figures, quantile, ratio_of_medians, shown
from bench.turns import Pair, Turn, rotate, turn_of


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (1, 0.5, 1),
        (1, 0.999, 1),
        (100, 0.99, 99),
        (100, 0.999, 100),
        (1_000, 0.999, 999),
        (1_001, 0.999, 1_000),
        (10_000, 0.999, 9_990),
        (10, 1.0, 10),
    ],
)
def test_a_quantile_is_the_least_that_so_many_do_not_exceed(
    count: int, share: float, expected: int
) -> None:
    """By the nearest rank: of 1 to n it is the rank itself."""
    assert quantile(range(1, count + 1), share) == expected


@pytest.mark.parametrize(("durations", "share"), [([], 0.5), ([1], 0.0), ([1], 1.1)])
def test_a_quantile_of_nothing_or_past_the_end_is_refused(
    durations: list[float], share: float
) -> None:
    """There is no such figure."""
    with pytest.raises(AssertionError):
        quantile(durations, share)


def test_figures_do_not_need_an_order() -> None:
    """The durations come as they were measured."""
    figures = Figures.of([5, 1, 9, 3])
    assert figures == Figures(count=4, p50=4, p99=9, p999=9, longest=9)
    assert figures.in_order() == (4, 9, 9, 9)


def test_a_ratio_is_taken_within_each_round() -> None:
    """A round in which the machine was slow for both does not change it."""
    ours = [[10, 12, 11], [1_100, 1_000, 1_200], [20, 22, 24]]
    theirs = [[5, 5.5, 6], [550, 500, 600], [11, 1, 100]]
    assert ratio_of_medians(ours, theirs) == 2


def test_a_ratio_needs_both_arms_of_each_round() -> None:
    """A round that only one arm had is no round."""
    with pytest.raises(AssertionError):
        ratio_of_medians([[1], [2]], [[1]])
    with pytest.raises(AssertionError):
        ratio_of_medians([], [])


@pytest.mark.parametrize(
    ("ns", "expected"),
    [(1_234, "1.2 us"), (99_949, "99.9 us"), (123_456, "123 us"), (1_234_567, "1.23 ms")],
)
def test_a_duration_is_shown_with_its_unit(ns: int, expected: str) -> None:
    """In microseconds, or in milliseconds from the first on."""
    assert shown(ns) == expected


def test_every_round_has_every_arm_and_begins_with_another_one() -> None:
    """None always follows the same other one, and what warms up is not kept."""
    order: list[str] = []

    def turn(name: str) -> Turn:
        def measured() -> list[int]:
            order.append(name)
            return [len(order)]

        return measured

    rounds: list[int] = []
    turns = [turn("a"), turn("b"), turn("c")]
    found = rotate(turns, rounds=2, warm_ups=1, before=lambda: rounds.append(len(order)))
    assert "".join(order) == "abcbcacab"
    assert rounds == [0, 3, 6]
    assert found == [[[6], [8]], [[4], [9]], [[5], [7]]]


class Counting:
    """An arm that counts, and notes what was prepared when it acted."""

    name = "counting"

    def __init__(self) -> None:
        self.prepared = self.acted = self.checked = 0

    def prepare(self) -> None:
        """Prepare one act."""
        self.prepared += 1

    def act(self) -> None:
        """Act on what was prepared."""
        self.acted += 1
        assert self.prepared == self.acted

    def check(self) -> None:
        """Count."""
        self.checked += 1


def test_each_act_of_a_turn_is_prepared_and_timed() -> None:
    """One duration comes back for each act."""
    arm = Counting()
    assert len(turn_of(arm, 7)()) == 7
    assert (arm.prepared, arm.acted) == (7, 7)


def test_a_pair_measures_both_arms_alike_and_checks_them() -> None:
    """Both have the same number of acts, and both show their effect."""
    ours, theirs = Counting(), Counting()
    pair = Pair(ours, theirs, rounds=3, acts=4)
    assert [len(turn) for turn in (*pair.ours, *pair.theirs)] == [4] * 6
    assert ours.acted == theirs.acted == 4 * (3 + 2)
    assert ours.checked == theirs.checked == 1
    assert pair.ratio > 0
    assert str(pair).count("counting (") == 2
