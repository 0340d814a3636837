"""The mailbox: what other processes hand in is taken once, in order, or refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from statemachine import Event, State, StateChart, StateMachine

from machines import TAKEN, Host, Machine, gate
from machines.errors import RunFinishedError, UnsettledEffectError
from machines.host.boxes import Boxes
from machines.limits import DELIVERY_CHARS_MAX
from snapshots.limits import (
    ERROR_TEXT_BYTES_MAX,
    MAILBOX_SETTLED_MS,
    MAILBOX_SLICE_ROWS,
    RETENTION_MS,
)
from snapshots.records import PendingEntry
from tests.host.charts import Door, Review, Strict, checkout, waiter
from tests.host.letterbox import Letterbox, looked
from tests.host.world import Disk, Outside, World, ended, resident, settled, until

HANDED_IN = """
insert into mailbox (run_id, kind, data, delivery, created_ms) values (?, ?, ?, ?, 0)"""
"""How a program of somebody else's hands something in."""


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have hosts look more often, and try again sooner, than they need to."""
    monkeypatch.setattr("machines.host.mail.MAIL_POLL_MS", 1)
    monkeypatch.setattr("machines.host.mail.SAVE_RETRY_MS", 1)


@pytest.fixture
def box(world: World) -> Iterator[Letterbox]:
    """Return the way into the mailbox of the world's file."""
    with Letterbox(world) as opened:
        yield opened


def slow(base: type[Any] = StateChart) -> tuple[Any, asyncio.Event, asyncio.Event]:
    """Return a chart whose work takes a while, what says that it began, and what lets it end."""
    begun, release = asyncio.Event(), asyncio.Event()

    class Slow(base):
        idle = State(initial=True)
        asking = State(invoke=gate("approve"))
        over = State(final=True)
        work = idle.to.itself()
        ask = idle.to(asking)
        note = idle.to.itself(internal=True)
        approve = asking.to(over)
        smash = idle.to.itself()
        finish = idle.to(over)
        end = idle.to(over, on="on_work")

        async def on_work(self) -> None:
            begun.set()
            await release.wait()

        async def on_note(self, text: str = "") -> None:
            self.model.notes = [*getattr(self.model, "notes", []), text]

        async def on_smash(self) -> None:
            self.model.smashed = True
            message = "smashed"
            raise ValueError(message)

    return Slow, begun, release


# -- each kind ----------------------------------------------------------------------------------


async def test_an_event_is_taken_and_has_run(world: World, box: Letterbox) -> None:
    """When the entry says so, the row holds what the event did."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await box.settled(box.send(run, "push", by="ann")) == ["taken"]
        assert world.configuration(run) == ["ajar"]
        assert world.blob(run)["root"]["context"]["by"] == "ann"


async def test_an_entry_is_settled_in_the_transaction_of_the_save_that_holds_it(
    world: World, box: Letterbox
) -> None:
    """Between a BEGIN and its COMMIT stand the run's update and the entry's, and no other write."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        said: list[str] = []
        host.store.database.trace_statements(lambda sql, _: said.append(" ".join(sql.split()[:2])))
        await box.settled(box.send(run, "push"))
        host.store.database.trace_statements(None)
    at = said.index("update mailbox")
    before, after = said[:at][::-1], said[at:]
    together = [*before[: before.index("begin immediate")][::-1], *after[: after.index("commit")]]
    assert [sql for sql in together if not sql.startswith("select")] == [
        "update runs",
        "update mailbox",
    ]


async def test_tagged_values_reach_the_callback_as_what_they_are(
    world: World, box: Letterbox
) -> None:
    """The data is decoded by the codec of the run's machine."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        entry = box.send(run, "note", text={"$": "tuple", "v": [1, {"$": "decimal", "v": "1.20"}]})
        assert await box.settled(entry) == ["taken"]
        (note,) = resident(host, run).tree.root.chart.model.notes
        assert repr(note) == "(1, Decimal('1.20'))"


async def test_a_gate_is_answered(world: World, box: Letterbox) -> None:
    """The answer goes to the gate that is named, with its data."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        assert await box.settled(box.answer(run, "review", "approve", note="ok")) == ["taken"]
    assert world.status(run) == "done"
    assert world.blob(run)["root"]["context"]["note"] == "ok"


async def in_doubt(host: Host, chart: Any) -> str:
    """Start a run whose call's outcome is hidden, and return its id."""
    run = await host.start(chart)
    await host.send(run, "pay")
    await until(lambda: [r.status for r in resident(host, run).ledgers.effects] == ["unknown"])
    return run


