"""Approvals on a host: gates that are found by a key, and answered with what others decided."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, Machine, children, gate, spawn
from machines.approvals import approval
from machines.errors import DefinitionError, HostOptionError
from machines.host import approving
from machines.host.patience import Patience
from machines.state import approvals_of
from snapshots import StorageBusyError, open_store
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.approvals import Approvals, Continuation, Decision
from snapshots.storage.refusals import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    ApprovalTakenError,
    UnaddressedDecisionError,
)
from snapshots.storage.state import StateStore
from tests.host.charts import Door
from tests.host.lives import ROOT
from tests.host.world import Disk, World, at_rest, ended, resident, settled, until

SCOPE = Scope(workflow="desk")
KEY = "ticket-17"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have hosts look for decisions more often."""
    monkeypatch.setattr(approving, "APPROVAL_POLL_MS", 2)


def key_of(model: Any) -> str:
    """Return the key of a ticket."""
    return f"ticket-{model.number}"


@dataclass
class Verdict:
    """What an approver has to say."""

    by: str
    amount: int

    def __post_init__(self) -> None:
        if not isinstance(self.amount, int):
            message = f"amount is {self.amount!r}"
            raise TypeError(message)


class Ticket(StateChart):
    """Waits for a decision, and may be asked again."""

    catch_errors_as_events = False
    idle = State(initial=True)
    reviewing = State(
        invoke=approval("approve", "reject", "explode", correlation=key_of, meta={"asks": "ok?"})
    )
    approved = State(final=True)
    rejected = State(final=True)
    duplicate = State(final=True)
    ask = idle.to(reviewing)
    back = reviewing.to(idle)
    approve = reviewing.to(approved, on="keep")
    reject = reviewing.to(rejected, on="keep")
    explode = reviewing.to(approved, on="burst")
    error_approval_reviewing = reviewing.to(duplicate, cond="gives_way")

    def keep(self, by: str = "nobody", **data: Any) -> None:
        self.model.decisions = [*getattr(self.model, "decisions", []), by]
        self.model.note = data.get("note")

    def burst(self) -> None:
        message = "it burst"
        raise ValueError(message)

    def gives_way(self) -> bool:
        return getattr(self.model, "gives_way", False)


TICKET = Machine(Ticket, failed=("rejected", "duplicate"))


def approvals(world: World, file: str = "") -> Any:
    """Return approvals in a world's file as another process has them, in a context."""

    @contextmanager
    def opened() -> Iterator[Approvals]:
        with open_storage(world.path, clock=world.clock) as backend:
            state = StateStore(backend.keyed, backend.leases, SCOPE)
            yield Approvals(state, file=file, clock=world.clock)

    return opened()


def decide(world: World, key: str, event: str, **options: Any) -> Decision:
    """Decide through a connection of its own."""
    with approvals(world) as others:
        decision: Decision = others.decide(key, event, **options)
        return decision


def mine(host: Host) -> Approvals:
    """Return the approvals of a host."""
    assert host.approvals is not None
    return host.approvals


def open_keys(host: Host) -> list[str]:
    """Return the keys that are open in a host's storage."""
    return [one.key for one in mine(host).opened()]


async def outcome(host: Host, key: str) -> str:
    """Wait until what was decided under a key is settled, and return its outcome."""

    def is_settled() -> bool:
        found = mine(host).decision(key)
        return found is not None and found.outcome is not None

    await until(is_settled, f"the outcome of {key}")
    found = mine(host).decision(key)
    assert found is not None
    return str(found.outcome)


async def asked(host: Host, number: int = 17, run_id: str | None = None, **given: Any) -> str:
    """Start a ticket and bring it to its gate."""
    run = await host.start(Ticket, {"number": number, **given}, run_id=run_id)
    await host.send(run, "ask")
    return run


