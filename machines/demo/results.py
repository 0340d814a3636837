"""What a demo came to: runs, effects, doubts, and the checks that decide its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.demo.limits import REPORTED_CHARS_MAX, REPORTED_ROWS_MAX
from machines.demo.receiver import ONCE

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from machines.demo.outsiders import Outsiders
    from machines.demo.witness import Doubt, Log, Row, Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectResult:
    """What one run did under one idempotency key, counted on both sides of the wire."""

    kind: str
    about: str
    """What it was about, if not the run as a whole."""
    left: int
    """How often its call left, by the run's ledger."""
    seen: int
    """How often the receiver accepted it."""
    is_once: bool
    """Whether each time that it is seen is one time that it happens."""
    settled_by: tuple[str, ...]
    """Who settled it, for each time that it was in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run at the end."""

    run: str
    machine: str
    status: str
    kills: int
    """How many kills it lived through."""
    effects: tuple[EffectResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim, and everything that was found against it; nothing means that it holds."""

    claim: str
    found: tuple[str, ...]

    def shown(self) -> list[str]:
        """Return the first faults, each cut to a bound."""
        return [found[:REPORTED_CHARS_MAX] for found in self.found[:REPORTED_ROWS_MAX]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that is reported. Durations in seconds."""

    file: Path
    took_s: float
    kills: int
    moments: Counter[str]
    """How many kills each kind of moment gave."""
    runs: tuple[RunResult, ...]
    acknowledged: int
    comparisons: int
    sends: int
    repeats: int
    taken: int
    doubts: tuple[tuple[Doubt, str | None], ...]
    """Each doubt, with who settled it."""
    checks: tuple[Check, ...]

    @property
    def is_good(self) -> bool:
        """Whether every claim holds."""
        return not any(check.found for check in self.checks)

    def calls(self, *, once: bool) -> tuple[int, int]:
        """Return how often effects of one sort left and how often they were seen."""
        effects = [e for run in self.runs for e in run.effects if e.is_once is once]
        return sum(e.left for e in effects), sum(e.seen for e in effects)


Settled = list[tuple["Doubt", str | None]]
"""Each doubt, with who settled it."""


def run_results(witness: Witness, doubts: Settled, kills: Counter[str]) -> tuple[RunResult, ...]:
    """Return the runs as they were found last, with their effects counted on both sides."""
    return tuple(
        RunResult(
            run=run,
            machine=row.view.machine,
            status=row.view.status,
            kills=kills[run],
            effects=tuple(_effects(row, witness.log, doubts)),
        )
        for run, row in witness.rows.items()
    )


def _effects(row: Row, log: Log, doubts: Settled) -> Iterator[EffectResult]:
    by_key: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for effect in row.view.effects:
        by_key.setdefault((effect["kind"], effect["key"]), []).append(effect)
    for place, effects in by_key.items():
        ids = {effect["id"] for effect in effects}
        yield EffectResult(
            kind=place[0],
            about=_about(row.view.run_id, log.subject(*place) or effects[0]["node"]),
            left=sum(effect["attempt"] for effect in effects),
            seen=log.seen()[place],
            is_once=place[0] in ONCE,
            settled_by=tuple(by or "nobody" for doubt, by in doubts if doubt.effect in ids),
        )


def _about(run: str, subject: str) -> str:
    return subject.removeprefix(run).removeprefix("-")


def checks(witness: Witness, outsiders: Outsiders, doubts: Settled) -> tuple[Check, ...]:
    """Return the claims in the order of their weight."""
    stuck = [
        f"{planned.run}: {row.view.status if row else 'never stored'}"
        for planned in outsiders.plan
        for row in (witness.rows.get(planned.run),)
        if row is None or row.view.status != "done"
    ]
    open_doubts = [f"{doubt.effect}, attempt {doubt.attempt}" for doubt, by in doubts if by is None]
    claims = {
        "acknowledged transitions lost": witness.lost,
        "non-idempotent effects repeated": witness.log.repeated(),
        "runs stuck": stuck,
        "events run twice, or trails that do not hang together": witness.twisted,
        "calls that left without an intent on disk": witness.unannounced,
        "effects recorded as done that never happened": witness.never_happened(),
        "doubts that nobody settled": open_doubts,
        "commands refused": outsiders.refused,
    }
    return tuple(Check(claim=claim, found=tuple(found)) for claim, found in claims.items())
