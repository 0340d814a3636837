"""A fork of a run: a file of its own, on which a host calls nothing and nothing moves by itself."""

from __future__ import annotations

import fcntl
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, Machine, NotDone, UnsettledEffectError, child, effect, gate, timeout
from machines.approvals import approval
from snapshots import Mailbox, RunNotFoundError, open_store
from snapshots.clock import Clock
from snapshots.database.errors import TargetExistsError
from snapshots.errors import (
    InvalidKeyError,
    StorageBusyError,
    StorageError,
    StorageUnavailableError,
)
from snapshots.inspection.copies.disarming import HELD_MS
from snapshots.inspection.copies.forking import Fork, fork
from snapshots.storage.scopes import Scope
from snapshots.testing import ManualClock
from tests.host.world import Outside, World, ring, settled, until

DAY_MS = 86_400_000
SCOPE = Scope(workflow="works")


class Works:
    """A chart that does everything at once, and an outside that counts what reaches it."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        for name in ("charge", "sure", "probed", "inner", "working"):
            outside.hold(name)
        outside.answers("refused", PermissionError("no"))
        outside.answers("busy", *[ConnectionRefusedError("full")] * 50)
        self.machine = Machine(self._chart(), name="Works")

    def _chart(self) -> type[StateChart[Any]]:
        call, outside = self.outside.service, self.outside

        async def working(ctx: Any) -> None:
            outside.calls.append(("working", str(ctx.invokeid)))
            await outside.hold("working").wait()

        async def probe(key: str) -> NotDone:
            outside.calls.append(("probe", key))
            return NotDone()

        class Inner(StateChart[Any]):
            begun = State(initial=True, invoke=effect(call("inner")))
            over = State(final=True)
            done_invoke_begun = begun.to(over)

        class WorksChart(StateChart[Any]):
            idle = State(initial=True)

            class Everything(State.Parallel):
                class Charging(State.Compound):
                    calling = State(initial=True, invoke=effect(call("charge")))
                    charged = State()
                    done_invoke_calling = calling.to(charged, on="keep")

                class Certain(State.Compound):
                    repeating = State(initial=True, invoke=effect(call("sure"), idempotent=True))

                class Asking(State.Compound):
                    probing = State(initial=True, invoke=effect(call("probed"), probe=probe))

                class Trying(State.Compound):
                    again = State(
                        initial=True,
                        invoke=effect(
                            call("busy"),
                            retries=40,
                            retry_on=ConnectionRefusedError,
                            backoff=lambda _: 3_600.0,
                        ),
                    )

                class Settling(State.Compound):
                    doing = State(initial=True, invoke=effect(call("quick")))
                    did = State(invoke=effect(call("refused"), failed_on=PermissionError))
                    sad = State()
                    done_invoke_doing = doing.to(did)
                    error_execution = did.to(sad)

                class Plain(State.Compound):
                    busy = State(initial=True, invoke=working)

                class Inside(State.Compound):
                    nested = State(initial=True, invoke=child(Inner))

                class Waiting(State.Compound):
                    review = State(initial=True, invoke=gate("approve"))
                    formal = State(invoke=approval("allow", correlation="order-7"))
                    approve = review.to(formal)

                class Timed(State.Compound):
                    soon = State(initial=True, invoke=timeout(60, on="late"))
                    past = State(invoke=effect(call("reminder")))
                    late = soon.to(past)

            go = idle.to(Everything)

            def keep(self, data: Any) -> None:
                self.model.receipt = data

        return WorksChart


def spying(host: Host) -> list[dict[str, Any]]:
    """Keep all that a host writes of its runs from here on: what each row held, in order."""
    written: list[dict[str, Any]] = []
    store: Any = host.store
    for verb in ("create", "save"):
        function = getattr(store, verb)

        def keeping(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
            header = _function(*args, **kwargs)
            blob = bytes(kwargs["blob"] if "blob" in kwargs else args[1])
            written.append({"header": header, "blob": blob})
            return header

        setattr(store, verb, keeping)
    return written


def calls(outside: Outside) -> list[str]:
    """Return the names of all that was called, in order."""
    return [name for name, _ in outside.calls]


def shape_of(world: World) -> bytes:
    """Return the one shape that a world's file has."""
    with world.opened() as store:
        found = store.shape(store.headers()[0].digest)
    assert found is not None
    return found


