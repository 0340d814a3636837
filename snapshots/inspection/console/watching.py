"""Who listens for news of the file, and the one look at it on behalf of all of them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from snapshots.errors import SnapshotsError
from snapshots.inspection.console.errors import CrowdedError
from snapshots.inspection.console.reading import identity_of
from snapshots.inspection.limits import (
    CONSOLE_BEAT_MS,
    CONSOLE_LISTENERS_MAX,
    CONSOLE_LOOK_MS,
    CONSOLE_NEWS_MS,
    CONSOLE_READ_MS_MAX,
)
from snapshots.inspection.queries.browsing import head_of
from snapshots.inspection.queries.files import open_run_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from snapshots.inspection.console.reading import Reader
    from snapshots.inspection.queries.files import RunFile

_MS_PER_S: Final = 1_000
_PAGES: Final = "pages that are kept up to date"


class Listener:
    """One open page: of one run, or of the list where `run_id` is None."""

    def __init__(self, run_id: str | None) -> None:
        """Listen for news of a run, or of any."""
        self.run_id = run_id
        self.news = asyncio.Event()
        # The page was made before it listened, and may have missed something.
        self.news.set()


class Watch:
    """Looks at the file while somebody listens, and tells those whom a change concerns.

    A look reads a counter of SQLite's that changes with any commit; only then are the runs looked
    at that somebody listens to. Nothing is queued: a listener has news, or has none.
    """

    def __init__(self, reader: Reader) -> None:
        """Look through the threads of `reader`."""
        self._reader = reader
        self._listeners: set[Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._file: RunFile | None = None
        self._identity: tuple[int, ...] = ()
        self._seen: tuple[object, ...] = ()
        self._heads: dict[str, tuple[int, str] | None] = {}
        self._is_closed = False
        self._is_readable = True
        self._hold = Lock()

    async def close(self) -> None:
        """End every stream, and the looking; a second time is harmless."""
        self._is_closed = True
        for listener in self._listeners:
            listener.news.set()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
            self._looking = None
        # A look that is under way goes on in its thread, however its task was ended: it is waited
        # for, and none that comes later opens anything.
        with self._hold:
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def require_room(self) -> None:
        """Raise `CrowdedError` if as many listen as may."""
        if len(self._listeners) >= CONSOLE_LISTENERS_MAX:
            raise CrowdedError(_PAGES, CONSOLE_LISTENERS_MAX)

    @contextmanager
    def listening(self, run_id: str | None) -> Iterator[Listener]:
        """Have a listener for the length of the block. Raises `CrowdedError`."""
        self.require_room()
        listener = Listener(run_id)
        self._listeners.add(listener)
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and not self._is_closed:
            self._looking = asyncio.create_task(self._look_on())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def stream(self, run_id: str | None) -> AsyncIterator[str]:
        """Yield server-sent events: `changed` for news, and a comment where there is none."""
        with self.listening(run_id) as listener:
            # The browser comes back by itself, not sooner than this.
            yield f"retry: {4 * CONSOLE_NEWS_MS}\n\n"
            while not self._is_closed:
                try:
                    async with asyncio.timeout(CONSOLE_BEAT_MS / _MS_PER_S):
                        await listener.news.wait()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if self._is_closed:
                    return
                listener.news.clear()
                yield "event: changed\ndata: 1\n\n"
                await asyncio.sleep(CONSOLE_NEWS_MS / _MS_PER_S)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(CONSOLE_LOOK_MS / _MS_PER_S)
            if not self._listeners:
                continue
            run_ids = {each.run_id for each in self._listeners if each.run_id is not None}
            try:
                changed = await self._reader.work(partial(self._look, run_ids))
            except CrowdedError:
                continue
            except SnapshotsError:
                self._note(is_readable=False)
                continue
            self._note(is_readable=True)
            for listener in self._listeners:
                if changed is not None and (listener.run_id is None or listener.run_id in changed):
                    listener.news.set()

    def _note(self, *, is_readable: bool) -> None:
        """Tell everybody that the file cannot be read any more, or can be again."""
        if is_readable != self._is_readable:
            self._is_readable = is_readable
            for listener in self._listeners:
                listener.news.set()

    def _look(self, run_ids: set[str]) -> set[str] | None:
        """Return which of the runs have changed, None if nothing in the file has.

        A run that was not looked at before counts as changed: its page may be older than this.
        """
        with self._hold:
            if self._is_closed:
                return None
            try:
                return self._changed(run_ids)
            except SnapshotsError:
                # Whatever is the matter with it, the next look shall not depend on it.
                file, self._file = self._file, None
                if file is not None:
                    file.close()
                raise

    def _changed(self, run_ids: set[str]) -> set[str] | None:
        identity = identity_of(self._reader.path)
        if self._file is not None and identity != self._identity:
            self._file.close()
            self._file = None
        if self._file is None:
            self._file = open_run_file(self._reader.path, read_ms_max=CONSOLE_READ_MS_MAX)
            self._identity = identity
        seen = (identity, self._file.version())
        if seen == self._seen and run_ids <= self._heads.keys():
            return None
        heads = {run_id: head_of(self._file, run_id) for run_id in run_ids}
        changed = {run_id for run_id in run_ids if self._heads.get(run_id) != heads[run_id]}
        self._seen, self._heads = seen, heads
        return changed
