"""A process that is frozen inside a transaction keeps its workspace for a bounded time only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from snapshots import limits
from snapshots.errors import StorageUnavailableError
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.backends.postgres import PostgresBackend
from snapshots.testing.suite.acting import refused
from tests.behaviour.servers import Server

SILENT_MS = 100
FREEZES = """
import os, signal, sys
from snapshots import limits, open_storage
from snapshots.errors import StorageError
from snapshots.storage import Scope

limits.POSTGRES_SILENT_MS_MAX = int(sys.argv[3])
scope = Scope(tenant=sys.argv[2], workspace="home", workflow="flow")
with open_storage(sys.argv[1]) as storage:
    try:
        with storage.transaction(scope):
            storage.keyed.put(scope, "frozen", b"1")
            os.kill(os.getpid(), signal.SIGSTOP)
    except StorageError as error:
        print(type(error).__name__, error.retryable)
    storage.keyed.put(scope, "awake", b"1")
"""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions that say nothing are ended soon."""
    monkeypatch.setattr(limits, "POSTGRES_SILENT_MS_MAX", SILENT_MS)


@pytest.fixture
def storage(postgres: Server, brief: None) -> Iterator[PostgresBackend]:
    """A storage by the server's own clock."""
    with open_storage(postgres.user) as opened:
        assert isinstance(opened, PostgresBackend)
        yield opened


def test_a_frozen_process_gives_its_workspace_up(
    postgres: Server, storage: PostgresBackend, scope: Scope
) -> None:
    """Others write after a while; woken it is told so, has written nothing, and can go on."""
    command = [sys.executable, "-c", FREEZES, postgres.user, scope.tenant, str(SILENT_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            storage.keyed.put(scope, "theirs", b"1")
            os.kill(child.pid, signal.SIGCONT)
            said, _ = child.communicate()
        finally:
            child.kill()
    assert child.returncode == 0
    assert said == "StorageUnavailableError True\n"
    assert [entry.key for entry in storage.keyed.list(scope)] == ["awake", "theirs"]


@pytest.mark.parametrize("last", ["a call", "the end"])
def test_a_transaction_that_said_nothing_for_too_long_is_undone(
    postgres: Server, storage: PostgresBackend, scope: Scope, last: str
) -> None:
    """The next call in it says why, or its end does, and that nothing was written."""
    with open_storage(postgres.user) as other:
        with refused("StorageUnavailableError") as refusal, storage.transaction(scope):
            storage.keyed.put(scope, "mine", b"1")
            # It waits for the workspace until the server has given that up.
            other.keyed.put(scope, "theirs", b"1")
            if last == "a call":
                storage.keyed.put(scope, "mine too", b"1")
        assert isinstance(refusal.error, StorageUnavailableError)
        assert "the server ended it" in refusal.error.hint
        assert "nothing of it was written" in refusal.error.hint
        assert [entry.key for entry in other.keyed.list(scope)] == ["theirs"]
    storage.keyed.put(scope, "again", b"1")


def test_a_bound_on_silence_is_in_force_by_default(postgres: Server, scope: Scope) -> None:
    """Half a minute, for this transaction alone: what else uses the server has its own."""
    with open_storage(postgres.user) as storage:
        assert isinstance(storage, PostgresBackend)
        with storage._connections.transaction(scope) as work:
            shown = work.connection.execute("show idle_in_transaction_session_timeout").fetchone()
        assert shown == ("30s",)