async def test_a_decision_by_key_resumes_its_run(world: World) -> None:
    """From another connection, with its data and its author; it is settled behind the save."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        await until(lambda: open_keys(host) == [KEY])
        found = mine(host).find(KEY)
        assert found is not None
        assert (found.run_id, found.gate, found.events) == (
            run,
            "reviewing",
            ("approve", "reject", "explode"),
        )
        assert found.meta == {"asks": "ok?"}
        decide(world, KEY, "approve", by="ann", data={"note": "fine"})
        assert await outcome(host, KEY) == "taken"
        view = await host.read(run)
        assert (view.status, view.context["decisions"], view.context["note"]) == (
            "done",
            ["ann"],
            "fine",
        )
        assert open_keys(host) == []
        with pytest.raises(AlreadyDecidedError):
            decide(world, KEY, "reject", by="bob")


async def test_a_gate_is_announced_once_it_is_on_disk(world: World) -> None:
    """While the save of the gate fails it is not; the sender of the event is told why."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await host.start(Ticket, {"number": 17})
        disk = Disk(host)
        disk.fail_always()
        with pytest.raises(Exception, match="read"):
            await host.send(run, "ask")
        await settled()
        assert open_keys(host) == []
        disk.heal()
        await host.send(run, "ask")
        await until(lambda: open_keys(host) == [KEY])


async def test_what_waits_is_found_after_a_restart(world: World) -> None:
    """Announced again from the row alone, no chart is built; what was decided meanwhile counts."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        other = await asked(host, 18)
        await until(lambda: len(open_keys(host)) == 2)
    decide(world, KEY, "approve", by="ann")
    with open_storage(world.path) as backend:
        StateStore(backend.keyed, backend.leases, SCOPE).part("approval").delete("ticket-18")
    async with world.host(TICKET, approvals=SCOPE) as host:
        assert await outcome(host, KEY) == "taken"
        assert (await host.read(run)).context["decisions"] == ["ann"]
        await until(lambda: open_keys(host) == ["ticket-18"])
        assert other in host.waiting
        assert other not in host._resident


def test_a_host_that_would_announce_nothing_is_told_so(world: World) -> None:
    """Its runs would wait for what nobody could find: the machine is named, and what to give."""
    with pytest.raises(DefinitionError) as caught:
        world.host(Door, TICKET)
    assert caught.value.machine == TICKET.name
    assert "approvals=Scope(…)" in caught.value.hint
    world.host(Door)


@pytest.mark.parametrize(
    ("option", "value"),
    [("storage", "postgresql://me:hush@host/db"), ("storage", 7), ("approvals", "tickets")],
)
def test_what_is_no_storage_and_no_scope_is_refused_at_once(
    world: World, option: str, value: object
) -> None:
    """Before anything is opened; an address, which may hold a password, is not shown."""
    given: Any = {option: value}
    with pytest.raises(HostOptionError) as caught:
        world.host(Door, **given)
    assert caught.value.option == option
    assert "hush" not in str(caught.value)
    assert not world.path.exists()


@pytest.mark.parametrize("correlation", [3, None, "", "a" * 300])
def test_a_correlation_that_could_never_be_a_key_is_refused_when_it_is_written(
    correlation: Any,
) -> None:
    """And not when the first run opens its gate."""
    with pytest.raises(DefinitionError, match="a correlation key is a text"):
        approval("approve", correlation=correlation)


async def test_a_gate_that_closes_otherwise_is_withdrawn(world: World) -> None:
    """Answered by its address, left by an event, cancelled with its run: its key is free."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        runs = [await asked(host, number) for number in (1, 2, 3)]
        await until(lambda: len(open_keys(host)) == 3)
        await host.answer(runs[0], "reviewing", "approve")
        await host.send(runs[1], "back")
        await host.cancel(runs[2])
        await until(lambda: open_keys(host) == [])
        with pytest.raises(ApprovalNotFoundError):
            mine(host).decide("ticket-1", "approve")


