"""News for open pages: who hears of what, how many may listen, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from threading import Event

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.inspection.console.errors import CrowdedError
from snapshots.inspection.console.reading import Reader
from snapshots.inspection.console.watching import Watch
from snapshots.inspection.limits import (
    CONSOLE_LISTENERS_MAX,
    CONSOLE_READERS_MAX,
    CONSOLE_WAITING_MAX,
)
from snapshots.records import RunHeader
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.console.consoles import opened
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)

OTHER = "0299b1c2-7e1c-7b1e-9b3f-3a2b1c0d9e8f"
CHANGED = "event: changed\ndata: 1\n\n"
MODULE = "snapshots.inspection.console.watching"


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the console look, and tell, as soon as it can."""
    monkeypatch.setattr(f"{MODULE}.CONSOLE_LOOK_MS", 1)
    monkeypatch.setattr(f"{MODULE}.CONSOLE_NEWS_MS", 0)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file with two live runs open for writing, as a host would."""
    with open_store(path, clock=ManualClock()) as held:
        add(held, RUN)
        add(held, OTHER)
        yield held


def add(store: SqliteSnapshotStore, run_id: str) -> RunHeader:
    """Create a run as the fixtures describe it."""
    blob, shape = encoded(run_value(run=run_id)), encoded(SHAPE)
    return store.create(run_id=run_id, machine=MACHINE, digest=DIGEST, shape=shape, blob=blob)


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[Watch]:
    """Watch a file, and leave nothing behind."""
    reader = Reader(path)
    watch = Watch(reader)
    try:
        yield watch
    finally:
        await watch.close()
        reader.close()


async def calm(watch: Watch, run_id: str | None, stream: AsyncIterator[str]) -> None:
    """Read the news that a page gets because it may be older than its listener."""
    assert (await anext(stream)).startswith("retry: ")
    assert await anext(stream) == CHANGED
    # The first look at a run, or at the file, counts as a change.
    assert await anext(stream) == CHANGED
    assert [each.run_id for each in watch._listeners].count(run_id) == 1


async def test_a_commit_is_news_for_the_list(
    path: Path, store: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever run it was of, a new one too; without one there is none, however often it looks."""
    looks: list[set[str]] = []
    async with watching(path) as watch, aclosing(watch.stream(None)) as stream:
        await calm(watch, None, stream)
        look = watch._look
        monkeypatch.setattr(watch, "_look", lambda runs: (looks.append(runs), look(runs))[1])
        coming = asyncio.ensure_future(anext(stream))
        while len(looks) < 5:  # noqa: ASYNC110 - looks are counted, and nothing tells of one
            await asyncio.sleep(0)
        assert not coming.done()
        add(store, "new")
        assert await coming == CHANGED
        store.mark(store.load(OTHER).header, "lost", None)
        assert await anext(stream) == CHANGED


