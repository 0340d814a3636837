"""What a host tells: each thing that happens, in its order, behind the save that made it so."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Machine, Migration, child, open_run
from machines.telemetry import KINDS
from snapshots import SqliteSnapshotStore, open_storage, open_store
from snapshots.errors import FencedError, RunNotFoundError, StorageReadOnlyError
from snapshots.storage import Scope
from tests.host.charts import Door, Review, Strict, careful, checkout, mailer
from tests.host.letterbox import Letterbox
from tests.host.listening import Heard, lines
from tests.host.world import (
    Disk,
    Outside,
    World,
    at_rest,
    ended,
    ring,
    settled,
    statuses,
    until,
)

GONE = "reconcile found its outside world gone"
LOG_RECORD = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}


def of_runs(kinds: list[str]) -> list[str]:
    """Return the kinds that are of runs."""
    return [kind for kind in kinds if not kind.startswith(("host", "sweep"))]


# -- lines ----------------------------------------------------------------------------------------


async def test_a_run_is_told_from_its_start_to_its_end(world: World, outside: Outside) -> None:
    """Steps, saves, the call, its outcome and the end, in the order in which they happened."""
    chart = checkout(outside.service("charge"))
    with lines() as log:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
    assert of_runs(log.kinds) == [
        "machine.step", "snapshot.save", "run.started",
        "machine.step", "snapshot.save",
        "snapshot.save", "effect.call",
        "snapshot.save", "effect.outcome",
        "machine.step", "snapshot.save", "run.ended",
    ]  # fmt: skip
    assert {record.run_id for record in log.records} == {run, ""}


async def test_a_line_says_what_its_kind_promises(world: World, outside: Outside) -> None:
    """Run, machine, state and the fields of the kind are in the record, the text is one line."""
    chart = checkout(outside.service("charge"))
    with lines() as log:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
    paying = log.of("machine.step")[1]
    assert (paying.run_id, paying.machine, paying.state) == (run, "Checkout", "paying")
    assert (paying.event, paying.path, paying.step) == ("pay", "", 2)
    assert paying.ms > 0
    assert paying.name == "machines"
    assert paying.getMessage().startswith(
        f"machine.step run={run} machine=Checkout state=paying event=pay step=2 ms="
    )
    save = log.of("snapshot.save")[-1]
    assert save.name == "snapshots"
    assert (save.status, save.bytes) == ("done", len(world.stored(run).blob))
    assert save.revision == world.stored(run).header.revision
    [outcome] = log.of("effect.outcome")
    assert (outcome.status, outcome.attempt, outcome.call) == ("done", 1, "charge")
    assert outcome.effect == f"{run}/paying.1"
    assert outcome.levelno == logging.INFO
    assert outcome.ms is not None
    assert all("\n" not in record.getMessage() for record in log.records)


async def test_every_line_has_the_fields_of_its_kind(world: World, outside: Outside) -> None:
    """No field is missing, and none is there that the table does not name."""
    chart = checkout(outside.service("charge"))
    with lines() as log:
        async with world.host(chart, Strict) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
            strict = await host.start(Strict)
            with pytest.raises(ValueError, match="smashed"):
                await host.send(strict, "smash")
            await host.sweep()
    always = {"kind", "run_id", "machine", "state"}
    for record in log.records:
        kind = KINDS[record.kind]
        assert vars(record).keys() - LOG_RECORD == always | set(kind.fields), record.kind
        assert record.name == kind.logger
    assert {"sweep", "host.started", "host.stopped", "machine.raised"} <= set(log.kinds)


def test_no_field_has_the_name_of_a_record_of_its_own() -> None:
    """`logging` refuses an extra field that it has itself."""
    for kind in KINDS.values():
        assert not LOG_RECORD & {*kind.fields, "kind", "run_id", "machine", "state"}


async def test_text_from_outside_stays_on_one_line(world: World) -> None:
    """A reason with a line break cannot forge a second line."""
    with lines() as log:
        async with world.host(Door) as host:
            run = await host.start(Door)
            await host.cancel(run, "gone\nrun.error run=x")
    [record] = log.of("run.ended")
    assert record.reason == "gone\nrun.error run=x"
    assert record.getMessage().endswith(r"reason='gone\nrun.error run=x'")


async def test_levels_decide_what_is_written(world: World, outside: Outside) -> None:
    """At INFO there is no line of a step or a save, at WARNING none of an ordinary outcome."""
    chart = checkout(outside.service("charge"))
    for level, expected in (
        (logging.INFO, ["run.started", "effect.outcome", "run.ended"]),
        (logging.WARNING, []),
    ):
        with lines(level) as log:
            async with world.host(chart) as host:
                assert host.told.each is False
                run = await host.start(chart)
                await host.send(run, "pay")
                await ended(host, run)
        assert of_runs(log.kinds) == expected


async def test_a_level_that_is_set_later_counts(world: World) -> None:
    """The host looks again as it looks into its mailbox."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        with lines() as log:
            await until(lambda: host.told.each)
            await host.send(run, "push")
            assert log.kinds.count("machine.step") == 1
        await until(lambda: not host.told.each)