async def test_each_opening_is_decided_for_itself(world: World) -> None:
    """A gate that opened again takes no decision about its earlier opening."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        await until(lambda: open_keys(host) == [KEY])
        first = mine(host).find(KEY)
        assert first is not None
        await host.send(run, "back")
        decide(world, KEY, "approve", by="late")
        await host.send(run, "ask")
        await until(lambda: mine(host).find(KEY) not in (None, first), "the second opening")
        assert await outcome(host, KEY) == "recorded"
        assert (await host.read(run)).configuration == ("reviewing",)
        decide(world, KEY, "approve", by="ann")
        await ended(host, run)
        assert (await host.read(run)).context["decisions"] == ["ann"]


async def test_the_second_run_with_an_open_key_is_refused(world: World) -> None:
    """Typed, and told to its chart if that names it; else its gate waits until the key is free."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        first = await asked(host, run_id="first")
        await until(lambda: open_keys(host) == [KEY])
        patient = await asked(host, run_id="patient")
        yielding = await asked(host, run_id="yielding", gives_way=True)
        await ended(host, yielding)
        assert (await host.read(yielding)).configuration == ("duplicate",)
        await until(lambda: list(host.unapproved) == ["patient/reviewing.1"])
        refusal = host.unapproved["patient/reviewing.1"]
        assert isinstance(refusal, ApprovalTakenError)
        assert (refusal.key, refusal.run_id) == (KEY, "first")
        found = mine(host).find(KEY)
        assert found is not None
        assert found.run_id == first
        decide(world, KEY, "approve", by="ann")
        await ended(host, first)
        await until(lambda: open_keys(host) == [KEY] and host.unapproved == {})
        decide(world, KEY, "reject", by="bob")
        await ended(host, patient)
        assert (await host.read(patient)).context["decisions"] == ["bob"]


async def test_a_key_of_another_files_run_is_refused_too(world: World) -> None:
    """Its owner alone can say whether that run still waits."""
    with open_storage("memory:", clock=world.clock) as shared:
        state = StateStore(shared.keyed, shared.leases, SCOPE)
        elsewhere = Approvals(state, file="/data/other.db", clock=world.clock)
        elsewhere.request(KEY, ("approve",))
        async with world.host(TICKET, storage=shared, approvals=SCOPE) as host:
            run = await asked(host)
            await until(lambda: bool(host.unapproved))
            decision = elsewhere.decide(KEY, "approve")
            assert decision.outcome == "recorded"
            await until(lambda: mine(host).find(KEY) is not None and not host.unapproved)
            found = mine(host).find(KEY)
            assert found is not None
            assert (found.run_id, found.file) == (run, str(world.path))
            assert elsewhere.decide(KEY, "approve").file == str(world.path)
            await ended(host, run)


async def test_a_decision_that_a_macrostep_refuses_leaves_the_gate_open(world: World) -> None:
    """Its author can read why; the run is live, and the next decision counts."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        await until(lambda: open_keys(host) == [KEY])
        decide(world, KEY, "explode", by="eve")
        assert await outcome(host, KEY) == "refused: ValueError: it burst"
        assert (await host.read(run)).configuration == ("reviewing",)
        assert open_keys(host) == [KEY]
        decide(world, KEY, "approve", by="ann")
        await ended(host, run)
        assert (await host.read(run)).context["decisions"] == ["ann"]


async def test_an_error_that_a_chart_raises_is_no_failed_save(world: World) -> None:
    """A callback may raise what a storage raises: that refuses the decision, it does not wait."""

    class Stumbles(StateChart):
        catch_errors_as_events = False
        reviewing = State(initial=True, invoke=approval("approve", correlation="stumbles"))
        approved = State(final=True)
        approve = reviewing.to(approved, on="stumble")

        def stumble(self) -> None:
            operation, place = "load", "elsewhere"
            raise StorageBusyError(operation, place, "wait")

    async with world.host(Stumbles, approvals=SCOPE) as host:
        await host.start(Stumbles)
        await until(lambda: open_keys(host) == ["stumbles"])
        decide(world, "stumbles", "approve")
        assert (await outcome(host, "stumbles")).startswith("refused: load failed")


async def test_a_decision_waits_while_nothing_can_be_saved(world: World) -> None:
    """The disk refuses the run's save: the decision is tried again, and counts in the end."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        await until(lambda: open_keys(host) == [KEY])
        disk = Disk(host)
        disk.fail_always()
        decide(world, KEY, "approve", by="ann")
        await until(lambda: disk.writes > 2)
        found = mine(host).decision(KEY)
        assert found is not None
        assert found.outcome is None
        disk.heal()
        assert await outcome(host, KEY) == "taken"
        assert (await host.read(run)).context["decisions"] == ["ann"]


