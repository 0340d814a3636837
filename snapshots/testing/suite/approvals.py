"""What approvals do on a backend: one decision per opening, whoever decides, whenever."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from snapshots import Secret
from snapshots.storage.approvals import Approval, Approvals, Continuation
from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.state import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.storage.approvals import Decision
    from snapshots.testing import ManualClock

    Another = Callable[[], AbstractContextManager[Backend]]

KEY: Final = "ticket-17"
FILE: Final = "/data/state.db"
EVENTS: Final = ("approve", "reject")
TTL_MS: Final = 1_000


def approvals(backend: Backend, scope: Scope, clock: ManualClock, **options: Any) -> Approvals:
    """Return approvals on a backend: a further one is what another process has."""
    return Approvals(store(backend, scope), file=FILE, clock=clock, **options)


def gate(run_id: str = "run-1", opening: int = 1, key: str = KEY) -> Approval:
    """Return what a run's open gate is announced as."""
    return Approval(
        key=key,
        token=f"{run_id}/reviewing.{opening}",
        file=FILE,
        events=EVENTS,
        run_id=run_id,
        gate="reviewing",
        meta={"asks": "may this go out?"},
    )


class ApprovalBehaviours:
    """Behaviours of `Approvals` on a backend."""

    def test_an_open_gate_is_found_by_its_key(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """From another process too; announcing it again is no news."""
        mine = approvals(backend, scope, clock)
        assert mine.find(KEY) is None
        assert mine.announce(gate())
        assert not mine.announce(gate())
        others = approvals(backend, scope, clock)
        assert others.find(KEY) == gate()
        assert others.list("ticket") == others.opened() == [gate()]
        assert others.list("invoice") == []

    def test_a_decision_waits_for_its_host(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It says what was decided, by whom, when and about which opening."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        made = approvals(backend, scope, clock).decide(
            KEY, "approve", by="ann", data={"note": "fine"}
        )
        assert (made.token, made.file, made.outcome) == (gate().token, FILE, None)
        assert (made.event, made.by, made.data) == ("approve", "ann", {"note": "fine"})
        assert made.decided_ms == clock.now_ms()
        assert mine.unsettled() == [made]
        assert mine.decision(KEY) == made
        settled = mine.settle(made, "taken")
        assert settled.outcome == "taken"
        assert mine.unsettled() == []
        assert mine.find(KEY) is None
        assert mine.decision(KEY) == settled

    def test_a_request_that_nobody_could_decide_is_refused(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Without events, with a text for several, or with a run that no decision begins."""
        mine = approvals(backend, scope, clock)
        following = Continuation(machine="refund")
        wrong: Any = [(), "yes", ("good", 1), ("",)]
        for events, name in zip(
            wrong, ("ValueError", "TypeError", "TypeError", "TypeError"), strict=True
        ):
            with refused(name):
                mine.request("verdict", events)
        for begun, name in (({"y": following}, "ValueError"), ({"good": "refund"}, "TypeError")):
            strange: Any = begun
            with refused(name) as refusal:
                mine.request("verdict", ("good", "bad"), on_decision=strange)
            assert "on_decision" in str(refusal.error)
        assert mine.opened() == []

    def test_data_of_a_decision_has_names(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Anything else could not be handed to a gate, and the approval stays open."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        wrong: Any = ([1], "note", {1: "note"})
        for data in wrong:
            with refused("TypeError") as refusal:
                mine.decide(KEY, "approve", data=data)
            assert "expected" in str(refusal.error)
        assert mine.unsettled() == []
        assert mine.find(KEY) == gate()

    def test_one_of_many_decides(
        self, another: Another, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Of sixteen approvers at the same time, the others are told who was first."""
        approvals(backend, scope, clock).announce(gate())

        def act(mine: Backend, number: int) -> Decision | Exception:
            try:
                return approvals(mine, scope, clock).decide(KEY, "approve", by=str(number))
            except Exception as error:
                if type(error).__name__ != "AlreadyDecidedError":
                    raise
                return error

        answers = race(another, act)
        won = [answer for answer in answers if not isinstance(answer, Exception)]
        assert len(won) == 1
        lost = [answer for answer in answers if isinstance(answer, Exception)]
        assert {getattr(error, "by", None) for error in lost} == {won[0].by}
        assert approvals(backend, scope, clock).unsettled() == won

    def test_who_comes_late_is_told_what_was_decided(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Before it is settled and after; once it is forgotten, nothing is open."""
        mine = approvals(backend, scope, clock, decided_ttl_ms=TTL_MS)
        mine.announce(gate())
        made = mine.decide(KEY, "approve", by="ann")
        for settle in (False, True):
            if settle:
                mine.settle(made, "taken")
            with refused("AlreadyDecidedError") as late:
                mine.decide(KEY, "reject", by="bob")
            assert (late.field("event"), late.field("by")) == ("approve", "ann")
        clock.advance(TTL_MS)
        with refused("ApprovalNotFoundError"):
            mine.decide(KEY, "reject", by="bob")

    def test_what_its_events_do_not_name_is_refused(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """So is a key that nothing has, and a secret: the approval stays open for the right one."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        with refused("DecisionRefusedError") as refusal:
            mine.decide(KEY, "aprove")
        assert refusal.field("events") == EVENTS
        with refused("ApprovalNotFoundError"):
            mine.decide("ticket-18", "approve")
        with refused("EncodeError"):
            mine.decide(KEY, "approve", data={"card": Secret("vault/card")})
        assert mine.decide(KEY, "approve").event == "approve"

    def test_two_runs_cannot_have_one_open_key(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The second is refused, of this file or another, until the first is decided or gone."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        elsewhere = replace(gate(), file="/data/other.db")
        for second in (gate("run-2"), gate(opening=2), elsewhere):
            with refused("ApprovalTakenError") as refusal:
                mine.announce(second)
            assert (refusal.field("key"), refusal.field("run_id")) == (KEY, "run-1")
            mine.withdraw(second)
        assert mine.find(KEY) == gate()
        mine.withdraw(gate())
        assert mine.announce(gate("run-2"))

    def test_a_gate_may_open_again_under_its_key(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Each opening is decided for itself."""
        mine = approvals(backend, scope, clock)
        for opening in (1, 2):
            mine.announce(gate(opening=opening))
            made = mine.decide(KEY, "reject")
            assert made.token == gate(opening=opening).token
            mine.settle(made, "taken")

    def test_a_refused_decision_leaves_the_gate_open(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Its author can read why; another one may decide."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        mine.settle(mine.decide(KEY, "approve", data={"amount": "x"}), "refused: no number")
        assert mine.find(KEY) == gate()
        last = mine.decision(KEY)
        assert last is not None
        assert last.outcome == "refused: no number"
        assert mine.decide(KEY, "approve", data={"amount": 1}).data == {"amount": 1}

    def test_a_gate_that_closed_otherwise_takes_no_decision(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """One that had come by then is recorded, and resumes nothing."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        mine.withdraw(gate())
        with refused("ApprovalNotFoundError"):
            mine.decide(KEY, "approve")
        mine.announce(gate())
        mine.decide(KEY, "approve")
        mine.withdraw(gate())
        recorded = mine.decision(KEY)
        assert recorded is not None
        assert recorded.outcome == "recorded"
        assert mine.unsettled() == []

    def test_a_decision_that_was_lost_with_its_run_is_taken_again(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The gate says that it is open: what was decided about that opening comes once more."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        made = mine.decide(KEY, "approve", by="ann")
        mine.settle(made, "taken")
        assert mine.announce(gate())
        assert mine.unsettled() == [made]

    def test_a_decision_may_come_before_its_gate(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """If its author says so: it waits for the gate, for its time."""
        mine = approvals(backend, scope, clock)
        early = mine.decide(KEY, "approve", by="ann", early_ttl_ms=TTL_MS)
        assert early.token is None
        for ttl_ms in (None, TTL_MS):
            with refused("AlreadyDecidedError"):
                mine.decide(KEY, "reject", early_ttl_ms=ttl_ms)
        mine.announce(gate())
        with refused("AlreadyDecidedError"):
            mine.decide(KEY, "reject")
        settled = mine.settle(early, "taken")
        assert (settled.token, mine.unsettled(), mine.find(KEY)) == (gate().token, [], None)
        mine.decide("ticket-18", "approve", early_ttl_ms=TTL_MS)
        clock.advance(TTL_MS)
        assert mine.unsettled() == []

    def test_an_early_decision_stays_once_its_gate_has_opened(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Its time was to wait for the gate: behind it nobody else decides the same opening."""
        mine = approvals(backend, scope, clock)
        early = mine.decide(KEY, "reject", by="ann", early_ttl_ms=TTL_MS)
        mine.announce(gate())
        clock.advance(TTL_MS)
        with refused("AlreadyDecidedError"):
            mine.decide(KEY, "approve", by="bob")
        assert mine.unsettled() == [replace(early, token=gate().token, file=FILE)]

    def test_an_early_decision_on_finished_work_is_recorded(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The request finds it: nothing is left to wait for."""
        mine = approvals(backend, scope, clock)
        mine.decide(KEY, "agree", early_ttl_ms=TTL_MS)
        mine.request(KEY, ("agree", "object"))
        made = mine.decision(KEY)
        assert made is not None
        assert (made.outcome, mine.unsettled(), mine.find(KEY)) == ("recorded", [], None)

    def test_a_decision_that_is_settled_once_more_ends_no_later_one(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """A stalled host that refuses again loses nothing that was decided meanwhile."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        first = mine.decide(KEY, "approve", by="ann")
        mine.settle(first, "refused: no number")
        clock.advance(1)
        second = approvals(backend, scope, clock).decide(KEY, "approve", by="bob")
        mine.settle(first, "refused: no number")
        assert mine.unsettled() == [second]

    def test_what_is_settled_too_late_changes_no_note(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """What became of the decision that counts stands, and comes again if its run lost it."""
        mine = approvals(backend, scope, clock)
        mine.announce(gate())
        first = mine.decide(KEY, "approve", by="ann")
        mine.settle(first, "refused: no number")
        clock.advance(1)
        second = mine.decide(KEY, "approve", by="bob")
        mine.settle(second, "taken")
        for decision, outcome in ((first, "refused: no number"), (second, "recorded")):
            mine.settle(decision, outcome)
            assert mine.decision(KEY) == replace(second, outcome="taken")
        assert mine.announce(gate())
        assert mine.unsettled() == [second]

    def test_a_decision_on_finished_work_is_recorded(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Nothing waits for it: it is settled at once; asking again opens nothing."""
        mine = approvals(backend, scope, clock)
        mine.request(KEY, ("agree", "object"), meta={"report": 7})
        mine.request(KEY, ("agree", "object"), meta={"report": 7})
        made = approvals(backend, scope, clock).decide(KEY, "agree", by="ann")
        assert (made.outcome, mine.unsettled(), mine.find(KEY)) == ("recorded", [], None)
        mine.request(KEY, ("agree", "object"), meta={"report": 7})
        assert mine.find(KEY) is None
        with refused("AlreadyDecidedError"):
            mine.decide(KEY, "object")
        opening = "report-8"
        mine.request(KEY, ("agree",), token=opening)
        assert mine.decide(KEY, "agree").token == opening

    def test_a_decision_on_finished_work_may_lead_on(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It waits for the host that begins what it leads to; the other decision does not."""
        mine = approvals(backend, scope, clock)
        following = Continuation(machine="Refund", input={"number": 17})
        mine.request(KEY, EVENTS, on_decision={"reject": following})
        found = mine.find(KEY)
        assert found is not None
        assert found.continuations == {"reject": following}
        made = mine.decide(KEY, "reject")
        assert mine.unsettled() == [made]
        mine.settle(made, "continued: decided-1")
        mine.request("ticket-18", EVENTS, on_decision={"reject": following})
        assert mine.decide("ticket-18", "approve").outcome == "recorded"

    def test_no_key_reaches_into_another_scope(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """One key is open in each of two workflows, and decided in one."""
        mine = approvals(backend, scope, clock)
        theirs = approvals(backend, replace(scope, workflow="other"), clock)
        mine.announce(gate())
        theirs.announce(gate("run-2"))
        mine.decide(KEY, "approve")
        assert theirs.decision(KEY) is None
        assert theirs.find(KEY) == gate("run-2")