async def test_an_effect_in_doubt_is_settled_as_done(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """Its result leads on as if the call had returned it."""
    outside.answers("charge", ConnectionError("no answer"))
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        entry = box.put("resolve", run, effect="paying.1", attempt=1, done={"receipt": 7})
        assert await box.settled(entry) == ["taken"]
        await ended(host, run)
    assert world.status(run) == "done"
    assert world.blob(run)["root"]["context"]["receipt"] == {"receipt": 7}
    assert outside.count("charge") == 1


async def test_an_effect_in_doubt_is_settled_as_failed(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """The chart is told of an error with that text."""
    outside.answers("charge", ConnectionError("no answer"))
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        effect = f"{run}/paying.1"
        assert await box.settled(box.put("resolve", run, effect=effect, failed="not there")) == [
            "taken"
        ]
        await ended(host, run)
    assert world.blob(run)["root"]["context"]["why"] == "not there"


async def test_an_effect_in_doubt_is_called_again(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """Once: the entry is not there for another one."""
    outside.answers("charge", ConnectionError("no answer"))
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        entry = box.put("resolve", run, effect="paying.1", attempt=1, again=True)
        assert await box.settled(entry) == ["taken"]
        await ended(host, run)
    assert outside.count("charge") == 2
    assert world.status(run) == "done"


async def test_a_run_is_cancelled_with_the_reason(world: World, box: Letterbox) -> None:
    """Also one that only waits in its row, and one that gives no reason."""
    async with world.host(Door) as host:
        first, second = await host.start(Door), await host.start(Door)
        await host.unload(second)
        entries = box.put("cancel", first, reason="too late"), box.put("cancel", second)
        assert await box.settled(*entries) == ["taken", "taken"]
    assert (world.status(first), world.stored(first).header.reason) == ("cancelled", "too late")
    assert (world.status(second), world.stored(second).header.reason) == ("cancelled", "cancelled")


async def test_of_the_reason_for_a_cancellation_no_more_is_kept_than_of_an_error(
    world: World, box: Letterbox
) -> None:
    """It stands in the row's header, which every list of runs reads."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await box.settled(box.put("cancel", run, reason="x" * 100_000)) == ["taken"]
    assert world.stored(run).header.reason == "x" * ERROR_TEXT_BYTES_MAX


async def test_a_run_is_revived(world: World, box: Letterbox) -> None:
    """In the write that makes it live; then it goes on."""
    async with world.host(Door) as host:
        run = await host.start(Door)
    with world.opened(read_only=False) as store:
        store.mark(store.load(run).header, "lost", "its session is gone")
    async with world.host(Door) as host:
        entry = box.put("revive", run)
        assert await box.settled(entry) == ["taken"]
        assert world.status(run) == "live"
        assert await host.send(run, "push") == "pushed by nobody"


# -- what is refused ----------------------------------------------------------------------------


async def test_an_event_that_raises_is_refused_and_the_run_stays_live(
    world: World, box: Letterbox
) -> None:
    """The mailbox waits as a caller does: the model is put back, and what comes next runs."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        await host.send(run, "note", text="before")
        first, second = box.send(run, "smash"), box.send(run, "note", text="after")
        assert await box.refusal(first) == "ValueError: smashed"
        assert await box.settled(second) == ["taken"]
        view = await host.read(run)
    assert view.status == "live"
    assert view.context == {"notes": ["before", "after"]}


async def test_an_event_that_a_strict_chart_does_not_take_is_refused(
    world: World, box: Letterbox
) -> None:
    """The reason is the library's own."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        refusal = await box.refusal(box.send(run, "repair"))
        assert refusal.startswith("TransitionNotAllowed: Can't Repair")
        assert world.status(run) == "live"


async def test_an_event_that_a_lenient_chart_does_not_take_is_taken(
    world: World, box: Letterbox
) -> None:
    """It causes a save like any other, and that is where it is settled."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before = world.saves(run)
        assert await box.settled(box.send(run, "pull")) == ["taken"]
        assert world.saves(run) == before + 1
        assert world.configuration(run) == ["shut"]


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("send", {"event": "push", "data": {"state": 1}}, "uses the name 'state'"),
        ("send", {"event": "push", "data": {"by": {"$": "dream", "v": 1}}}, "its data cannot be"),
        ("send", {"event": "push", "data": {"$": "tuple", "v": [1]}}, "its data is no object"),
        ("send", {"event": "push", "data": [1]}, "its data is no object"),
        ("send", {"event": 7}, "its event is no text"),
        ("send", {}, "its event is no text"),
        ("send", {"event": "__initial__"}, "python-statemachine's own"),
        ("answer", {"event": "push"}, "its gate is no text"),
        ("answer", {"gate": "g", "event": "push"}, "gate 'g' is not open for it (open: none)"),
        ("resolve", {"done": 1}, "its effect is no text"),
        ("resolve", {"effect": "paying.1", "done": 1}, "has no effect 'paying.1'"),
        ("resolve", {"effect": "paying.1", "attempt": True, "done": 1}, "attempt is no number"),
        ("resolve", {"effect": "paying.1", "done": {"$": 1}}, "its done cannot be read"),
        ("cancel", {"reason": 7}, "its reason is no text"),
        ("revive", {}, "is live: there is nothing to revive"),
        ("dance", {}, "its kind is 'dance', expected one of send, answer, resolve, cancel, revive"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    world: World, box: Letterbox, kind: str, content: dict[str, Any], said: str
) -> None:
    """Whatever an entry holds: a reason is given, the run stays as it is, the host goes on."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before = world.stored(run)
        refusal = await box.refusal(box.put(kind, run, **content))
        assert said in refusal
        assert run in refusal
        assert world.stored(run) == before
        assert await box.settled(box.send(run, "push")) == ["taken"]


@pytest.mark.parametrize("data", [b"", b"{", b"7", b"[]", b"\xff", b'{"event":' + b"[" * 2_000])
async def test_what_is_no_object_is_refused(world: World, box: Letterbox, data: bytes) -> None:
    """Bytes of any kind are a refusal, not an error of the host."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert "its content cannot be read" in await box.refusal(box.put_bytes("send", run, data))


async def test_data_beyond_what_may_be_handed_in_is_refused(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of somebody else's may write more: it is neither read whole nor decoded."""
    monkeypatch.setattr("machines.host.asked.MAILBOX_DATA_BYTES_MAX", 40)
    monkeypatch.setattr("snapshots.limits.MAILBOX_DATA_BYTES_MAX", 40)
    async with world.host(Door) as host:
        run = await host.start(Door)
        with world.opened(read_only=False) as store, store.transaction():
            for size in (40, 41, 10_000):
                data = b'{"event":"push"}'.ljust(size)
                store.database.run(HANDED_IN, (run, "send", data, None))
        assert await box.settled(1) == ["taken"]
        assert "it has more than 40 bytes" in await box.refusal(2)
        assert "it has more than 40 bytes" in await box.refusal(3)
        assert len(box.entry(3).data) == 41


DAMAGE = "update mailbox set {} = cast(x'ff41' as text)"


@pytest.mark.parametrize("damaged", ["run_id", "kind", "delivery"])
async def test_text_that_is_no_utf_8_stops_no_host(
    world: World, box: Letterbox, damaged: str
) -> None:
    """SQLite keeps any bytes as text: such an entry is settled, and the next one is done."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        with world.opened(read_only=False) as store, store.transaction():
            store.database.run(HANDED_IN, (run, "send", b'{"event":"pull"}', "d1"))
            store.database.run(DAMAGE.format(damaged))
        if damaged == "delivery":
            assert await box.settled(1) == ["taken"]
        else:
            assert r"\xffA" in await box.refusal(1)
        assert await box.settled(box.send(run, "push")) == ["taken"]


async def test_values_nested_too_deep_are_refused(world: World, box: Letterbox) -> None:
    """JSON that can be read may still be no value that a run can hold."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        deep = b'{"event":"push","data":{"by":' + b"[" * 200 + b"]" * 200 + b"}}"
        assert "its data cannot be read" in await box.refusal(box.put_bytes("send", run, deep))


async def test_an_event_for_a_run_that_is_not_there_is_refused(
    world: World, box: Letterbox
) -> None:
    """A longer id that begins so is another run."""
    async with world.host(Door) as host:
        await host.start(Door, run_id="run-10")
        for kind, content in (
            ("send", {"event": "push"}),
            ("cancel", {}),
            ("revive", {}),
            ("resolve", {"effect": "x.1", "again": True}),
        ):
            assert "'run-1' is not in" in await box.refusal(box.put(kind, "run-1", **content))
    assert world.configuration("run-10") == ["shut"]


async def test_an_event_for_a_run_that_has_ended_is_refused(world: World, box: Letterbox) -> None:
    """Also behind the one that ended it, and for every kind."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        entries = [box.send(run, "remove"), box.send(run, "push"), box.put("cancel", run)]
        first, *others = await box.settled(*entries)
    assert first == "taken"
    assert all("is done: it takes nothing more" in outcome for outcome in others)


async def test_mail_of_a_run_whose_machine_is_forgotten_waits_for_a_better_deploy(
    world: World, box: Letterbox
) -> None:
    """It was accepted: a host without the machine leaves it, and the next one takes it once."""
    async with world.host(Door) as host:
        run = await host.start(Door)
    number = box.send(run, "push")
    async with world.host(Strict) as host:
        other = await host.start(Strict)
        await looked(host, 5)
        assert await box.settled(box.put("cancel", other)) == ["taken"]
        assert box.outcome(number) is None
    async with world.host(Door) as host:
        assert await box.settled(number) == ["taken"]
        assert world.configuration(run) == ["ajar"]


async def test_mail_of_a_drifted_run_waits_until_it_is_revived(
    world: World, box: Letterbox
) -> None:
    """A deploy of another shape loses no answer: the run takes it once it is live again."""

    class Cupboard(StateChart):
        shut = State(initial=True)
        wide = State(final=True)
        pull = shut.to(wide)

    async with world.host(Door) as host:
        run = await host.start(Door)
    number = box.send(run, "push")
    async with world.host(Machine(Cupboard, name="Door")) as host:
        await looked(host, 5)
        assert box.outcome(number) is None
    async with world.host(Door) as host:
        await host.revive(run)
        host._boxes._resting.clear()  # what is not waited for here is five seconds
        assert await box.settled(number) == ["taken"]
        assert world.configuration(run) == ["ajar"]


async def test_mail_of_a_run_that_cannot_be_read_waits(world: World, box: Letterbox) -> None:
    """Whoever mends the row finds the answer there."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        blob = world.stored(run).blob
    world.overwrite(run, b"{")
    number = box.send(run, "push")
    async with world.host(Door) as host:
        await looked(host, 5)
        assert box.outcome(number) is None
    world.overwrite(run, blob)
    async with world.host(Door):
        assert await box.settled(number) == ["taken"]


async def test_an_event_that_no_transition_takes_is_refused(world: World, box: Letterbox) -> None:
    """Where a caller would get None, who mistyped it would hear that it was taken."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        saves = world.saves(run)
        assert "no transition" in await box.refusal(box.send(run, "puhs"))
        assert world.saves(run) == saves
        assert await box.settled(box.send(run, "push")) == ["taken"]


async def test_a_run_that_cannot_be_revived_is_said_to_be_so(world: World, box: Letterbox) -> None:
    """Its machine has another shape, or it came to an end of its own."""

    class Cupboard(StateChart):
        shut = State(initial=True)
        wide = State(final=True)
        pull = shut.to(wide)

    async with world.host(Door) as host:
        run, over = await host.start(Door), await host.start(Door)
        await host.send(over, "remove")
    async with world.host(Machine(Cupboard, name="Door")) as host:
        assert list(host.report.drifted) == [run]
        assert "another shape" in await box.refusal(box.put("revive", run))
        assert "is done" in await box.refusal(box.put("revive", over))
    assert world.status(run) == "drifted"


async def test_a_refusal_is_cut_to_a_bound(world: World, box: Letterbox) -> None:
    """However much an exception has to say, and whatever characters it says it with."""

    class Talks(StateMachine):
        calm = State(initial=True)
        talk = calm.to.itself()

        def on_talk(self) -> None:
            raise ValueError("\ud800" + "x" * 10_000)

    async with world.host(Talks) as host:
        run = await host.start(Talks)
        refusal = await box.refusal(box.send(run, "talk"))
    assert len(refusal) <= len("ValueError: ") + ERROR_TEXT_BYTES_MAX
    assert refusal.startswith("ValueError: \\ud800xxx")


# -- decisions about effects --------------------------------------------------------------------


async def test_a_decision_about_an_earlier_call_is_refused(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """The effect was called again since somebody looked: that call may have another outcome."""
    outside.answers("charge", *[ConnectionError("no answer")] * 2)
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        await host.resolve(run, "paying.1", again=True, attempt=1)
        await until(lambda: outside.count("charge") == 2)
        await until(lambda: world.effects(run) == ["unknown"])
        refusal = await box.refusal(box.put("resolve", run, effect="paying.1", attempt=1, done=1))
        assert "its attempt is 2, not 1" in refusal
        with pytest.raises(UnsettledEffectError, match="its attempt is 2, not 1"):
            await host.resolve(run, "paying.1", done=1, attempt=1)
        assert world.effects(run) == ["unknown"]
        await host.resolve(run, "paying.1", done=1, attempt=2)
        await ended(host, run)


async def test_an_effect_that_is_not_in_doubt_is_not_settled_by_hand(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """While the call is under way nobody decides about it."""
    held = outside.hold("charge")
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 1)
        refusal = await box.refusal(box.put("resolve", run, effect="paying.1", done=1))
        assert "is calling; only an effect in doubt" in refusal
        held.set()
        await ended(host, run)


async def test_a_decision_must_be_exactly_one(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """None and two are refused, and the effect stays in doubt."""
    outside.answers("charge", ConnectionError("no answer"))
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        for wrong in ({}, {"done": 1, "again": True}, {"again": 1}, {"done": 1, "failed": "no"}):
            refusal = await box.refusal(box.put("resolve", run, effect="paying.1", **wrong))
            assert "exactly one" in refusal
        assert world.effects(run) == ["unknown"]


async def test_a_decision_that_cannot_be_saved_yet_is_settled_once_it_is(
    world: World, outside: Outside, box: Letterbox
) -> None:
    """It is kept in memory and saved again, not decided a second time."""
    outside.answers("charge", ConnectionError("no answer"))
    async with world.host(chart := checkout(outside.service("charge"))) as host:
        run = await in_doubt(host, chart)
        disk = Disk(host)
        disk.fail_always()
        entry = box.put("resolve", run, effect="paying.1", attempt=1, done="by hand")
        await until(lambda: resident(host, run).trouble is not None)
        assert box.outcome(entry) is None
        assert world.effects(run) == ["unknown"]
        disk.heal()
        assert await box.settled(entry) == ["taken"]
        await ended(host, run)
    assert world.blob(run)["root"]["context"]["receipt"] == "by hand"


# -- deliveries ---------------------------------------------------------------------------------


async def test_a_repeated_delivery_is_taken_before_and_not_run(
    world: World, box: Letterbox
) -> None:
    """From the mailbox or from a caller, on a live run and on one that has ended."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        first, second = box.send(run, "push", "d1"), box.send(run, "push", "d1")
        assert await box.settled(first, second) == ["taken", "taken before"]
        assert await host.send(run, "push", delivery="d1") is TAKEN
        await host.send(run, "pull", delivery="d2")
        assert await box.settled(box.send(run, "pull", "d2")) == ["taken before"]
        assert (await host.read(run)).context["pushes"] == 1
        assert await box.settled(box.send(run, "remove", "d3")) == ["taken"]
        assert await box.settled(box.send(run, "remove", "d3")) == ["taken before"]
        assert "is done" in await box.refusal(box.send(run, "remove", "d4"))


async def test_a_repeated_answer_is_taken_before_although_its_gate_is_closed(
    world: World, box: Letterbox
) -> None:
    """Its sender did not hear of the first outcome, and gets it now."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        entries = [box.answer(run, "review", "approve", "d1") for _ in range(2)]
        assert await box.settled(*entries) == ["taken", "taken before"]


async def test_a_delivery_under_way_is_waited_for(world: World, box: Letterbox) -> None:
    """A caller in the host's own process sends the same delivery meanwhile: it is run once."""
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        entry = box.send(run, "work", "d1")
        await begun.wait()
        caller = asyncio.create_task(host.send(run, "work", delivery="d1"))
        await settled()
        assert not caller.done()
        release.set()
        assert await caller is TAKEN
        assert await box.settled(entry) == ["taken"]


async def test_a_delivery_that_a_run_could_not_keep_is_refused(
    world: World, box: Letterbox
) -> None:
    """An entry that a program of somebody else's has written is held to the same bound."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        with world.opened(read_only=False) as store, store.transaction():
            delivery = "x" * (DELIVERY_CHARS_MAX + 1)
            store.database.run(HANDED_IN, (run, "send", b'{"event":"push"}', delivery))
        assert "a delivery's id is a text of" in await box.refusal(1)
        assert world.configuration(run) == ["shut"]


# -- order, and who waits for whom --------------------------------------------------------------


@pytest.mark.parametrize(("pages", "known"), [(1, 10_000), (5, 10_000), (5, 1)])
async def test_the_entries_of_a_run_are_done_in_their_order(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch, *, pages: int, known: int
) -> None:
    """Three pages of them, of three runs: each run sees its own as they were accepted."""
    monkeypatch.setattr("machines.host.mail.MAIL_PAGES_MAX", pages)
    monkeypatch.setattr("machines.host.mail.MAIL_KNOWN_MAX", known)
    runs = ["a", "b", "c"]
    async with world.host(Strict) as host:
        for run in runs:
            await host.start(Strict, run_id=run)
    numbers = range(MAILBOX_SLICE_ROWS)
    entries = [box.send(run, "note", text=str(number)) for number in numbers for run in runs]
    async with world.host(Strict) as host:
        assert set(await box.settled(*entries[-3:])) == {"taken"}
        for run in runs:
            notes = (await host.read(run)).context["notes"]
            assert notes == [str(number) for number in numbers]
    assert box.pending() == []


async def test_what_one_run_waits_for_holds_up_no_other(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is handed in for a run that is busy, the others have their turn."""
    monkeypatch.setattr("machines.host.boxes.MAIL_HELD_MAX", 3)
    chart, begun, release = slow()
    async with world.host(chart, Door) as host:
        busy, free = await host.start(chart), await host.start(Door)
        work = asyncio.create_task(host.send(busy, "work"))
        await begun.wait()
        first = box.answer(busy, "asking", "approve")
        notes = [box.send(busy, "note", text=str(n)) for n in range(MAILBOX_SLICE_ROWS + 5)]
        assert await box.settled(box.send(free, "push")) == ["taken"]
        assert box.outcome(first) is None
        await until(lambda: len(host._boxes) == 3)
        release.set()
        await work
        assert "is not open for it" in await box.refusal(first)
        assert set(await box.settled(*notes)) == {"taken"}
        kept = (await host.read(busy)).context["notes"]
    assert kept == [str(number) for number in range(len(notes))]


async def test_a_host_that_knows_of_as_many_entries_as_it_may_takes_in_no_more(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait in the file until some of those are settled."""
    monkeypatch.setattr("machines.host.mail.MAIL_KNOWN_MAX", 1)
    monkeypatch.setattr("machines.host.mail.MAIL_POLL_MS", 0)  # each turn of the loop is a look
    chart, begun, release = slow()
    async with world.host(chart, Door) as host:
        busy, free = await host.start(chart), await host.start(Door)
        first = box.send(busy, "work")
        await begun.wait()
        second = box.send(free, "push")
        await settled()
        assert len(host._boxes) == 1
        assert box.pending() == [first, second]
        release.set()
        assert await box.settled(first, second) == ["taken", "taken"]


async def test_an_entry_is_done_by_one_at_a_time(world: World, box: Letterbox) -> None:
    """However often the host looks while an event is on its way, it goes in once."""
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        entry = box.send(run, "work")
        await begun.wait()
        saves = world.saves(run)
        await looked(host, times=5)
        assert box.outcome(entry) is None
        release.set()
        assert await box.settled(entry) == ["taken"]
        await looked(host)
        assert world.saves(run) == saves + 1


async def test_an_answer_waits_until_its_run_is_at_rest(world: World, box: Letterbox) -> None:
    """What was sent to the run before may close the gate, or open it."""
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        entries = [box.send(run, "work"), box.send(run, "ask")]
        await begun.wait()
        answer = box.answer(run, "asking", "approve")
        await looked(host)
        assert box.outcome(answer) is None
        release.set()
        assert await box.settled(*entries, answer) == ["taken"] * 3
    assert world.status(run) == "done"


# -- a run that is in the middle of something ---------------------------------------------------


async def test_an_event_waits_for_a_macrostep_that_comes_to_rest(
    world: World, box: Letterbox
) -> None:
    """It then has a macrostep of its own, so that its sender hears what that raises."""
    chart, begun, release = slow(StateMachine)
    async with world.host(chart) as host:
        run = await host.start(chart)
        work = asyncio.create_task(host.send(run, "work"))
        await begun.wait()
        entry = box.send(run, "smash")
        await looked(host)
        release.set()
        await work
        assert await box.refusal(entry) == "ValueError: smashed"
        assert (await host.read(run)).status == "live"


async def test_an_event_is_queued_in_a_macrostep_that_does_not_come_to_rest(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is settled in the save that holds it as queued, and runs once."""
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.001)
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        work = asyncio.create_task(host.send(run, "work"))
        await begun.wait()
        entry = box.send(run, "note", text="queued")
        await until(lambda: resident(host, run).tree.arrivals != [])
        assert box.outcome(entry) is None
        resident(host, run).write()  # what a ledger does at any moment
        assert box.outcome(entry) == "taken"
        assert [a["item"]["event"] for a in world.blob(run)["arrivals"]] == [
            "work",
            "note",
        ]
        after = world.after_kill()
        release.set()
        await work
        await host.settled(run)
        assert (await host.read(run)).context["notes"] == ["queued"]
    async with after.host(chart) as host:
        await host.settled(run)
        assert (await host.read(run)).context["notes"] == ["queued"]
        await looked(host)
        assert (await host.read(run)).context["notes"] == ["queued"]


@pytest.mark.parametrize("killed", [False, True])
async def test_what_a_queued_event_raises_ends_the_run_as_after_a_restart(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """Once a save holds it nobody waits for it any more, whether the process lives on or not."""
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.001)
    chart, begun, release = slow(StateMachine)
    async with world.host(chart) as host:
        run = await host.start(chart)
        work = asyncio.create_task(host.send(run, "work"))
        await begun.wait()
        entry = box.send(run, "smash")
        await until(lambda: resident(host, run).tree.arrivals != [])
        resident(host, run).write()
        after = world.after_kill()
        release.set()
        await work
        await ended(host, run)
    if killed:
        world = after
        async with world.host(chart) as host:
            await ended(host, run)
    with Letterbox(world) as left:
        assert left.outcome(entry) == "taken"
    assert world.status(run) == "error"
    assert world.stored(run).header.reason == "ValueError: smashed"
    assert "context" not in world.blob(run)["root"]


async def test_a_queued_event_outlives_the_end_of_its_run_by_what_no_save_can_hold(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something too long arrives behind it and ends the run: once revived, the event runs."""
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.001)
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        work = asyncio.create_task(host.send(run, "work"))
        await begun.wait()
        entry = box.send(run, "note", text="queued")
        await until(lambda: resident(host, run).tree.arrivals != [])
        resident(host, run).write()
        assert box.outcome(entry) == "taken"
        with monkeypatch.context() as small:
            small.setattr("snapshots.limits.BLOB_BYTES_MAX", 10_000)
            resident(host, run).tree.tell("", "note", {"text": "x" * 20_000})
        with pytest.raises(RunFinishedError):
            await work
        assert world.status(run) == "error"
        await host.revive(run)
        await host.settled(run)
        assert (await host.read(run)).context == {"notes": ["queued"]}
        release.set()


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("delivery", [None, "d1"])
async def test_an_event_behind_the_one_that_ended_its_run_is_refused(
    world: World,
    box: Letterbox,
    monkeypatch: pytest.MonkeyPatch,
    delivery: str | None,
    *,
    queued: bool,
) -> None:
    """It came while the last macrostep ran: no save holds it, whether it was queued or waited."""
    if queued:
        monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.001)
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        end = asyncio.create_task(host.send(run, "end"))
        await begun.wait()
        entry = box.send(run, "note", delivery, text="late")
        await looked(host)
        if queued:
            await until(lambda: resident(host, run).tree.arrivals != [])
        release.set()
        await end
        assert "is done" in await box.refusal(entry)
    assert "context" not in world.blob(run)["root"]
    assert "deliveries" not in world.blob(run)


async def test_an_event_behind_a_timer_that_ended_its_run_is_refused(
    world: World, box: Letterbox
) -> None:
    """What is due comes first, in the same turn: the last save holds the timer's event alone."""
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await settled()  # the alarm sleeps
        world.clock.advance(60_000)
        entry = box.send(run, "leave")
        assert "is done" in await box.refusal(entry)
    assert world.configuration(run) == ["late"]


async def test_a_cancelled_run_refuses_what_waits_for_it(world: World, box: Letterbox) -> None:
    """Cancelled by a caller, in the middle of the event's own macrostep."""
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        entry = box.send(run, "work", "d1")
        await begun.wait()
        await host.cancel(run)
        assert "is cancelled" in await box.refusal(entry)
        release.set()


async def test_a_model_that_raises_a_cancellation_refuses_its_answer_alone(
    world: World, box: Letterbox
) -> None:
    """Nobody has cancelled who serves the run: the next entry is done."""

    def model(**_: Any) -> None:
        raise asyncio.CancelledError

    class Asks(StateChart):
        asking = State(initial=True, invoke=gate("approve", "reject", model={"approve": model}))
        over = State(final=True)
        approve = asking.to.itself()
        reject = asking.to(over)

    async with world.host(Asks) as host:
        run = await host.start(Asks)
        entries = box.answer(run, "asking", "approve"), box.answer(run, "asking", "reject")
        assert await box.refusal(entries[0]) == "CancelledError: "
        assert await box.settled(entries[1]) == ["taken"]


@pytest.mark.parametrize("ahead", [1, 3])
async def test_the_end_of_a_run_overtakes_what_holds_that_up(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """A macrostep never comes to rest: what waits for that is refused, known by then or not."""
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.02)
    monkeypatch.setattr("machines.host.boxes.MAIL_HELD_MAX", 2)
    chart, begun, _ = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        held = [box.send(run, "work")]
        await begun.wait()
        held += [box.answer(run, "asking", "approve") for _ in range(ahead)]
        assert await box.settled(box.put("cancel", run, reason="stuck")) == ["taken"]
        for entry in held:
            assert "is cancelled" in await box.refusal(entry)
    assert world.stored(run).header.reason == "stuck"


async def test_of_what_ends_runs_no_more_is_known_than_may_be(
    world: World, box: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for its turn with a task of its own; the first of a run settles them all."""
    monkeypatch.setattr("machines.host.mail.MAIL_KNOWN_MAX", 3)
    monkeypatch.setattr("machines.host.boxes.MAIL_HELD_MAX", 1)
    monkeypatch.setattr("machines.host.mail.MAIL_REST_S", 0.02)
    chart, begun, _ = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        held = box.send(run, "work")
        await begun.wait()
        with box.mailbox._store.transaction():
            ends = [box.put("cancel", run) for _ in range(9)]
        await until(lambda: host._ends != set())
        assert len(host._ends) == 3
        outcomes = await box.settled(*ends)
        assert outcomes.count("taken") == 1
        assert "is cancelled" in await box.refusal(held)
        await until(lambda: host._ends == set(), "an end of all")


async def test_the_end_of_a_run_waits_for_what_was_handed_in_before_it(
    world: World, box: Letterbox
) -> None:
    """It does not overtake at once: the entries before it are done in their order."""
    chart, begun, release = slow()
    async with world.host(chart) as host:
        run = await host.start(chart)
        first, last = box.send(run, "work"), box.put("cancel", run)
        await begun.wait()
        await looked(host)
        assert box.outcome(last) is None
        release.set()
        assert await box.settled(first, last) == ["taken", "taken"]


class Later(StateChart):
    """Declares an event with a delay."""

    idle = State(initial=True)
    over = State(final=True)
    ring = Event(idle.to(over), delay=60_000)


async def test_a_delayed_event_is_taken_once_its_timer_is_saved(
    world: World, box: Letterbox
) -> None:
    """Then it rings at its time, also after a restart, and once."""
    async with world.host(Later) as host:
        run = await host.start(Later)
        entry = box.send(run, "ring", "d1")
        assert await box.settled(entry) == ["taken"]
        assert [timer["event"] for timer in world.blob(run)["timers"]] == ["ring"]
        assert host.report.unresumed == {}
        assert await box.settled(box.send(run, "ring", "d1")) == ["taken before"]
        after = world.after_kill()
    world.clock.advance(60_000)
    async with after.host(Later) as host:
        await ended(host, run)
    assert after.status(run) == "done"


async def test_a_delayed_event_whose_timer_cannot_be_saved_is_tried_again(
    world: World, box: Letterbox
) -> None:
    """The failed save left no timer behind: there is one in the end."""
    async with world.host(Later) as host:
        run = await host.start(Later)
        disk = Disk(host)
        disk.fail_always()
        entry = box.send(run, "ring")
        await until(lambda: disk.writes >= 3)
        assert box.outcome(entry) is None
        disk.heal()
        assert await box.settled(entry) == ["taken"]
        assert len(world.blob(run)["timers"]) == 1


# -- saves that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["send", "answer", "cancel", "revive"])
async def test_what_cannot_be_saved_is_not_settled_and_is_done_once_it_can(
    world: World, box: Letterbox, kind: str
) -> None:
    """A disk that refuses writes settles nothing; afterwards the entry is taken, once."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        if kind == "answer":
            await host.send(run, "submit")
        if kind == "revive":
            await host.unload(run)
            with world.opened(read_only=False) as store:
                store.mark(store.load(run).header, "lost", "gone")
            host.waiting.clear()
        disk = Disk(host)
        disk.fail_always()
        before = world.stored(run)
        content = {"event": "submit"} if kind == "send" else {"gate": "review", "event": "approve"}
        entry = box.put(kind, run, **(content if kind in ("send", "answer") else {}))
        await until(lambda: disk.writes >= 3)
        assert box.outcome(entry) is None
        assert world.stored(run) == before
        disk.heal()
        assert await box.settled(entry) == ["taken"]
    status = {"send": "live", "answer": "done", "cancel": "cancelled", "revive": "live"}
    assert world.status(run) == status[kind]
    if kind == "send":
        assert world.configuration(run) == ["reviewing"]


@pytest.mark.parametrize("kind", ["cancel", "send"])
async def test_a_run_that_somebody_else_has_written_is_read_anew(
    world: World, box: Letterbox, kind: str
) -> None:
    """What is in memory is not the run any more: the entry is done to what the row says."""
    async with world.host(Later) as host:
        run = await host.start(Later)
        with world.opened(read_only=False) as store:
            store.mark(store.load(run).header, "live", None)
        assert await box.settled(box.put(kind, run, event="ring")) == ["taken"]
    if kind == "cancel":
        assert world.status(run) == "cancelled"
    else:
        assert len(world.blob(run)["timers"]) == 1


@contextmanager
def unsettleable(world: World) -> Iterator[None]:
    """Have the file refuse that an entry of the mailbox gets an outcome."""
    with world.opened(read_only=False) as store:
        database = store.database
        with database.transaction("refuse"):
            database.run(
                "create trigger no before update on mailbox begin select raise(abort, 'no'); end"
            )
        yield
        with database.transaction("allow"):
            database.run("drop trigger no")


async def test_a_save_whose_entry_cannot_be_settled_is_no_save(
    world: World, box: Letterbox
) -> None:
    """Both are one transaction, and memory goes back with it: the run is as it was."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before, live = world.stored(run), resident(host, run)
        with unsettleable(world):
            entry = box.send(run, "push")
            await until(lambda: live.trouble is not None)
            await looked(host)
            assert world.stored(run) == before
            assert box.outcome(entry) is None
        assert await box.settled(entry) == ["taken"]
        assert resident(host, run) is live
        assert await host.send(run, "pull") is None
        assert (await host.read(run)).context["pushes"] == 1


async def test_a_refusal_that_cannot_be_written_is_written_later(
    world: World, box: Letterbox
) -> None:
    """Until then the entry is tried again."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        with unsettleable(world):
            entry = box.send(run, "smash")
            await looked(host)
            assert box.outcome(entry) is None
        assert await box.refusal(entry) == "ValueError: smashed"
        assert (await host.read(run)).context == {}


async def test_a_mailbox_that_cannot_be_read_is_looked_at_again(
    world: World, box: Letterbox
) -> None:
    """What a look fails with stops neither the host nor the next look."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        database = host.store.database
        with database.transaction("hide"):
            database.run("alter table mailbox rename to hidden")
        await looked(host)
        await host.send(run, "push")
        with database.transaction("show"):
            database.run("alter table hidden rename to mailbox")
        assert await box.settled(box.send(run, "pull")) == ["taken"]


# -- hosts that end, stop and are taken over ----------------------------------------------------


async def test_what_was_accepted_without_a_host_waits_for_one(world: World, box: Letterbox) -> None:
    """The next host takes it at its first look."""
    async with world.host(Door) as host:
        run = await host.start(Door)
    entry = box.send(run, "push")
    async with world.host(Door):
        assert await box.settled(entry) == ["taken"]
    assert world.configuration(run) == ["ajar"]


async def test_a_host_that_stops_settles_what_its_last_saves_hold(
    world: World, box: Letterbox
) -> None:
    """A macrostep that ends within the grace is saved, and its entry with it."""
    chart, begun, release = slow()
    host = await world.host(chart).__aenter__()
    run = await host.start(chart)
    entry = box.send(run, "work")
    await begun.wait()
    saves = world.saves(run)
    stopping = asyncio.create_task(host.stop())
    await settled()
    release.set()
    await stopping
    assert box.outcome(entry) == "taken"
    assert world.saves(run) == saves + 1


@pytest.mark.parametrize("event", ["work", "smash"])
async def test_a_host_that_gives_a_macrostep_up_leaves_its_entry(
    world: World, box: Letterbox, event: str
) -> None:
    """Nothing was saved: the next host does it from the beginning, or refuses it."""
    chart, begun, release = slow(StateMachine)
    host = await world.host(chart, grace_s=0).__aenter__()
    run = await host.start(chart)
    work = asyncio.create_task(host.send(run, "work"))
    await begun.wait()
    entry = box.send(run, event)
    await looked(host)
    await host.stop()
    with pytest.raises(Exception, match="stopped"):
        await work
    assert box.outcome(entry) is None
    release.set()
    async with world.host(chart):
        outcome = await box.settled(entry)
    assert outcome == (["taken"] if event == "work" else ["refused: ValueError: smashed"])


async def test_a_host_that_was_taken_over_settles_nothing(world: World, box: Letterbox) -> None:
    """It may see an entry first: its save is refused, and the owner takes it."""
    first = await world.host(Door).__aenter__()
    run = await first.start(Door)
    with world.opened(read_only=False) as store:
        store.take_over("somebody else")
    before = world.stored(run)
    entries = [box.send(run, "push"), box.put("cancel", run), box.put("dance", run)]
    await until(lambda: first._stopped is not None, "the fence")
    await settled()
    assert str(first._stopped).startswith("fenced")
    assert [box.outcome(entry) for entry in entries] == [None] * 3
    assert world.stored(run) == before
    await first.stop()
    async with world.host(Door):
        outcomes = await box.settled(*entries)
    assert outcomes[:2] == ["taken", "taken"]
    assert world.status(run) == "cancelled"


@pytest.mark.parametrize("kind", ["dance", "revive", "resolve", "cancel"])
async def test_the_first_thing_that_a_former_host_settles_stops_it(
    world: World, box: Letterbox, kind: str
) -> None:
    """A refusal alone, or the revival of a run, carries the term like any other write."""
    first = await world.host(Door).__aenter__()
    run = await first.start(Door)
    await settled()  # the boot's own sweep
    with world.opened(read_only=False) as store:
        if kind == "revive":
            await first.unload(run)
            store.mark(store.load(run).header, "lost", "gone")
            first.waiting.clear()
        store.take_over("somebody else")
    before = world.stored(run)
    entry = box.put(kind, run, effect="x.1", done=1)
    await until(lambda: first._stopped is not None, "the fence")
    assert str(first._stopped).startswith("fenced")
    assert box.outcome(entry) is None
    assert world.stored(run) == before
    await first.stop()


# -- the sweep ----------------------------------------------------------------------------------


async def test_settled_entries_are_swept_after_a_day(world: World, box: Letterbox) -> None:
    """By the host's sweep, in slices; what waits stays, however old it is."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        taken = [box.send(run, event) for event in ["push", "pull"] * 30]
        await box.settled(*taken)
        world.clock.advance(MAILBOX_SETTLED_MS)
        assert await host.sweep() == 0
        assert box.outcome(taken[0]) == "taken"
        world.clock.advance(1)
        assert await host.sweep() == 0
        with world.opened() as store:
            assert store.database.rows("count", "select count(*) from mailbox") == [(0,)]
    waiting = box.send(run, "push")
    world.clock.advance(RETENTION_MS)
    async with world.host(Door):
        assert await box.settled(waiting) == ["taken"]


async def test_what_gets_a_number_again_after_a_sweep_is_found(
    world: World, box: Letterbox
) -> None:
    """The host does not go by the number that it has seen last."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        entries = [box.send(run, "push") for _ in range(5)]
        await box.settled(*entries)
        world.clock.advance(MAILBOX_SETTLED_MS + 1)
        await host.sweep()
        again = box.send(run, "pull")
        assert again in entries
        assert await box.settled(again) == ["taken"]
        assert world.configuration(run) == ["shut"]


async def test_after_a_sweep_the_mailbox_is_read_from_its_beginning(world: World) -> None:
    """Wherever the next page would have begun: numbers below that may be given again."""
    async with world.host(Door) as host:
        await settled()  # the boot's own sweep
        host._boxes.after = 7
        await host.sweep()
        assert host._boxes.after == 0


def page(*entries: tuple[int, str]) -> list[PendingEntry]:
    """Return a page of the mailbox."""
    return [PendingEntry(entry=number, run_id=run, kind="send") for number, run in entries]


def test_nothing_of_a_run_is_known_before_what_was_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its box was full at one page and has room at the next: its order stands all the same."""
    monkeypatch.setattr("machines.host.boxes.MAILBOX_SLICE_ROWS", 4)
    monkeypatch.setattr("machines.host.boxes.MAIL_HELD_MAX", 2)
    boxes = Boxes()
    assert boxes.take(page((1, "a"), (2, "a"), (3, "a"), (4, "b"))) == ["a", "b"]
    assert (boxes.after, len(boxes)) == (4, 3)
    boxes.settled("a")
    assert boxes.take(page((5, "a"), (6, "b"))) == []
    assert (boxes.after, len(boxes)) == (0, 3)
    assert (boxes.first("a"), boxes.first("b")) == (2, 4)
    assert boxes.take(page((2, "a"), (3, "a"), (4, "b"), (5, "a"))) == []
    known = []
    while (number := boxes.first("a")) is not None:
        known.append(number)
        boxes.settled("a")
    assert known == [2, 3]
    assert boxes.take(page((7, "c"))) == ["c"]
    assert boxes.take(page((5, "a"), (7, "c"))) == ["a"]
