"""Changes of a run's ledgers at the write: on disk before they return, from whatever thread."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from machines.errors import HostStoppedError, RunFinishedError
from machines.limits import WRITE_WAIT_S
from machines.run.worker import UNSAVED
from snapshots.storage.nesting import OpenTransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from machines.run.run import Run

T = TypeVar("T")


def lent(run: Run) -> OpenTransactionError | None:
    """Return why a run is not to be saved now: it would be a part of a storage's transaction.

    That may be taken back, or still be open when what the save allows begins. Without a loop a
    run may be stored in one for the first time: what follows from it needs a save of its own.
    """
    if run.store.is_lent and (run.header is not None or run.has_loop):
        return OpenTransactionError(run.run_id, run.store.path)
    return None


def save_timers(run: Run) -> None:
    """Save a run whose timers were set or cancelled between two macrosteps; see `Tree.unsaved`.

    What cannot be saved is taken back: raises what the save does.
    """
    backs, run.tree.unsaved = run.tree.unsaved, []

    def undo() -> None:
        for back in reversed(backs):
            back()

    if refusal := lent(run):
        undo()
        raise refusal
    with _taken_back(run, undo):
        run.write()


@contextmanager
def _taken_back(run: Run, undo: Callable[[], object]) -> Iterator[None]:
    """Undo what the block has changed if it raises; a save that failed is tried again."""
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, UNSAVED):
            run.worker.stalled(run, error)
        raise


class Pen:
    """Writes what the books of a run change; see `machines.books`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def now_ms(self) -> int:
        """Return the time by the run's clock."""
        return self._run.clock.now_ms()

    def own(self, value: Any, where: str) -> Any:
        """Return a value as a restore would give it, so that nobody else can change it.

        Raises EncodeError, with a path that begins with `where`.
        """
        return self._run.machine.codec.copy(value, root=where)

    def change(self, keep: Callable[[], Callable[[], None]], change: Callable[[], T]) -> T:
        """Change a ledger, save the run, and return what the change returned.

        `keep` returns what takes the change back: it is, if it raises or cannot be saved. In the
        middle of a run's first macrostep it is saved with that. Raises RunFinishedError,
        HostStoppedError, and what the save raises.
        """
        run = self._run
        if run.tree.thread == threading.get_ident():
            return self._write(keep, change)
        asked: Future[T] = Future()
        try:
            run.post(partial(self._answer, asked, keep, change))
        except RuntimeError as error:  # its loop is closed
            raise HostStoppedError(run.store.path, "its loop has ended") from error
        return self._wait(asked)

    def _write(self, keep: Callable[[], Callable[[], None]], change: Callable[[], T]) -> T:
        run = self._run
        if not run.goes_on:
            self._refuse()
        # Before anything is changed, and no failed save: who opened the block is at fault.
        if run.header is not None and (refusal := lent(run)):
            raise refusal
        with _taken_back(run, keep()):
            result = change()
            if run.header is not None:
                run.write()
        return result

    def _refuse(self) -> None:
        run = self._run
        if run.status != "live":
            raise RunFinishedError(run.run_id, run.status)
        raise HostStoppedError(run.store.path, f"it has let go of run {run.run_id!r}")

    def _answer(
        self, asked: Future[T], keep: Callable[[], Callable[[], None]], change: Callable[[], T]
    ) -> None:
        if not asked.set_running_or_notify_cancel():
            return
        try:
            result = self._write(keep, change)
        except Exception as error:  # noqa: BLE001 - who asked is on another thread, and gets it there
            asked.set_exception(error)
        else:
            asked.set_result(result)

    def _wait(self, asked: Future[T]) -> T:
        """Wait for the run's thread; a host that stops calls nothing that was posted to it."""
        while True:
            try:
                return asked.result(WRITE_WAIT_S)
            except TimeoutError:
                if asked.done():
                    return asked.result()
                if self._run.over and asked.cancel():
                    self._refuse()
