"""Nothing calls home: a run lives without a network, and knows no address but its storage's."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.behaviour import servers
from tests.house.quiet_life import NOSY
from tests.house.sources import ROOT

# Goes before everything that the process imports. `connect_ex` raises the event of `connect`; a
# process that is started, or a fork, would be out of the hook's hearing.
HOOK = """
import atexit, json, runpy, sys

HEARD = []
EVENTS = {
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr",
    "socket.gethostbyname", "socket.getnameinfo", "socket.sendmsg", "socket.sendto",
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen",
}

def hear(event, arguments):
    if event in EVENTS:
        HEARD.append(f"{event} {arguments!r}")
        raise PermissionError(event)

sys.addaudithook(hear)
atexit.register(lambda: print(json.dumps({"heard": HEARD})))
"""
LIVE = 'runpy.run_module("tests.house.quiet_life", run_name="__main__", alter_sys=True)'
STAGES = ["start", "mailbox: taken", "review", "restart: 1 resumed", "done", "swept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a process said: its stages, whom its sockets led to, its drivers, what was heard."""

    stages: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()


def behind_the_hook(code: str, folder: Path, *arguments: str) -> Told:
    """Run code in a process of its own in `folder`, behind the hook, and return what it said."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        (sys.executable, "-W", "error", "-c", HOOK + code, *arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line)
    return Told(**{name: tuple(values) for name, values in told.items()})


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a database that was prepared, as a user who owns nothing."""
    with servers.running() as server, servers.prepared(server) as prepared:
        yield prepared.user


def peer_of(address: str) -> str:
    """Return whom a driver connects to for an address."""
    with (
        psycopg.connect(address) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as opened,
    ):
        return repr(opened.getpeername())


def test_a_run_lives_without_any_connection(tmp_path: Path) -> None:
    """From start to sweep nothing is connected to, looked up or listened on; no driver is there."""
    assert behind_the_hook(LIVE, tmp_path, "", "quiet") == Told(stages=tuple(STAGES))


def test_a_run_with_postgresql_connects_to_its_server_alone(tmp_path: Path, database: str) -> None:
    """Where PostgreSQL is configured, the sockets of the process lead to its address."""
    told = behind_the_hook(LIVE, tmp_path, database, "quiet")
    assert told.stages == tuple(STAGES)
    assert told.peers == (peer_of(database),)
    assert told.heard == ()


def test_a_look_up_by_an_effect_is_heard(tmp_path: Path) -> None:
    """The hook is there when a run works, in its threads too: what an effect tries is heard."""
    told = behind_the_hook(LIVE, tmp_path, "", NOSY)
    assert [heard.split()[:2] for heard in told.heard] == [
        ["socket.getaddrinfo", "('example.org',"]
    ]


@pytest.mark.parametrize(
    "call",
    [
        "connect(('127.0.0.1', 9))",
        "connect_ex(('127.0.0.1', 9))",
        "bind(('127.0.0.1', 0))",
        "sendto(b'', ('127.0.0.1', 9))",
    ],
)
def test_each_way_to_the_network_is_heard(call: str, tmp_path: Path) -> None:
    """The hook hears what a socket is told, and refuses it."""
    code = f"""
import socket
with socket.socket(type=socket.SOCK_DGRAM) as opened:
    try:
        opened.{call}
    except PermissionError:
        pass
"""
    assert len(behind_the_hook(code, tmp_path).heard) == 1
