"""What has changed in a file of runs between two looks at it: steps, effects, gates, statuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from snapshots.errors import DecodeError
from snapshots.inspection.limits import WATCH_READ_RUNS_MAX, WATCH_RUNS_MAX
from snapshots.inspection.queries.listing import RunFilter, list_runs
from snapshots.inspection.reports.derived import address, saves_of
from snapshots.inspection.reports.reading import read_report
from snapshots.store.reading import header_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from snapshots.inspection.queries.files import RunFile
    from snapshots.inspection.reports.records import RunReport, TransitionReport
    from snapshots.records import RunHeader

ChangeKind = Literal["now", "start", "step", "effect", "gate", "status", "saved", "unreadable"]

HEADER: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head
from runs where id = ?"""

CONTENT: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head, blob
from runs where id = ?"""

NEW: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head
from runs where id > ?1 and (?2 is null or machine = ?2) order by id limit ?3"""

NEWEST: Final = "select ifnull(max(id), 0) from runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that became of a run: what it is, when it was saved, and what its kind says.

    now: how the run stood at the first look: `status`, and `states`, its active ones.
    start: a run that was not there before, in `status`.
    step: the chart at `name` went from the states `was` to `states` at an `event`.
    effect: the effect `name` is in `status` now, after so many calls (`count`).
    gate: the gate at `name` is "open" or "closed" (`status`), and takes the events `states`.
    status: the run is in `status`, for a `reason`.
    saved: it was written, `count` times in all, and nothing of the above can be told.
    unreadable: its content is none, for a `reason`.
    """

    kind: ChangeKind
    at_ms: int
    run: str
    machine: str
    name: str = ""
    event: str | None = None
    was: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    status: str = ""
    reason: str | None = None
    count: int = 0

    @property
    def words(self) -> frozenset[str]:
        """What a person may wait for by name: a status of the run, an event, an active state."""
        status = {self.status} if self.kind in ("now", "start", "status") else set()
        states = set(self.states) if self.kind in ("now", "step") else set()
        event = {self.event} if self.event else set()
        return frozenset(status | states | event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was seen of a run's content: the trail, effects and gates that a change is told from."""

    trail: tuple[TransitionReport, ...]
    effects: Mapping[str, tuple[str, int]]
    gates: Mapping[str, tuple[str, ...]]


class Follower:
    """Tells what changed since it looked last; the first look tells nothing but who is there.

    It follows the newest `WATCH_RUNS_MAX` live runs of a machine, or of all, and reads the content
    of at most `WATCH_READ_RUNS_MAX` of those that changed; of others it tells that they did. With
    `row` it follows that run alone, whatever its status.
    """

    def __init__(
        self, file: RunFile, *, machine: str | None = None, row: int | None = None
    ) -> None:
        """Look through `file`, which stays open as long as it is followed."""
        self.headers: dict[int, RunHeader] = {}
        """The runs that are followed, as they were last seen, by row."""
        self._file = file
        self._machine = machine
        self._row = row
        self._known: dict[int, Known] = {}
        self._newest = 0
        self._new: set[int] = set()
        self._has_looked = False

    def look(self) -> list[Change]:
        """Return what has changed, in the order of time. Raises `StorageError` as any question."""
        if self._row is None and not self._has_looked:
            self._has_looked = True
            self._begin()
            return []
        found = self._all() if self._row is None else self._one(self._row)
        changes: list[Change] = []
        for place, header in enumerate(found):
            is_read = place < WATCH_READ_RUNS_MAX
            changes += self._told(self.headers.get(header.row), header, is_read=is_read)
            self.headers[header.row] = header
        return sorted(changes, key=lambda change: change.at_ms)

    # -- which runs changed -----------------------------------------------------------------------

    def _one(self, row: int) -> list[RunHeader]:
        rows = self._file.ask("look at run", HEADER, (row,))
        found = [header_of(row) for row in rows]
        return [header for header in found if self._is_news(header)]

    def _begin(self) -> None:
        """Remember who is there; if they are few, what they hold as well."""
        self._newest = self._file.ask("look at runs", NEWEST)[0][0]
        self.headers = {header.row: header for header in self._live()}
        if len(self.headers) <= WATCH_READ_RUNS_MAX:
            for header in self.headers.values():
                list(self._content(header, header))

    def _all(self) -> list[RunHeader]:
        rows = self._file.ask("look at runs", NEW, (self._newest, self._machine, WATCH_RUNS_MAX))
        new = [header_of(row) for row in rows]
        self._new = {header.row for header in new}
        self._newest = max(self._new, default=self._newest)
        live = self._live()
        found = {header.row: header for header in (*new, *live) if self._is_news(header)}
        still = {header.row for header in live}
        for row in [row for row in self.headers if row not in still and row not in found]:
            found |= {header.row: header for header in self._one(row)}
            if row not in found:  # no newer than it was: it has ended, or is beyond the bound
                self._forget(row)
        # Those that were written last are the ones whose content is read.
        return sorted(found.values(), key=lambda header: header.updated_ms, reverse=True)

    def _live(self) -> tuple[RunHeader, ...]:
        chosen = RunFilter(statuses=("live",), machine=self._machine)
        return list_runs(self._file, chosen, rows_max=WATCH_RUNS_MAX).headers

    def _is_news(self, header: RunHeader) -> bool:
        old = self.headers.get(header.row)
        return old is None or (old.revision, old.run_id) != (header.revision, header.run_id)

    def _forget(self, row: int) -> None:
        self.headers.pop(row, None)
        self._known.pop(row, None)

    # -- what of it is told -----------------------------------------------------------------------

    def _told(self, old: RunHeader | None, new: RunHeader, *, is_read: bool) -> Iterator[Change]:
        """Yield the changes of one run from the header `old`, None if it was not seen before."""
        changes: list[Change] = []
        if old is None and self._row is None:
            changes.append(_started(new) if new.row in self._new else _change(new, "status"))
        changes += self._content(old, new) if is_read else ()
        if old is not None and old.status != new.status:
            changes.append(_change(new, "status"))
        return iter(changes or [_change(new, "saved", count=saves_of(new) or 0)])

    def _content(self, old: RunHeader | None, header: RunHeader) -> Iterator[Change]:
        rows = self._file.ask("read run", CONTENT, (header.row,))
        if not rows:
            return
        # It may have been saved once more since: that is told with the next look's header.
        new = header_of(rows[0])
        try:
            report = read_report(new, rows[0][-1], None, now_ms=new.updated_ms)
        except DecodeError as error:
            yield _change(header, "unreadable", reason=error.reason)
            return
        before = self._known.get(header.row)
        self._known[header.row] = known = _known_of(report)
        if before is not None:
            yield from _differences(header, before, known)
        elif old is not None or self._row is None:
            yield from _since(header, known, old)
        else:
            yield _change(header, "now", status=header.status, states=report.root.configuration)


