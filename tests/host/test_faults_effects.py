"""Faults of effects, gates and ownership: each was met in a system of this kind, none here.

What they are is told in `docs/faults.md`, each with its test.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import STALE, Host, Machine, Migration, effect, gate, timeout
from machines.errors import HostStoppedError, UnknownMachineError
from snapshots import Mailbox
from snapshots.errors import FencedError, RunExistsError
from snapshots.limits import RETENTION_MS
from tests.host import life
from tests.host.charts import Door, Review, Strict, checkout
from tests.host.lives import Lives
from tests.host.world import Outside, World, ended, resident, ring, settled, statuses, until
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, environment

YEAR_MS = 365 * 24 * 60 * 60 * 1000


# -- calls whose outcome nobody saw ----------------------------------------------------------------


async def test_a_call_killed_after_its_acceptance_is_in_doubt_at_whatever_age_and_not_repeated(
    lives: Lives,
) -> None:
    """Killed when the outside had accepted: boots and years settle nothing, a person does."""
    lives.die("pay", "charge")
    assert lives.world.effects("a") == ["calling"]
    for _ in range(3):
        lives.world.clock.advance(YEAR_MS)
        async with lives.host() as host:
            await until(lambda h=host: statuses(h, "a") == ["unknown"])
            await settled()
            assert (await host.read("a")).status == "live"
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    async with lives.host() as host:
        await host.resolve("a", "paying.1", done="it was in the bank's book")
        await ended(host, "a")
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.blob("a")["root"]["context"]["receipt"] == "it was in the bank's book"


async def test_of_two_effects_of_one_macrostep_the_second_is_called_after_a_death_between_them(
    lives: Lives,
) -> None:
    """Killed inside the first call of two: that one is in doubt, the other is called, once."""
    lives.die("twice", "charge")
    assert lives.world.effects("a") == ["calling", "intent"]
    async with lives.host() as host:
        await until(lambda: statuses(host, "a") == ["unknown", "done"])
        await settled()
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.log.lines("mail") == ["mail a/mailing.2"]


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a request, and end the connection without a word."""
    await reader.readline()
    writer.transport.abort()


