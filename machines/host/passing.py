"""Which runs of a host are built, and which of them are passed out of memory again."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from machines.errors import HostOptionError
from machines.limits import PASSING_RETRY_S, PASSING_RUNS_MAX, RESIDENT_RUNS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from machines.run.run import Run


class Passing:
    """The runs that are built, up to a bound beyond which idle ones are let go.

    What was passed out is known as long as anybody still holds it, a callback that has kept its
    chart, say: it is taken back then instead of being built a second time, so that there are never
    two objects of one run, and nothing that enters through the old one is lost.

    `is_idle` says whether a run only waits, as its row does, and nobody waits for it. `later`
    calls a function after so many seconds. `waiting` gets the ids of runs that were passed out.
    """

    def __init__(
        self,
        waiting: set[str],
        is_idle: Callable[[Run], bool],
        later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self.resident: OrderedDict[str, Run] = OrderedDict()
        """The runs that are built, the one that was used last at the end."""
        self._out: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self.runs_max = RESIDENT_RUNS_MAX
        self._waiting = waiting
        self._is_idle = is_idle
        self._later = later
        self._is_due = False

    def keep(self, run: Run) -> None:
        """Keep a run that is built, as the one used last; another one may leave for it."""
        self.resident[run.run_id] = run
        self.resident.move_to_end(run.run_id)
        self._make_room(sparing=1)

    def use(self, run_id: str) -> Run | None:
        """Return a run, if there is one that is built, and note that it is used."""
        run = self.resident.get(run_id)
        if run is not None:
            self.resident.move_to_end(run_id)
            return run
        run = self._out.get(run_id)
        if run is not None:
            self.hold(run)
        return run

    def hold(self, run: Run) -> None:
        """Take a run back that was passed out, and that somebody has used all the same."""
        if self.resident.get(run.run_id) is run or self._out.get(run.run_id) is not run:
            return
        del self._out[run.run_id]
        self._waiting.discard(run.run_id)
        self.keep(run)

    def drop(self, run: Run) -> bool:
        """Forget a run; return whether it was known."""
        self.hold(run)
        known = self.resident.get(run.run_id) is run
        if known:
            del self.resident[run.run_id]
        return known

    def every(self) -> Iterator[Run]:
        """Yield all runs that are built, those that were passed out included."""
        yield from [*self.resident.values(), *self._out.values()]

    def _make_room(self, *, sparing: int = 0) -> None:
        """Let runs go that were idle longest, but for the last few; busy ones count as used.

        At once, since who sends to one run after the other may never let the loop go on. Where
        none could leave, the others are looked at after a while.
        """
        passed, looked_at = 0, min(PASSING_RUNS_MAX, len(self.resident) - sparing)
        for run in [*islice(self.resident.values(), looked_at)]:
            if len(self.resident) <= self.runs_max:
                return
            if self._is_idle(run):
                del self.resident[run.run_id]
                self._out[run.run_id] = run
                self._waiting.add(run.run_id)
                passed += 1
            else:
                self.resident.move_to_end(run.run_id)
        if not self._is_due and len(self.resident) > self.runs_max:
            self._is_due = True
            self._later(0 if passed else PASSING_RETRY_S, self._look_again)

    def _look_again(self) -> None:
        self._is_due = False
        self._make_room()


def only_waits(run: Run) -> bool:
    """Whether a run is at rest, its row says that it only waits, and nobody waits for it."""
    header, tree = run.header, run.tree
    if header is None or not header.parked or run.paused or not run.goes_on:
        return False
    awaited = tree.pumping or tree.resting or run.delivering or run.letters.any
    return run.at_rest and not awaited


def checked(runs_max: object) -> int:
    """Return a bound for the runs that are built; HostOptionError if it is no number above 0."""
    if type(runs_max) is not int or runs_max < 1:
        option, expected = "resident_max", "a number of runs, at least 1"
        raise HostOptionError(option, runs_max, expected)
    return runs_max
