"""`snapshots diff`: two runs of real charts, and the shape of a run beside today's code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from statemachine import State, StateChart

from machines import Machine, gate
from snapshots.inspection.cli import run
from tests.host.charts import checkout
from tests.host.generations import NEW, OLD, digest
from tests.host.world import Outside, World
from tests.unit.snapshots.inspection.cli.command_line import command

APP = """
from machines import Machine, Migration
from tests.host.charts import checkout
from tests.host.generations import NEW, OLD, RENAMED, digest, named

BARE = [Machine(NEW)]
MOVED = [Machine(NEW, migrations=[Migration(digest(OLD), states=RENAMED)])]
SAME = [Machine(OLD)]
OTHERS = [Machine(named("same"), name="Stays")]
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in the folder of an application's module."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "diff_shop.py").write_text(APP)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


async def two_reviews(world: World) -> None:
    """Leave two runs of the older generation behind, one of them a step further."""
    async with world.host(Machine(OLD)) as host:
        await host.start("Review", {"title": "a"}, run_id="one")
        await host.start("Review", {"title": "b"}, run_id="two")
        await host.send("two", "submit")


async def test_two_runs_are_compared_in_words(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """States, values and the place where their trails part; a run is equal to itself."""
    await two_reviews(world)
    assert run(["diff", "one", "two", str(world.path)]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "from one to two" in out
    assert "'a' -> 'b'" in out
    assert "submit" in out
    assert run(["diff", "one", "one", str(world.path)]) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert run(["diff", "one", "two", str(world.path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["equal"] is False


async def test_two_runs_that_did_the_same_are_equal(
    world: World, outside: Outside, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times and ids differ in any case, and are no differences."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        for run_id in ("one", "two"):
            await host.start(chart, run_id=run_id)
            world.clock.advance(7_000)
            await host.send(run_id, "pay")
            await host.settled(run_id)
    assert run(["diff", "one", "two", str(world.path)]) == 0, capsys.readouterr().out


@pytest.mark.usefixtures("app")
async def test_a_run_is_compared_with_todays_code(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """What changed in words, and whether a migration leads there; nothing is written."""
    await two_reviews(world)
    before = world.stored("one")
    assert run(["diff", "one", str(world.path), "--machines", "diff_shop:BARE"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert f"{digest(OLD)} -> {digest(NEW)}" in out
    assert "state 'review' is gone" in out
    assert "migration: none" in out
    options = ["--machines", "diff_shop:MOVED", "--json"]
    assert run(["diff", "one", str(world.path), *options]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["migration"] == f"{digest(OLD)} → {digest(NEW)}"
    assert "state 'review' is gone" in document["changes"]
    assert run(["diff", "one", str(world.path), "--machines", "diff_shop:SAME"]) == 0
    assert "no difference" in capsys.readouterr().out
    assert world.stored("one") == before


@pytest.mark.usefixtures("app")
async def test_a_drifted_run_is_compared_too(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the one that the question is mostly about."""
    await two_reviews(world)
    async with world.host(Machine(NEW)) as host:
        assert set(host.report.drifted) == {"one", "two"}
    assert run(["diff", "one", str(world.path), "--machines", "diff_shop:BARE"]) == 1
    assert "state 'review' is gone" in capsys.readouterr().out


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("one", "--machines", "diff_shop:OTHERS"), "Review"),
        (("one", "--machines", "diff_shop:NOTHING"), "NOTHING"),
        (("one", "two", "three", "--machines", "diff_shop:BARE"), "FILE behind it"),
        (("one",), "second RUN"),
        (("", "two"), "RUN is empty"),
        (("one", ""), "RUN is empty"),
        (("one", "nobody"), "nobody"),
    ],
)
async def test_what_cannot_be_compared_is_one_line(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    why: str,
) -> None:
    """Exit code 2, and what to do."""
    await two_reviews(world)
    monkeypatch.setenv("SNAPSHOTS_FILE", str(world.path))
    assert run(["diff", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert why in err
    assert "unexpected" not in err


async def test_the_command_is_one_among_the_others(world: World) -> None:
    """Whichever package it comes from, it is called and helped alike."""

    class Order(StateChart):
        review = State(initial=True, invoke=gate("approve"))
        over = State(final=True)
        approve = review.to(over)

    async with world.host(Order) as host:
        await host.start(Order, run_id="one")
        done = command("diff", "one", "one", world.path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no difference\n", "")
    assert "diff" in command("--help").stdout
    assert "Exit code 0 says that they are equal" in " ".join(
        command("diff", "--help").stdout.split()
    )
