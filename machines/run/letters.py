"""What a run was handed from the mailbox: each entry is settled in the very save that holds it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.engine.queues import answer_waiter
from machines.run.activity import nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from machines.engine.queues import Queued
    from machines.engine.tree import Tree
    from machines.run.run import Run
    from snapshots.records import Status


@dataclass(slots=True, eq=False)
class Letter:
    """One entry of the mailbox on its way into a run.

    Who handed it in waits, as a caller would, until a save holds it, whether its event has run
    by then or is queued. From there on nobody waits for it: what a queued event raises later
    ends the run, as it would after a restart.
    """

    settle: Callable[[], object]
    """Writes its outcome; called in the transaction of the save."""
    waiter: Any
    """Is answered once a save holds the entry, and gets what its event raised before that."""
    settled: bool = False


class Letters:
    """The entries that a run was handed and that no save holds yet."""

    def __init__(self) -> None:
        self._events: dict[int, Letter] = {}
        """Those that are events, by the number that their tree gives them."""
        self._acts: list[Letter] = []
        """Those that are carried out on the run: its next save holds them, whatever else."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._events or self._acts)

    def expect(self, seq: int, letter: Letter) -> None:
        """Know the entry of the event that will have this number."""
        self._events[seq] = letter

    def carry(self, letter: Letter) -> None:
        """Know the entry of what is carried out before the next save."""
        self._acts.append(letter)

    def drop(self, letter: Letter) -> None:
        """Forget an entry that did not come into the run, or is settled."""
        self._events = {seq: other for seq, other in self._events.items() if other is not letter}
        self._acts = [other for other in self._acts if other is not letter]

    def are_waited_for_by(self, waiter: Any) -> bool:
        """Whether somebody waits for an event of which no save says yet that it was taken."""
        return any(letter.waiter is waiter for letter in self._events.values())

    def settling(self, run: Run, status: Status, *, sync: bool) -> AbstractContextManager[bool]:
        """Return the context of a save; it gives whether the save itself is to be synced.

        What the save holds is settled in its transaction. If either fails, neither happened.
        """
        held = self._held(run.tree, status) if self._events or self._acts else None
        return self._together(run, held, sync=sync) if held else nullcontext(sync)

    @contextmanager
    def _together(self, run: Run, held: dict[Letter, int], *, sync: bool) -> Iterator[bool]:
        row = run.row
        undo = row.keep()
        try:
            with run.store.transaction(sync=sync):
                yield False
                for letter in held:
                    letter.settle()
        except BaseException as error:
            undo()
            row.refusal = error
            raise
        self._let_go(run.tree, held)

    def _held(self, tree: Tree, status: Status) -> dict[Letter, int]:
        """Return the entries that a save of this moment holds, with the number of their event."""
        if status == "live":
            there = {item.seq for item in _items(tree)} | {timer.seq for timer in tree.timers}
        elif tree.running is None:
            # A run that ends holds the event that ended it; what waits behind it is told so.
            there = {item.seq for item in _current(tree)}
        else:
            there = set()
        acts = dict.fromkeys(self._acts, 0)
        events = {one: seq for seq, one in self._events.items() if seq in there}
        return acts | {one: seq for one, seq in events.items() if not one.waiter.done()}

    def _let_go(self, tree: Tree, held: dict[Letter, int]) -> None:
        """Let nobody wait for the events of entries that are settled, and say so to who did."""
        seqs = set(held.values())
        for item in _items(tree):
            if item.seq in seqs:
                item.trigger.future = None
        timers = {timer.seq for timer in tree.timers}
        for letter, seq in held.items():
            letter.settled = True
            self.drop(letter)
            if seq not in timers:  # a delayed event is answered by who set its timer
                answer_waiter(letter.waiter, None)


def _items(tree: Tree) -> Iterator[Queued]:
    """Yield the events that are in a tree: arrived, queued, or run by the macrostep that ends."""
    for arrival in (*tree.admitted, *tree.arrivals):
        yield arrival.item
    for node in nodes_of(tree):
        yield from node.engine.external_queue.items
    yield from _current(tree)


def _current(tree: Tree) -> Iterator[Queued]:
    for node in nodes_of(tree):
        if node.engine.current is not None:
            yield node.engine.current
