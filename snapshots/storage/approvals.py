"""Approvals: who waits for a decision under which key, and what was decided.

The gate in a run's blob says whether the run waits. An approval is the note of it that other
processes find by a correlation key: its host writes it once the gate is on disk. A decision is one
put-if-absent under that key, from any process; the host of the run finds it, answers the gate
with it, and settles it. An approval may also be requested for work that is finished: then there is
nothing to resume, and the decision is recorded, or begins another run (a `Continuation`).

```python
approvals = Approvals(StateStore(backend.keyed, backend.leases, Scope(workflow="tickets")))
approvals.decide("ticket-17", "approve", by="ann", data={"note": "fine"})
```
"""

from __future__ import annotations

import builtins
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from snapshots.clock import SystemClock
from snapshots.codec import persistent
from snapshots.errors import DecodeError
from snapshots.limits import DECIDED_TTL_MS, LIST_ROWS_MAX
from snapshots.storage.refusals import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    ApprovalTakenError,
    DecisionRefusedError,
)
from snapshots.storage.requesting import as_its_host_has_it, require_names, several

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from snapshots.clock import Clock
    from snapshots.storage.state import StateStore
    from snapshots.storage.values import Values

RECORDED: Final = "recorded"
TAKEN: Final = "taken"
REFUSED: Final = "refused: "
CONTINUED: Final = "continued: "


@persistent("approvals.continuation")
@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A run that a decision begins: of which `machine`, with which `input`.

    The run's input has the decision too, under `decision`: a mapping of `key`, `event`, `by` and
    `data`.
    """

    machine: str
    input: Mapping[str, Any] = field(default_factory=dict)


@persistent("approvals.approval")
@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What is open under a correlation key.

    `token` names this opening and no other one under the key. `file` is that of the host which
    takes the decision, empty for the one that the approval itself lies in. A gate of a run has
    `run_id` and `gate`, the gate's address; without them it is work that is finished, and
    `continuations` says which decisions begin a run.
    """

    key: str
    token: str
    file: str
    events: tuple[str, ...]
    run_id: str | None = None
    gate: str | None = None
    meta: Any = None
    continuations: Mapping[str, Continuation] = field(default_factory=dict)


