"""What a demo came to: runs, deeds, doubts, and the claims that decide its exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import REPORTED_CHARS_MAX, REPORTED_ROWS_MAX
from machines.demo.outside.book import ONCE
from machines.demo.scenario import Claim, Deed
from machines.demo.witness import is_outside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from machines.demo.scenario import Case, Scenario
    from machines.demo.witness import Doubt, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run at the end."""

    run: str
    machine: str
    status: str
    is_right: bool
    """Whether it ended as it has to."""
    kills: int
    """How many kills it lived through."""
    deeds: tuple[Deed, ...]


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

    scenario: Scenario
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
    notes: tuple[str, ...]
    """Counts of the scenario's own."""
    checks: tuple[Check, ...]

    @property
    def is_good(self) -> bool:
        """Whether every claim holds."""
        return not any(check.found for check in self.checks)

    @property
    def has_effects(self) -> bool:
        """Whether its runs have effects, which can be in doubt."""
        return any(deed.is_once is not None for run in self.runs for deed in run.deeds)

    def calls(self, *, once: bool) -> tuple[int, int]:
        """Return how often effects of one sort left and how often they were seen."""
        deeds = [deed for run in self.runs for deed in run.deeds if deed.is_once is once]
        return sum(deed.left for deed in deeds), sum(deed.seen for deed in deeds)


def run_results(case: Case, kills: Counter[str]) -> tuple[RunResult, ...]:
    """Return the runs as they were found last, with their deeds."""
    return tuple(
        RunResult(
            run=run,
            machine=row.view.machine,
            status=row.view.status,
            is_right=row.view.status in ("live", case.scenario.ending(case, run)),
            kills=kills[run],
            deeds=tuple(case.scenario.deeds(case, row)),
        )
        for run, row in case.witness.rows.items()
    )


def effects(case: Case, row: Row) -> Iterator[Deed]:
    """Yield what a run did under each idempotency key of its effects."""
    log, seen = case.witness.log, case.witness.log.seen()
    by_key: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for effect in filter(is_outside, row.view.effects):
        by_key.setdefault((effect["kind"], effect["key"]), []).append(effect)
    for place, rows in by_key.items():
        ids = {effect["id"] for effect in rows}
        is_once = place[0] in ONCE
        yield Deed(
            kind=place[0],
            about=about(row.view.run_id, log.subject(*place) or rows[0]["node"]),
            left=sum(effect["attempt"] for effect in rows),
            seen=seen[place],
            is_once=is_once,
            note=settled_by(by for doubt, by in case.doubts if doubt.effect in ids),
            # Seen twice is seen once too often, unless a key is done once out there.
            is_bad=is_once and seen[place] > 1,
        )


def settled_by(settlers: Iterable[str | None]) -> str:
    """Return who settled doubts, and how many each."""
    by = Counter(who or "nobody" for who in settlers)
    return ", ".join(who if n == 1 else f"{who} ({n})" for who, n in by.items())


def about(run: str, subject: str) -> str:
    """Return what something was about, without the run that it was done for."""
    return subject.removeprefix(run).removeprefix("-")


def judged(case: Case) -> tuple[Check, ...]:
    """Return the scenario's claims, each with what speaks against it."""
    return tuple(
        Check(claim=claim.text, found=tuple(claim.found(case))) for claim in case.scenario.claims
    )


# -- claims that several scenarios make ---------------------------------------------------------


def _stuck(case: Case) -> Iterator[str]:
    for run, row in case.rows():
        if row is None or row.view.status != case.scenario.ending(case, run):
            yield f"{run}: {row.view.status if row else 'never stored'}"


def _open_doubts(case: Case) -> list[str]:
    return [f"{doubt.effect}, attempt {doubt.attempt}" for doubt, by in case.doubts if by is None]


LOST: Final = Claim(text="acknowledged transitions lost", found=lambda case: case.witness.lost)
REPEATED: Final = Claim(
    text="non-idempotent effects repeated", found=lambda case: case.witness.log.repeated()
)
STUCK: Final = Claim(text="runs stuck", found=_stuck)
TWISTED: Final = Claim(
    text="events run twice, or trails that do not hang together",
    found=lambda case: case.witness.twisted,
)
UNANNOUNCED: Final = Claim(
    text="calls that left without an intent on disk", found=lambda case: case.witness.unannounced
)
INVENTED: Final = Claim(
    text="effects recorded as done that never happened",
    found=lambda case: case.witness.never_happened(),
)
IN_DOUBT: Final = Claim(text="doubts that nobody settled", found=_open_doubts)
REFUSED: Final = Claim(text="commands refused", found=lambda case: case.outsiders.refused)

OF_EFFECTS: Final = (LOST, REPEATED, STUCK, TWISTED, UNANNOUNCED, INVENTED, IN_DOUBT, REFUSED)
"""In the order of their weight."""
