"""The mailbox of a host: each entry is taken to its run, in order, and settled once.

Only the end of a run, which nothing may hold up, overtakes what has waited for a while.

An entry is settled `taken` in the very save that holds what it asks for, or by itself with the
reason for which it is refused. Until then it stays in the file: a host that dies, stops or cannot
save leaves it to be tried again, and so does one that cannot take its run up, or has set it aside:
a bad deploy loses no answer.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from machines.errors import HostStoppedError, MachinesError, RunFinishedError
from machines.host.asked import Asked
from machines.host.boxes import Boxes
from machines.host.desk import Desk
from machines.limits import (
    MAIL_ASIDE_S,
    MAIL_KNOWN_MAX,
    MAIL_PAGES_MAX,
    MAIL_POLL_MS,
    MAIL_REST_S,
    MAIL_SLICE_RUNS,
    SAVE_RETRY_MS,
    SAVE_RETRY_MS_MAX,
)
from machines.run import inbox as entering
from machines.run.ending import cancel
from machines.run.letters import Letter
from machines.run.waiters import hear
from machines.run.worker import UNSAVED
from snapshots.codec import Codec
from snapshots.errors import (
    FencedError,
    RevisionConflictError,
    RunNotFoundError,
    SnapshotsError,
    StorageError,
)
from snapshots.limits import MAILBOX_SETTLED_MS
from snapshots.mailbox import REFUSED, TAKEN, TAKEN_BEFORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from machines.definition import Machine
    from machines.run.run import Run
    from machines.run.waiters import Receipt
    from snapshots.clock import Clock
    from snapshots.mailbox import Mailbox
    from snapshots.records import MailboxEntry

    Enter = Callable[[Run, entering.Incoming, Any], Receipt | None]


class _UndecidedError(Exception):
    """An entry came to nothing that could be said of it: it is tried again."""


class _SetAsideError(Exception):
    """The run of an entry cannot be taken up now: it waits until it can."""


UNDECIDED = (_UndecidedError, StorageError, FencedError, RevisionConflictError, HostStoppedError)
"""What leaves an entry in the mailbox: nothing was saved, and nothing speaks against it."""


SET_ASIDE = ("drifted", "lost")
"""Statuses that a host gave and that a revival takes back."""


class Mailroom(Desk):
    """A desk that takes what other processes have put into its file's mailbox too."""

    _mailbox: Mailbox

    def __init__(
        self, path: str, machines: dict[str, Machine], clock: Clock, *, verify: bool
    ) -> None:
        super().__init__(path, machines, clock, verify=verify)
        self._boxes = Boxes()
        self._ends: set[int] = set()
        """Entries that end a run, until they are settled."""

    def _is_idle(self, run: Run) -> bool:
        """Whether a run may leave memory: no entry that is for it waits to be settled."""
        return self._boxes.first(run.run_id) is None and super()._is_idle(run)

    async def _deliver(self) -> None:
        """Look into the mailbox for ever; what one run waits for holds up no other."""
        async with asyncio.TaskGroup() as rounds:
            while self._stopped is None:
                self.told.look()
                begun, ends = self._look_into_mailbox()
                for entry in ends:
                    rounds.create_task(self._overtake(entry))
                for number, run_id in enumerate(begun, start=1):
                    rounds.create_task(self._serve(run_id))
                    if number % MAIL_SLICE_RUNS == 0:
                        await asyncio.sleep(0)
                await asyncio.sleep(MAIL_POLL_MS / 1000)

    def _look_into_mailbox(self) -> tuple[list[str], list[int]]:
        """Return the runs for which there is something now and was nothing before.

        Behind them stand the entries that end a run and were not known before.
        """
        begun: list[str] = []
        ends: list[int] = []
        for _ in range(MAIL_PAGES_MAX):
            if len(self._boxes) >= MAIL_KNOWN_MAX:
                break
            try:
                page = self._mailbox.pending(self._boxes.after)
            except StorageError:
                break  # what cannot be read now is still there at the next look
            begun += self._boxes.take(page, asyncio.get_running_loop().time())
            ends += [found.entry for found in page if found.kind == "cancel"]
            if self._boxes.after == 0:
                break
        room = max(0, MAIL_KNOWN_MAX - len(self._ends))
        new = [entry for entry in ends if entry not in self._ends][:room]
        self._ends.update(new)
        return begun, new

    async def _sweep_mailbox(self) -> int:
        """Delete a slice of what was settled more than a day ago."""
        self._require_open()
        with self._watching_for_the_fence():
            swept = self._mailbox.sweep(self.clock.now_ms() - MAILBOX_SETTLED_MS)
        # Numbers may be given again now, below what the next page begins with.
        self._boxes.after = 0
        return swept

    async def _serve(self, run_id: str) -> None:
        """Settle the entries of a run one after the other, until there is none."""
        wait_ms = SAVE_RETRY_MS
        while self._stopped is None and (entry := self._boxes.first(run_id)) is not None:
            try:
                is_settled = await self._settle(entry)
            except _SetAsideError:
                self._boxes.rest(run_id, asyncio.get_running_loop().time() + MAIL_ASIDE_S)
                return
            if is_settled:
                wait_ms = SAVE_RETRY_MS
                await asyncio.sleep(0)
                # Nothing awaits from here to the look at what is next: a run is served once.
                self._boxes.settled(run_id)
            else:
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, SAVE_RETRY_MS_MAX)

    async def _overtake(self, entry: int) -> None:
        """End a run after a while, though what came before may wait for it for ever."""
        await asyncio.sleep(MAIL_REST_S)
        with suppress(_SetAsideError):
            while self._stopped is None and not await self._settle(entry):  # noqa: ASYNC110 - it acts
                await asyncio.sleep(SAVE_RETRY_MS_MAX / 1000)
        self._ends.discard(entry)

    async def _settle(self, number: int) -> bool:
        """Do what an entry asks for; False if it is to be tried again.

        Raises _SetAsideError if its run has to be taken up first, and cannot be.
        """
        try:
            with self._watching_for_the_fence():
                entry = self._mailbox.entry(number)
                if entry is not None and entry.outcome is None:
                    outcome = await self._outcome(entry)
                    if outcome is not None:
                        self._mailbox.settle([number], outcome)
                    self.told.mailed(entry, outcome or TAKEN, self._resident.get(entry.run_id))
        except UNDECIDED:
            return False
        return True

    async def _outcome(self, entry: MailboxEntry) -> str | None:
        """Return how an entry is to be settled; None if a save has settled it."""
        waiter = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(hear)
        settle = partial(self._mailbox.settle, [entry.entry], TAKEN)
        letter = Letter(settle, waiter)
        try:
            outcome = await self._carry_out(entry, letter)
        except (_SetAsideError, *UNDECIDED):
            raise
        except asyncio.CancelledError as error:
            if self._shop.hands.are_ended():
                raise
            # A gate's model raised it, say: who serves the run must not end for that.
            outcome = REFUSED + self._reason(entry.run_id, error)
        except Exception as error:  # noqa: BLE001 - whatever speaks against it, its sender is told
            outcome = REFUSED + self._reason(entry.run_id, error)
        if letter.settled and outcome is not None:
            # Nobody waits for it any more: who looks at the host can see it.
            self.report.unresumed[entry.run_id] = outcome.removeprefix(REFUSED)
            return None
        return outcome

    def _reason(self, run_id: str, error: BaseException) -> str:
        """Return what is said against an entry, cut and cleared as what is stored of an error."""
        said: str = self._codec_of(run_id).to_plain(error)["v"]
        ours = isinstance(error, SnapshotsError | MachinesError)
        return said if ours else f"{type(error).__name__}: {said}"

    def _codec_of(self, run_id: str) -> Codec:
        live = self._resident.get(run_id)
        if live is not None:
            return live.machine.codec
        try:
            machine = self.machines.get(self.store.load(run_id).header.machine)
        except RunNotFoundError:
            machine = None
        return Codec() if machine is None else machine.codec

    # -- what an entry asks for -------------------------------------------------------------------

    async def _carry_out(self, entry: MailboxEntry, letter: Letter) -> str | None:
        kinds: dict[str, Callable[[Asked, Letter], Awaitable[str | None]]] = {
            "send": self._mail_send,
            "answer": self._mail_answer,
            "resolve": self._mail_resolve,
            "cancel": self._mail_cancel,
            "revive": self._mail_revive,
        }
        act, asked = kinds.get(entry.kind), Asked.of(entry)
        if act is None:
            reason = f"its kind is {entry.kind!r}, expected one of {', '.join(kinds)}"
            raise asked.refused(reason)
        if self._resolve(entry.run_id) != entry.run_id:
            raise RunNotFoundError(entry.run_id, self.path)  # a longer id that begins so is another
        if entry.kind != "revive":
            self._require_taken_up(entry.run_id)
        return await act(asked, letter)

    def _require_taken_up(self, run_id: str) -> None:
        """Take a run up, if it is live; what speaks against that speaks not against its mail."""
        try:
            self.live(run_id)
        except StorageError:
            raise
        except RunFinishedError as error:
            if error.fields["status"] in SET_ASIDE:
                raise _SetAsideError from error
        except (SnapshotsError, MachinesError) as error:
            raise _SetAsideError from error

    async def _mail_send(self, asked: Asked, letter: Letter) -> str | None:
        event, delivery = asked.event(), asked.entry.delivery
        scope = asyncio.timeout(MAIL_REST_S)
        try:
            # At rest the run takes it next, so that its sender hears what its macrostep raises.
            async with scope:
                live = await self._ready_for(asked.run_id, event, delivery, quiet=True)
        except TimeoutError:
            if not scope.expired():
                raise
            live = await self._ready_for(asked.run_id, event, delivery)

        def enter(run: Run, given: entering.Incoming, waiter: Any) -> Receipt | None:
            entering.require_known(run, event)
            return entering.send(run, given, waiter=waiter, delivery=delivery)

        return await self._hand_in(live, asked, letter, enter)

    async def _mail_answer(self, asked: Asked, letter: Letter) -> str | None:
        gate, event, delivery = asked.text("gate"), asked.event(), asked.entry.delivery
        live = await self._ready_for(asked.run_id, event, delivery, quiet=True)

        def enter(run: Run, given: entering.Incoming, waiter: Any) -> Receipt | None:
            return entering.answer(run, gate, given, waiter, delivery=delivery)

        return await self._hand_in(live, asked, letter, enter)

    async def _hand_in(
        self, live: Run | None, asked: Asked, letter: Letter, enter: Enter
    ) -> str | None:
        """Hand an event to the run that is ready for it, and wait until a save holds it.

        The mailbox is a caller that waits: what the macrostep raises is the refusal of this one
        event, and the run stays live.
        """
        if live is None:
            return TAKEN_BEFORE
        given = entering.Incoming(event=asked.event(), data=asked.data(live.machine.codec))
        live.letters.expect(live.tree.seq + 1, letter)
        with self._trying(live, letter):
            receipt = enter(live, given, letter.waiter)
        if receipt is not None:
            live.letters.drop(letter)
            return TAKEN_BEFORE
        if asked.entry.delivery is not None:
            live.note_delivering(asked.entry.delivery, letter.waiter)
        # Whoever stops waiting here leaves the letter with the run: its save settles it.
        await asyncio.wait([letter.waiter])
        live.letters.drop(letter)
        return None if letter.settled else self._said_of(live, letter.waiter.exception())

    def _said_of(self, live: Run, error: BaseException | None) -> str:
        """Return why the event of a run is refused; raises what leaves its entry to be tried again.

        An error of the file's that a chart has raised by itself is said like any other.
        """
        if error is None:
            raise _UndecidedError  # the run has ended without it, and says so at the next try
        is_of_save = error is live.row.refusal or live.trouble is not None or not live.goes_on
        if isinstance(error, UNDECIDED) and not is_of_save:
            return REFUSED + self._reason(live.run_id, error)
        raise error

    async def _mail_resolve(self, asked: Asked, letter: Letter) -> str | None:
        live = self._unpause(self.live(asked.run_id))
        effect, attempt = asked.text("effect"), asked.attempt()
        outcome = asked.decision(live.machine.codec)
        live.letters.carry(letter)
        with self._trying(live, letter):
            self._decide(live, effect, attempt, **outcome)
        while not letter.settled and not live.over:
            # The decision is kept in memory, and saved once the file takes it.
            await asyncio.wait([letter.waiter], timeout=MAIL_POLL_MS / 1000)
        live.letters.drop(letter)
        if not letter.settled:
            raise _UndecidedError
        return None

    async def _mail_cancel(self, asked: Asked, letter: Letter) -> str | None:
        live = self.live(asked.run_id)
        reason = asked.text_or_none("reason")
        live.letters.carry(letter)
        with self._trying(live, letter):
            cancel(live, reason)
        return None

    async def _mail_revive(self, asked: Asked, letter: Letter) -> str | None:
        def settle() -> None:
            letter.settle()
            letter.settled = True

        try:
            self._revive(asked.run_id, settle)
        except UNDECIDED:
            letter.settled = False
            raise
        return None

    @contextmanager
    def _trying(self, live: Run, letter: Letter) -> Iterator[None]:
        """Take an entry back from a run that did not take it."""
        try:
            yield
        except BaseException as error:
            live.letters.drop(letter)
            if isinstance(error, UNSAVED):
                self.stalled(live, error)
            raise
