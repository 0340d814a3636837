"""The examples with state beside their runs: killed, restarted, and killed at every moment.

In one life of an example each moment is kept: the file as it is right behind a write, with what
was done outside by then, and with what was done before the next write came. From each of them the
example has to come to the same end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from machines import Host, Machine
from machines.charts import etl
from machines.charts.sentinel import LEVELS_BEFORE
from machines.host import approving
from snapshots.opening import open_storage, open_store
from snapshots.storage import Scope
from snapshots.storage.approvals import Approvals
from snapshots.storage.carry import CarryState
from snapshots.storage.state import StateStore
from snapshots.testing import ManualClock
from tests.host.lives import ROOT
from tests.host.state_life import SCENARIOS, Watched
from tests.host.town import Town, town
from tests.host.world import until

DECIDE = """
import sys
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore

file, key, event, by = sys.argv[1:]
with open_storage(file) as backend:
    state = StateStore(backend.keyed, backend.leases, Scope(workflow="tickets"))
    Approvals(state).decide(key, event, by=by)
"""
PRICES = [{"at": at, "price": at * 1.5} for at in range(5)]
ITEMS = [{"at": at, "id": f"item-{at // 2}"} for at in range(4)]

Deeds = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def outside() -> Iterator[Town]:
    """Let a town be there that outlives every host."""
    with town() as made:
        made.tells["prices"] = lambda q: {
            "rows": [row for row in PRICES if row["at"] > int(q["after"])][:3]
        }
        made.tells["items"] = lambda q: {
            "items": [item for item in ITEMS if item["at"] > int(q["after"])][:3]
        }
        made.tells["levels"] = lambda _: {"levels": {"rhine": 4, "main": 1}}
        yield made


@dataclass
class Place:
    """A file of examples, and the town that they have to do with."""

    file: Path
    outside: Town

    def live(self, scenario: str, moment: str = "never") -> bool:
        """Live a scenario in a process of its own; return whether it was killed at the moment."""
        arguments = [sys.executable, "-m", "tests.host.state_life", scenario]
        done = subprocess.run(
            [*arguments, str(self.file), self.outside.address, moment],
            cwd=ROOT,
            capture_output=True,
            timeout=25,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        return done.returncode != 0

    async def live_here(self, scenario: str, seen: Callable[[str], None] = lambda _: None) -> None:
        """Live a scenario to its end in this process."""
        async with Watched(str(self.file), seen) as host:
            await SCENARIOS[scenario](host, self.outside.address)

    def statuses(self, machine: str) -> list[str]:
        """Return the statuses of a machine's runs, oldest first."""
        with open_store(self.file, read_only=True) as store:
            found = [header for header in store.headers() if header.machine == machine]
            return [header.status for header in reversed(found)]

    def decide(self, key: str, event: str, by: str) -> None:
        """Decide through a storage of one's own, knowing a key and a file."""
        with open_storage(self.file) as backend:
            approvals_on(backend).decide(key, event, by=by)


def state_on(backend: Any, workflow: str) -> StateStore:
    """Return the state of a workflow."""
    return StateStore(backend.keyed, backend.leases, Scope(workflow=workflow))


def approvals_on(backend: Any) -> Approvals:
    """Return the approvals of tickets."""
    return Approvals(state_on(backend, "tickets"))


@pytest.fixture
def place(tmp_path: Path, outside: Town) -> Place:
    """Return a file that does not exist yet."""
    return Place(tmp_path / "state.db", outside)


def copied(file: Path, name: str) -> Path:
    """Return a copy of a file and its log; another process copies, so that no lock is dropped."""
    copy = file.with_name(name)
    for suffix in ("", "-wal"):
        if Path(f"{file}{suffix}").exists():
            subprocess.run(["/bin/cp", f"{file}{suffix}", f"{copy}{suffix}"], check=True)
    return copy


class Moments:
    """Every moment of one life: a copy of the file, and what had been done outside."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.kept: list[tuple[Path, Deeds, Deeds]] = []

    def keep(self, what: str) -> None:
        """Keep this moment."""
        deeds = dict(self.place.outside.done)
        if self.kept:
            self.kept[-1] = (*self.kept[-1][:2], deeds)
        copy = copied(self.place.file, f"{len(self.kept)}-{what}.db")
        self.kept.append((copy, deeds, deeds))


async def every_moment(
    place: Place, scenario: str, check: Callable[[Place], Awaitable[None]]
) -> int:
    """Live a scenario once, and then check each of its moments; return how many there were."""
    moments = Moments(place)
    await place.live_here(scenario, moments.keep)
    for copy, before, after in moments.kept:
        for number, deeds in enumerate((before, after) if before != after else (before,)):
            here = copied(copy, f"{number}-{copy.name}")
            place.outside.done = dict(deeds)
            await check(Place(here, place.outside))
    return len(moments.kept)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have hosts in this process look for decisions more often."""
    monkeypatch.setattr(approving, "APPROVAL_POLL_MS", 5)