async def test_an_effect_in_doubt_is_a_warning(world: World, outside: Outside) -> None:
    """An error that proves nothing leaves the outcome unknown, and who reads the log sees it."""
    chart = checkout(outside.service("charge"))
    outside.answers("charge", ConnectionResetError("cut off"))
    with lines(logging.WARNING) as log:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await until(lambda: statuses(host, run) == ["unknown"])
            assert [record.kind for record in log.records] == ["effect.outcome"]
            await host.resolve(run, "paying.1", done="found")
            await ended(host, run)
    [record] = log.records
    assert (record.status, record.levelno) == ("unknown", logging.WARNING)
    assert record.reason == "ConnectionResetError: cut off"


async def test_a_call_that_the_end_of_its_run_hides_is_a_warning(
    world: World, outside: Outside
) -> None:
    """A run is cancelled while its call is under way: nobody will know what became of it."""
    chart = checkout(outside.service("charge"))
    answer = outside.hold("charge")
    with lines(logging.WARNING) as log:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await until(lambda: outside.count("charge") == 1)
            await host.cancel(run)
            answer.set()
    assert [(record.kind, record.status) for record in log.records] == [
        ("effect.outcome", "unknown")
    ]


async def test_a_swallowed_error_is_told(world: World) -> None:
    """A chart that catches errors as events and has no transition for one loses it silently."""

    class Careless(StateChart):
        calm = State(initial=True)
        busy = State()
        go = calm.to(busy) | busy.to(calm)

        def on_go(self) -> None:
            message = "dropped"
            raise ValueError(message)

    with lines(logging.WARNING) as log:
        async with world.host(Careless) as host:
            run = await host.start(Careless)
            await host.send(run, "go")
    [record] = log.records
    assert (record.kind, record.reason) == ("machine.swallowed", "ValueError: dropped")


async def test_what_becomes_of_runs_is_told(world: World, outside: Outside) -> None:
    """Errors, drift, loss, revival, migration and what could not be taken up, each by its run."""

    class Mailing(Strict):
        def on_smash(self) -> None:
            message = "smashed"
            raise ValueError(message)

    old = Machine(Review, name="moving")
    with lines(logging.INFO) as log:
        async with world.host(old, Mailing, Door) as host:
            moved = await host.start("moving")
            dead = await host.start(Mailing)
            gone = await host.start(Door)
            mails = Letterbox(world)
            with mails:
                mails.send(dead, "smash")
                await until(lambda: log.of("mail.settled"))
        assert log.of("mail.settled")[0].outcome.startswith("refused: ValueError")
        async with world.host(Machine(Door, name="moving")) as host:
            assert gone in host.report.resumed or gone in host.report.unresumed
    assert [record.run_id for record in log.of("run.drifted")] == [moved]
    assert {record.run_id for record in log.of("run.unresumed")} == {dead, gone}
    assert log.of("run.drifted")[0].machine == "moving"


