"""The approvals of a host: it announces its open gates, and answers them with what is decided.

The gates are read from what is saved of the runs, so that none is announced before it is on disk.
A decision is settled behind the save that holds it. Killed between the two, the next host finds
the decision unsettled, and the run says by its deliveries that it was taken.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from machines.approvals import MARK, approvals_in, opens_approvals
from machines.errors import (
    DriftError,
    GateClosedError,
    MigrationRefusedError,
    RunFinishedError,
    UnknownMachineError,
    UnresumedError,
)
from machines.host.mail import UNDECIDED, Mailroom
from machines.host.openings import REFUSAL, announce, delivery_of, names_refusal, run_after
from machines.host.patience import Patience
from machines.limits import APPROVAL_POLL_MS, APPROVAL_RETRY_S_MAX, APPROVAL_SLICE_RUNS
from machines.run import inbox as entering
from snapshots.codec import dump, load
from snapshots.errors import (
    DecodeError,
    FencedError,
    RunExistsError,
    RunNotFoundError,
    StorageError,
)
from snapshots.storage.approvals import CONTINUED, RECORDED, REFUSED, TAKEN
from snapshots.storage.refusals import ApprovalTakenError, UnaddressedDecisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from machines.definition import Machine
    from machines.offload import Offload
    from machines.run.run import Run
    from snapshots.clock import Clock
    from snapshots.storage import Backend
    from snapshots.storage.approvals import Approval, Approvals, Decision

T = TypeVar("T")

NOT_NOW = (DecodeError, DriftError, MigrationRefusedError, UnknownMachineError, UnresumedError)
"""What keeps a run from being taken up: the decision waits until it can be."""


class ApprovalRoom(Mailroom):
    """A mailroom that takes what was decided about its runs' open approvals, too."""

    storage: Backend
    _offload: Offload

    def __init__(
        self, path: str, machines: dict[str, Machine], clock: Clock, *, verify: bool
    ) -> None:
        super().__init__(path, machines, clock, verify=verify)
        self.approvals: Approvals | None = None
        """The approvals that this host looks after; None if it looks after none."""
        self.unapproved: dict[str, Exception] = {}
        """Why an open gate could not be announced, by its token; why a decision waits, by key."""
        self._changed: set[str] = set()
        self._tokens: dict[str, tuple[str, ...]] = {}
        self._opened: dict[str, Approval] = {}
        """The open approvals of runs as they were saved last, by token; which, by run."""
        self._announced: dict[str, Approval] = {}
        self._refused: set[str] = set()
        self._deciding: dict[str, str | None] = {}
        """Keys that a decision is being taken about, and the token of the opening that it is of."""
        self._unaddressed: set[str] = set()
        """Keys of decisions that are for the storage's own file, where this host has another."""
        self._patience = Patience(APPROVAL_RETRY_S_MAX)

    # -- which runs have changed ------------------------------------------------------------------

    def saved(self, run: Run) -> None:
        """Take note of a save."""
        super().saved(run)
        self._note(run.run_id)

    def leave_waiting(
        self, machine: Machine, run_ids: Collection[str], due_ms: Mapping[str, int]
    ) -> None:
        """Keep runs that only wait; they are read for approvals only if they may have one open."""
        super().leave_waiting(machine, run_ids, due_ms)
        if self.approvals is not None and opens_approvals(machine.chart):
            self._changed.update(run_ids)

    def ended(self, run: Run) -> None:
        """Let go of a run that is not live any more."""
        super().ended(run)
        self._note(run.run_id)

    def forget(self, run: Run, error: BaseException) -> None:
        """Let a run that is not to go on here out of memory."""
        super().forget(run, error)
        self._note(run.run_id)

    def _note(self, run_id: str) -> None:
        if self.approvals is not None:
            self._changed.add(run_id)

    # -- the rounds -------------------------------------------------------------------------------

    async def _approve(self) -> None:
        """Look for decisions for ever; what one run waits for holds up no other."""
        approvals = self.approvals
        assert approvals is not None
        is_first = True
        async with asyncio.TaskGroup() as deciding:
            while self._stopped is None:
                try:
                    with self._watching_for_the_fence():
                        if await self._round(approvals, deciding, is_first=is_first):
                            is_first = False
                except (StorageError, FencedError):
                    pass  # it is tried again at the next look, if there is one
                await asyncio.sleep(APPROVAL_POLL_MS / 1000)

    async def _round(
        self, approvals: Approvals, deciding: asyncio.TaskGroup, *, is_first: bool
    ) -> bool:
        """Bring the approvals up to the runs, and begin to take decisions; False if that waits."""
        self._require_ownership(approvals)
        if not await self._look_at_runs(approvals.file):
            return False
        unsettled = await self.with_storage(approvals.unsettled)
        self._patience.keep([decision.key for decision in unsettled])
        now_s = asyncio.get_running_loop().time()
        for decision in unsettled:
            mine = decision.file == approvals.file or decision.token is None
            is_free = decision.key not in self._deciding
            if mine and is_free and self._patience.is_over(decision.key, now_s):
                self._deciding[decision.key] = decision.token
                deciding.create_task(self._decide_one(approvals, decision))
        self._tell_unaddressed(approvals.file, unsettled)
        if is_first:
            await self._find_announced(approvals)
        await self._withdraw(approvals)
        for token in self._opened.keys() - self._announced.keys():
            new = self._opened.get(token)
            # What is being decided about an earlier opening under the key may still hold that.
            if new is not None and self._deciding.get(new.key) in (None, token):
                await self._announce(approvals, new)
        return True

    def _tell_unaddressed(self, file: str, unsettled: list[Decision]) -> None:
        """Tell of decisions that are to begin a run and name no file: maybe nobody takes them."""
        found = {one.key: one for one in unsettled if file and one.token and one.file == ""}
        for key in self._unaddressed - found.keys():
            self.unapproved.pop(key, None)
        for key in found.keys() - self._unaddressed:
            self.unapproved[key] = UnaddressedDecisionError(key, found[key].event)
        self._unaddressed = set(found)

    async def _write(self, approvals: Approvals, work: Callable[[], T]) -> T:
        """Write to the storage, for as long as the file is this host's."""
        self._require_ownership(approvals)
        return await self.with_storage(work)

    def _require_ownership(self, approvals: Approvals) -> None:
        """Raise FencedError if the file has another owner, which a storage elsewhere cannot see."""
        if not approvals.file:
            return
        owner = self.store.owner()
        if owner is None or owner.term != self.store.term:
            term, holder = (owner.term, owner.holder) if owner else (0, None)
            raise FencedError(self.store.path, term, holder)

    async def _withdraw(self, approvals: Approvals) -> None:
        """Let go of what is open no more, but for what a decision is being taken about."""
        for token in self._announced.keys() - self._opened.keys():
            old = self._announced[token]
            if old.key not in self._deciding and self._is_over(old):
                await self._write(approvals, partial(approvals.withdraw, old))
                del self._announced[token]
        for token in self._refused - self._opened.keys():
            self._refused.discard(token)
            del self.unapproved[token]

    async def _look_at_runs(self, file: str) -> bool:
        """Read the open approvals of the runs that have changed; False if some could not be."""
        changed, self._changed = self._changed, set()
        for number, run_id in enumerate(changed, start=1):
            try:
                found = approvals_in(run_id, file, self._root_of(run_id))
            except StorageError:
                self._changed.add(run_id)
                continue
            for token in self._tokens.pop(run_id, ()):
                del self._opened[token]
            if found:
                self._tokens[run_id] = tuple(one.token for one in found)
                self._opened |= {one.token: one for one in found}
            if number % APPROVAL_SLICE_RUNS == 0:
                await asyncio.sleep(0)
        return not self._changed & changed

    def _root_of(self, run_id: str) -> bytes:
        """Return the root chart of a live run of this host as it was saved; empty if it is none."""
        run = self._resident.get(run_id)
        if run is not None:
            return run.row.root if run.goes_on else b""
        if run_id not in self.waiting:
            return b""
        try:
            blob = self.store.load(run_id).blob
            return dump(load(blob)["root"]) if MARK in blob else b""
        except (DecodeError, KeyError, RunNotFoundError, TypeError):
            return b""  # the row is bad: it is reported when it is first used

    async def _find_announced(self, approvals: Approvals) -> None:
        """Take over what a former host of the file has announced."""
        for one in await self.with_storage(approvals.opened):
            if one.run_id is not None and one.file == approvals.file:
                self._announced[one.token] = one

    def _is_over(self, approval: Approval) -> bool:
        """Whether an approval that is in no saved run of this host is open no more.

        A live run that could not be taken up may still have it.
        """
        assert approval.run_id is not None
        if approval.run_id in self._resident or approval.run_id in self.waiting:
            return True
        try:
            return self.store.load(approval.run_id).header.status != "live"
        except RunNotFoundError:
            return True

    async def _announce(self, approvals: Approvals, approval: Approval) -> None:
        try:
            await self._write(approvals, partial(announce, approvals, approval))
        except (ApprovalTakenError, DecodeError) as error:
            is_news = approval.token not in self._refused
            self._refused.add(approval.token)
            self.unapproved[approval.token] = error
            if is_news:
                self._tell_refused(approval, error)
        else:
            self._announced[approval.token] = approval
            self._refused.discard(approval.token)
            self.unapproved.pop(approval.token, None)

    def _tell_refused(self, approval: Approval, error: Exception) -> None:
        """Tell a chart that its gate cannot be found by its key, if it names that event."""
        assert approval.run_id is not None
        path = approval.token.partition("/")[2].rpartition("/")[0]
        try:
            run = self.live(approval.run_id)
        except (*UNDECIDED, *NOT_NOW, RunFinishedError, RunNotFoundError):
            return
        node = run.tree.find(path)
        state = approval.token.rpartition("/")[2].rpartition(".")[0]
        event = f"{REFUSAL}.{state}"
        if node is not None and not node.finished and names_refusal(node.chart, event):
            given = entering.Incoming(event=event, data={"error": error}, path=path)
            entering.send(run, given)

    # -- one decision -----------------------------------------------------------------------------

    async def _decide_one(self, approvals: Approvals, decision: Decision) -> None:
        try:
            with self._watching_for_the_fence():
                outcome = await self._outcome_of(approvals, decision)
                if outcome is not None:
                    await self._write(approvals, lambda: approvals.settle(decision, outcome))
                    self.unapproved.pop(decision.key, None)
                    self._patience.forget(decision.key)
        except UNDECIDED as error:
            # Nothing was saved, and nothing speaks against it: it is tried again, ever later.
            self.unapproved[decision.key] = error
            now_s = asyncio.get_running_loop().time()
            self._patience.failed(decision.key, now_s, APPROVAL_POLL_MS / 1000)
        except DecodeError as error:
            self.unapproved[decision.key] = error
        finally:
            del self._deciding[decision.key]

    async def _outcome_of(self, approvals: Approvals, decision: Decision) -> str | None:
        """Return what became of a decision; None if it waits."""
        opened = self._opening_of(decision)
        if opened is not None:
            return await self._answer_with(opened, decision)
        if decision.token is None:
            return None
        found = await self.with_storage(lambda: approvals.find(decision.key))
        if found is not None and found.token == decision.token and found.run_id is None:
            return await self._continue_with(found, decision)
        run_id = decision.token.partition("/")[0]
        if self._has_taken(run_id, decision.token):
            return TAKEN
        if self._may_return(run_id):
            reason = self.report.unresumed.get(run_id, "it was not taken up")
            self.unapproved[decision.key] = UnresumedError(run_id, reason)
            return None
        return RECORDED

    def _opening_of(self, decision: Decision) -> Approval | None:
        """Return what a decision is about, if a run of this host waits for it."""
        if decision.token is not None:
            return self._opened.get(decision.token)
        known = (one for one in self._announced.values() if one.key == decision.key)
        return next((one for one in known if one.token in self._opened), None)

    async def _answer_with(self, approval: Approval, decision: Decision) -> str | None:
        """Answer a gate with a decision; who decided comes with its data."""
        assert approval.run_id is not None
        assert approval.gate is not None
        if decision.event not in approval.events:
            return f"{REFUSED}it takes one of {', '.join(approval.events)}, not {decision.event}"
        data = dict(decision.data)
        if decision.by is not None:
            data["by"] = decision.by
        answer = partial(self.answer, approval.run_id, approval.gate, decision.event)
        try:
            if not self._can_take_up(approval.run_id, decision.key):
                return None
            await answer(delivery=delivery_of(approval.token), **data)
        except (GateClosedError, RunFinishedError, RunNotFoundError):
            return RECORDED
        except (Exception, asyncio.CancelledError) as error:
            if self._is_no_refusal(approval.run_id, error):
                raise
            return REFUSED + self._reason(approval.run_id, error)
        return TAKEN

    def _can_take_up(self, run_id: str, key: str) -> bool:
        """Take a run up; what keeps it from that is told beside the key of its approval."""
        try:
            self.live(run_id)
        except NOT_NOW as error:
            self.unapproved[key] = error
            return False
        return True

    def _is_no_refusal(self, run_id: str, error: BaseException) -> bool:
        """Whether an error says nothing against a decision: the host ends, or nothing was saved.

        An error of the storage's that the chart has raised by itself is a refusal like any other.
        """
        if isinstance(error, asyncio.CancelledError):
            return self._shop.hands.are_ended()
        run = self._resident.get(run_id)
        is_of_save = run is None or error is run.row.refusal or run.trouble or not run.goes_on
        return isinstance(error, UNDECIDED) and bool(is_of_save)

    async def _continue_with(self, approval: Approval, decision: Decision) -> str | None:
        """Begin the run that a decision about finished work leads to, once."""
        following = approval.continuations.get(decision.event)
        if following is None:
            return RECORDED
        run_id = run_after(approval.token, decision.event)
        told = {name: getattr(decision, name) for name in ("key", "event", "by", "data")}
        try:
            given = {**following.input, "decision": told}
            await self.start(following.machine, given, run_id=run_id)
        except UNDECIDED:
            raise
        except RunExistsError:
            pass  # a former host began it, and died before it could say so
        except UnknownMachineError as error:
            self.unapproved[decision.key] = error
            return None
        except Exception as error:  # noqa: BLE001 - whatever speaks against it is its refusal
            return REFUSED + self._reason(run_id, error)
        return CONTINUED + run_id

    def _has_taken(self, run_id: str, token: str) -> bool:
        """Whether a run was answered with what was decided about an opening."""
        delivery, run = delivery_of(token), self._resident.get(run_id)
        if run is not None:
            return delivery in run.ledgers.deliveries
        try:
            return delivery in load(self.store.load(run_id).blob).get("deliveries", ())
        except (RunNotFoundError, DecodeError):
            return False

    def _may_return(self, run_id: str) -> bool:
        """Whether a live run is one that this host could not take up."""
        if run_id in self._resident or run_id in self.waiting:
            return False
        try:
            return self.store.load(run_id).header.status == "live"
        except RunNotFoundError:
            return False

    async def with_storage(self, work: Callable[[], T]) -> T:
        """Do work with the storage: here, or in a thread where it would hold the loop up."""
        return await self._offload.call(work)