# -- the incident responder ------------------------------------------------------------------------


def test_a_resolved_alert_finds_its_incident_after_a_kill(place: Place) -> None:
    """Killed on its way to the people: one message, one run, and the end finds both."""
    assert place.live("fire", "noting:2")
    place.live("fire")
    assert place.outside.subjects("message") == ["disk"]
    place.live("resolve")
    assert place.statuses("incident") == ["done"]
    (resolved,) = place.outside.things("resolved")
    assert resolved["message"] == "message-1"


async def test_an_incident_opens_once_wherever_its_host_dies(place: Place) -> None:
    """From every moment: one message, one live run, and the alert that ends it finds it."""

    async def check(here: Place) -> None:
        await here.live_here("fire")
        assert here.outside.subjects("message") == ["disk"]
        assert here.statuses("incident") == ["live"]
        await here.live_here("resolve")
        assert here.statuses("incident") == ["done"]
        assert here.outside.subjects("resolved") == ["disk"]

    assert await every_moment(place, "fire", check) > 5


async def test_an_incident_ends_once_wherever_its_host_dies(place: Place) -> None:
    """From every moment: it is told of once, and the next alert opens another one."""
    await place.live_here("fire")

    async def check(here: Place) -> None:
        await here.live_here("resolve")
        assert here.statuses("incident") == ["done"]
        assert here.outside.subjects("resolved") == ["disk"]
        await here.live_here("fire")
        assert here.statuses("incident") == ["done", "live"]

    assert await every_moment(place, "resolve", check) > 5


# -- the support desk ------------------------------------------------------------------------------


def test_a_decision_from_another_process_finds_its_ticket(place: Place) -> None:
    """Decided while no host runs, by its key; the host that takes it dies, the next one goes on."""
    assert place.live("mail", "reviewing:1")
    arguments = [sys.executable, "-c", DECIDE, str(place.file)]
    unknown = subprocess.run([*arguments, "ticket-17", "approve", "ann"], cwd=ROOT, check=False)
    assert unknown.returncode != 0, "the gate is on disk, and was not announced yet"
    place.live("mail")
    subprocess.run([*arguments, "ticket-17", "approve", "ann"], cwd=ROOT, check=True)
    assert place.live("wait", "sending:2")
    place.live("wait")
    assert place.statuses("triage") == ["done"]
    assert place.outside.subjects("draft") == ["17"]
    (answer,) = place.outside.things("answer")
    assert (answer["subject"], answer["by"]) == ("17", "ann")


async def test_a_mail_is_answered_once_wherever_its_host_dies(place: Place) -> None:
    """From every moment before the decision: one run, one draft, one gate that is found."""

    async def check(here: Place) -> None:
        await here.live_here("mail")
        assert here.outside.subjects("draft") == ["17"]
        here.decide("ticket-17", "reject", "ann")
        await here.live_here("wait")
        assert here.statuses("triage") == ["failed"]

    assert await every_moment(place, "mail", check) > 5


async def test_a_decision_counts_once_wherever_its_host_dies(place: Place) -> None:
    """From every moment behind the decision: one answer, and nothing is left to be settled."""
    await place.live_here("mail")
    place.decide("ticket-17", "approve", "ann")

    async def check(here: Place) -> None:
        await here.live_here("wait")
        assert here.statuses("triage") == ["done"]
        assert here.outside.subjects("answer") == ["17"]
        with open_storage(here.file) as backend:
            approvals = approvals_on(backend)
            assert approvals.unsettled() == []
            assert [one.key for one in approvals.opened()] == ["verdict-17"]

    assert await every_moment(place, "wait", check) > 5


async def test_a_verdict_leads_on_once_wherever_its_host_dies(place: Place) -> None:
    """A decision on finished work begins one run, from every moment."""
    await place.live_here("mail")
    place.decide("ticket-17", "approve", "ann")
    await place.live_here("wait")
    place.decide("verdict-17", "bad", "eve")

    async def check(here: Place) -> None:
        await here.live_here("wait")
        assert here.statuses("followup") == ["done"]
        (escalation,) = here.outside.things("escalate")
        assert (escalation["subject"], escalation["by"]) == ("17", "eve")
        with open_storage(here.file) as backend:
            assert approvals_on(backend).unsettled() == approvals_on(backend).opened() == []

    assert await every_moment(place, "wait", check) > 3


# -- the market ETL --------------------------------------------------------------------------------


def prices_are_complete(here: Place) -> None:
    """Compare what was written with what the market shows, and see that the lock is free."""
    with open_storage(here.file) as backend:
        state = state_on(backend, "prices")
        found = {entry.key: entry.value for entry in state.list()}
        assert found == {f"xetra {row['at']}": row["price"] for row in PRICES}
        assert state.poll_cursor("xetra").position() == PRICES[-1]["at"]
        assert backend.leases.read(state.scope, "xetra") is None


