"""The mailbox of a host: each entry is taken to its run, in order, and settled once.

An entry is settled `taken` in the very save that holds what it asks for, or by itself with the
reason for which it is refused. Until then it stays in the file: a host that dies, stops or cannot
save leaves it to be tried again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from machines.errors import HostStoppedError, MachinesError
from machines.host.asked import Asked
from machines.host.desk import Desk
from machines.limits import (
    MAIL_HELD_MAX,
    MAIL_KNOWN_MAX,
    MAIL_PAGES_MAX,
    MAIL_POLL_MS,
    MAIL_REST_S,
    SAVE_RETRY_MS,
    SAVE_RETRY_MS_MAX,
)
from machines.run import inbox as entering
from machines.run.ending import cancel
from machines.run.letters import Letter
from machines.run.worker import UNSAVED
from snapshots.codec import Codec
from snapshots.errors import (
    FencedError,
    RevisionConflictError,
    RunNotFoundError,
    SnapshotsError,
    StorageError,
)
from snapshots.limits import MAILBOX_SETTLED_MS, MAILBOX_SLICE_ROWS
from snapshots.mailbox import REFUSED, TAKEN, TAKEN_BEFORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from machines.definition import Machine
    from machines.run.run import Run
    from machines.run.waiters import Receipt
    from snapshots.clock import Clock
    from snapshots.mailbox import Mailbox
    from snapshots.records import MailboxEntry, PendingEntry

    Enter = Callable[[Run, entering.Incoming, Any], Receipt | None]


class _UndecidedError(Exception):
    """An entry came to nothing that could be said of it: it is tried again."""


UNDECIDED = (_UndecidedError, StorageError, FencedError, RevisionConflictError, HostStoppedError)
"""What leaves an entry in the mailbox: nothing was saved, and nothing speaks against it."""


class Boxes:
    """Which entries a host knows of, by run, the oldest first.

    The file is read page by page, from its oldest entry to its newest and over again. Of one run
    no more than a bound is known, and nothing behind what was passed over: its order stands.
    """

    def __init__(self) -> None:
        self.after = 0
        """Where the next page begins."""
        self._boxes: dict[str, deque[int]] = {}
        self._known: set[int] = set()
        self._passed_over: set[str] = set()

    def __len__(self) -> int:
        return len(self._known)

    def take(self, page: list[PendingEntry]) -> list[str]:
        """Take a page in, and return the runs of which nothing was known before."""
        begun = [found.run_id for found in page if self._take(found)]
        self.after = page[-1].entry if len(page) == MAILBOX_SLICE_ROWS else 0
        if self.after == 0:
            self._passed_over.clear()
        return begun

    def _take(self, found: PendingEntry) -> bool:
        if found.entry in self._known or found.run_id in self._passed_over:
            return False
        box = self._boxes.setdefault(found.run_id, deque())
        if len(box) >= MAIL_HELD_MAX:
            self._passed_over.add(found.run_id)
            return False
        box.append(found.entry)
        self._known.add(found.entry)
        return len(box) == 1

    def first(self, run_id: str) -> int | None:
        """Return the oldest entry of a run, None if there is none."""
        box = self._boxes.get(run_id)
        return box[0] if box else None

    def settled(self, run_id: str) -> None:
        """Forget the oldest entry of a run."""
        box = self._boxes[run_id]
        self._known.discard(box.popleft())
        if not box:
            del self._boxes[run_id]


class Mailroom(Desk):
    """A desk that takes what other processes have put into its file's mailbox too."""

    _mailbox: Mailbox

    def __init__(
        self, path: str, machines: dict[str, Machine], clock: Clock, *, verify: bool
    ) -> None:
        super().__init__(path, machines, clock, verify=verify)
        self._boxes = Boxes()

    async def _deliver(self) -> None:
        """Look into the mailbox for ever; what one run waits for holds up no other."""
        async with asyncio.TaskGroup() as rounds:
            while self._stopped is None:
                for run_id in self._look_into_mailbox():
                    rounds.create_task(self._serve(run_id))
                await asyncio.sleep(MAIL_POLL_MS / 1000)

    def _look_into_mailbox(self) -> list[str]:
        """Return the runs for which there is something now, and was nothing before."""
        begun: list[str] = []
        for _ in range(MAIL_PAGES_MAX):
            if len(self._boxes) >= MAIL_KNOWN_MAX:
                break
            try:
                page = self._mailbox.pending(self._boxes.after)
            except StorageError:
                break  # what cannot be read now is still there at the next look
            begun += self._boxes.take(page)
            if self._boxes.after == 0:
                break
        return begun

    def _sweep_mailbox(self) -> int:
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
            if await self._settle(entry):
                wait_ms = SAVE_RETRY_MS
                await asyncio.sleep(0)
                # Nothing awaits from here to the look at what is next: a run is served once.
                self._boxes.settled(run_id)
            else:
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, SAVE_RETRY_MS_MAX)

    async def _settle(self, number: int) -> bool:
        """Do what an entry asks for; False if it is to be tried again."""
        try:
            with self._watching_for_the_fence():
                entry = self._mailbox.entry(number)
                if entry is not None and entry.outcome is None:
                    outcome = await self._outcome(entry)
                    if outcome is not None:
                        self._mailbox.settle([number], outcome)
        except UNDECIDED:
            return False
        return True

    async def _outcome(self, entry: MailboxEntry) -> str | None:
        """Return how an entry is to be settled; None if a save has settled it."""
        waiter = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(_hear)
        settle = partial(self._mailbox.settle, [entry.entry], TAKEN)
        letter = Letter(settle, waiter)
        try:
            outcome = await self._carry_out(entry, letter)
        except UNDECIDED:
            raise
        except Exception as error:  # noqa: BLE001 - whatever speaks against it, its sender is told
            outcome = REFUSED + self._reason(entry.run_id, error)
        if letter.settled and outcome is not None:
            # Nobody waits for it any more: who looks at the host can see it.
            self.report.unresumed[entry.run_id] = outcome.removeprefix(REFUSED)
            return None
        return outcome

    def _reason(self, run_id: str, error: Exception) -> str:
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
        return await act(asked, letter)

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
        if not letter.settled:
            await letter.waiter
            raise _UndecidedError  # the run has ended without it, and says so at the next try
        return None

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


def _hear(waiter: asyncio.Future[None]) -> None:
    """Hear an error that nobody waits for any more, since the host stops."""
    if not waiter.cancelled():
        waiter.exception()