async def test_a_run_that_dies_where_nobody_waits_is_an_error(world: World) -> None:
    """A timer's macrostep raises: the line is an error, with the exception's type and message."""

    class Fragile(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        burst = calm.to(over)

        def on_enter_calm(self) -> None:
            self.send("burst", delay=1000)

        def on_burst(self) -> None:
            message = "burst"
            raise ValueError(message)

    with lines(logging.ERROR) as log:
        async with world.host(Fragile) as host:
            run = await host.start(Fragile)
            world.clock.advance(1000)
            ring(host)
            await ended(host, run)
    [record] = log.records
    assert (record.kind, record.run_id) == ("run.error", run)
    assert record.reason == "ValueError: burst"


async def test_a_lost_run_and_a_revived_one_are_told(world: World, outside: Outside) -> None:
    """`reconcile` says that its outside world is gone; somebody revives it all the same."""
    chart = checkout(outside.service("charge"))
    outside.hold("charge")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 1)
        after = world.after_kill()
        outside.hold("charge").set()
    with lines(logging.INFO) as log:
        async with after.host(Machine(chart, reconcile=lambda _: False)) as host:
            assert run in host.report.lost
            await host.revive(run)
            await until(lambda: log.of("effect.outcome"))
    told = [(record.kind, getattr(record, "reason", None)) for record in log.records]
    assert ("run.lost", GONE) in told
    assert told.index(("run.lost", GONE)) < told.index(("run.revived", None))
    assert log.of("effect.outcome")[0].status == "unknown"


async def test_a_host_tells_of_itself(world: World) -> None:
    """Opened with what it found, taken over, fenced, stopped."""
    with lines(logging.INFO) as log:
        first = world.host(Door)
        await first.__aenter__()
        run = await first.start(Door)
        async with world.host(Door, take_over=True):
            with pytest.raises(FencedError):
                await first.send(run, "push")
            await first.stop()
    told = [record for record in log.records if record.kind.startswith("host.")]
    assert [record.kind for record in told] == [
        "host.started", "host.taken-over", "host.started", "host.fenced",
        "host.stopped", "host.stopped",
    ]  # fmt: skip
    assert (told[0].term, told[0].resumed) == (1, 0)
    assert (told[2].term, told[2].resumed) == (2, 1)


async def test_a_run_without_a_host_is_told_too(world: World, outside: Outside) -> None:
    """`open_run` writes the same lines."""
    chart = checkout(outside.blocking("charge"))
    with lines() as log, open_store(world.path) as store, open_run(store, chart, "o-1") as order:
        order.send("pay")
    assert [kind for kind in log.kinds if kind not in ("machine.step", "snapshot.save")] == [
        "run.started", "effect.call", "effect.outcome", "run.ended",
    ]  # fmt: skip
    assert log.kinds.count("machine.step") == 3


async def test_a_run_that_may_be_taken_back_is_not_told(world: World) -> None:
    """What `open_run` stores within a storage's transaction is not there before that is over."""
    scope = Scope(workflow="beside")

    def store_and_fail(store: SqliteSnapshotStore) -> None:
        with open_storage(store).transaction(scope), open_run(store, Door, "d-1"):
            assert store.load("d-1").header.status == "live"
            raise KeyError

    with lines() as log, open_store(world.path) as store:
        with pytest.raises(KeyError):
            store_and_fail(store)
        assert log.kinds == []
        with pytest.raises(RunNotFoundError):
            store.load("d-1")


# -- order ----------------------------------------------------------------------------------------


async def test_nothing_is_told_before_it_is_on_disk(world: World, outside: Outside) -> None:
    """While a line is written, another connection finds in the file what the line says."""
    chart = checkout(outside.service("charge"))
    seen: list[str] = []

    def look(record: Any) -> None:
        if not record.run_id or record.kind.startswith("host"):
            return
        stored = world.stored(record.run_id)
        seen.append(record.kind)
        if record.kind == "snapshot.save":
            assert stored.header.revision == record.revision
        elif record.kind == "machine.step":
            assert world.blob(record.run_id)["step"] == record.step
            assert world.configuration(record.run_id) == [record.state]
        elif record.kind == "effect.call":
            assert world.effects(record.run_id) == ["calling"]
        elif record.kind == "effect.outcome":
            assert world.effects(record.run_id) == [record.status]
        elif record.kind == "run.ended":
            assert stored.header.status == record.status

    with lines(look=look):
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
    looked_at = {"snapshot.save", "machine.step", "effect.call", "effect.outcome", "run.ended"}
    assert looked_at <= set(seen)


async def test_nothing_is_told_of_a_save_that_failed(world: World) -> None:
    """The step that could not be saved did not happen; the one that is tried again is told once."""
    with lines() as log:
        async with world.host(Door) as host:
            run = await host.start(Door)
            before = len(log.records)
            disk = Disk(host)
            disk.fail_once()
            with pytest.raises(StorageReadOnlyError):
                await host.send(run, "push")
            assert [record.kind for record in log.records[before:]] == ["run.stalled"]
            await at_rest(host, run)
            await host.send(run, "push")
    assert [record.event for record in log.of("machine.step")] == ["__initial__", "push"]


