"""What a ledger costs: a change that is saved at the write, and a pass of a looping effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.charts import Holder
from bench.looping import passes
from bench.payloads import RUN_VALUES
from bench.raw import raw_upsert
from bench.saving import Saves, started
from machines.books import Books, Owner
from machines.run.run import Run
from snapshots.codec import dump, load
from snapshots.records import StoredRun

if TYPE_CHECKING:
    from bench.beside import Beside

pytest_plugins = ("bench.beside",)

EARLY = 100
LATE = 10_000
ENTRIES = 100
"""Entries that each ledger has before it is measured."""
NAMES = [f"name-{number}" for number in range(ENTRIES)]


Change = Callable[[Books, str], object]
"""Changes the entry of a ledger that has a name."""


class Changes:
    """Changes one entry of a ledger after the other, as the work of a state does."""

    def __init__(self, run: Run, change: Change, ledger: str, name: str) -> None:
        self.name = name
        self._run = run
        self._books = run.books(Owner(path="", invoke="work"))
        self._change = change
        self._ledger = ledger
        self._names = cycle(NAMES)
        self._revision = 0

    def begin(self, first: Change) -> None:
        """Make all entries."""
        for name in NAMES:
            first(self._books, name)

    def prepare(self) -> None:
        """Take the next entry."""
        self._name = next(self._names)
        self._revision = self.stored().header.revision

    def act(self) -> None:
        """Change it: the row is saved when this returns."""
        self._change(self._books, self._name)

    def check(self) -> None:
        """Assert that the last change took one save, and that the row has all entries."""
        stored = self.stored()
        assert stored.header.revision == self._revision + 1
        entries: Sequence[Any] = load(stored.blob)[self._ledger]
        assert len(entries) == ENTRIES

    def stored(self) -> StoredRun:
        """Return the run as it is on disk."""
        return self._run.store.load(self._run.run_id)


def measured(folder: Path, beside: Beside, change: Change, ledger: str, first: Change) -> None:
    """Measure a ledger of a run of 1 KB, beside a raw upsert of as much as the run then has."""
    with started(folder / "ours.db", Holder) as run:
        Saves(run, "a run of 1 KB", RUN_VALUES)
        ours = Changes(run, change, ledger, f"a change of one of {ENTRIES} {ledger}")
        ours.begin(first)
        with raw_upsert(folder / "raw.db", len(dump(load(ours.stored().blob)))) as raw:
            beside(ours, raw, rounds=300)


@pytest.mark.benchmark(group="ledger")
def test_a_changed_admission(tmp_path: Path, beside: Beside) -> None:
    """One of 100 outside sessions moves on."""
    offsets = count(1)

    def advance(books: Books, name: str) -> object:
        return books.admissions.advance(next(offsets), name)

    def record(books: Books, name: str) -> object:
        return books.admissions.record(f"job of {name}", key=name)

    measured(tmp_path, beside, advance, "admissions", record)


@pytest.mark.benchmark(group="ledger")
def test_a_bumped_epoch(tmp_path: Path, beside: Beside) -> None:
    """One of 100 conversations has a fault."""

    def bump(books: Books, name: str) -> object:
        return books.epochs.bump(name)

    measured(tmp_path, beside, bump, "epochs", bump)


@pytest.mark.benchmark(group="ledger of effects")
def test_a_late_pass_of_a_looping_effect(tmp_path: Path, beside: Beside) -> None:
    """A pass with 10,000 settled effects behind it, beside one with 100."""
    with (
        passes(tmp_path / "late.db", LATE) as late,
        passes(tmp_path / "early.db", EARLY) as early,
    ):
        beside(late, early, rounds=100)
