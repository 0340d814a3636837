"""What a workspace does with threads: claims of them, facts and history under a claim."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.storage.workspaces import Fact
from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.workspaces import workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.storage.workspaces import ThreadClaim, Workspace
    from snapshots.testing import ManualClock

TTL_MS: Final = 1_000
EVERY_BYTE: Final = bytes(range(256))


class StrayError(Exception):
    """What a block raises that has nothing to do with storage."""


def fact(name: str = "said", run: str = "r", data: Any = None, thread: str = "t") -> Fact:
    """Return a fact of the run and the thread that these behaviours use."""
    return Fact(thread=thread, run=run, name=name, data=data)


def with_thread(backend: Backend, scope: Scope) -> Workspace:
    """Return a handle on a workspace in which the thread `t` is open."""
    workspace = workspace_of(backend, scope)
    workspace.open_thread("t")
    return workspace


def claimed(workspace: Workspace, run: str = "r", holder: str = "") -> ThreadClaim:
    """Claim the thread `t`, which must succeed."""
    claim = workspace.claim_thread("t", run, ttl_ms=TTL_MS, holder=holder)
    assert claim is not None, "somebody else has it"
    return claim


class ThreadBehaviours:
    """Behaviours of threads, and of the one run that goes on with each."""

    def test_a_thread_is_opened_once(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It keeps its title and its time, and a second opening is refused."""
        workspace = workspace_of(backend, scope)
        opened = workspace.open_thread("t", title="Über alles")
        assert (opened.title, opened.created_ms) == ("Über alles", clock.now_ms())
        assert workspace.thread("t") == opened
        with refused("EntityExistsError"):
            workspace.open_thread("t", title="another")
        (entry,) = workspace.read()
        assert (entry.kind, entry.subject, entry.thread) == ("thread.opened", "t", "t")
        assert entry.data == {"title": "Über alles"}
        other = workspace.open_thread("s")
        assert workspace.threads() == [other, opened]
        assert workspace.threads(after="s", limit=1) == [opened]

    def test_one_run_at_a_time_has_a_thread(self, backend: Backend, scope: Scope) -> None:
        """Another run is told so, and the same run a second time; another thread is free."""
        workspace = with_thread(backend, scope)
        workspace.open_thread("other")
        claim = claimed(workspace, holder="host-a")
        elsewhere = workspace_of(backend, scope)
        for handle in (workspace, elsewhere):
            assert handle.claim_thread("t", "r2", ttl_ms=TTL_MS) is None
            assert handle.claim_thread("t", "r", ttl_ms=TTL_MS) is None
        lease = elsewhere.claimed("t")
        assert lease is not None
        assert (lease.token, lease.holder) == (claim.token, "host-a")
        assert elsewhere.claim_thread("other", "r2", ttl_ms=TTL_MS) is not None
        # What was refused has not taken the thread from the run that has it.
        workspace.record(fact())

    def test_a_claim_says_who_has_it(self, backend: Backend, scope: Scope) -> None:
        """Its run, unless another holder is named: in the lease, and to whoever is refused."""
        workspace = with_thread(backend, scope)
        with claimed(workspace, "run-1"):
            lease = workspace.claimed("t")
            assert lease is not None
            assert lease.holder == "run-1"
            with refused("LeaseLostError") as refusal:
                workspace.record(fact(run="run-2"))
            assert refusal.field("holder") == "run-1"

    def test_a_thread_that_was_never_opened_is_not_claimed(
        self, backend: Backend, scope: Scope
    ) -> None:
        """There is nothing to go on with."""
        with refused("EntityNotFoundError") as refusal:
            workspace_of(backend, scope).claim_thread("t", "r")
        assert refusal.field("what") == "thread"

    def test_a_claim_ends_with_its_block(self, backend: Backend, scope: Scope) -> None:
        """Whether it ends normally or not, the next run has the thread, by a greater token."""
        workspace = with_thread(backend, scope)
        tokens = []
        with claimed(workspace, "r1") as claim:
            tokens.append(claim.token)
        with refused("StrayError"), claimed(workspace, "r2") as claim:
            tokens.append(claim.token)
            raise StrayError
        third = claimed(workspace, "r3")
        assert [*tokens, third.token] == [1, 2, 3]
        assert third.release()
        assert not third.release()
        assert workspace.claimed("t") is None

    def test_a_claim_lapses_with_its_holder(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """One that dies renews no more: at the end of the time to live another run has it."""
        dead = with_thread(backend, scope)
        claimed(dead)
        workspace = workspace_of(backend, scope)
        clock.advance(TTL_MS - 1)
        assert workspace.claim_thread("t", "r2", ttl_ms=TTL_MS) is None
        clock.advance(1)
        assert workspace.claimed("t") is None
        assert claimed(workspace, "r2").token == 2

    def test_a_renewed_claim_lasts(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """From each renewal on, as the same claim; one that has lapsed is not renewed."""
        workspace = with_thread(backend, scope)
        claim = claimed(workspace)
        for _ in range(3):
            clock.advance(TTL_MS - 1)
            claim.renew()
            assert claim.token == 1
        clock.advance(TTL_MS - 1)
        workspace.record(fact())
        clock.advance(1)
        with refused("LeaseLostError"):
            claim.renew()
        with refused("LeaseLostError"):
            workspace.record(fact())

    def test_a_stalled_holder_writes_nothing_over_its_successor(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """When it wakes, every write under its claim is refused, and it frees nothing."""
        stalled = with_thread(backend, scope)
        claim = claimed(stalled, holder="host-a")
        stalled.record(fact(data=1))
        clock.advance(TTL_MS)
        workspace = workspace_of(backend, scope)
        claimed(workspace, holder="host-b")
        with refused("LeaseLostError") as refusal:
            stalled.record(fact(data=2), history=b"late")
        assert (refusal.field("key"), refusal.field("holder")) == ("t", "host-b")
        with refused("LeaseLostError"):
            claim.renew()
        assert not claim.release()
        workspace.record(fact(data=3))
        assert [entry.data for entry in workspace.read(1)] == [1, 3]
        assert workspace.history("t") == []
        (run,) = workspace.runs("t")
        assert (run.facts, run.token) == (2, 2)

    def test_a_write_under_a_lost_claim_takes_its_transaction_with_it(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Whatever else the block has changed is not there either."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        clock.advance(TTL_MS)
        with refused("LeaseLostError"), workspace.transaction() as changes:
            changes.create("note", {}, artifact="a")
            changes.record(fact())
        assert (workspace.artifact("a"), workspace.seq()) == (None, 1)

    def test_one_of_many_claims_a_thread(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
        clock: ManualClock,
    ) -> None:
        """Sixteen threads at once, on one that is new and on one that has lapsed: one gets each."""
        workspace = with_thread(backend, scope)
        workspace.open_thread("lapsed")
        assert workspace.claim_thread("lapsed", "r", ttl_ms=TTL_MS) is not None
        clock.advance(TTL_MS)
        names = ("t", "lapsed")

        def contend(mine: Backend, number: int) -> list[bool]:
            handle = workspace_of(mine, scope)
            claims = [
                handle.claim_thread(name, "r", ttl_ms=TTL_MS, holder=str(number)) for name in names
            ]
            return [claim is not None for claim in claims]

        answers = race(another, contend)
        for position, name in enumerate(names):
            lease = workspace.claimed(name)
            assert lease is not None
            winners = [str(number) for number, won in enumerate(answers) if won[position]]
            assert winners == [lease.holder]

    def test_a_claim_has_bounds(self, backend: Backend, scope: Scope) -> None:
        """Too short to do anything under it is refused, and the thread stays free."""
        workspace = with_thread(backend, scope)
        with refused("InvalidTtlError"):
            workspace.claim_thread("t", "r", ttl_ms=limits.LEASE_TTL_MS_MIN - 1)
        with refused("InvalidKeyError"):
            workspace.claim_thread("t", "")
        assert workspace.claimed("t") is None
        assert workspace.claim_thread("t", "r", ttl_ms=limits.LEASE_TTL_MS_MIN) is not None

    def test_a_claim_is_none_of_a_workflows_leases(self, backend: Backend, scope: Scope) -> None:
        """A lease of the thread's name in the same workspace is another one."""
        workspace = with_thread(backend, scope)
        lease = backend.leases.acquire(scope, "t", ttl_ms=TTL_MS)
        assert lease is not None
        claim = claimed(workspace)
        assert backend.leases.release(lease)
        assert claim.release()


class FactBehaviours:
    """Behaviours of facts, and of the history that is stored with them."""

    def test_a_fact_is_told_as_it_was_recorded(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """In the log, with its run and its thread, value for value."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        clock.advance(3)
        data = {"pair": (1, None), "bytes": EVERY_BYTE}
        entry = workspace.record(fact("tool.called", data=data))
        assert workspace.read(1) == [entry]
        assert (entry.seq, entry.kind, entry.subject) == (2, "fact", "tool.called")
        assert (entry.thread, entry.run, entry.at_ms) == ("t", "r", clock.now_ms())
        assert entry.data == data
        assert type(entry.data["pair"]) is tuple
        assert workspace.record(fact("nothing more")).data is None

    def test_a_fact_needs_the_claim_of_its_run(self, backend: Backend, scope: Scope) -> None:
        """None, one of another run, one through another handle, one that was released: refused."""
        workspace = with_thread(backend, scope)
        with refused("LeaseLostError"):
            workspace.record(fact())
        claim = claimed(workspace)
        with refused("LeaseLostError"):
            workspace.record(fact(run="another"))
        with refused("LeaseLostError"):
            workspace_of(backend, scope).record(fact())
        claim.release()
        with refused("LeaseLostError"):
            workspace.record(fact())
        assert (workspace.seq(), workspace.runs("t")) == (1, [])

    def test_a_run_is_what_its_facts_amount_to(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Counted over its claims, each run of a thread by itself."""
        workspace = with_thread(backend, scope)
        claimed(workspace, "r1")
        workspace.record(fact(run="r1"), history=b"1")
        workspace.record(fact(run="r1"))
        clock.advance(TTL_MS)
        with claimed(workspace, "r2"):
            workspace.record(fact(run="r2"))
        claimed(workspace, "r1")
        workspace.record(fact(run="r1"), history=b"2")
        first, second = workspace.runs("t")
        assert (first.run, first.facts, first.segments, first.seq, first.token) == (
            "r1",
            3,
            2,
            5,
            3,
        )
        assert (second.run, second.facts, second.segments, second.token) == ("r2", 1, 0, 2)
        assert workspace.runs("t", after="r1") == [second]
        assert workspace.runs("other") == []

    def test_history_is_stored_with_the_fact_that_ends_its_segment(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Byte for byte, numbered within its run, with the place of its fact in the log."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        workspace.record(fact())
        payloads = [EVERY_BYTE, b"", b"\x00"]
        entries = [workspace.record(fact(data=n), history=p) for n, p in enumerate(payloads)]
        segments = workspace.history("t")
        assert [each.payload for each in segments] == payloads
        assert [each.segment for each in segments] == [1, 2, 3]
        assert [each.seq for each in segments] == [entry.seq for entry in entries]
        assert {(each.thread, each.run, each.at_ms) for each in segments} == {
            ("t", "r", clock.now_ms())
        }

    def test_history_is_read_in_windows(self, backend: Backend, scope: Scope) -> None:
        """Of a thread or of one of its runs, from behind a place and up to a limit."""
        workspace = with_thread(backend, scope)
        workspace.open_thread("other")
        claim = workspace.claim_thread("other", "r", ttl_ms=TTL_MS)
        assert claim is not None
        with claim:
            workspace.record(fact(thread="other"), history=b"theirs")
        for number in range(4):
            run = f"r{number % 2}"
            with claimed(workspace, run):
                workspace.record(fact(run=run), history=str(number).encode())
        all_of_it = workspace.history("t")
        assert [each.payload for each in all_of_it] == [b"0", b"1", b"2", b"3"]
        assert [each.segment for each in all_of_it] == [1, 1, 2, 2]
        assert workspace.history("t", run="r1") == all_of_it[1::2]
        assert workspace.history("t", after_seq=all_of_it[0].seq, limit=2) == all_of_it[1:3]
        assert workspace.history("t", run="r1", after_seq=all_of_it[1].seq) == all_of_it[3:]
        assert workspace.history("t", limit=0) == []
        with refused("LimitError"):
            workspace.history("t", limit=limits.HISTORY_ROWS_MAX + 1)
        with refused("ValueError"):
            workspace.history("t", after_seq=-1)

    def test_a_fact_and_its_history_are_stored_together_or_not_at_all(
        self, backend: Backend, scope: Scope
    ) -> None:
        """A block that raises behind it leaves neither, nor a count of them."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        with refused("StrayError"), workspace.transaction() as changes:
            changes.record(fact(), history=b"1")
            raise StrayError
        assert (workspace.seq(), workspace.history("t"), workspace.runs("t")) == (1, [], [])
        stray: Any = object()
        with refused("EncodeError"):
            workspace.record(fact(data=stray), history=b"1")
        assert (workspace.seq(), workspace.history("t")) == (1, [])
        workspace.record(fact(), history=b"1")
        (segment,) = workspace.history("t")
        assert (segment.segment, segment.seq) == (1, 2)

    def test_a_segment_may_be_as_long_as_the_bound(self, backend: Backend, scope: Scope) -> None:
        """One byte more is refused together with its fact."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        payload = EVERY_BYTE * (limits.HISTORY_BYTES_MAX // len(EVERY_BYTE))
        with refused("LimitError"):
            workspace.record(fact(), history=payload + b"\x00")
        assert workspace.seq() == 1
        workspace.record(fact(), history=payload)
        (segment,) = workspace.history("t")
        assert segment.payload == payload

    def test_ids_that_run_together_are_told_apart(self, backend: Backend, scope: Scope) -> None:
        """Run `b/c` of thread `a` is not run `c` of thread `a/b`."""
        workspace = workspace_of(backend, scope)
        for thread, run in (("a", "b/c"), ("a/b", "c")):
            workspace.open_thread(thread)
            assert workspace.claim_thread(thread, run, ttl_ms=TTL_MS) is not None
            workspace.record(fact(run=run, thread=thread))
        for thread, run in (("a", "b/c"), ("a/b", "c")):
            (found,) = workspace.runs(thread)
            assert (found.run, found.facts) == (run, 1)

    def test_no_thread_reaches_into_another_workspace(self, backend: Backend, scope: Scope) -> None:
        """A claim, facts and history of one name in another workspace, or another tenant's."""
        workspace = with_thread(backend, scope)
        claimed(workspace)
        workspace.record(fact(), history=b"mine")
        for other in (
            replace(scope, tenant=f"{scope.tenant}-other"),
            replace(scope, workspace="other"),
        ):
            theirs = workspace_of(backend, other)
            assert (theirs.thread("t"), theirs.claimed("t"), theirs.seq()) == (None, None, 0)
            assert (theirs.history("t"), theirs.runs("t"), theirs.read()) == ([], [], [])
            theirs.open_thread("t")
            assert claimed(theirs).token == 1
            assert theirs.record(fact(), history=b"theirs").seq == 2
        (segment,) = workspace.history("t")
        assert segment.payload == b"mine"
        assert workspace.seq() == 2