def _known_of(report: RunReport) -> Known:
    gates = (wait for wait in report.waits if wait.kind == "gate")
    return Known(
        trail=report.trail,
        effects={effect.id: (effect.status, effect.attempt) for effect in report.effects},
        gates={
            address(gate): tuple(event for event in gate.events if isinstance(event, str))
            for gate in gates
        },
    )


def _since(header: RunHeader, known: Known, old: RunHeader | None) -> Iterator[Change]:
    """Yield the steps of a run whose content was not read before, by their time."""
    for step in known.trail:
        if old is None or step.at_ms > old.updated_ms:
            yield _step(header, step)


def _differences(header: RunHeader, before: Known, known: Known) -> Iterator[Change]:
    for step in known.trail[_common(before.trail, known.trail) :]:
        yield _step(header, step)
    for name, (status, attempt) in known.effects.items():
        if before.effects.get(name) != (status, attempt):
            yield _change(header, "effect", name=name, status=status, count=attempt)
    for name, events in known.gates.items():
        if before.gates.get(name) != events:
            yield _change(header, "gate", name=name, status="open", states=events)
    for name, events in before.gates.items():
        if name not in known.gates:
            yield _change(header, "gate", name=name, status="closed", states=events)


def _common(before: tuple[TransitionReport, ...], trail: tuple[TransitionReport, ...]) -> int:
    """Return how many of the first entries of a trail were seen before: the oldest ones go."""
    for gone in range(len(before)):
        left = len(before) - gone
        if before[gone:] == trail[:left]:
            return left
    return 0


def _started(header: RunHeader) -> Change:
    return replace(_change(header, "start"), at_ms=header.created_ms)


def _step(header: RunHeader, step: TransitionReport) -> Change:
    return Change(
        kind="step",
        at_ms=step.at_ms,
        run=header.run_id,
        machine=header.machine,
        name=step.node,
        event=step.event,
        was=step.sources,
        states=step.targets,
    )


def _change(
    header: RunHeader,
    kind: ChangeKind,
    *,
    name: str = "",
    status: str | None = None,
    reason: str | None = None,
    states: tuple[str, ...] = (),
    count: int = 0,
) -> Change:
    return Change(
        kind=kind,
        at_ms=header.updated_ms,
        run=header.run_id,
        machine=header.machine,
        name=name,
        status=header.status if status is None else status,
        reason=header.reason if reason is None else reason,
        states=states,
        count=count,
    )
