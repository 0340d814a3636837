"""A process that looks: it lists and shows runs, and may hold what it reads for a while.

    python -m tools.soaking.reader FILE SEED [PIN_S_MAX]

With PIN_S_MAX it now and then keeps a read transaction open for up to so long, so that the log
cannot be started anew. It says a line for each look, and two for each time that it holds one.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from machines.demo.lines import listen, tell
from snapshots.clock import SystemClock
from snapshots.errors import RunNotFoundError, SnapshotsError
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.inspection.queries.listing import list_runs
from snapshots.inspection.reports.reading import read_report

LOOK_S: Final = 0.25
LISTED: Final = 50
SHOWN: Final = 3
PINS_EVERY: Final = 40
"""One look of so many holds the log."""
BUSY_MS: Final = 5_000


def look(file: RunFile, dice: random.Random) -> None:
    """List runs and show some of them, live ones and others, and say how many there are."""
    began_s = time.monotonic()
    counts = file.counts()
    listed = list_runs(file, rows_max=LISTED).headers
    for header in dice.sample(listed, min(SHOWN, len(listed))):
        try:
            found = file.find(header.run_id)
        except RunNotFoundError:  # swept since it was listed
            continue
        now_ms = SystemClock().now_ms()
        read_report(found.header, found.blob, found.shape, now_ms=now_ms, mail=found.mail)
    took_ms = (time.monotonic() - began_s) * 1_000
    tell({"at": "look", "live": counts.live, "ended": counts.ended, "took_ms": took_ms})


def pin(path: Path, seconds: float) -> None:
    """Hold a read transaction."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("begin")
        (rows,) = connection.execute("select count(*) from runs").fetchone() or (0,)
        tell({"at": "pinned", "rows": rows})
        time.sleep(seconds)
        again = connection.execute("select count(*) from runs").fetchone()
        assert again == (rows,), "a reader saw another moment than the one it holds"
        connection.execute("rollback")
    tell({"at": "released"})


def main(path: Path, seed: str, pin_s_max: float) -> None:
    """Look until the parent goes."""
    dice = random.Random(f"reader {seed}")
    listen(lambda _: None)
    tell({"at": "reading"})
    looks = 0
    while True:
        time.sleep(LOOK_S)
        looks += 1
        if pin_s_max > 0 and looks % PINS_EVERY == 0:
            pin(path, dice.uniform(pin_s_max / 8, pin_s_max))
        try:
            with open_run_file(path) as file:
                look(file, dice)
        except SnapshotsError as error:
            tell({"at": "failed look", "error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
