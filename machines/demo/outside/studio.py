"""The studio that renders films: long jobs that go on whatever becomes of who ordered them.

    python -m machines.demo.outside.studio LOG SEED

A job is begun once per key. Its scenes are there one after the other, and can be read from any of
them on, again and again; every reading is in the log, with the term of the host that read.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.lines import tell
from machines.demo.outside.book import Book
from machines.demo.outside.server import serve

if TYPE_CHECKING:
    from machines.demo.outside.book import Asked
    from snapshots.clock import Clock

SCENES: Final = 40
SCENE_S: Final = 0.04
"""How long a scene takes."""
SCENES_READ_MAX: Final = 3
"""How many are given at a time."""


def scene_of(film: str, number: int) -> str:
    """Return a scene of a film."""
    return f"{film}, scene {number + 1} of {SCENES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One film that is being rendered."""

    film: str
    began_s: float

    def ready(self) -> int:
        """Return how many scenes are there."""
        return min(SCENES, int((time.monotonic() - self.began_s) / SCENE_S))

    def wait_for(self, number: int) -> None:
        """Wait until a scene is there."""
        time.sleep(max(0.0, self.began_s + (number + 1) * SCENE_S - time.monotonic()))


class Studio(Book):
    """The jobs that it has."""

    def __init__(self, path: str, seed: str, clock: Clock) -> None:
        super().__init__(path, seed, clock)
        self._jobs: dict[str, Job] = {}

    def happen(self, asked: Asked, reference: str) -> None:
        """Begin a job."""
        self._jobs[reference] = Job(film=asked.subject, began_s=time.monotonic())

    def look_up(self, what: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Give scenes, say whether a job is there, drop one, or look up as ever."""
        if what == "scenes":
            return self._read(query["job"], int(query["start"]), int(query["term"]))
        if what == "job":
            return {} if query["job"] in self._jobs else None
        if what == "drop":
            film = self._jobs.pop(query["job"]).film
            self.write(note="dropped", film=film)
            return {}
        return super().look_up(what, query)

    def _read(self, name: str, start: int, term: int) -> dict[str, Any] | None:
        job = self._jobs.get(name)
        if job is None:
            return None
        if start < SCENES:
            job.wait_for(start)
        end = min(start + SCENES_READ_MAX, max(start, job.ready()))
        self.write(note="read", film=job.film, start=start, end=end, term=term)
        tell({"at": "read", "subject": job.film, "start": start + 1})
        scenes = [scene_of(job.film, number) for number in range(start, end)]
        return {"scenes": scenes, "ended": end == SCENES}


if __name__ == "__main__":
    serve(Studio, sys.argv[1:])