async def test_a_decision_whose_data_does_not_fit_is_refused(world: World) -> None:
    """The gate's model says so; data that names what an answer itself is made of is refused too."""

    class Checked(StateChart):
        reviewing = State(
            initial=True, invoke=approval("approve", correlation="checked", model=Verdict)
        )
        approved = State(final=True)
        approve = reviewing.to(approved)

    async with world.host(Checked, approvals=SCOPE) as host:
        run = await host.start(Checked)
        await until(lambda: open_keys(host) == ["checked"])
        for data in ({"amount": "x"}, {"delivery": "d"}):
            decide(world, "checked", "approve", by="ann", data=data)
            assert (await outcome(host, "checked")).startswith("refused: ")
            assert open_keys(host) == ["checked"]
        decide(world, "checked", "approve", by="ann", data={"amount": 3})
        await ended(host, run)


async def test_a_decision_may_come_before_its_gate(world: World) -> None:
    """It waits for it; one that the gate does not take is refused then."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        decide(world, KEY, "approve", by="ann", early_ttl_ms=60_000)
        decide(world, "ticket-18", "aprove", early_ttl_ms=60_000)
        run = await asked(host)
        other = await asked(host, 18)
        await ended(host, run)
        assert (await host.read(run)).context["decisions"] == ["ann"]
        assert (await outcome(host, "ticket-18")).startswith("refused: it takes one of approve")
        assert other in host._resident
        assert open_keys(host) == ["ticket-18"]


async def test_gates_of_children_have_keys_of_their_own(world: World) -> None:
    """Each is found by its key, wherever in the tree it is."""

    class Office(StateChart):
        waiting = State(
            initial=True, invoke=approval("approve", correlation=lambda model: model.office)
        )
        agreed = State(final=True)
        approve = waiting.to(agreed)

    class Release(StateChart):
        class collecting(State.Compound, invoke=children(Office)):  # noqa: N801 - a state's id
            waiting = State(initial=True)

        over = State(final=True)
        done_invoke_collecting = collecting.to(over, cond="is_last") | collecting.to(
            None, on="count"
        )

        def on_enter_collecting(self) -> None:
            self.model.agreed = 0
            for office in ("legal", "budget"):
                spawn(self, office, {"office": office})

        def count(self) -> None:
            self.model.agreed += 1

        def is_last(self) -> bool:
            return bool(self.model.agreed)

    async with world.host(Release, approvals=SCOPE) as host:
        await host.start(Release, run_id="r")
        await until(lambda: open_keys(host) == ["budget", "legal"])
        found = mine(host).find("legal")
        assert found is not None
        assert found.gate == "collecting.@legal/waiting"
        for office in ("legal", "budget"):
            decide(world, office, "approve")
            assert await outcome(host, office) == "taken"
        assert (await host.read("r")).status == "done"


async def test_a_run_that_cannot_be_taken_up_keeps_its_approval(world: World) -> None:
    """A deploy that forgot its machine: the decision waits until one knows it again."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        await until(lambda: open_keys(host) == [KEY])
    async with world.host(approvals=SCOPE) as host:
        assert run in host.report.unresumed
        decide(world, KEY, "approve", by="ann")
        await until(lambda: KEY in host.unapproved)
        assert "Ticket" in str(host.unapproved[KEY])
        found = mine(host).decision(KEY)
        assert found is not None
        assert found.outcome is None
        assert open_keys(host) == [KEY]
    async with world.host(TICKET, approvals=SCOPE) as host:
        assert await outcome(host, KEY) == "taken"
        assert (await host.read(run)).context["decisions"] == ["ann"]


async def test_a_former_owner_of_the_file_announces_nothing(world: World) -> None:
    """Also where the storage lies elsewhere, and does not know whose the file is."""
    with open_storage("memory:", clock=world.clock) as shared:
        former = world.host(TICKET, storage=shared, approvals=SCOPE)
        async with former:
            await asked(former)
            await until(lambda: open_keys(former) == [KEY])
            async with world.host(TICKET, storage=shared, approvals=SCOPE, take_over=True) as host:
                await until(lambda: "fenced" in repr(former))
                run = (await host.runs())[0].run_id
                decide_in(shared, KEY, "approve")
                assert await outcome(host, KEY) == "taken"
                assert (await host.read(run)).status == "done"