async def test_a_save_is_news_for_the_page_of_its_run_alone(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """The page of another run hears nothing of it."""
    async with watching(path) as watch:
        mine, other = watch.stream(RUN), watch.stream(OTHER)
        async with aclosing(mine), aclosing(other):
            await calm(watch, RUN, mine)
            await calm(watch, OTHER, other)
            coming = asyncio.ensure_future(anext(mine))
            waiting = asyncio.ensure_future(anext(other))
            store.mark(store.load(RUN).header, "lost", None)
            assert await coming == CHANGED
            assert not waiting.done()
            store.mark(store.load(OTHER).header, "lost", None)
            assert await waiting == CHANGED


async def test_a_file_put_in_place_of_another_is_news(path: Path, tmp_path: Path) -> None:
    """Its counter of changes says nothing about the file before it."""
    with open_store(path) as store:
        add(store, RUN)
    with open_store(tmp_path / "other.db") as store:
        add(store, OTHER)
    async with watching(path) as watch, aclosing(watch.stream(None)) as stream:
        await calm(watch, None, stream)
        coming = asyncio.ensure_future(anext(stream))
        (tmp_path / "other.db").replace(path)
        assert await coming == CHANGED


async def test_a_file_that_is_not_there_yet_is_waited_for(path: Path) -> None:
    """Looking goes on over an error, which is told once, and what comes is news."""
    async with watching(path) as watch, aclosing(watch.stream(None)) as stream:
        assert (await anext(stream)).startswith("retry: ")
        assert await anext(stream) == CHANGED
        assert await anext(stream) == CHANGED
        coming = asyncio.ensure_future(anext(stream))
        with open_store(path) as store:
            add(store, RUN)
            assert await coming == CHANGED


async def test_a_file_that_can_no_longer_be_read_is_news_for_every_page(
    path: Path, tmp_path: Path
) -> None:
    """Or they would go on to call what they show live; so is that it can be read again."""
    with open_store(path) as store:
        add(store, RUN)
    async with watching(path) as watch, aclosing(watch.stream(RUN)) as stream:
        await calm(watch, RUN, stream)
        (tmp_path / path.name).replace(tmp_path / "kept.db")
        assert await anext(stream) == CHANGED
        coming = asyncio.ensure_future(anext(stream))
        (tmp_path / "kept.db").replace(path)
        assert await coming == CHANGED


async def test_a_listener_hears_that_the_line_is_there(
    path: Path, store: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment, which a browser ignores, and which fails where nobody reads any more."""
    assert store.path
    async with watching(path) as watch, aclosing(watch.stream(None)) as stream:
        await calm(watch, None, stream)
        monkeypatch.setattr(f"{MODULE}.CONSOLE_BEAT_MS", 1)
        assert await anext(stream) == ": still here\n\n"


async def test_so_many_may_listen_and_no_more(path: Path, store: SqliteSnapshotStore) -> None:
    """One beyond is told so by the status of the answer, and may once another has gone."""
    assert store.path
    async with watching(path) as watch:
        streams = [watch.stream(None) for _ in range(CONSOLE_LISTENERS_MAX)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(CrowdedError):
            watch.require_room()
        late = watch.stream(None)
        with pytest.raises(CrowdedError):
            await anext(late)
        await streams.pop().aclose()  # type: ignore[attr-defined]  # a generator
        watch.require_room()
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]  # a generator
        assert not watch._listeners


async def test_closing_ends_every_stream(path: Path, store: SqliteSnapshotStore) -> None:
    """So that a server which is told to stop does not wait for pages that are left open."""
    assert store.path
    async with watching(path) as watch:
        stream = watch.stream(RUN)
        await calm(watch, RUN, stream)
        coming = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await watch.close()
        with pytest.raises(StopAsyncIteration):
            await coming


async def test_a_crowded_console_says_so(
    path: Path, store: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With status 503, before any answer has begun."""
    assert store.path
    monkeypatch.setattr(f"{MODULE}.CONSOLE_LISTENERS_MAX", 0)
    async with opened(path) as client:
        answer = await client.get("/events")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"


async def test_so_many_questions_may_wait_and_no_more(path: Path) -> None:
    """The threads are few, and what waits for them is bounded; each waiting one is answered."""
    reader, release = Reader(path), Event()
    asked = [asyncio.ensure_future(reader.work(release.wait)) for _ in range(CONSOLE_WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(CrowdedError):
        await reader.work(release.wait)
    assert len(reader._threads._threads) <= CONSOLE_READERS_MAX
    release.set()
    assert await asyncio.gather(*asked) == [True] * CONSOLE_WAITING_MAX
    assert await reader.work(lambda: 7) == 7
    reader.close()
    reader.close()


async def test_a_reader_holds_nothing_of_the_file_between_questions(
    path: Path, store: SqliteSnapshotStore
) -> None:
    """The log can be started anew beside it, which a reader under way would forbid."""
    reader = Reader(path)
    assert (await reader.ask(lambda file: file.counts())).live == 2
    add(store, "new")
    (answer,) = store.database.connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    assert answer[0] == 0
    assert (await reader.ask(lambda file: file.counts())).live == 3
    reader.close()
