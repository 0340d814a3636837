"""One handle on a file in several threads: one after another, and never one inside another."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from snapshots import Mailbox, OtherThreadError, SqliteSnapshotStore, open_storage, open_store
from snapshots.storage import Fact, Scope, StateStore, Workspaces
from snapshots.testing import ManualClock

SCOPE = Scope()


class StrayError(Exception):
    """What takes a block back."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """A store of runs with one run."""
    with open_store(tmp_path / "state.db", clock=ManualClock()) as opened:
        opened.create(run_id="run-1", machine="m", digest="d", shape=b"s", blob=b"b")
        yield opened


def in_a_thread(call: Callable[[], Any]) -> Any:
    """Return what a call gives in another thread, or raise what it raises there."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


def calls(store: SqliteSnapshotStore) -> dict[str, Callable[[], object]]:
    """Return one call of each kind on the file of a store."""
    storage, header = open_storage(store), store.load("run-1").header
    state = StateStore(storage.keyed, storage.leases, SCOPE)
    workspace = Workspaces(storage.workspaces).open("default")
    fact = Fact(thread="t", run="r", name="n")
    return {
        "put": lambda: state.put("key", 2),
        "get": lambda: state.get("key"),
        "list": state.list,
        "once": lambda: state.once("key", 1_000),
        "incident": lambda: state.incidents.close("key"),
        "lock": lambda: state.claim("lock", 1_000),
        "carry": lambda: storage.carry.save(
            SCOPE, "key", contract_version=1, payload=b"1", expected_revision=0
        ),
        "block": lambda: entered(state.transaction()),
        "workspace": lambda: workspace.create("note", {}),
        "fact": lambda: workspace.record(fact),
        "log": workspace.read,
        "sweep": storage.sweep,
        "create": lambda: store.create(
            run_id="run-2", machine="m", digest="d", shape=b"s", blob=b"b"
        ),
        "save": lambda: store.save(header, b"c"),
        "synced save": lambda: store.save(header, b"c", sync=True),
        "end": lambda: store.save(header, b"c", status="done"),
        "mark": lambda: store.mark(header, "error", "why"),
        "load": lambda: store.load("run-1"),
        "runs sweep": store.sweep,
        "take over": lambda: store.take_over("other"),
        "store block": lambda: entered(store.transaction()),
        "mail": lambda: Mailbox(store, clock=ManualClock()).put("run-1", "event", b"{}"),
    }


def entered(block: AbstractContextManager[object]) -> None:
    """Begin a block, and end it."""
    with block:
        pass


@pytest.mark.parametrize("whose", ["storage", "store"])
def test_no_call_of_another_thread_becomes_a_part_of_an_open_transaction(
    store: SqliteSnapshotStore, whose: str
) -> None:
    """It is refused before anything is written or read, and the transaction goes on."""
    state = StateStore(open_storage(store).keyed, open_storage(store).leases, SCOPE)
    kinds = calls(store)
    block = state.transaction() if whose == "storage" else store.transaction()
    with block:
        state.put("key", 1)
        for name, call in kinds.items():
            with pytest.raises(OtherThreadError) as caught:
                in_a_thread(call)
            assert caught.value.opener == threading.get_ident() != caught.value.thread, name
        state.put("other", 1)
    assert [entry.key for entry in state.list()] == ["key", "other"]
    assert state.get("key") == 1
    assert [header.run_id for header in store.headers()] == ["run-1"]
    assert store.load("run-1").blob == b"b"
    assert store.owner() is None


def test_what_another_thread_was_told_is_stored_stays_stored(store: SqliteSnapshotStore) -> None:
    """A block that is taken back takes nothing with it that a second thread has written."""
    state = StateStore(open_storage(store).keyed, open_storage(store).leases, SCOPE)
    told: list[str] = []

    def write() -> None:
        with suppress(OtherThreadError):
            state.put("theirs", 1)
            told.append("stored")

    with suppress(StrayError), state.transaction():
        state.put("mine", 1)
        in_a_thread(write)
        raise StrayError
    assert (told, state.get("theirs"), state.get("mine")) == ([], None, None)
    in_a_thread(write)
    assert (told, state.get("theirs")) == (["stored"], 1)


def test_threads_may_use_a_handle_one_after_another(store: SqliteSnapshotStore) -> None:
    """Each in transactions of its own; only an open one is anybody's."""
    state = StateStore(open_storage(store).keyed, open_storage(store).leases, SCOPE)

    def write(key: str) -> None:
        with state.transaction():
            state.put(key, 1)
        state.put(f"{key} again", 1)

    for key in "abc":
        in_a_thread(partial(write, key))
    write("d")
    assert len(state.list()) == 8


def test_the_error_names_both_threads_and_crosses_processes_whole() -> None:
    """With its fields, and with what to do."""
    error = OtherThreadError("put 'a'", "/f", 1, 2)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was pickled before
    assert (str(again), vars(again)) == (str(error), vars(error))
    assert "thread 1 has a transaction open" in str(error)
    assert "a handle of its own in each thread" in str(error)
    assert not error.retryable
