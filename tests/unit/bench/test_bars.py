"""Bars: what keeps one, what fails one, and what the command says of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.__main__ import main as bench
from bench.bars import command
from bench.bars.registry import BARS
from bench.bars.values import Bar, Found, Measure, Verdict


def measured(calls: list[str], name: str, **values: float) -> Measure:
    """Return what finds these values, and notes that it was asked."""

    def measure(folder: Path) -> Found:
        assert list(folder.iterdir()) == []
        calls.append(name)
        return Found(values={key.replace("_", "-"): value for key, value in values.items()})

    return measure


def bar(name: str, measure: Measure, limit: float | None = 2.0, *, is_floor: bool = False) -> Bar:
    """Return a bar."""
    return Bar(name=name, what=f"the {name}", measure=measure, bar=limit, is_floor=is_floor)


def broken(folder: Path) -> Found:
    """Fail, as a measurement does whose parts are not there."""
    raise FileNotFoundError(folder / "arms.py")


@pytest.mark.parametrize(
    ("value", "is_floor", "holds"),
    [
        (2.0, False, True),
        (2.0001, False, False),
        (0.0, False, True),
        (2.0, True, True),
        (1.9999, True, False),
        (math.nan, False, False),
        (math.nan, True, False),
        (math.inf, True, False),
        (-math.inf, False, False),
    ],
)
def test_a_bar_is_kept_up_to_itself(value: float, is_floor: bool, holds: bool) -> None:
    """Exactly the bar is good, one past it is not, and what is no number never is."""
    assert bar("x", broken, is_floor=is_floor).holds(value) is holds


def test_a_value_without_a_bar_holds_whatever_it_is_once_it_is_measured() -> None:
    """It is shown; only what could not be measured fails."""
    shown = bar("x", broken, None)
    assert Verdict(bar=shown, value=1e9).holds
    assert not Verdict(bar=shown, value=None).holds


def test_bars_of_one_measurement_take_it_once() -> None:
    """And each of them finds its own value."""
    calls: list[str] = []
    both, other = measured(calls, "both", a=1.0, b=3.0), measured(calls, "other", c=2.0)
    taken = list(command.take_all([bar("a", both), bar("c", other), bar("b", both)]))
    assert calls == ["both", "other"]
    found = {v.bar.name: (v.value, v.holds) for each in taken for v in each.verdicts}
    assert found == {"a": (1.0, True), "b": (3.0, False), "c": (2.0, True)}


def test_what_cannot_be_measured_fails_by_name_and_the_rest_is_measured() -> None:
    """No bar is passed over."""
    calls: list[str] = []
    bars = [bar("gone", broken), bar("gone-too", broken), bar("a", measured(calls, "a", a=1.0))]
    first, second = command.take_all(bars)
    assert [(v.bar.name, v.holds) for v in first.verdicts] == [("gone", False), ("gone-too", False)]
    assert "FileNotFoundError at test_bars.py:" in first.verdicts[0].failure
    assert [v.holds for v in second.verdicts] == [True]


def test_a_value_that_its_measurement_does_not_give_fails() -> None:
    """A name that is written differently in two places is no success."""
    (taken,) = command.take_all([bar("b", measured([], "a", a=1.0))])
    assert [(v.value, v.holds, v.failure != "") for v in taken.verdicts] == [(None, False, True)]


def test_names_may_be_patterns() -> None:
    """Several may be given; none means all."""
    bars = [bar(name, broken) for name in ("save-1kb", "save-1mb", "send")]

    def names(*given: str) -> list[str]:
        return [one.name for one in command.choose(bars, given)]

    assert names() == ["save-1kb", "save-1mb", "send"]
    assert names("send") == ["send"]
    assert names("save-*", "send") == ["save-1kb", "save-1mb", "send"]
    with pytest.raises(KeyError, match="sent"):
        names("send", "sent")


@pytest.mark.parametrize(
    ("value", "only", "code"),
    [(2.0, (), 0), (2.1, (), 1), (2.0, ("fine",), 0), (2.1, ("fine",), 0), (2.0, ("none",), 2)],
)
def test_the_exit_code_says_whether_all_hold(
    tmp_path: Path, value: float, only: tuple[str, ...], code: int
) -> None:
    """0 if all do, 1 if one does not, 2 for a name that there is not."""
    bars = [bar("fine", measured([], "fine", fine=1.0)), bar("x", measured([], "x", x=value))]
    assert command.main(bars, only=only, json_file=None, markdown=False) == code


def test_the_table_names_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Each value stands beside its bar, and the last line names those that fail."""
    floor = bar("rate", measured([], "rate", rate=1.0), is_floor=True)
    bars = [bar("fine", measured([], "fine", fine=1.0)), floor, bar("gone", broken)]
    assert command.main(bars, only=(), json_file=None, markdown=True) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("measured on: ")
    assert "| fine: the fine | 1.00x | <= 2.00x |  | ok |" in lines
    assert "| rate: the rate | 1.00x | >= 2.00x |  | FAILED |" in lines
    assert "| gone: the gone | none | <= 2.00x |  | FAILED |" in lines
    assert lines[-1].endswith("2 failed: rate, gone")


def test_the_values_are_written_as_json(tmp_path: Path) -> None:
    """With the machine, what was measured, and why the rest was not."""
    file = tmp_path / "bars.json"
    bars = [bar("x", measured([], "x", x=1.5)), bar("gone", broken)]
    assert command.main(bars, only=(), json_file=file, markdown=False) == 1
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["holds"] is False
    assert "kernel" in written["machine"]
    first, second = written["bars"]
    assert (first["name"], first["value"], first["bar"], first["holds"]) == ("x", 1.5, 2.0, True)
    assert (second["value"], second["holds"]) == (None, False)
    assert "arms.py" in second["failure"]


def test_every_bar_has_a_name_of_its_own() -> None:
    """So that `--only` means one of them."""
    names = [one.name for one in BARS]
    assert len(set(names)) == len(names)


def test_every_promise_of_cost_has_its_bar() -> None:
    """The table is whole: no bar goes without being noticed, or becomes easier to keep."""
    assert {one.name: (one.bar, one.goal) for one in BARS} == {
        "save-1kb": (2.3, 1.8),
        "save-floor": (None, None),
        "save-100kb": (0.6, 0.3),
        "save-1mb": (0.3, 0.1),
        "wal-100kb-mean": (12, None),
        "wal-100kb-max": (16, None),
        "wal-1mb-mean": (12, None),
        "wal-1mb-max": (16, None),
        "closed-p50": (1.3, None),
        "closed-p999": (0.2, None),
        "closed-wal": (20, None),
        "rate-p999": (0.5, None),
        "rate-longest": (None, 10),
        "send": (0.7, 0.4),
        "loop": (1.5, None),
        "boot-finished": (1.3, None),
        "boot-finished-waiting": (None, None),
        "boot-waiting": (4, None),
        "boot-waiting-bytes": (1_000, None),
        "sweep-p999": (1.5, None),
        "sweep-rate": (8_000, None),
    }
    assert [one.name for one in BARS if one.is_floor] == ["sweep-rate"]


def test_an_unknown_bar_is_refused_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is measured, with the names that there are."""
    assert bench(["bars", "--only", "save-2kb"]) == 2
    said = capsys.readouterr().err
    assert "'save-2kb'" in said
    assert "save-1kb" in said