async def test_an_outcome_that_waits_for_the_disk_is_told_when_it_is_there(
    world: World, outside: Outside
) -> None:
    """The file refuses the outcome: it is kept in memory, and told once a save holds it."""
    chart = checkout(outside.service("charge"))
    answer = outside.hold("charge")
    with lines() as log:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await until(lambda: outside.count("charge") == 1)
            disk = Disk(host)
            disk.fail_always()
            answer.set()
            await until(lambda: log.of("run.stalled"))
            assert not log.of("effect.outcome")
            disk.heal()
            await ended(host, run)
    [outcome] = log.of("effect.outcome")
    assert outcome.status == "done"


async def test_a_start_that_raises_is_not_told(world: World) -> None:
    """Nothing is stored of it, and nothing is said."""

    class Stillborn(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        go = calm.to(over)

        def on_enter_calm(self) -> None:
            message = "not today"
            raise ValueError(message)

    heard = Heard()
    async with world.host(Stillborn) as host:
        host.subscribe(heard)
        with pytest.raises(ValueError, match="not today"):
            await host.start(Stillborn)
        assert host.told._noted == {}
    assert of_runs(heard.kinds) == []


class Newer(StateChart):
    """The door of a later release."""

    shut = State(initial=True)
    ajar = State()
    gone = State(final=True)
    push = shut.to(ajar)
    remove = ajar.to(gone)


async def test_a_migration_is_told_behind_its_commit(world: World) -> None:
    """Its save first, then that the run was brought over; one that is rolled back is not told."""

    def fail() -> None:
        message = "the transaction is taken back"
        raise KeyError(message)

    async with world.host(Door) as host:
        run = await host.start(Door, run_id="d-1")
        digest = host.machines["Door"].digest
    async with world.host(Machine(Newer, name="Door")) as host:
        assert run in host.report.drifted
    newer = Machine(Newer, name="Door", migrations=[Migration(digest, lambda _: None)])
    heard = Heard()
    async with world.host(newer) as host:
        host.subscribe(heard)
        with pytest.raises(KeyError):
            host._revive(run, fail)
        await settled()
        assert of_runs(heard.kinds) == []
        await host.revive(run)
    kinds = of_runs(heard.kinds)
    assert kinds == ["snapshot.save", "run.migrated", "run.revived"]


async def test_mail_is_told_when_it_is_settled(world: World) -> None:
    """Taken and refused, by entry, what was asked and how it came out."""
    with lines() as log, Letterbox(world) as mails:
        async with world.host(Door) as host:
            run = await host.start(Door)
            first = mails.send(run, "push")
            second = mails.put("dance", run)
            await until(lambda: len(log.of("mail.settled")) == 2)
    taken, refused = log.of("mail.settled")
    assert (taken.entry, taken.asked, taken.outcome) == (first, "send", "taken")
    assert (refused.entry, refused.asked) == (second, "dance")
    assert refused.outcome.startswith("refused: ")


async def test_steps_of_charts_within_charts_say_where(world: World) -> None:
    """`path` names the chart that took the step, `state` its states."""

    class Inner(StateChart):
        one = State(initial=True)
        two = State(final=True)
        one.to(two)

    class Outer(StateChart):
        working = State(initial=True, invoke=child(Inner))
        over = State(final=True)
        done_invoke_working = working.to(over)

    with lines() as log:
        async with world.host(Outer) as host:
            run = await host.start(Outer)
            await ended(host, run)
    steps = [(record.path, record.state) for record in log.of("machine.step")]
    assert ("working.1", "two") in steps
    assert steps[-1] == ("", "over")


async def test_nothing_waits_for_a_save_when_all_is_told(world: World, outside: Outside) -> None:
    """With nobody listening to steps, a host at rest has nothing left to tell."""
    chart = mailer(outside.service("mail"))
    async with world.host(chart, careful(outside.service("charge"))) as host:
        run = await host.start(chart)
        for _ in range(3):
            await host.send(run, "again")
            await at_rest(host, run)
        assert host.told.hears is False
        assert host.told._noted == {}
