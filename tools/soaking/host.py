"""The process that is soaked: the demo's orchestrator, with a week of seconds, and measured.

    python -m tools.soaking.host FILE soak [--verify]

The command that opens the file says how long finished runs are kept, in milliseconds, so that
sweeps have something to delete: no option of the product does, so it is turned in this process.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

import machines.host.host as hosting
import machines.host.mail as posting
from machines import Machine
from machines.demo.hosted import HOSTED as ORDERS
from machines.demo.lines import tell
from machines.demo.orchestrator import AnnouncingHost, World, main
from snapshots import limits
from snapshots.errors import SnapshotsError
from tools.soaking.charts import Logbook

NAME: Final = "soak"
WINDOW_S: Final = 1.0
"""How often it tells how long sends took."""
SWEEP_S: Final = 1.0
BACKUP_S: Final = 9.0
NS_PER_US: Final = 1_000
HOSTED: Final = {NAME: (*ORDERS["checkout"], Machine(Logbook, name="logbook"))}


class SoakedHost(AnnouncingHost):
    """A host that tells how long its sends took, and backs itself up now and then."""

    async def __aenter__(self) -> Self:
        opened = await super().__aenter__()
        self._took_us: list[int] = []
        self._tasks += [self._task(work) for work in (self._tell_windows(), self._back_up())]
        return opened

    async def send(self, run: str, event: str, /, *args: Any, **given: Any) -> Any:
        """Send, and note how long it took."""
        began_ns = time.perf_counter_ns()
        answer = await super().send(run, event, *args, **given)
        self._took_us.append((time.perf_counter_ns() - began_ns) // NS_PER_US)
        return answer

    async def _tell_windows(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_S)
            took, self._took_us = self._took_us, []
            stats = self.store.stats()
            tell(
                {
                    "at": "window",
                    "took_us": took,
                    "checkpoints": stats.checkpoints,
                    "stall_ms": stats.longest_checkpoint_stall_ms,
                }
            )

    async def _back_up(self) -> None:
        target = Path(f"{self.path}.own-backup")
        while True:
            await asyncio.sleep(BACKUP_S)
            try:
                rows = await asyncio.to_thread(self._backed_up, target)
            except SnapshotsError as error:
                tell({"at": "own backup", "rows": 0, "error": str(error)})
            else:
                tell({"at": "own backup", "rows": rows, "error": ""})

    def _backed_up(self, target: Path) -> int:
        """Replace the last backup, and return how many runs the new one has."""
        target.unlink(missing_ok=True)
        return self.store.backup(target).rows["runs"]


def turn(opening: dict[str, Any]) -> None:
    """Keep what has ended for as long as the opening command says, and sweep all the time."""
    kept_ms = opening["kept_ms"]
    for module, name, value in (
        (limits, "RETENTION_MS", kept_ms),
        (posting, "MAILBOX_SETTLED_MS", kept_ms),
        (hosting, "SWEEP_INTERVAL_S", SWEEP_S),
    ):
        assert hasattr(module, name), f"{module.__name__} has no {name}"
        setattr(module, name, value)


if __name__ == "__main__":
    main(sys.argv[1:], World(hosted=HOSTED, prepare=turn, host=SoakedHost))
