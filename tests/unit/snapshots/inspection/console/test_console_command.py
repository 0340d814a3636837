"""The command `snapshots console`: where it listens, what it prints, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from snapshots import open_store
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, command, environment
from tests.unit.snapshots.inspection.console.consoles import TOKEN
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)

PATIENCE_S = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with one live run."""
    path = tmp_path / "runs.db"
    with open_store(path) as store:
        blob, shape = encoded(run_value()), encoded(SHAPE)
        store.create(run_id=RUN, machine=MACHINE, digest=DIGEST, shape=shape, blob=blob)
    return path


@contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command in a process of its own, which has said where it listens."""
    with subprocess.Popen(
        [*COMMAND, "console", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_it_serves_where_it_says_on_this_machine_alone(path: Path) -> None:
    """Port 0 takes a free one, which is printed; no other address of the machine answers."""
    with serving(path, "--port", "0") as (_, address):
        assert address.startswith("http://127.0.0.1:")
        answer = httpx.get(address, timeout=PATIENCE_S)
        assert answer.status_code == 200
        assert RUN in answer.text
        assert "server" not in answer.headers
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_though_a_page_is_open(path: Path, number: signal.Signals) -> None:
    """The page's stream of news is ended by the console, which leaves no error behind."""
    with serving(path, "--port", "0") as (process, address):
        with (
            httpx.Client(timeout=PATIENCE_S) as client,
            client.stream("GET", f"{address}events") as stream,
        ):
            lines = stream.iter_lines()
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert next(lines).startswith("retry: ")
            process.send_signal(number)
            rest = list(lines)
        assert "event: changed" in rest
        _, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    if number == signal.SIGINT:
        assert process.returncode == 0
        assert err == "snapshots: the console has ended\n"
    else:
        assert process.returncode == -signal.SIGTERM
        assert err == ""


def test_a_token_is_read_from_a_file_and_printed_nowhere(path: Path, tmp_path: Path) -> None:
    """With it a gate is answered; neither output has it, nor the answer."""
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n", encoding="ascii")
    with serving(path, "--port", "0", "--token-file", secret) as (process, address):
        form = {"run": RUN, "gate": "approval", "event": "approve", "token": TOKEN}
        origin = {"origin": address.rstrip("/")}
        answer = httpx.post(f"{address}answer", data=form, headers=origin, timeout=PATIENCE_S)
        assert answer.status_code == 303
        assert TOKEN not in str(answer.headers)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert TOKEN not in out + err + address


def test_without_a_token_the_file_is_not_written(path: Path) -> None:
    """Looking at every page leaves it byte by byte as it was."""
    before = path.read_bytes()
    with serving(path, "--port", "0") as (_, address):
        for page in ("", f"run?id={RUN}", f"drift?id={RUN}", f"raw?id={RUN}", "run.json?id=0"):
            assert httpx.get(f"{address}{page}", timeout=PATIENCE_S).status_code == 200
        answer = httpx.post(f"{address}answer", data={"run": RUN}, timeout=PATIENCE_S)
        assert answer.status_code == 405
    assert path.read_bytes() == before


def test_a_port_that_is_taken_is_named(path: Path) -> None:
    """With what to do about it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = command("console", path, "--port", str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "--port" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_wrong_is_said_before_it_listens(path: Path, tmp_path: Path) -> None:
    """A file that is not there, a token that is none, two of them: a line, and exit code 2."""
    empty = tmp_path / "empty"
    empty.touch()
    for arguments, said in (
        ((tmp_path / "no.db",), "there is no such file"),
        ((path, "--token", "short"), "16"),
        ((path, "--token-file", empty), "16"),
        ((path, "--token-file", tmp_path / "no"), "holds the token"),
        ((path, "--token", TOKEN, "--token-file", empty), "one of"),
        ((path, "--port", "70000"), "--port"),
    ):
        done = command("console", "--port", "0", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert said in done.stderr, arguments
        assert done.stderr.count("\n") == 1
        assert TOKEN not in done.stderr


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2"])
def test_without_its_extra_the_command_says_so(path: Path, tmp_path: Path, missing: str) -> None:
    """Where a package of the extra is not installed, and only the console needs it."""
    folder = tmp_path / "first"
    folder.mkdir()
    text = f"raise ModuleNotFoundError('none', name={missing!r})\n"
    (folder / f"{missing}.py").write_text(text, encoding="ascii")
    done = command("console", path, "--port", "0", PYTHONPATH=os.fspath(folder))
    assert done.returncode == 2
    assert "machine-snapshots[console]" in done.stderr
    assert command("runs", path, PYTHONPATH=os.fspath(folder)).returncode == 0