async def test_a_file_that_is_taken_over_in_between_announces_nothing(world: World) -> None:
    """Whose it is, is asked before each write, where the storage cannot see that by itself."""
    with open_storage("memory:", clock=world.clock) as shared:
        async with world.host(TICKET, storage=shared, approvals=SCOPE) as former:
            look = mine(former).unsettled

            def overtaken() -> list[Decision]:
                """Look for decisions, while another process takes the file over."""
                if former._opened:
                    with open_store(world.path, clock=world.clock) as store:
                        store.take_over("another")
                return look()

            former.approvals.unsettled = overtaken  # type: ignore[union-attr,method-assign] - what takes time
            await asked(former)
            await until(lambda: "fenced" in repr(former))
            state = StateStore(shared.keyed, shared.leases, SCOPE)
            assert Approvals(state).opened() == []


async def test_hosts_of_runs_in_memory_leave_each_others_approvals_alone(world: World) -> None:
    """Both files are called `:memory:`: what one has announced is no leftover of the other's."""
    with open_storage("memory:", clock=world.clock) as shared:
        options: Any = {"clock": world.clock, "storage": shared, "approvals": SCOPE}
        async with Host(":memory:", [TICKET], **options) as here:
            run = await asked(here, 17)
            await until(lambda: open_keys(here) == ["ticket-17"])
            async with Host(":memory:", [TICKET], **options) as there:
                await asked(there, 18, run_id=run)
                await until(lambda: open_keys(here) == ["ticket-17", "ticket-18"])
                decide_in(shared, "ticket-17", "approve")
                assert await outcome(here, "ticket-17") == "taken"
                assert open_keys(there) == ["ticket-18"]
                assert (await here.read(run)).status == "done"
                assert there.is_live(run)


def decide_in(backend: Any, key: str, event: str) -> None:
    """Decide through a storage that is open."""
    state = StateStore(backend.keyed, backend.leases, SCOPE)
    Approvals(state).decide(key, event)


async def test_a_decision_on_finished_work_resumes_nothing(world: World) -> None:
    """It is recorded for whoever asks; the host has nothing to do with it."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        mine(host).request("report-7", ("agree", "object"))
        assert decide(world, "report-7", "agree", by="ann").outcome == "recorded"
        assert await host.runs() == []
        found = mine(host).decision("report-7")
        assert found is not None
        assert (found.event, found.by) == ("agree", "ann")


class Refund(StateChart):
    """What a decision leads to."""

    catch_errors_as_events = False
    paid = State(initial=True, final=True)

    def on_enter_paid(self) -> None:
        if getattr(self.model, "fails", False):
            message = "no money"
            raise ValueError(message)


REFUND = Machine(Refund, name="refund")
KILLED_BETWEEN = """
import asyncio, os, signal, sys
from machines import Host
from tests.host import test_approvals as here

async def main():
    here.approving.APPROVAL_POLL_MS = 2
    async with Host(sys.argv[1], [here.TICKET, here.REFUND], approvals=here.SCOPE) as host:
        host.approvals.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(10)