def new_files(folder: Path) -> list[str]:
    """Return the files of a folder beside the world's own."""
    return sorted(path.name for path in folder.iterdir() if "state" not in path.name)


def mode_of(path: str) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(Path(path).stat().st_mode)


async def opened_in_peace(path: Path, machine: Machine, clock: Clock, outside: Outside) -> str:
    """Open a fork as any host would, long after, build its run, and see that nothing happens."""
    before = list(outside.calls)
    async with Host(path, [machine], clock=clock, verify=True, approvals=SCOPE) as host:
        (run_id,) = (header.run_id for header in host.store.headers())
        assert str(host.report).startswith("1 resumed, 0 not resumed")
        was = host.store.load(run_id)
        live = host.live(run_id)
        ring(host)
        await settled()
        assert not live.tree.turn
        assert host.store.load(run_id) == was, "it wrote without being asked"
    assert outside.calls == before
    return run_id


@pytest.fixture
def works(outside: Outside) -> Works:
    """Return the chart that does everything."""
    return Works(outside)


async def test_a_fork_of_a_run_that_does_everything_calls_nothing(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """Effects in every state, a plain invoke, a child, a timer, gates: all stand still."""
    async with world.host(works.machine, approvals=SCOPE, grace_s=0) as host:
        run = await host.start("Works", run_id="all")
        await host.send(run, "go")
        await until(lambda: "refused" in calls(outside) and "inner" in calls(outside))
        await until(lambda: world.effects(run).count("intent") == 1)
        await host.answer(run, "review", "approve")
        assert sorted(world.effects(run)) == [
            *["calling"] * 4,
            *("done", "failed", "intent"),
        ]
        made = fork(world.path, run, tmp_path / "fork.db", clock=world.clock)
        assert world.status(run) == "live"
    assert isinstance(made, Fork)
    assert (made.run_id, made.status, made.mail_left) == ("all", "live", 0)
    told = made.disarmed
    assert len(told.effects) == 5
    assert told.invokes == [f"busy.{told.invokes[0].rpartition('.')[2]}"]
    assert (told.timers, told.queued, told.approvals, told.not_begun) == (1, 0, 1, [])
    assert mode_of(made.path) == 0o600

    later = ManualClock(world.clock.now_ms() + 400 * DAY_MS)
    await opened_in_peace(Path(made.path), works.machine, later, outside)
    seen = World(Path(made.path), later, outside)
    assert sorted(seen.effects("all")) == ["done", "failed", *["unknown"] * 5]
    assert seen.configuration("all") == world.configuration("all")
    rows = seen.blob("all")["effects"]
    assert "approval" not in json.dumps(seen.blob("all")["root"])
    reasons = [row["error"]["message"] for row in rows if row["status"] == "unknown"]
    assert sum("about to be called" in reason for reason in reasons) == 1
    assert sum("under way" in reason for reason in reasons) == 4


async def test_every_snapshot_that_a_run_ever_wrote_forks_into_peace(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """Also those between a save and what it allows: nothing of them begins in a fork."""
    async with world.host(works.machine, approvals=SCOPE, grace_s=0) as host:
        written = spying(host)
        run = await host.start("Works", run_id="all")
        await host.send(run, "go")
        await until(lambda: "refused" in calls(outside) and "inner" in calls(outside))
        world.clock.advance(61_000)
        ring(host)
        await until(lambda: "reminder" in calls(outside))
        outside.hold("charge").set()
        await until(lambda: "charged" in world.configuration(run))
    blobs = [(entry["header"], entry["blob"]) for entry in written]
    assert len(blobs) > 10
    shape, pending, queued = shape_of(world), 0, 0
    for number, (header, blob) in enumerate(blobs):
        path = tmp_path / f"at-{number}.db"
        with open_store(path, clock=world.clock) as store:
            store.create(
                run_id=header.run_id,
                machine=header.machine,
                digest=header.digest,
                shape=shape,
                blob=blob,
                due_ms=header.due_ms,
                parked=header.parked,
            )
        made = fork(path, "all", tmp_path / f"fork-{number}.db", clock=world.clock)
        pending += b'"pending"' in blob
        queued += made.disarmed.queued
        later = ManualClock(world.clock.now_ms() + 400 * DAY_MS)
        await opened_in_peace(Path(made.path), works.machine, later, outside)
    assert pending > 2, "no snapshot was of the moment before something begins"
    assert queued > 0, "no snapshot had an event on its queue"


async def begun(world: World, works: Works, outside: Outside) -> None:
    """Leave a run behind that does everything, its host gone."""
    async with world.host(works.machine, approvals=SCOPE, grace_s=0) as host:
        await host.start("Works", run_id="all")
        await host.send("all", "go")
        await until(lambda: "refused" in calls(outside) and "inner" in calls(outside))
        await until(lambda: world.effects("all").count("intent") == 1)


async def test_a_fork_goes_on_by_hand(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """Gates are answered, outcomes are sent as events, an effect is settled; none is called."""
    await begun(world, works, outside)
    made = fork(world.path, "all", tmp_path / "fork.db", clock=world.clock)
    before = list(outside.calls)
    seen = World(Path(made.path), world.clock, outside)
    async with seen.host(works.machine, approvals=SCOPE) as host:
        doubtful = [row for row in seen.blob("all")["effects"] if row["status"] == "unknown"]
        for row in doubtful:
            with pytest.raises(UnsettledEffectError, match="nobody waits"):
                await host.resolve("all", row["id"], again=True)
        charge = next(row for row in doubtful if "/calling." in row["id"])
        await host.resolve("all", charge["id"], done="a receipt")
        invoke = charge["id"].rpartition("/")[2]
        await host.send("all", f"done.invoke.{invoke}", data="a receipt")
        await host.answer("all", "review", "approve")
        assert {"charged", "formal"} <= set(seen.configuration("all"))
        assert seen.blob("all")["root"]["context"]["receipt"] == "a receipt"
    assert outside.calls == before


async def test_what_is_held_happens_when_the_clock_is_turned_there(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """A timer that was pending in the original fires at its place behind `HELD_MS`, once."""
    await begun(world, works, outside)
    made = fork(world.path, "all", tmp_path / "fork.db", clock=world.clock)
    seen, later = World(Path(made.path), world.clock, outside), ManualClock(HELD_MS - 1)
    seen.clock = later
    async with seen.host(works.machine, approvals=SCOPE, grace_s=0) as host:
        ring(host)
        await settled()
        assert "soon" in seen.configuration("all")
        later.advance(1)
        ring(host)
        await until(lambda: "past" in seen.configuration("all"))
    # What the run enters from there on is an effect as any other.
    assert calls(outside).count("reminder") == 1


async def test_a_fork_under_another_id_keeps_its_idempotency_keys(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """Its effects have ids of the new run; what was called before is known by its former key."""
    await begun(world, works, outside)
    target = tmp_path / "fork.db"
    made = fork(world.path, "al", target, run_id="again", clock=world.clock)
    assert (made.run_id, made.source_run_id) == ("again", "all")
    assert await opened_in_peace(target, works.machine, world.clock, outside) == "again"
    rows = World(target, world.clock, outside).blob("again")["effects"]
    assert len(rows) == 7
    assert all(row["id"].startswith("again/") for row in rows)
    assert all(row["key"].startswith("all/") for row in rows)


async def test_a_fork_is_made_of_a_run_in_any_status(
    world: World, outside: Outside, tmp_path: Path
) -> None:
    """One that has ended keeps its status, and a revived one calls nothing either."""

    class Pays(StateChart[Any]):
        idle = State(initial=True)
        paying = State(invoke=effect(outside.service("charge")))
        over = State(final=True)
        pay = idle.to(paying)
        finish = paying.to(over)

    outside.hold("charge")
    async with world.host(Pays, grace_s=0) as host:
        for run in ("gone", "dead", "ended"):
            await host.start(Pays, run_id=run)
            await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 3)
        await host.cancel("gone")
        await host.send("ended", "finish")
    with world.opened(read_only=False) as store:
        store.mark(store.load("dead").header, "error", "it died")
    before = list(outside.calls)
    for run, status in (("gone", "cancelled"), ("ended", "done"), ("dead", "error")):
        made = fork(world.path, run, tmp_path / f"{run}.db", clock=world.clock)
        assert made.status == status
        seen = World(Path(made.path), world.clock, outside)
        assert seen.status(run) == status
        async with seen.host(Pays) as host:
            assert host.report.resumed == []
            if status == "error":
                await host.revive(run)
                await settled()
                assert seen.status(run) == "live"
                assert seen.configuration(run) == ["paying"]
    assert outside.calls == before


async def test_what_waits_in_the_mailbox_stays_behind(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """The fork's own mailbox is empty, and says how much it left."""
    await begun(world, works, outside)
    with world.opened(read_only=False) as store:
        Mailbox(store).put("all", "send", b'{"event": "late", "data": {}}')
    made = fork(world.path, "all", tmp_path / "fork.db", clock=world.clock)
    assert made.mail_left == 1
    with open_store(made.path, read_only=True) as store:
        assert Mailbox(store).pending() == []
        assert store.owner() is None
    with world.opened() as store:
        assert len(Mailbox(store).pending()) == 1


async def test_nothing_is_written_over_or_left_behind(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """A target that exists, an id that no run may have, a run that is not there: no file."""
    await begun(world, works, outside)
    taken, free = tmp_path / "taken.db", tmp_path / "free.db"
    taken.write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match="fork failed"):
        fork(world.path, "all", taken)
    with pytest.raises(TargetExistsError):
        fork(world.path, "all", world.path)
    with pytest.raises(InvalidKeyError):
        fork(world.path, "all", free, run_id="a\nb")
    with pytest.raises(RunNotFoundError):
        fork(world.path, "nobody", free)
    assert taken.read_bytes() == b"mine"
    assert new_files(tmp_path) == ["taken.db"]


async def test_what_keeps_a_fork_from_being_made_names_the_fork(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """And not the copy or the creation that it is made of; what else is said stays."""
    await begun(world, works, outside)
    (tmp_path / "beside.db-wal").write_bytes(b"mine")
    refused: dict[str, type[StorageError]] = {
        "beside.db": TargetExistsError,
        "nowhere/fork.db": StorageUnavailableError,
        "busy.db": StorageBusyError,
    }
    with (tmp_path / "busy.db.unfinished-backup").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for target, kind in refused.items():
            with pytest.raises(kind, match=r"^fork failed on") as caught:
                fork(world.path, "all", tmp_path / target)
            assert caught.value.operation == "fork"
            assert "backup" not in str(caught.value).replace("unfinished-backup", "")
    with pytest.raises(StorageError, match=r"^fork failed on ':memory:'"):
        fork(world.path, "all", ":memory:")


async def test_the_original_neither_waits_nor_changes(
    world: World, works: Works, outside: Outside, tmp_path: Path
) -> None:
    """A fork is made in the middle of the original's own transaction, and reads what was before."""
    await begun(world, works, outside)
    before = world.stored("all")
    with world.opened(read_only=False) as store, store.transaction():
        store.mark(store.load("all").header, "lost", "by this transaction")
        made = fork(world.path, "all", tmp_path / "fork.db", clock=world.clock)
        assert made.status == "live"
    after = world.stored("all")
    assert (after.header.status, after.blob) == ("lost", before.blob)
