"""A fresh world for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshots.testing import ManualClock
from tests.host import life
from tests.host.lives import Lives
from tests.host.world import Outside, World


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that moves only when it is told to."""
    return ManualClock()


@pytest.fixture
def outside() -> Outside:
    """Return an outside that nobody has called yet."""
    return Outside()


@pytest.fixture
def world(tmp_path: Path, clock: ManualClock, outside: Outside) -> World:
    """Return a world whose file does not exist yet."""
    return World(tmp_path / "state.db", clock, outside)


@pytest.fixture
def lives(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lives:
    """Return lives on the world's file; what its next hosts do is in the same log."""
    made = Lives(world, tmp_path / "log")
    monkeypatch.setattr(life, "LOG", made.log)
    return made