asyncio.run(main())
"""


def die_before_settling(world: World) -> None:
    """Live in a process of its own that is killed once a decision is taken, and not settled."""
    command = [sys.executable, "-c", KILLED_BETWEEN, str(world.path)]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=20, env={**os.environ})
    assert done.returncode == -signal.SIGKILL


async def test_a_decision_is_taken_once_though_its_host_died(world: World) -> None:
    """Taken, killed, found unsettled: the next host sees that the run has it."""
    async with world.host(TICKET, approvals=SCOPE) as host:
        run = await asked(host)
        again = await asked(host, 18)
        await until(lambda: len(open_keys(host)) == 2)
    decide(world, KEY, "approve", by="ann")
    die_before_settling(world)
    assert world.status(run) == "done"
    async with world.host(TICKET, approvals=SCOPE) as host:
        assert await outcome(host, KEY) == "taken"
        assert (await host.read(run)).context["decisions"] == ["ann"]
        assert again in host.waiting


async def test_a_decision_begins_one_run_though_its_host_died(world: World) -> None:
    """It has the input that was asked for, and the decision."""
    following = Continuation(machine="refund", input={"number": 17})
    with approvals(world) as others:
        others.request("verdict", ("good", "bad"), on_decision={"bad": following})
    decide(world, "verdict", "bad", by="eve", data={"why": "late"})
    die_before_settling(world)
    async with world.host(TICKET, REFUND, approvals=SCOPE) as host:
        said = await outcome(host, "verdict")
        (header,) = await host.runs()
        assert said == f"continued: {header.run_id}"
        context = (await host.read(header.run_id)).context
        assert context["number"] == 17
        assert context["decision"] == {
            "key": "verdict",
            "event": "bad",
            "by": "eve",
            "data": {"why": "late"},
        }


async def test_a_file_may_be_named_from_where_one_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is not whole, or leads over a link, means the file that the host has open."""
    link = world.path.with_name("link.db")
    link.symlink_to(world.path)
    monkeypatch.chdir(world.path.parent)
    with open_storage("memory:") as backend:
        state = StateStore(backend.keyed, backend.leases, SCOPE)
        async with world.host(TICKET, REFUND, storage=backend, approvals=SCOPE) as host:
            for key, file in (("a", world.path.name), ("b", str(link)), ("c", str(world.path))):
                others = Approvals(state, file=file, clock=world.clock)
                following = Continuation(machine="refund")
                others.request(key, ("bad",), on_decision={"bad": following})
                others.decide(key, "bad")
                assert (await outcome(host, key)).startswith("continued: ")


async def test_a_decision_that_no_host_is_named_for_is_told(world: World) -> None:
    """Where the storage is no file of runs nobody would begin its run; until it is settled."""
    with open_storage("memory:") as backend:
        state = StateStore(backend.keyed, backend.leases, SCOPE)
        others = Approvals(state, clock=world.clock)
        others.request("verdict", ("bad",), on_decision={"bad": Continuation(machine="refund")})
        decision = others.decide("verdict", "bad")
        async with world.host(TICKET, REFUND, storage=backend, approvals=SCOPE) as host:
            await until(lambda: "verdict" in host.unapproved)
            told = host.unapproved["verdict"]
            assert isinstance(told, UnaddressedDecisionError)
            assert (told.key, told.event) == ("verdict", "bad")
            assert await host.runs() == []
            others.settle(decision, "recorded")
            await until(lambda: not host.unapproved)


async def test_what_a_decision_leads_to_may_fail_or_be_unknown(world: World) -> None:
    """A run that cannot begin refuses it; a machine that no host knows yet leaves it waiting."""
    with approvals(world) as others:
        for key, machine in (("fails", "refund"), ("unknown", "nothing")):
            following = Continuation(machine=machine, input={"fails": True})
            others.request(key, ("bad",), on_decision={"bad": following})
            decide(world, key, "bad")
    async with world.host(TICKET, REFUND, approvals=SCOPE) as host:
        assert await outcome(host, "fails") == "refused: ValueError: no money"
        await until(lambda: "unknown" in host.unapproved)
        found = mine(host).decision("unknown")
        assert found is not None
        assert found.outcome is None
        assert open_keys(host) == ["fails", "unknown"]


async def test_what_keeps_a_decision_from_leading_on_is_told(world: World) -> None:
    """While the storage refuses it waits, each time longer, and counts once that is over."""
    begun: list[str] = []

    class Slow(StateChart):
        catch_errors_as_events = False
        paid = State(initial=True, final=True)

        def on_enter_paid(self) -> None:
            begun.append(self.model.decision["event"])
            if len(begun) < 4:
                operation = "look at the book"
                raise StorageBusyError(operation, "book.db", "try again")

    following = Continuation(machine="slow")
    with approvals(world) as others:
        others.request("verdict", ("bad",), on_decision={"bad": following})
        decide(world, "verdict", "bad")
    async with world.host(Machine(Slow, name="slow"), approvals=SCOPE) as host:
        await until(lambda: "verdict" in host.unapproved)
        assert isinstance(host.unapproved["verdict"], StorageBusyError)
        assert (await outcome(host, "verdict")).startswith("continued: ")
        assert begun == ["bad"] * 4
        await until(lambda: "verdict" not in host.unapproved)


