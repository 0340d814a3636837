"""What was acknowledged, compared with what is on disk and with what really happened.

It reads the file of the runs as anybody may, read-only and while nobody owns it, and the log of the
process outside. It believes nothing that an orchestrator says of the time before its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.run.views import RunView, view_of_row
from snapshots.codec import dump, load
from snapshots.errors import RunNotFoundError, SnapshotsError
from snapshots.inspection.queries.files import open_run_file
from snapshots.limits import TRAIL_BYTES_MAX, TRAIL_ENTRIES_MAX
from snapshots.records import StoredRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from machines.demo.log import Log


@dataclass(slots=True)
class Promise:
    """What the orchestrator has acknowledged of one run."""

    revision: int = 0
    step: int = 0
    status: str = "live"
    moves: dict[bytes, int] = field(default_factory=dict)
    """Transitions as they were told, each with its time."""
    deliveries: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Doubt:
    """An effect whose outcome was hidden once: by a kill, or by an answer that never came."""

    run: str
    effect: str
    attempt: int
    kind: str
    path: str
    invoke: str
    cause: str
    had_happened: bool
    """Whether it had been done outside when the doubt was found."""


@dataclass(slots=True)
class Row:
    """One run as it was found on disk."""

    view: RunView
    value: dict[str, Any]
    """The whole blob, as plain JSON."""
    step: int
    trail: list[list[Any]]
    deliveries: set[str]

    @property
    def has_whole_trail(self) -> bool:
        """Whether its first transition is there: the one that began in no state."""
        return not self.trail or (self.trail[0][1], self.trail[0][3]) == ("", [])

    @property
    def may_have_lost_trail(self) -> bool:
        """Whether its trail is so long, in entries or bytes, that older ones may have gone."""
        is_long = len(dump(self.trail)) > TRAIL_BYTES_MAX // 2
        return is_long or len(self.trail) == TRAIL_ENTRIES_MAX


def is_outside(effect: dict[str, Any]) -> bool:
    """Whether an effect went to the process outside, and not to the storage beside the runs.

    Those of the example charts that use the storage are named `<what>.<verb>`.
    """
    return "." not in effect["kind"]


class Witness:
    """Keeps the promises and the faults that were found; each fault is a sentence."""

    def __init__(self, file: Path, log: Log, *, cyclic: frozenset[str] = frozenset()) -> None:
        """`cyclic` are machines whose root chart may be moved by one event again and again."""
        self.log = log
        self.rows: dict[str, Row] = {}
        """The runs as they were found last."""
        self.checks = 0
        """How many promises were compared with the file, each time it was read."""
        self.lost: dict[str, None] = {}
        """Acknowledged, and not on disk afterwards."""
        self.twisted: dict[str, None] = {}
        """Trails that do not hang together, and events that were run twice."""
        self.unannounced: dict[str, None] = {}
        """Requests that arrived outside without an intent on disk."""
        self.doubts: dict[tuple[str, int], Doubt] = {}
        self.file = file
        """The file of the runs."""
        self._cyclic = cyclic
        self._promises: dict[str, Promise] = {}

    # -- what is acknowledged -------------------------------------------------------------------

    def take_save(self, line: dict[str, Any]) -> None:
        """Take the announcement of a save."""
        promise = self._promises.setdefault(line["run"], Promise())
        promise.revision = max(promise.revision, line["revision"])
        promise.step = max(promise.step, line["step"])
        promise.status = line["status"]
        promise.moves |= {dump(move): move[0] for move in line["moves"]}
        for effect, attempt, kind, key, _ in line["doubts"]:
            self._doubt(line["run"], effect, attempt, (kind, key), cause="a lost answer")

    def take_start(self, run: str) -> None:
        """Take the acknowledgement that a run was started."""
        self._promises.setdefault(run, Promise())

    def take_delivery(self, run: str, delivery: str) -> None:
        """Take the acknowledgement of an event from outside."""
        self._promises.setdefault(run, Promise()).deliveries.add(delivery)

    @property
    def acknowledged(self) -> int:
        """How many different transitions were acknowledged."""
        return sum(len(promise.moves) for promise in self._promises.values())

    # -- what is found --------------------------------------------------------------------------

    def examine(self, runs: list[str]) -> dict[str, Row]:
        """Read the runs while nobody writes, note every fault, and return them."""
        entries = list(self.log.accepted())
        self.rows = self.read(runs)
        for run, promise in self._promises.items():
            row = self.rows.get(run)
            if row is None:
                self.lost[f"{run}: acknowledged, and not in the file"] = None
            else:
                self._compare(run, promise, row)
        for run, row in self.rows.items():
            self._check_trail(run, row)
            self._find_doubts(run, row)
        self._check_intents(entries)
        return self.rows

    def read(self, runs: list[str]) -> dict[str, Row]:
        """Return those of the runs that are in the file, as anybody may at any time."""
        if not self.file.exists():
            return {}
        try:
            stored = open_run_file(self.file)
        except SnapshotsError:
            if self._promises:
                raise
            # Killed before its first save: there is nothing that could be lost.
            return {}
        rows: dict[str, Row] = {}
        with stored:
            for run in runs:
                try:
                    found = stored.find(run)
                except RunNotFoundError:
                    continue
                blob = load(found.blob)
                rows[run] = Row(
                    view_of_row(StoredRun(header=found.header, blob=found.blob)),
                    blob,
                    blob.get("step", 0),
                    blob.get("trail", []),
                    set(blob.get("deliveries", ())),
                )
        return rows

    def _compare(self, run: str, promise: Promise, row: Row) -> None:
        view = row.view
        self.checks += 3 + len(promise.moves) + len(promise.deliveries)
        if view.revision < promise.revision or row.step < promise.step:
            told = f"revision {promise.revision} step {promise.step}"
            self.lost[f"{run}: {told} told, {view.revision} step {row.step} found"] = None
        if promise.status not in ("live", view.status):
            self.lost[f"{run}: {promise.status} told, {view.status} found"] = None
        for delivery in promise.deliveries - row.deliveries:
            self.lost[f"{run}: delivery {delivery} acknowledged, and not found"] = None
        kept = {dump(entry) for entry in row.trail}
        is_whole = row.has_whole_trail
        for move, at_ms in promise.moves.items():
            if move not in kept and (is_whole or at_ms > row.trail[0][0]):
                self.lost[f"{run}: transition {move.decode()} told, and not found"] = None

    def _check_trail(self, run: str, row: Row) -> None:
        last: dict[str, list[str]] = {}
        events: Counter[tuple[str, str]] = Counter()
        is_whole = row.has_whole_trail
        if not is_whole and not row.may_have_lost_trail:
            self.twisted[f"{run}: its trail begins with {row.trail[0]}, and is not long"] = None
        for _, path, event, was, now in row.trail:
            if last.get(path, [] if is_whole else was) != was:
                before = last.get(path, [])
                self.twisted[f"{run}: {path or 'root'} went on from {was}, not {before}"] = None
            last[path] = now
            may_recur = not path and row.view.machine in self._cyclic
            if not (may_recur or event.startswith("error.")):
                events[path, event] += 1
        for (path, event), times in events.items():
            if times > 1:
                self.twisted[f"{run}: {event!r} moved {path or 'root'} {times} times"] = None
        root = last.get("")
        if root is not None and tuple(root) != row.view.configuration:
            self.twisted[f"{run}: its trail ends in {root}, not {row.view.configuration}"] = None

    def _find_doubts(self, run: str, row: Row) -> None:
        for effect in row.view.effects:
            if effect["status"] == "calling" and not effect.get("idempotent"):
                call = effect["kind"], effect["key"]
                self._doubt(run, effect["id"], effect["attempt"], call, cause="a kill")

    def _doubt(
        self, run: str, effect: str, attempt: int, call: tuple[str, str], *, cause: str
    ) -> None:
        if (effect, attempt) in self.doubts:
            return
        path, _, invoke = effect.removeprefix(f"{run}/").rpartition("/")
        self.doubts[effect, attempt] = Doubt(
            run=run,
            effect=effect,
            attempt=attempt,
            kind=call[0],
            path=path,
            invoke=invoke,
            cause=cause,
            had_happened=self.log.reference(*call) is not None,
        )

    def _check_intents(self, entries: list[dict[str, Any]]) -> None:
        left: Counter[tuple[str, str]] = Counter()
        for effect in self.effects():
            left[effect["kind"], effect["key"]] += effect["attempt"]
        seen = Counter((entry["what"], entry["key"]) for entry in entries)
        for (what, key), times in seen.items():
            if times > left[what, key]:
                on_disk = left[what, key]
                self.unannounced[f"{what} for {key}: {times} calls, {on_disk} on disk"] = None

    def effects(self) -> Iterator[dict[str, Any]]:
        """Yield the effect rows of all runs as they were found last."""
        for row in self.rows.values():
            yield from row.view.effects

    def never_happened(self) -> list[str]:
        """Return effects that the ledger calls done and that were never seen outside."""
        seen = self.log.seen()
        return [
            f"{effect['id']} is done, and was never seen outside"
            for effect in self.effects()
            if effect["status"] == "done"
            and is_outside(effect)
            and not seen[effect["kind"], effect["key"]]
        ]

    def settled_by(self, doubt: Doubt, decided: set[tuple[str, int]]) -> str | None:
        """Return who settled a doubt: the chart, a person or a probe; None if nobody did."""
        row = self.rows.get(doubt.run)
        effects = row.view.effects if row is not None else ()
        effect = next((each for each in effects if each["id"] == doubt.effect), None)
        if row is None or effect is None:
            return None
        is_by_chart = any(
            path == doubt.path and event == f"error.indoubt.{doubt.invoke.partition('.')[0]}"
            for _, path, event, _, _ in row.trail
        )
        if is_by_chart:
            return "chart"
        if effect["status"] in ("calling", "unknown") and effect["attempt"] == doubt.attempt:
            return None
        return "person" if (doubt.effect, doubt.attempt) in decided else "probe"
