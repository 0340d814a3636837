"""The witness of a load that goes on: it takes leave of runs before they are swept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from machines.demo.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.witness import Doubt, Row

KEPT_OF_EFFECTS: Final = ("id", "kind", "key", "attempt", "status")
LOGBOOK: Final = "logbook"


class LongWitness(Witness):
    """Compares a run for the last time once it has ended, and remembers what its effects did."""

    retired = 0
    """How many runs it took leave of."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.misled: dict[str, None] = {}
        """Runs that did not end as they should."""
        self.misnoted: dict[str, None] = {}
        """Notes that are not in the rows as they were told, each once."""
        self.told_notes: dict[str, set[int]] = {}
        """By live run, the notes that somebody was told are taken."""
        self._effects: list[dict[str, Any]] = []
        self._settlers: dict[tuple[str, int], str | None] = {}

    def take_note(self, run: str, number: int) -> None:
        """Take the acknowledgement of a note."""
        self.told_notes.setdefault(run, set()).add(number)

    def examine(self, runs: list[str]) -> dict[str, Row]:
        """Read the runs while nobody writes, note every fault, and return them."""
        rows = super().examine(runs)
        for run, row in rows.items():
            self._check_notes(run, row)
        return rows

    def retire(self, runs: list[str], decided: set[tuple[str, int]]) -> None:
        """Take leave of runs that have ended: what was told of them must be there, once."""
        found = self.read(runs)
        for run in runs:
            promise, row = self._promises.pop(run, None), found.get(run)
            self.rows.pop(run, None)
            if row is None:
                self.lost[f"{run}: acknowledged, ended, and not in the file"] = None
                continue
            if promise is not None:
                self._compare(run, promise, row)
            self._close(run, row, decided)
            self.retired += 1

    def _close(self, run: str, row: Row, decided: set[tuple[str, int]]) -> None:
        self._check_trail(run, row)
        self._find_doubts(run, row)
        self._check_notes(run, row)
        self.told_notes.pop(run, None)
        if row.view.status != "done":
            self.misled[f"{run}: {row.view.status}, {row.view.reason}"] = None
        self._effects += [
            {name: effect[name] for name in KEPT_OF_EFFECTS} for effect in row.view.effects
        ]
        self.rows[run] = row
        for place, doubt in self.doubts.items():
            if doubt.run == run:
                self._settlers[place] = super().settled_by(doubt, decided)
        del self.rows[run]

    def _check_notes(self, run: str, row: Row) -> None:
        if row.view.machine != LOGBOOK:
            return
        self.checks += 1
        notes = row.view.context["notes"]
        told = self.told_notes.get(run, set())
        if len(set(notes)) < len(notes):
            self.misnoted[f"{run}: {sorted(n for n in notes if notes.count(n) > 1)} twice"] = None
        if missing := told.difference(notes):
            self.misnoted[f"{run}: {sorted(missing)} told as taken, and not found"] = None

    def effects(self) -> Iterator[dict[str, Any]]:
        """Yield the effect rows of all runs, those that are gone included."""
        yield from self._effects
        yield from super().effects()

    def settled_by(self, doubt: Doubt, decided: set[tuple[str, int]]) -> str | None:
        """Return who settled a doubt; of a run that is gone, as it was found at its end."""
        place = (doubt.effect, doubt.attempt)
        if place in self._settlers:
            return self._settlers[place]
        return super().settled_by(doubt, decided)