def test_what_fails_waits_longer_each_time_up_to_a_bound() -> None:
    """Twice as long as before, of its own; once it is forgotten it begins anew."""
    patience = Patience(5.0)
    now_s, turns = 100.0, []
    for _ in range(5):
        assert patience.is_over("a", now_s)
        patience.failed("a", now_s, 1.0)
        assert not patience.is_over("a", now_s)
        assert patience.is_over("b", now_s)
        waited = next(wait for wait in range(1, 9) if patience.is_over("a", now_s + wait))
        turns.append(waited)
        now_s += waited
    assert turns == [1, 2, 4, 5, 5]
    for forget in (lambda: patience.keep(["b"]), lambda: patience.forget("a")):
        forget()
        assert patience.is_over("a", now_s)
        patience.failed("a", now_s, 1.0)
        assert patience.is_over("a", now_s + 1)
    patience.keep(["a"])
    assert not patience.is_over("a", now_s)


async def test_charts_reach_the_approvals_of_their_host(world: World) -> None:
    """To ask for a decision on what they have finished; without any, they are told."""

    class Reports(StateChart):
        catch_errors_as_events = False
        writing = State(initial=True)
        written = State(final=True)
        finish = writing.to(written, on="request")

        def request(self) -> None:
            approvals_of(self).request("report", ("agree",))

    async with world.host(Reports, approvals=SCOPE) as host:
        run = await host.start(Reports)
        await host.send(run, "finish")
        assert open_keys(host) == ["report"]
    async with world.host(Reports) as host:
        run = await host.start(Reports)
        with pytest.raises(DefinitionError, match="takes no decisions"):
            await host.send(run, "finish")


async def test_a_key_that_is_no_text_keeps_the_gate_from_opening(world: World) -> None:
    """The event that leads there is refused, and the run is where it was."""

    class Nameless(StateChart):
        catch_errors_as_events = False
        idle = State(initial=True)
        reviewing = State(invoke=approval("approve", correlation=lambda model: model.number))
        approved = State(final=True)
        ask = idle.to(reviewing)
        approve = reviewing.to(approved)

    async with world.host(Nameless, approvals=SCOPE) as host:
        run = await host.start(Nameless, {"number": 17})
        with pytest.raises(DefinitionError, match="correlation key"):
            await host.send(run, "ask")
        assert (await host.read(run)).configuration == ("idle",)


async def test_a_busy_run_holds_up_no_other_decision(world: World) -> None:
    """A decision waits for its run's macrostep, and another one is taken meanwhile."""
    halt = asyncio.Event()

    class Slow(StateChart):
        reviewing = State(initial=True, invoke=approval("approve", correlation="slow"))
        approved = State(final=True)
        approve = reviewing.to(approved)
        think = reviewing.to(None, on="ponder")

        async def ponder(self) -> None:
            await halt.wait()

    async with world.host(TICKET, Slow, approvals=SCOPE) as host:
        slow = await host.start(Slow)
        quick = await asked(host)
        await until(lambda: len(open_keys(host)) == 2)
        thinking = asyncio.create_task(host.send(slow, "think"))
        await until(lambda: resident(host, slow).tree.running is not None)
        decide(world, "slow", "approve")
        decide(world, KEY, "approve")
        assert await outcome(host, KEY) == "taken"
        assert (await host.read(quick)).status == "done"
        halt.set()
        await thinking
        assert await outcome(host, "slow") == "taken"


async def test_a_plain_gate_is_no_approval(world: World) -> None:
    """Neither is a value that looks like one."""

    class Plain(StateChart):
        reviewing = State(initial=True, invoke=gate("approve", meta={"approval": "x"}))
        approved = State(final=True)
        approve = reviewing.to(approved)

    async with world.host(Plain, TICKET, approvals=SCOPE) as host:
        run = await host.start(Plain, {"approval": "y"})
        await at_rest(host, run)
        await asked(host)
        await until(lambda: bool(open_keys(host)))
        assert open_keys(host) == [KEY]
