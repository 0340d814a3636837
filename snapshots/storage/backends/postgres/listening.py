"""Hears of writes by LISTEN and NOTIFY, from the first time that somebody watches."""

from __future__ import annotations

import hashlib
import os
import selectors
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

import psycopg

from snapshots import limits
from snapshots.storage.workspaces.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.hints import HintWatch

NOTIFY: Final = "select pg_notify('snapshots_workspaces', %s)"
_LISTEN: Final = "listen snapshots_workspaces"
_MS_PER_S: Final = 1_000


def mark(scope: Scope) -> str:
    """Return what a notification calls a workspace: any role of the database can hear it."""
    text = f"{len(scope.tenant)}:{scope.tenant}/{scope.workspace}"
    return hashlib.sha256(text.encode()).hexdigest()


class Listener:
    """A connection and a thread of their own, from the first watch until `close`.

    When the connection is lost another one is made, and then everybody is woken to look: what
    was told in between was told to nobody.
    """

    def __init__(self, url: str) -> None:
        """Be ready to listen on the database at `url`."""
        self._url = url
        self._hints = Hints()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        # What is sent on the one is read on the other, and ends a wait for notifications. They
        # are there once there is a thread, and outlive it: it may end before it is told to.
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def watch(self, scope: Scope, wake: Callable[[], None]) -> HintWatch:
        """Have `wake` called when a workspace is written to, here or elsewhere."""
        watch = self._hints.watch(mark(scope), wake)
        with self._lock:
            if self._thread is None and not self._end.is_set():
                self._bell = socket.socketpair()
                self._thread = threading.Thread(
                    target=self._run, args=(self._bell[1],), name="snapshots-listener", daemon=True
                )
                self._thread.start()
        return watch

    def ring(self, scope: Scope) -> None:
        """Wake those of this process who watch a workspace."""
        self._hints.ring(mark(scope))

    def close(self) -> None:
        """End the thread and its connection; a second time, or in a forked child, do nothing."""
        # The child shares the bell with its parent, but not the thread that hears it.
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._end.is_set():
                return
            self._end.set()
        if self._bell is not None and self._thread is not None:
            self._bell[0].send(b"!")
            self._thread.join()
            for end in self._bell:
                end.close()

    def _run(self, ear: socket.socket) -> None:
        pause_ms = limits.LISTEN_RETRY_MS
        while not self._end.is_set():
            try:
                with closing(self._connect()) as connection:
                    pause_ms = limits.LISTEN_RETRY_MS
                    self._hear(connection, ear)
            except psycopg.Error:
                # Whoever watches looks by itself too, so there is nothing to tell anybody.
                self._end.wait(pause_ms / _MS_PER_S)
                pause_ms = min(2 * pause_ms, limits.LISTEN_RETRY_MS_MAX)

    def _connect(self) -> Connection:
        timeout_s = limits.POSTGRES_CONNECT_MS_MAX // _MS_PER_S
        name = "machine-snapshots listener"
        return psycopg.connect(
            self._url, autocommit=True, connect_timeout=timeout_s, application_name=name
        )

    def _hear(self, connection: Connection, ear: socket.socket) -> None:
        """Wake whom the notifications mean, until the end or until the connection is lost."""
        connection.execute(_LISTEN)
        self._hints.ring_all()
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(ear, selectors.EVENT_READ)
            while not self._end.is_set():
                selector.select()
                connection.pgconn.consume_input()
                while (notification := connection.pgconn.notifies()) is not None:
                    self._hints.ring(notification.extra.decode(errors="replace"))