@pytest.mark.parametrize("how", ["times out", "is cancelled", "loses its connection"])
async def test_a_call_that_is_cut_off_is_in_doubt_never_failed_and_never_retried(
    world: World, outside: Outside, how: str
) -> None:
    """The request was sent, and no answer proves anything: whatever ended the wait."""
    server = await asyncio.start_server(hangs_up, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()

    async def charge(key: str) -> bytes:
        outside.calls.append(("charge", key))
        if how == "times out":
            await asyncio.Event().wait()
        if how == "is cancelled":
            task = asyncio.create_task(asyncio.Event().wait())
            task.cancel()
            await task
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(b"charge\n")
            return await reader.readexactly(2)
        finally:
            writer.close()

    chart = checkout(charge, timeout=0.05 if how == "times out" else None)
    async with server:
        async with world.host(chart) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await until(lambda: statuses(host, run) == ["unknown"])
            await settled()
        async with world.host(chart):
            await settled()
    assert world.effects(run) == ["unknown"]
    assert world.status(run) == "live"
    assert world.configuration(run) == ["paying"]
    assert outside.count("charge") == 1


async def test_an_ordinary_stop_waits_for_calls_in_flight_and_leaves_nothing_in_doubt(
    world: World, outside: Outside
) -> None:
    """An ordinary shutdown leaves nothing in doubt: the outcome is recorded, the event queued."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    host = world.host(chart)
    await host.__aenter__()
    run = await host.start(chart)
    await host.send(run, "pay")
    await until(lambda: outside.count("charge") == 1)
    stopping = asyncio.create_task(host.stop())
    await settled()
    assert not stopping.done()
    outside.hold("charge").set()
    await stopping
    assert world.effects(run) == ["done"]
    assert world.status(run) == "done"


# -- gates -----------------------------------------------------------------------------------------


async def test_that_a_run_waits_is_announced_after_the_row_that_can_be_approved(
    world: World, outside: Outside
) -> None:
    """Who hears of it finds the gate on disk, and may approve at that very moment."""
    seen: list[Any] = []
    hosts: list[Any] = []

    async def announce(ctx: Any) -> None:
        (invoked, _) = world.blob(ctx.run_id)["root"]["invokes"]
        seen.append((invoked["kind"], invoked["key"]))
        seen.append(await hosts[0].answer(ctx.run_id, "waiting", "approve"))

    class Announces(StateChart):
        idle = State(initial=True)
        waiting = State(invoke=[gate("approve"), effect(announce)])
        approved = State(final=True)
        ask = idle.to(waiting)
        approve = waiting.to(approved)

        def on_approve(self) -> str:
            return "approved"

    async with world.host(Announces) as host:
        hosts.append(host)
        run = await host.start(Announces)
        await host.send(run, "ask")
        await ended(host, run)
    assert seen == [("gate", "waiting"), "approved"]
    assert world.status(run) == "done"


async def test_what_led_to_a_gate_does_not_run_again_however_often_it_is_resumed(
    lives: Lives,
) -> None:
    """A gate is a state: killed there three times, the run has charged, booked and asked once."""
    lives.die("ask", "waiting")
    before = lives.world.stored("a")
    for _ in range(2):
        lives.die("ask", "waiting")
    assert lives.world.stored("a") == before
    async with lives.host() as host:
        await host.answer("a", "asking", "approve")
        await host.settled("a")
        await host.send("a", "finish")
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.log.lines("booking") == ["booking"]
    assert lives.log.lines("asking") == ["asking"]
    assert lives.log.lines("mail") == ["mail a/mailing.3"]
    assert lives.world.status("a") == "done"


def approves(world: World) -> subprocess.Popen[str]:
    """Return a process that approves at the gate of run `a`."""
    arguments = ["answer", "a", "asking", "approve", str(world.path), "--json"]
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env=environment(),
    )


async def test_of_two_approvals_from_two_processes_one_wins_and_the_other_is_told_why(
    lives: Lives,
) -> None:
    """The loser hears that the gate has closed; what the approval leads to happens once."""
    async with lives.host() as host:
        await host.start(life.Asks, run_id="a")
        await host.settled("a")
        with approves(lives.world) as one, approves(lives.world) as other:
            await until(lambda: one.poll() is not None and other.poll() is not None, patience_s=20)
            assert one.stdout
            assert other.stdout
            told = [json.loads(one.stdout.read()), json.loads(other.stdout.read())]
        assert sorted([one.returncode, other.returncode]) == [0, 1]
        await host.settled("a")
    won, lost = sorted(told, key=lambda one: one["reason"] or "")
    assert (won["outcome"], lost["outcome"]) == ("taken", "refused")
    assert "gate 'asking' is not open" in lost["reason"]
    assert lives.log.lines("mail") == ["mail a/mailing.3"]
    assert lives.world.configuration("a") == ["mailed"]


# -- the mailbox -----------------------------------------------------------------------------------


def put(world: World, run: str, event: str, **data: Any) -> int:
    """Hand an event in from outside, as another process does, and return its number."""
    with world.opened(read_only=False) as store:
        content = json.dumps({"event": event, "data": data}).encode()
        return Mailbox(store).put(run, "send", content)


def outcome(world: World, entry: int) -> str | None:
    """Return what an entry of the mailbox was settled with, seen by another connection."""
    with world.opened() as store:
        found = Mailbox(store).entry(entry)
    assert found is not None
    return found.outcome


async def test_a_mailbox_event_that_causes_no_save_is_settled_with_its_refusal_and_never_run(
    world: World,
) -> None:
    """One that the chart does not take, and one that it raises at: the run's row stays as it is."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        before = world.stored(run)
        entries = [put(world, run, event) for event in ("repair", "smash", "note")]
        await until(lambda: outcome(world, entries[2]) is not None)
        refused = [outcome(world, entry) for entry in entries]
        assert "refused: TransitionNotAllowed" in str(refused[0])
        assert "refused: ValueError: smashed" in str(refused[1])
        assert refused[2] == "taken"
        assert world.saves(run) == 2
    async with world.host(Strict):
        await settled()
    assert [outcome(world, entry) for entry in entries] == refused
    assert world.saves(run) == 2
    assert before.header.status == world.status(run) == "live"


async def test_a_mailbox_event_that_is_in_a_saved_queue_is_settled_by_that_save_and_runs_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queued behind a long macrostep and saved with it, dead before it ran: not taken again."""
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.01)
    ends = {"a": asyncio.Event(), "b": asyncio.Event()}

    class Slow(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(on="keep")
        finish = calm.to(over)

        async def keep(self, text: str) -> None:
            await ends[text].wait()
            self.model.notes = [*getattr(self.model, "notes", []), text]

    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first = asyncio.create_task(host.send(run, "note", text="a"))
        await settled()
        entry = put(world, run, "note", text="b")
        await until(lambda: resident(host, run).tree.arrivals, "the event behind the macrostep")
        assert outcome(world, entry) is None
        ends["a"].set()
        await first
        await until(lambda: outcome(world, entry) == "taken")
        after = world.after_kill()
        ends["b"].set()
    assert [item["event"] for item in after.blob(run)["root"]["queue"]] == ["note"]
    assert after.blob(run)["root"]["context"] == {"notes": ["a"]}
    async with after.host(Slow) as host:
        await until(lambda: after.blob(run)["root"]["context"] == {"notes": ["a", "b"]})
        await settled()
        await host.send(run, "finish")
    assert after.blob(run)["root"]["context"] == {"notes": ["a", "b"]}
    assert outcome(after, entry) == "taken"


# -- one owner, one run of one id ------------------------------------------------------------------


async def wakes(host: Host, world: World, verb: str, run: str) -> None:
    """Have a former host write in one way, and be refused where somebody waits for that."""
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "save": lambda: host.send(run, "arm"),
        "start": lambda: host.start(Door),
        "sweep": host.sweep,
        "cancel": lambda: host.cancel(run),
    }
    if verb in acts:
        with pytest.raises(FencedError):
            await acts[verb]()
    elif verb == "timer":
        ring(host)
    elif verb == "mailbox":
        put(world, run, "arm")
    else:
        world.outside.hold("charge").set()


@pytest.mark.parametrize(
    "verb", ["save", "start", "sweep", "cancel", "timer", "outcome", "mailbox"]
)
async def test_each_write_of_a_host_that_wakes_after_a_takeover_is_refused_and_it_stops(
    world: World, outside: Outside, verb: str
) -> None:
    """Whatever it tries first, it finds out by that, writes nothing and takes nothing more."""

    class Timed(StateChart):
        idle = State(initial=True)
        late = State(final=True)
        arm = idle.to.itself(on="set_it")
        ring = idle.to(late)

        def set_it(self) -> None:
            self.send("ring", delay=5_000)

    chart = checkout(outside.service("charge"), idempotent=True)
    outside.hold("charge")
    first = world.host(Timed, chart, Door, grace_s=0)
    await first.__aenter__()
    timed = await first.start(Timed)
    await first.send(timed, "arm")
    paying = await first.start(chart)
    await first.send(paying, "pay")
    await until(lambda: outside.count("charge") == 1)
    swept = await first.start(Door)
    await first.send(swept, "remove")
    with world.opened(read_only=False) as store:
        store.take_over("somebody else")
    before = {run: world.stored(run) for run in (timed, paying, swept)}
    if verb in ("sweep", "timer"):
        world.clock.advance(RETENTION_MS + 1)
    await wakes(first, world, verb, timed)
    await until(lambda: first._stopped is not None, "the fence")
    assert str(first._stopped).startswith("fenced")
    await settled()
    assert {run: world.stored(run) for run in before} == before
    assert len(world.ids()) == 3
    with world.opened() as store:
        assert len(Mailbox(store).pending()) == (verb == "mailbox")
    with pytest.raises(HostStoppedError):
        await first.start(Door)
    await first.stop()


async def test_a_second_start_with_one_id_is_a_typed_conflict_and_the_first_run_untouched(
    world: World,
) -> None:
    """Same machine and input, another input, another machine: each is told apart."""

    class Other(StateChart):
        only = State(initial=True, final=True)

    async with world.host(Door, Other) as host:
        run = await host.start(Door, {"a": 1}, run_id="door-1")
        before = world.stored(run)
        with pytest.raises(RunExistsError) as same:
            await host.start(Door, {"a": 1}, run_id="door-1")
        with pytest.raises(RunExistsError) as different:
            await host.start(Door, {"a": 2}, run_id="door-1")
        with pytest.raises(RunExistsError) as elsewhere:
            await host.start(Other, {"a": 1}, run_id="door-1")
        assert world.stored(run) == before
    assert (same.value.same_machine, same.value.same_input) == (True, True)
    assert (different.value.same_machine, different.value.same_input) == (True, False)
    assert elsewhere.value.same_machine is False


async def test_a_start_that_died_before_its_first_save_was_not_acknowledged_and_left_nothing(
    lives: Lives,
) -> None:
    """Killed inside the first macrostep: no row, and the id is free."""
    lives.die("begin", "beginning")
    async with lives.host() as host:
        assert lives.world.ids() == []
        assert await host.start(life.Begins, run_id="a") == "a"


async def test_a_start_that_was_acknowledged_is_there_after_a_death(lives: Lives) -> None:
    """Killed directly after `start` returned."""
    lives.die("acknowledged", "started")
    async with lives.host() as host:
        assert host.report.resumed == ["a"]
        assert await host.send("a", "count", n=5) == 5


# -- deploys ---------------------------------------------------------------------------------------


async def test_a_deploy_that_forgets_a_machine_leaves_its_runs_live_for_the_next_one(
    world: World,
) -> None:
    """A deploy that forgets a machine stops its runs, and the next one that has it goes on."""
    async with world.host(Door, Review) as host:
        door = await host.start(Door)
        review = await host.start(Review)
        await host.send(review, "submit")
    before = world.stored(review)
    async with world.host(Door) as host:
        assert host.report.resumed == [door]
        assert "Review" in host.report.unresumed[review]
        with pytest.raises(UnknownMachineError):
            await host.answer(review, "review", "approve")
    assert world.stored(review) == before
    async with world.host(Door, Review) as host:
        await host.answer(review, "review", "approve")
    assert world.status(review) == "done"


def order(charge: Callable[..., Any], *, renamed: bool) -> Any:
    """Return a chart of one of two shapes: a state of the second has another name."""
    waits = [gate("approve", key="review"), timeout(60, on="late")]

    class Order(StateChart):
        paying = State(initial=True, invoke=effect(charge, kind="charge"))
        if renamed:
            checking = State(invoke=waits)
        else:
            review = State(invoke=waits)
        approved = State(final=True)
        given_up = State(final=True)

        done_invoke_paying = paying.to(checking if renamed else review)
        approve = (checking if renamed else review).to(approved)
        late = (checking if renamed else review).to(given_up)

    return Order


@pytest.mark.parametrize("mended", ["by the old shape", "by a migration"])
async def test_runs_that_a_bad_deploy_drifted_are_kept_whole_and_can_be_revived(
    world: World, outside: Outside, mended: str
) -> None:
    """All drifted at one boot: a call in doubt, an open gate, a timer; the next deploy has them."""
    charge = outside.service("charge")
    old, new = order(charge, renamed=False), order(charge, renamed=True)
    async with world.host(old, grace_s=0) as host:
        asked, late = await host.start(old), await host.start(old)
        for run in (asked, late):
            await until(lambda run=run: world.configuration(run) == ["review"])
        outside.hold("charge")
        doubted = await host.start(old)
        await until(lambda: outside.count("charge") == 3)
        after = world.after_kill()
    outside.hold("charge").set()
    runs = (asked, late, doubted)
    blobs = [after.stored(run).blob for run in runs]
    async with after.host(new) as host:
        assert sorted(host.report.drifted) == sorted(runs)
        assert "'review' is gone" in host.report.drifted[asked]
    assert [after.stored(run).blob for run in runs] == blobs
    assert [after.status(run) for run in runs] == ["drifted"] * 3
    migration = Migration(Machine(old).digest, states={"review": "checking"})
    machine = Machine(new, migrations=[migration]) if "migration" in mended else Machine(old)
    async with after.host(machine) as host:
        for run in runs:
            await host.revive(run)
        await until(lambda: statuses(host, doubted) == ["unknown"])
        await host.resolve(doubted, "paying.1", done="in the bank's book")
        await host.answer(asked, "review", "approve")
        await host.answer(doubted, "review", "approve")
        after.clock.advance(60_000)
        ring(host)
        await ended(host, late)
    assert [after.status(run) for run in runs] == ["done"] * 3
    assert after.configuration(late) == ["given_up"]
    assert outside.count("charge") == 3


# -- conversations ---------------------------------------------------------------------------------


async def test_an_answer_from_before_the_fault_that_burned_its_conversation_is_ignored(
    lives: Lives,
) -> None:
    """Killed when the chart heard of the fault: the next host asks anew, and knows what is old."""
    lives.die("burn", "burned")
    assert lives.world.blob("a")["epochs"] == {"talk": 1}
    async with lives.host() as host:
        await until(lambda: len(lives.log.lines("asking")) == 2)
        assert await host.send("a", "reply", text="late", epoch="talk/0") is STALE
        await settled()
        assert lives.world.configuration("a") == ["asking"]
        await host.send("a", "reply", text="in time", epoch="talk/1")
        assert await host.send("a", "reply", text="late", epoch="talk/0") is STALE
    assert lives.log.lines("asking") == ["asking talk/0", "asking talk/1"]
    assert lives.log.lines("told") == ["told in time"]
    assert lives.world.blob("a")["root"]["context"]["text"] == "in time"
