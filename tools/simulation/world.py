"""One world under one seed: its processes, one after the other, and how each of them ends."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from snapshots.mailbox import Mailbox
from tools.lengths import as_long_rows
from tools.simulation.charts import MACHINES
from tools.simulation.clients import Clients, Op
from tools.simulation.disk import IN_MEMORY, Disk, Fate
from tools.simulation.follower import Follower
from tools.simulation.loop import Time
from tools.simulation.outside import Outside
from tools.simulation.processes import End, Process
from tools.simulation.rules import LIVE, ROW, Rules
from tools.simulation.stage import STAGE

if TYPE_CHECKING:
    from tools.simulation.rules import Broken

LIVES_MAX = 5
RUNS_MAX = 4
FILES = 0.03
"""How many worlds have a file on a disk."""
VERIFYING = 0.25
LONG_ROWS = 0.3
"""How many worlds save as rows of 64 KB are saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one seed came to."""

    seed: int
    broken: tuple[Broken, ...]
    trace: tuple[str, ...]
    counts: dict[str, int]


class World:
    """All that outlives a process: time, the file, the outside, its clients."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}/world")
        self._folder: str | None = None
        self.time = Time()
        self.trace: list[str] = []
        self.term = 0
        self.lives = self.crashes = 0
        self.process: Process | None = None
        self.rules = Rules(self)
        self.outside = Outside(Random(f"{seed}/outside"), self)
        self.follower = Follower(self, Random(f"{seed}/follower"))
        self.clients = Clients(self, Random(f"{seed}/clients"))
        if self.rng.random() < FILES:
            self._folder = tempfile.mkdtemp(prefix="simulate-")
        path = IN_MEMORY if self._folder is None else str(Path(self._folder) / "state.db")
        self.disk = Disk(Random(f"{seed}/disk"), path)
        self.disk.failed = lambda what: self.note(f"disk: {what}")
        self.verifies = self.rng.random() < VERIFYING
        self.has_long_rows = Random(f"{seed}/rows").random() < LONG_ROWS
        store = self.disk.open(self.time, Fate(), lambda: self.time.now_s)
        self.mailbox = Mailbox(store, clock=self.time)
        self.disk.committed = self._committed
        self.pauses = Random(f"{seed}/pauses")
        self.spoilt: tuple[str, bytes] | None = None

    def note(self, what: str) -> None:
        """Add a line to the trace; where the file lies is not of the seed."""
        if self._folder is not None:
            what = what.replace(self._folder, "…")
        self.trace.append(f"{self.time.now_s:9.3f} {self.lives} {what}")

    def _committed(self, connection: object, sql: str) -> None:
        process = self.process
        if process is not None and process.is_fenced and connection is process.connection:
            self.rules.broke("fenced", f"a fenced host has written: {sql}")
        self.rules.committed(self.disk.raw)

    async def pause(self) -> None:
        """Let others run, for a while of the seed's."""
        await asyncio.sleep(self.pauses.choice((0, 0.02, 0.3, 0.9)))

    # -- the play ---------------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Live all lives, then one in which everything ends well."""
        STAGE.world = self
        try:
            with as_long_rows(if_so=self.has_long_rows):
                self._play()
        finally:
            self.close()
        return Outcome(
            seed=self.seed,
            broken=tuple(self.rules.broken),
            trace=tuple(self.trace),
            counts={
                "lives": self.lives,
                "saves": self.rules.looks,
                "calls": sum(account.calls for account in self.outside.accounts.values()),
                "events": len(self.rules.ops),
                "crashes": self.crashes,
            },
        )

    def _play(self) -> None:
        rng = self.rng
        for number in range(rng.randint(1, RUNS_MAX)):
            self.clients.runs[f"r{number}"] = rng.choice(MACHINES).name
        for _ in range(rng.randint(1, LIVES_MAX)):
            self._live(Process(self, End.drawn(rng), Random(f"{self.seed}/life {self.lives}")))
            if self.rules.broken:
                return
        self._live(Process(self, End.good(), Random(f"{self.seed}/finale")))
        if not self.rules.broken:
            self._look_at_the_end()

    def _live(self, process: Process) -> None:
        self.lives += 1
        former, self.process = self.process, process
        zombie = former if former is not None and former.is_frozen else None
        process.live(zombie)
        if zombie is not None:
            zombie.bury()
        if not process.is_frozen:
            process.bury()
        self.crashes += process.crashed
        self.clients.forget_process()
        self.repair()

    def damage(self, run_id: str) -> None:
        """Overwrite a run's row, as a fault of the disk would."""
        raw = self.disk.raw
        blob = self._blob(run_id)
        place = self.rng.randrange(len(blob))
        spoilt = blob[:place] if self.rng.random() < 0.5 else b"{" + blob
        self.rules.damaged[run_id] = blob
        raw.execute("update runs set blob = ? where run_id = ?", (spoilt, run_id))
        self.spoilt = run_id, spoilt
        self.note(f"damaged {run_id}")

    def _blob(self, run_id: str) -> bytes:
        row: Any = self.disk.raw.execute(ROW, (run_id,)).fetchone()
        return bytes(row[0])

    def repair(self) -> None:
        """Put back what was damaged; nobody must have touched it meanwhile."""
        if self.spoilt is None:
            return
        raw, (run_id, spoilt) = self.disk.raw, self.spoilt
        blob = self._blob(run_id)
        self.rules.require("bad row", f"{run_id} was written over", holds=blob == spoilt)
        raw.execute(
            "update runs set blob = ? where run_id = ?", (self.rules.damaged.pop(run_id), run_id)
        )
        self.spoilt = None
        self.note(f"repaired {run_id}")

    @property
    def is_fenced(self) -> bool:
        """Whether the process that runs now is a former owner."""
        return self.process is not None and self.process.is_fenced

    def is_live(self, run_id: str) -> bool:
        """Whether the file said last that a run is live."""
        known = self.rules.runs.get(run_id)
        return known is not None and known.status == "live"

    def live_runs(self) -> set[str]:
        """Return the runs that the file says are live."""
        return {row[0] for row in self.disk.raw.execute(LIVE)}

    def _look_at_the_end(self) -> None:
        """Look whether everything that was begun came to its end, and every letter was settled."""
        rules = self.rules
        for run_id in sorted(rules.started):
            known = rules.runs.get(run_id)
            if known is None:
                rules.broke("lost run", run_id)
            elif known.status not in self._right_ends(run_id):
                where = known.value["root"]["configuration"]
                what = f"{run_id} {self.clients.runs[run_id]} {known.status} in {where}"
                rules.broke("stuck", what)
        for op in rules.ops.values():
            self._look_at_op(op)

    def _right_ends(self, run_id: str) -> set[str]:
        """Return the statuses in which a run may have ended."""
        ends = {"done", "failed"}
        if run_id in self.clients.ended:
            ends.add("cancelled")
        ops = [op for op in self.rules.ops.values() if op.run_id == run_id]
        if any(op.event == "spoil_it" and (op.entry or op.was_unknown) for op in ops):
            ends.add("error")  # what raises where nobody waits any more
        return ends

    def _look_at_op(self, op: Op) -> None:
        rules = self.rules
        known = rules.runs.get(op.run_id)
        seen = known.seen if known is not None else []
        if op.entry is not None:
            entry = self.mailbox.entry(op.entry)
            said = entry.outcome if entry is not None else None
            rules.require("mailbox", f"{op} was never settled", holds=said is not None)
            refused = said is not None and said.startswith("refused")
            ran = op.token in seen
            rules.require("mailbox", f"{op} was {said}, and ran", holds=not (refused and ran))
        elif op.token in rules.vanished and op.is_sure and op.status in ("unknown", "ignored"):
            over = known is not None and known.status != "live"
            rules.require("lost event", f"{op} was queued, and is gone", holds=over)
        elif op.status == "acknowledged":
            is_gone = op.is_for_child and known is not None and known.status == "cancelled"
            there = op.token in seen or is_gone
            rules.require("lost event", f"{op} was acknowledged", holds=there)

    def close(self) -> None:
        """Give everything back."""
        if self.process is not None and self.process.is_frozen:
            self.process.bury()
        self.process = None
        self.disk.committed = lambda _, __: None
        self.mailbox._database.close()  # noqa: SLF001 - opened for it
        self.disk.close()
        if self._folder is not None:
            shutil.rmtree(self._folder)