def test_a_load_goes_on_after_a_kill(place: Place) -> None:
    """It takes the lock over from its own former life; the next load finds nothing to do."""
    assert place.live("load", "loading:4")
    place.live("load")
    assert place.statuses("etl") == ["done", "done"]
    prices_are_complete(place)


async def test_every_price_is_written_once_wherever_a_load_dies(place: Place) -> None:
    """From every moment the same prices, cursor and free lock."""

    async def check(here: Place) -> None:
        await here.live_here("load")
        assert here.statuses("etl") == ["done", "done"]
        prices_are_complete(here)

    assert await every_moment(place, "load", check) > 30


async def test_a_load_that_was_stalled_writes_nothing(place: Place, clock: ManualClock) -> None:
    """While it reads a page its lock expires, and another holder has it: that one alone writes."""
    market = place.outside.tells["prices"]

    def stall(query: dict[str, str]) -> dict[str, Any]:
        clock.advance(etl.LOCK_TTL_MS)
        with open_storage(place.file, clock=clock) as backend:
            rival = state_on(backend, "prices").claim("xetra", etl.LOCK_TTL_MS, holder="rival")
            assert rival is not None
            with rival.guard():
                state_on(backend, "prices").put("xetra 0", "the rival's")
        place.outside.tells["prices"] = market
        return market(query)

    place.outside.tells["prices"] = stall
    machine = Machine(etl.Etl, name="etl", failed=("broken",))
    given = {"market": "xetra", "service": place.outside.address}
    async with Host(place.file, [machine], clock=clock, verify=True) as host:
        run = await host.start("etl", given)
        await until(lambda: not host.is_live(run), "the end of the load")
        assert (await host.read(run)).configuration == ("overlapped",)
        state = state_on(host.storage, "prices")
        assert [(entry.key, entry.value) for entry in state.list()] == [("xetra 0", "the rival's")]
        assert state.poll_cursor("xetra").position() is None


# -- the poll trigger ------------------------------------------------------------------------------


def test_a_poll_goes_on_after_a_kill(place: Place) -> None:
    """Killed while the items of a page are handled."""
    assert place.live("look", "handling:3")
    place.live("look")
    assert sorted(place.outside.subjects("handle")) == ["item-0", "item-1"]


async def test_every_item_is_handled_once_wherever_a_poll_dies(place: Place) -> None:
    """The source shows each item twice, on two pages even: one handling each, from every moment."""

    async def check(here: Place) -> None:
        await here.live_here("look")
        assert sorted(here.outside.subjects("handle")) == ["item-0", "item-1"]
        with open_storage(here.file) as backend:
            state = state_on(backend, "inbox")
            assert [state.was_seen(f"item-{n}") for n in range(3)] == [True, True, False]
            assert state.poll_cursor("inbox").position() == ITEMS[-1]["at"]

    assert await every_moment(place, "look", check) > 20


# -- the sentinel ----------------------------------------------------------------------------------


def save_as_before(file: Path) -> None:
    """Save what the release before carried."""
    with open_storage(file) as backend:
        carry = CarryState(
            backend.carry, Scope(workflow="sentinel"), contract=LEVELS_BEFORE.contract
        )
        carry.save("sentinel:levels", {"rhine": 3, "main": 1}, expected_revision=0)


def carried(file: Path) -> tuple[int, int, bytes]:
    """Return contract version, revision and payload of what is carried."""
    with open_storage(file) as backend:
        record = backend.carry.load(Scope(workflow="sentinel"), "sentinel:levels")
        assert record is not None
        return record.contract_version, record.revision, record.payload


def test_a_wake_goes_on_after_a_kill(place: Place) -> None:
    """What the old contract saved is migrated; a wake that is killed while it saves, saves once."""
    save_as_before(place.file)
    assert place.live("wake", "saving:2")
    place.live("wake")
    place.live("wake")
    assert set(place.statuses("levels")) == {"done"}
    assert place.outside.subjects("alert") == ["rhine"]
    version, revision, _ = carried(place.file)
    assert (version, revision) == (2, 1 + len(place.statuses("levels")))


async def test_wakes_carry_on_wherever_one_dies(place: Place) -> None:
    """Through the migration, from every moment: each wake saves once, a change is told once."""
    save_as_before(place.file)

    async def check(here: Place) -> None:
        await here.live_here("wake")
        await here.live_here("wake")
        wakes = here.statuses("levels")
        assert set(wakes) == {"done"}
        assert here.outside.subjects("alert") == ["rhine"]
        version, revision, payload = carried(here.file)
        assert (version, revision) == (2, 1 + len(wakes))
        assert payload.endswith(b'"wakes":%d}' % len(wakes))

    assert await every_moment(place, "wake", check) > 10