@persistent("approvals.decision")
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided under a key.

    `token` is that of the approval that it decides, None for one that came before it opened.
    `outcome` is None until its host has settled it: `taken` (a gate was answered with it),
    `recorded` (nothing waited for it), `continued: <run id>`, or `refused: <why>`.
    """

    key: str
    token: str | None
    event: str
    by: str | None
    data: Mapping[str, Any]
    decided_ms: int
    file: str | None = None
    outcome: str | None = None


class Approvals:
    """The approvals of a state store's scope.

    Kept are the open ones, the decisions that are to be settled, and what was decided last under
    a key, for `decided_ttl_ms` (None for ever). `file` is the path of the file of runs that
    announces and requests here; it is left empty where the state store lies in that very file.
    Errors beside those of each method are those of `StateStore`.
    """

    def __init__(
        self,
        state: StateStore,
        *,
        file: str | os.PathLike[str] = "",
        clock: Clock | None = None,
        decided_ttl_ms: int | None = DECIDED_TTL_MS,
    ) -> None:
        self.state = state
        self.file = as_its_host_has_it(file)
        self._clock = clock or SystemClock()
        self._ttl_ms = decided_ttl_ms
        self._open: Values = state.part("approval", Approval, Continuation)
        self._waiting: Values = state.part("decision", Decision)
        self._decided: Values = state.part("decided", Decision)

    def __repr__(self) -> str:
        return f"<Approvals {self.state.scope!r}>"

    # -- what opens -------------------------------------------------------------------------------

    def announce(self, approval: Approval) -> bool:
        """Note that an approval is open, and return whether that was news.

        Its host calls this after each save that opens a gate, and again after each restart. A
        decision about this very opening that was settled, and then lost with the run's last saves,
        is to be settled again. Raises ApprovalTakenError if the key has another open approval.
        """
        with self.state.transaction():
            found = self.find(approval.key)
            if found is not None:
                if not is_same(found, approval):
                    raise ApprovalTakenError(approval.key, found.file, found.run_id)
                return False
            decided = self._decided_about(approval)
            if decided is not None and approval.run_id is None:
                return False
            self._open.put(approval.key, approval)
            if decided is not None:
                self._waiting.put(approval.key, replace(decided, outcome=None))
            else:
                self._keep_early(approval)
            return True

    def _keep_early(self, approval: Approval) -> None:
        """Make a decision that came before its approval one about it, which no time ends.

        Else it could lapse between the gate that it answers and its settling, and a second
        decision about the same opening would be told that it was taken.
        """
        with suppress(DecodeError):  # whoever can read it will settle it
            early: Decision | None = self._waiting.get(approval.key)
            if early is None or early.token is not None or early.event not in approval.events:
                return
            kept = replace(early, token=approval.token, file=approval.file)
            self._waiting.put(approval.key, kept)
            if approval.run_id is None and kept.event not in approval.continuations:
                self.settle(kept, RECORDED)

    def _decided_about(self, approval: Approval) -> Decision | None:
        """Return what was decided about this very opening, refused decisions apart."""
        last: Decision | None = self._decided.get(approval.key)
        return None if last is None or not is_same(last, approval) or _is_refused(last) else last

    def request(
        self,
        key: str,
        events: tuple[str, ...],
        *,
        token: str | None = None,
        meta: Any = None,
        on_decision: Mapping[str, Continuation] | None = None,
    ) -> Approval:
        """Ask for a decision about work that is finished: nothing waits for it.

        `on_decision` says which events begin a run: the host of this file begins it, once. `token`
        tells this request from others under the key (by default the key itself): asking again
        with the same one changes nothing, also after it was decided. Raises ApprovalTakenError if
        the key has another open approval, TypeError or ValueError for events that nobody could
        decide, or an `on_decision` that is for none of them.
        """
        named, following = several(events), dict(on_decision or {})
        _require_continuations(following, named)
        asked = Approval(
            key=key,
            token=key if token is None else token,
            file=self.file,
            events=named,
            meta=meta,
            continuations=following,
        )
        self.announce(asked)
        return asked

    def withdraw(self, approval: Approval) -> None:
        """Note that an approval is open no more; a decision that came too late is recorded."""
        with self.state.transaction():
            found = self.find(approval.key)
            if found is None or not is_same(found, approval):
                return
            self._open.delete(approval.key)
            decision: Decision | None = self._waiting.get(approval.key)
            if decision is not None:
                self._conclude(decision, replace(decision, outcome=RECORDED))

    # -- what is decided --------------------------------------------------------------------------

    def decide(
        self,
        key: str,
        event: str,
        *,
        by: str | None = None,
        data: Mapping[str, Any] | None = None,
        early_ttl_ms: int | None = None,
    ) -> Decision:
        """Decide what is open under a key, from any process: of many callers at once, one does.

        `data` goes to the gate with the event. With `early_ttl_ms` an approval that is not open
        yet may be decided: the decision waits for it so long. A decision about finished work
        that begins no run is settled at once.

        Raises AlreadyDecidedError, ApprovalNotFoundError, DecisionRefusedError for an event that
        the approval does not take, TypeError for data that is no mapping from texts.
        """
        require_names(data)
        made = Decision(
            key=key,
            token=None,
            event=event,
            by=by,
            data=dict(data or {}),
            decided_ms=self._clock.now_ms(),
        )
        with self.state.transaction():
            approval = self.find(key)
            if approval is None:
                return self._decide_early(made, early_ttl_ms)
            if event not in approval.events:
                raise DecisionRefusedError(key, event, approval.events)
            decision = replace(made, token=approval.token, file=approval.file)
            self._win(decision, None)
            if approval.run_id is None and event not in approval.continuations:
                return self.settle(decision, RECORDED)
            return decision

    def _decide_early(self, decision: Decision, ttl_ms: int | None) -> Decision:
        last: Decision | None = self._decided.get(decision.key)
        if last is not None and not _is_refused(last):
            raise AlreadyDecidedError(last.key, last.event, last.by)
        if ttl_ms is None:
            waiting: Decision | None = self._waiting.get(decision.key)
            if waiting is not None:
                raise AlreadyDecidedError(waiting.key, waiting.event, waiting.by)
            raise ApprovalNotFoundError(decision.key)
        self._win(decision, ttl_ms)
        return decision

    def _win(self, decision: Decision, ttl_ms: int | None) -> None:
        """Put the decision under its key, or raise AlreadyDecidedError: one put decides."""
        while not self._waiting.put_if_absent(decision.key, decision, ttl_ms=ttl_ms):
            first: Decision | None = self._waiting.get(decision.key)
            if first is not None:
                raise AlreadyDecidedError(first.key, first.event, first.by)

    def settle(self, decision: Decision, outcome: str) -> Decision:
        """Note what became of a decision, and return it so.

        A decision that was refused leaves its approval open, for another one. A host that was
        stalled, and settles what its successor has settled, changes nothing, whatever it says.
        """
        with self.state.transaction():
            settled = replace(decision, outcome=outcome)
            if self._is_late(decision):
                return settled
            approval = self.find(decision.key)
            if approval is not None and decision.token in (None, approval.token):
                settled = replace(settled, token=approval.token, file=approval.file)
                if not outcome.startswith(REFUSED):
                    self._open.delete(decision.key)
            return self._conclude(decision, settled)

    def _is_late(self, decision: Decision) -> bool:
        """Whether a decision does not wait any more: what became of it is noted, or was."""
        waiting: Decision | None = self._waiting.get(decision.key)
        if waiting is not None:
            return not _is_the_one(waiting, decision)
        with suppress(DecodeError):  # whoever can read it knows what it is about
            last: Decision | None = self._decided.get(decision.key)
            if last is not None:
                is_of_opening = decision.token is not None and is_same(last, decision)
                return is_of_opening or _made(last) == _made(decision)
        return False

    def _conclude(self, decision: Decision, settled: Decision) -> Decision:
        self._decided.put(decision.key, settled, ttl_ms=self._ttl_ms)
        waiting: Decision | None = self._waiting.get(decision.key)
        if waiting is not None and _is_the_one(waiting, decision):
            self._waiting.delete(decision.key)
        return settled

    # -- what can be asked ------------------------------------------------------------------------

    def find(self, key: str) -> Approval | None:
        """Return what is open under a key, None if nothing is."""
        found: Approval | None = self._open.get(key)
        return found

    def decision(self, key: str) -> Decision | None:
        """Return what was decided last under a key, settled or not; None if nothing was."""
        found: Decision | None = self._waiting.get(key) or self._decided.get(key)
        return found

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_ROWS_MAX
    ) -> builtins.list[Approval]:
        """Return the open approvals whose keys start with `prefix`, by key, behind `after`."""
        return [entry.value for entry in self._open.list(prefix, after=after, limit=limit)]

    def unsettled(self) -> builtins.list[Decision]:
        """Return the decisions that no host has settled yet, by key.

        One that this store's codec cannot read is left out: whoever can will settle it.
        """
        return builtins.list(self._waiting.readable())

    def opened(self) -> builtins.list[Approval]:
        """Return all open approvals, by key, but for those that this store's codec cannot read."""
        return builtins.list(self._open.readable())


def is_same(one: Approval | Decision, approval: Approval | Decision) -> bool:
    """Whether something is, or is about, this very opening."""
    return (one.token, one.file) == (approval.token, approval.file)


def _is_the_one(waiting: Decision, settled: Decision) -> bool:
    """Whether a decision that waits is the one that was settled, and no later one.

    A host that was stalled may settle once more what its successor has refused, while another
    decision about the same opening waits.
    """
    return settled.token in (None, waiting.token) and _made(waiting) == _made(settled)


def _made(decision: Decision) -> tuple[str, str | None, int]:
    """What tells a decision from others about the same opening."""
    return decision.event, decision.by, decision.decided_ms


def _is_refused(decision: Decision) -> bool:
    return decision.outcome is not None and decision.outcome.startswith(REFUSED)


def _require_continuations(following: Mapping[str, Any], events: tuple[str, ...]) -> None:
    strange = [event for event in following if event not in events]
    if strange:
        message = f"on_decision has {strange!r}: expected some of the events {events!r}"
        raise ValueError(message)
    for event, one in following.items():
        if not isinstance(one, Continuation):
            message = f"on_decision[{event!r}] is a {type(one).__name__}: expected a Continuation"
            raise TypeError(message)
