"""Take the power away at any moment, thousands of times, and see what is left.

    python tools/powerloss.py [--seconds N] [--seed S] [--controls] [--keep DIR]

A real workload runs on a file whose every write, cut, sync and deletion is noted. Of the notes,
disks are made as a power loss may leave them, each is opened by the code that users run, and what
is there is compared with what was committed. Exit code 1 if one is not as it must be. `--controls`
does the same to workloads that are wrong on purpose, each of which must be found.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machines.errors import MachinesError
from snapshots import limits
from snapshots.errors import SnapshotsError
from snapshots.testing import START_MS, ManualClock
from tools.disk.checks import Checker, Failure
from tools.disk.controls import CONTROLS, Control
from tools.disk.history import NOTHING, History, Picture
from tools.disk.images import draw_points, images
from tools.disk.life import Life, looking_often
from tools.disk.recording import Recording
from tools.disk.telling import told
from tools.disk.watching import watched
from tools.lengths import as_long_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.disk.images import Image

IMAGES: Final = 320
"""Images of each life of a file."""
CONTINUED: Final = 0.5
"""How many lives begin with what a power loss has left of the life before."""
SHOWN: Final = 5
YEAR_MS: Final = 366 * 86_400_000
FAST: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
CONTROL_SECONDS: Final = 75.0
"""How long a control may take to be found."""
LONG_ROWS: Final = 0.5
"""How many lives save as rows of 64 KB are saved."""


@dataclass(slots=True)
class Count:
    """What was seen."""

    images: int = 0
    lives: int = 0
    commits: int = 0
    operations: int = 0
    lost: int = 0
    """Images in which commits were lost that were not promised to last."""
    failures: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class Past:
    """What a file holds as a life of it begins."""

    image: Image | None = None
    picture: Picture = NOTHING
    truth: dict[tuple[str, int], object] = field(default_factory=dict)


class Storm:
    """Lives of files, one after the other, and the power losses in each of them."""

    def __init__(self, folder: Path, seed: int, control: Control | None = None) -> None:
        self.folder = folder
        self.count = Count()
        self._seed = seed
        self._control = control
        self._past = Past()

    def go_on(self, until_s: float, *, images_max: int) -> None:
        """Live and look, until the time is over or enough has been seen."""
        while time.monotonic() < until_s and self.count.images < images_max:
            self._live(until_s, min(IMAGES, images_max - self.count.images))
            if self._control is not None and self.count.failures:
                return

    def _live(self, until_s: float, images_max: int) -> None:
        number = self.count.lives
        self.count.lives += 1
        rng = random.Random(f"{self._seed} {number}")
        place = self.folder / f"life{number}"
        place.mkdir()
        past, self._past = self._past, Past()
        if past.image is not None:
            past.image.write(place)
        path = place / "state.db"
        clock = ManualClock(START_MS + number * YEAR_MS)
        life = Life(path=path, clock=clock, rng=rng, large=rng.random() < 0.4)
        with ExitStack() as seams:
            recording = self._recording(place, rng)
            vfs = seams.enter_context(watched(recording))
            history = History(recording, past.picture, past.truth)
            seams.enter_context(told(history, vfs))
            seams.enter_context(_often(rng))
            seams.enter_context(looking_often())
            if self._control is not None:
                seams.enter_context(self._control.seams())
            life.outside.on_call = partial(_called, history)
            if not self._live_on(life, past, rng.randint(1, 3)):
                return
        history.note_checkpoints(f"{path}-wal")
        self.count.commits += len(history.moments) - 1
        self.count.operations += len(recording.log)
        checker = Checker(history, life.machines(), life.clock)
        points = draw_points(recording.log, images_max, rng)
        seed = rng.randrange(2**32)
        for image in images(recording.log, recording.before_it, points, seed):
            if time.monotonic() > until_s:
                return
            self._look(image, checker, rng)
            if self._control is not None and self.count.failures:
                return

    def _live_on(self, life: Life, past: Past, hosts: int) -> bool:
        """Have hosts live on a file; one that cannot, on what a loss has left, is a failure."""
        try:
            for _ in range(hosts):
                asyncio.run(life.host())
        except (SnapshotsError, MachinesError, AssertionError) as error:
            if past.image is None:
                raise
            detail = f"{type(error).__name__}: {error}"
            failure = Failure(claim="a host goes on with it", detail=detail, image=past.image)
            self.count.failures.append(failure)
            return False
        return True

    def _recording(self, place: Path, rng: random.Random) -> Recording:
        kind = Recording if self._control is None else self._control.disk
        return kind(place, rng.randrange(2**32))

    def _look(self, image: Image, checker: Checker, rng: random.Random) -> None:
        self.count.images += 1
        history = checker.history
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            image.write(Path(name))
            index, failure = checker.check(image, Path(name) / "state.db")
        if failure is not None:
            self.count.failures.append(failure)
            return
        assert index is not None
        _, last, _ = history.bounds(image.at)
        self.count.lost += index < last - 1
        if rng.random() < CONTINUED / IMAGES * 4 and index:
            picture = history.moments[index].picture
            self._past = Past(image=image, picture=picture, truth=history.left_by(index))


def _called(history: History, kind: str, key: str) -> None:
    """Know that money moves: what says so is on the disk by now."""
    if kind == "charge":
        history.must_last(f"the call {key!r} had left, whose effect is synced")


@contextmanager
def _often(rng: random.Random) -> Iterator[None]:
    """Turn the bounds down, mostly, so that there are checkpoints in every life."""
    pages = rng.choice((8, 30, 100, limits.CHECKPOINT_PAGES))
    bounds = vars(limits)
    before = dict(bounds)
    bounds["CHECKPOINT_PAGES"] = pages
    bounds["CHECKPOINT_REST_PAGES"] = min(pages // 4, limits.CHECKPOINT_REST_PAGES)
    bounds["WAL_RESTART_BYTES"] = rng.randint(pages, 4 * pages) * limits.PAGE_BYTES
    bounds["WAL_RESTART_COMMITS"] = 0
    bounds["WAL_BYTES_MAX"] = 8 * pages * limits.PAGE_BYTES
    bounds["WAL_IDLE_BYTES"] = limits.PAGE_BYTES
    try:
        with as_long_rows(if_so=rng.random() < LONG_ROWS):
            yield
    finally:
        bounds.update(before)


def report(count: Count, took_s: float) -> list[str]:
    """Return what was seen, a line each."""
    lines = [
        f"images: {count.images} in {took_s:.1f} s",
        f"lives of files: {count.lives}, {count.commits} commits, {count.operations} operations",
        f"images without the last commits, which nobody was promised: {count.lost}",
        f"failures: {len(count.failures)}",
    ]
    return lines + [f"  {failure}" for failure in count.failures[:SHOWN]]


def control(chosen: Control, folder: Path, seed: int) -> tuple[bool, str]:
    """Run one workload that is wrong: whether it was found, and a line that says how."""
    storm = Storm(folder, seed, chosen)
    begun_s = time.monotonic()
    storm.go_on(begun_s + CONTROL_SECONDS, images_max=sys.maxsize)
    took_s, count = time.monotonic() - begun_s, storm.count
    if not count.failures:
        return False, f"{chosen.name}: NOT caught in {count.images} images"
    claim = count.failures[0].claim
    return True, f"{chosen.name}: caught by image {count.images} ({took_s:.1f} s), not so: {claim}"


def main(arguments: list[str] | None = None) -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/powerloss.py", description="Take the power away.")
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--images", type=int, default=sys.maxsize, help="end after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--controls", action="store_true", help="see wrong ones found")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where bad images are left")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as name:
        folder = Path(name)
        if options.controls:
            found = [
                control(one, _made(folder / str(n)), options.seed) for n, one in enumerate(CONTROLS)
            ]
            print("\n".join(line for _, line in found))
            return 0 if all(was_found for was_found, _ in found) else 1
        storm, begun_s = Storm(folder, options.seed), time.monotonic()
        storm.go_on(begun_s + options.seconds, images_max=options.images)
    print("\n".join(report(storm.count, time.monotonic() - begun_s)))
    if options.keep is not None:
        for number, failure in enumerate(storm.count.failures):
            failure.image.write(_made(options.keep / str(number)))
    return 1 if storm.count.failures or not storm.count.images else 0


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
