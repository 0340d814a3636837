"""Long jobs elsewhere: posted once, and followed from where a killed process had got to."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from machines.charts.service import ask
from machines.demo.moments import Occasion, occasions
from machines.demo.outside.studio import SCENES, scene_of
from machines.demo.outsiders import starting
from machines.demo.results import LOST, REFUSED, STUCK, TWISTED
from machines.demo.scenario import Bystanders, Claim, Deed, Field, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case
    from machines.demo.witness import Row

DOOMED_EVERY: Final = 4
"""Of so many jobs the studio drops one, the second, while nobody follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a run's row said of its job after a kill."""

    entries: int
    """How many entries the studio's log had by then."""
    offset: int


class Watchers(Bystanders):
    """Keeps what was on disk at each kill, and has the studio drop some of the jobs meanwhile."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        plan = field.outsiders.plan
        self._doomed = {planned.run for planned in plan[1::DOOMED_EVERY]}
        self.marks: dict[str, list[Mark]] = defaultdict(list)

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Note every offset on disk; drop the job of a doomed run that has one."""
        entries = len(self.field.witness.log.entries())
        for run, row in rows.items():
            for job in row.value.get("admissions", {}).values():
                self.marks[run].append(Mark(entries=entries, offset=job["offset"]))
                is_followed = row.view.status == "live" and not job.get("settled")
                if run in self._doomed and is_followed:
                    self._doomed.remove(run)
                    ask(self.field.service, "drop", job=job["handle"])


def marks(case: Case) -> dict[str, list[Mark]]:
    """Return what was on disk at each kill, by run."""
    assert isinstance(case.bystanders, Watchers)
    return case.bystanders.marks


def dropped(case: Case) -> set[str]:
    """Return the films whose jobs the studio dropped."""
    return {entry["film"] for entry in case.witness.log.notes("dropped")}


def orders(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return every order that the studio accepted, by film."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in case.witness.log.accepted():
        found[entry["subject"]].append(entry)
    return found


def readings(case: Case) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Return what was read of each film by each host, by the host's term."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for entry in case.witness.log.notes("read"):
        found[entry["film"]][entry["term"]].append(entry)
    return found


def _posted_twice(case: Case) -> Iterator[str]:
    for film, entries in orders(case).items():
        times = sum(entry["happened"] for entry in entries)
        if times != 1:
            yield f"{film}: {times} jobs"


def _asked_again(case: Case) -> Iterator[str]:
    for run, found in marks(case).items():
        for entry in orders(case)[run]:
            if entry["entry"] > found[0].entries:
                yield f"{run}: ordered again under {entry['key']!r}, and was admitted before"


def _out_of_order(case: Case) -> Iterator[str]:
    for film, by_term in readings(case).items():
        for term, entries in by_term.items():
            for before, after in pairwise(entries):
                if after["start"] not in (before["start"], before["end"]):
                    yield f"{film}, term {term}: {after['start']} was read after {before['end']}"


def _not_from_the_offset(case: Case) -> Iterator[str]:
    for film, by_term in readings(case).items():
        for term, (first, *_) in by_term.items():
            known = [m.offset for m in marks(case).get(film, ()) if m.entries < first["entry"]]
            saved = known[-1] if known else 0
            if first["start"] != saved:
                yield f"{film}, term {term}: began at {first['start']}, and {saved} was on disk"


def _not_whole(case: Case) -> Iterator[str]:
    for run, row in case.rows():
        scenes = list(row.view.context["scenes"]) if row is not None else []
        whole = [scene_of(run, number) for number in range(SCENES)]
        expected = whole[: len(scenes)] if run in dropped(case) else whole
        if scenes != expected:
            yield f"{run}: {len(scenes)} scenes, {Counter(scenes).most_common(1)}"


def ending(case: Case, run: str) -> str:
    """Return how a run has to end: lost, if its job was dropped."""
    return "lost" if run in dropped(case) else "done"


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield the job of a run."""
    run = row.view.run_id
    asked = orders(case)[run]
    posted = sum(entry["happened"] for entry in asked)
    read = [entry for entries in readings(case)[run].values() for entry in entries]
    times = Counter(number for entry in read for number in range(entry["start"], entry["end"]))
    gone = ", then the job was gone" if run in dropped(case) else ""
    yield Deed(
        kind="render",
        about="",
        left=len(asked),
        seen=posted,
        is_once=None,
        note=f"{len(times)}, {times.total() - len(times)} of them again{gone}",
        is_bad=posted != 1,
    )


def notes(case: Case) -> list[str]:
    """Return how often somebody went on where another had died."""
    by_film = readings(case).values()
    gone_on = sum(len(by_term) - 1 for by_term in by_film)
    posted = sum(entry["happened"] for entries in orders(case).values() for entry in entries)
    again = sum(len(entries) for entries in orders(case).values()) - posted
    gone = len(dropped(case))
    told = f"Jobs posted: {posted}, asked for again before they were on record: {again}"
    return [f"{told}, followed on after a kill: {gone_on}, dropped by the studio: {gone}."]


TWICE: Final = Claim(text="jobs posted twice", found=_posted_twice)
AGAIN: Final = Claim(text="jobs asked for again although on record", found=_asked_again)
SKIPPED: Final = Claim(text="scenes skipped, or read out of order", found=_out_of_order)
ASTRAY: Final = Claim(
    text="followers that did not begin at the saved offset", found=_not_from_the_offset
)
TORN: Final = Claim(text="films that are not whole", found=_not_whole)

REATTACH: Final = Scenario(
    name="reattach",
    outside="machines.demo.outside.studio",
    outside_name="studio",
    machines=("rendering",),
    runs_default=4,
    kills_per_run=2.0,
    occasions=occasions(
        "studio",
        Occasion(
            at="read",
            weight=30,
            phrase="the studio gave scene {start} of {subject}",
            after_s_max=0.003,
            nth_max=12,
        ),
    ),
    habits=starting(lambda run, service: {"number": run, "service": service}),
    claims=(TWICE, AGAIN, SKIPPED, ASTRAY, TORN, LOST, STUCK, TWISTED, REFUSED),
    control=TWICE,
    deeds=deeds,
    headings=("JOB", "ASKED\nFOR", "POSTED", "SCENES READ"),
    notes=notes,
    ending=ending,
    bystanders=Watchers,
)
