"""A run that loops through an effect: what it grows by, what a pass costs, and where it ends."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import effect, open_run
from snapshots import limits, open_store
from snapshots.codec import Codec
from snapshots.errors import LimitError
from snapshots.layout import unfold_blob
from snapshots.testing import ManualClock
from tests.host.charts import mailer
from tests.host.world import World, at_rest, until

PASSES = 10_000
GROWTH_BYTES = 11
"""What a pass adds to the blob at most, once its row is folded with others."""


def called(key: str) -> dict[str, Any]:
    """Be the outside, whose answer is long."""
    return {"key": key, "lines": ["…"] * 20}


def looping(passed: Callable[[int], None]) -> type[StateChart[Any]]:
    """Return a chart that calls the outside `PASSES` times, and tells of each time."""

    class Loop(StateChart):
        a = State(initial=True, invoke=effect(called, kind="k"))
        b = State(final=True)
        done_invoke_a = a.to(a, cond="is_to_go_on", on="tell") | a.to(b)

        def is_to_go_on(self) -> bool:
            return self.model.passed < PASSES

        def tell(self) -> None:
            self.model.passed += 1
            passed(self.model.passed)

    return Loop


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what codecs encode, by the ledger or the part of the blob, and the bytes of it all."""
    counted: Counter[str] = Counter()
    encode = Codec.encode

    def counting(codec: Codec, value: object, *, root: str = "value", omit: Any = ()) -> bytes:
        data = encode(codec, value, root=root, omit=omit)
        counted[re.split(r"\[| r/", root)[0]] += 1
        counted["bytes"] += len(data)
        return data

    monkeypatch.setattr(Codec, "encode", counting)
    return counted


@pytest.mark.timeout(180)  # thirty thousand saves, of 400 KB each on average
def test_pass_10000_encodes_what_pass_100_did(encoded: Counter[str]) -> None:
    """A pass adds a few bytes to the blob, and encodes its own row and no other."""
    moments = {99, 100, PASSES - 1, PASSES}
    asked: dict[int, Counter[str]] = {}
    sizes: dict[int, int] = {}

    def passed(number: int) -> None:
        if number in moments:
            asked[number] = encoded.copy()
            sizes[number] = len(store.load("r").blob)

    with open_store(":memory:") as store:
        with open_run(store, looping(passed), "r", {"passed": 0}, clock=ManualClock()) as chart:
            assert chart.model.passed == PASSES
        blob = store.load("r").blob

    early, late = asked[100] - asked[99], asked[PASSES] - asked[PASSES - 1]
    # Numbers have more digits by then: of the step, of the event, and of the effect wherever it is.
    assert 0 <= late["bytes"] - early["bytes"] < 100
    assert {**late, "bytes": 0} == {**early, "bytes": 0}
    # With each intent the row before has its tail, with each call it has lost it, and is closed.
    assert early["effects"] == len(["tail", "intent", "final", "calling", "done"])

    grown = sizes[PASSES] - sizes[100]
    # Its row takes 77 bytes while it is open, and an eighth of that once it is folded with others.
    assert grown <= (PASSES - 100) * GROWTH_BYTES
    assert grown > (PASSES - 100) * (GROWTH_BYTES - 3), "the bound above is not a wide one"
    rows = unfold_blob(json.loads(blob), "r")["effects"]
    assert [row["id"] for row in rows] == [f"r/a.{n}" for n in range(1, PASSES + 2)]
    assert {row["status"] for row in rows} == {"done"}
    assert not any("tail" in row for row in rows)


async def test_a_restart_does_not_keep_a_tail_for_ever(world: World) -> None:
    """The process died between the save of a transition and the next, which drops the tail."""
    chart = mailer(world.outside.service("mail"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "again")
        await at_rest(host, run)
        after = world.after_kill()
    assert after.blob(run)["effects"][0]["tail"] == "mail done"
    stored = after.stored(run)
    async with after.host(chart) as host:
        await host.read(run)
        assert after.stored(run) == stored
        await host.send(run, "again")
        await at_rest(host, run)
        assert "tail" not in after.blob(run)["effects"][0]
        assert after.effects(run) == ["done", "done"]


class Notebook(StateChart):
    """A chart that writes down what it is told, and calls the outside each time."""

    idle = State(initial=True)
    busy = State(invoke=effect(called, kind="k"))
    write = idle.to(busy, on="note")
    done_invoke_busy = busy.to(idle)

    def note(self, text: str) -> None:
        self.model.text = text


async def test_a_step_that_would_pass_the_limit_of_the_blob_is_refused_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender is told run and bound; the last good row stays, and the run goes on from it."""
    async with world.host(Notebook) as host:
        run = await host.start(Notebook, run_id="notes")
        for number in range(70):
            await host.send(run, "write", text=str(number))
            await at_rest(host, run)
        before = world.stored(run)
        monkeypatch.setattr(limits, "BLOB_BYTES_MAX", len(before.blob) + 2_000)
        with pytest.raises(LimitError, match=r"in run 'notes' is .*, expected at most") as refused:
            await host.send(run, "write", text="x" * 40_000)
        assert (refused.value.run_id, refused.value.limit) == (run, len(before.blob) + 2_000)
        after = world.stored(run)
        assert (after.header.status, after.blob) == ("live", before.blob)
        assert (await host.read(run)).context == {"text": "69"}
        await host.send(run, "write", text="short")
        await at_rest(host, run)
        assert world.effects(run) == ["done"] * 71


async def test_what_a_ledger_would_add_beyond_the_limit_is_refused_and_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row and the ledger in memory are as they were before."""
    async with world.host(Notebook) as host:
        run = await host.start(Notebook, run_id="notes")
        books = await host.ledgers(run)
        books.admissions.record("job-1", key="job")
        before = world.stored(run)
        monkeypatch.setattr(limits, "BLOB_BYTES_MAX", len(before.blob) + 100)
        with pytest.raises(LimitError, match="in run 'notes'"):
            books.admissions.record("x" * 200, key="other")
        assert world.stored(run).blob == before.blob
        assert [row.key for row in books.admissions.open()] == ["job"]
        books.admissions.advance(7, "job")
        assert world.blob(run)["admissions"]["job"]["offset"] == 7


async def test_a_terminal_write_always_fits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run at its limit, with a call under way that will never be known, can be cancelled."""
    held = world.outside.hold("mail")

    class Mailing(StateChart):
        idle = State(initial=True)
        sending = State(invoke=effect(world.outside.service("mail"), kind="mail"))
        begin = idle.to(sending)
        write = sending.to(sending, internal=True, on="note")
        done_invoke_sending = sending.to(idle)

        def note(self, text: str) -> None:
            self.model.text = text

    async with world.host(Mailing) as host:
        run = await host.start(Mailing, run_id="full")
        await host.send(run, "begin")
        await until(lambda: world.effects(run) == ["calling"])
        # The row is as long as it may be, and its end makes it longer: the call becomes `unknown`.
        monkeypatch.setattr(limits, "BLOB_BYTES_MAX", len(world.stored(run).blob))
        with pytest.raises(LimitError, match="in run 'full'"):
            await host.send(run, "write", text="more")
        await host.cancel(run, "full")
        stored = world.stored(run)
        assert (stored.header.status, stored.header.reason) == ("cancelled", "full")
        assert world.effects(run) == ["unknown"]
        held.set()
