"""Whether a chart survives restarts: around each macrostep there is one, and nobody notices."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from machines.definition import Machine
from machines.errors import HostStoppedError, RunFinishedError
from machines.limits import LAB_LIVES_MAX
from machines.testing.lab import Lab
from machines.testing.points import Crashed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from machines.definition import Chart
    from machines.run.views import RunView

Act: TypeAlias = "str | tuple[str, Mapping[str, Any]] | int"
Sights: TypeAlias = "list[_Sight]"
"""An event, an event and its data, or milliseconds by which the clock is turned."""
RUN: Final = "survivor"
SECOND: Final = "the second time"
AGAIN: Final = "before step"
KEPT_BESIDE: Final = (
    "The chart keeps something where no snapshot sees it: in a closure, a listener, a cache, an "
    "object that its constructor makes anew. What is to come back belongs into the model, or into "
    "an attribute of the chart"
)
DONE_TWICE: Final = (
    "A callback does something that is not undone with its macrostep: it counts, posts or draws a "
    "number outside. What touches the outside belongs into an `effect`"
)
UNSTEADY: Final = (
    "So nothing can be said of restarts: the chart goes by something other than its input, its "
    "events and the clock of the lab. Look for random numbers, the time of day, a call in a "
    "callback that should be an `effect`, and a global or an attribute of a class that outlives "
    "a run"
)
TRIALS: Final = {
    "after step": ("if it is restarted behind each macrostep", KEPT_BESIDE),
    AGAIN: ("if it dies before each save, so that each macrostep is run again", DONE_TWICE),
}
UNSEEN: Final = frozenset({"revision"})
"""What of a view may differ: a restart may add saves."""


async def assert_survives_restarts(
    chart: Chart,
    acts: Sequence[Act],
    *,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the blob's word for it
    prepare: Callable[[Lab], object] | None = None,
    **options: Any,
) -> int:
    """Run a chart three times, twice with restarts at every macrostep, and compare what is seen.

    One run is left alone. The second one is restarted behind each macrostep, the third one before
    each is saved, so that it happens again.

    `acts` are events, pairs of an event and its data, and milliseconds for the clock. After each
    of them, and what follows by itself, the views of the runs must be equal, but for the
    revision: status, active states, model, effects, gates, output; and an exception that the
    sender gets must be the same. `prepare` is called with the lab of each run, to script its
    fakes, say. `options` are those of `Lab` and `Host`.

    Returns how often the second run was restarted. Raises what starting the chart raises,
    ValueError for what is no act, and AssertionError, which names the act, the first difference,
    and where to look for its cause: a chart that comes out otherwise without a restart, too, is
    told so.
    """
    _require_acts(acts)
    machine, named = Machine.of(chart), ("start", *acts)

    async def run(point: str) -> tuple[Sights, int]:
        with tempfile.TemporaryDirectory(prefix="machines-") as folder:
            lab = Lab(Path(folder) / "state.db", [chart], **options)
            if prepare is not None:
                prepare(lab)
            trial = _Trial(lab, machine, dict(input or {}), point)
            try:
                sights = [await trial.act(number, act) for number, act in enumerate((None, *acts))]
            finally:
                await trial.close()
            return sights, trial.restarts

    calm, _ = await run("")
    restarts = 0
    for point, (how, cause) in TRIALS.items():
        sights, times = await run(point)
        difference = _difference(named, calm, sights, how)
        if difference:
            again, _ = await run("")
            unsteady = _difference(named, calm, again, SECOND)
            if unsteady:
                message = f"two runs without any restart differ: {unsteady}. {UNSTEADY}"
                raise AssertionError(message)
            message = f"a restart shows: {difference}. {cause}"
            raise AssertionError(message)
        restarts = restarts or times
    return restarts


def _require_acts(acts: Sequence[object]) -> None:
    """Refuse what would be taken for something else, or for nothing."""
    if isinstance(acts, str):
        message = f"acts are a list, and {acts!r} is one act: [{acts!r}]"
        raise ValueError(message)  # noqa: TRY004 - as for any other act that is none
    for act in acts:
        if not _is_act(act):
            expected = "it is an event, (an event, its data), or milliseconds from 0 on"
            message = f"no act is {act!r}: {expected}"
            raise ValueError(message)


def _is_act(act: object) -> bool:
    match act:
        case bool():
            return False
        case str():
            return act != ""
        case int():
            return act >= 0
        case (str(), Mapping()):
            return True
    return False


class _Sight:
    """What is seen behind one act."""

    def __init__(self, view: RunView, error: str) -> None:
        names = [field.name for field in fields(view) if field.name not in UNSEEN]
        self.parts = {"raised": error, **{name: getattr(view, name) for name in names}}
        # A tail that is spent goes with the next save, whenever that is.
        self.parts["effects"] = [
            {name: value for name, value in row.items() if name != "tail"} for row in view.effects
        ]


def _difference(acts: Sequence[object], calm: Sights, others: Sights, how: str) -> str:
    """Return the first difference in words, empty if there is none."""
    for act, sight, other in zip(acts, calm, others, strict=True):
        for name, value in sight.parts.items():
            found = other.parts.get(name)
            if value != found:
                otherwise = "the first time" if how == SECOND else "if it is not"
                of_run = f"behind {act!r} the run's {name} is"
                return f"{of_run} {found!r} {how}, and {value!r} {otherwise}"
    return ""


class _Trial:
    """One run of the chart, in one life or in many."""

    def __init__(self, lab: Lab, machine: Machine, given: dict[str, Any], point: str) -> None:
        self.lab = lab
        self.machine = machine
        self.given = given
        self.restarts = 0
        self._point = point
        self._host: Any = None

    async def act(self, number: int, act: Act | None) -> _Sight:
        """Do one act in as many lives as it takes, and look at the run."""
        until_ms = self.lab.clock.now_ms() + (act if isinstance(act, int) else 0)
        for _ in range(LAB_LIVES_MAX):
            try:
                await self._open()
                error = await self._do(number, act, until_ms)
                await self.lab.settled()
                view = await self._host.read(RUN)
            except (Crashed, HostStoppedError):
                if self._host.crash is None:
                    raise
                self.restarts += 1
                await self.close()
            else:
                return _Sight(view, error)
        message = f"behind {act!r} the run takes macrosteps without end"
        raise AssertionError(message)

    async def _ids(self) -> list[str]:
        return [header.run_id for header in await self._host.runs()]

    async def _open(self) -> None:
        if self._host is None:
            host = self.lab.host()
            if self._point:
                # Before its save a macrostep dies once: the next life takes it again.
                is_again = self._point == AGAIN and self.restarts > 0
                self.lab.crash_at(self._point, 2 if is_again else 1)
            self._host = host
            await host.__aenter__()
            # What the former life left to be done is done before anything new comes.
            await self.lab.settled()

    async def _do(self, number: int, act: Act | None, until_ms: int) -> str:
        """Do an act, unless a former life has; return the exception that its sender gets."""
        if act is None:
            return await self._start()
        if isinstance(act, int):
            await self.lab.advance(max(0, until_ms - self.lab.clock.now_ms()))
            return ""
        event, data = (act, {}) if isinstance(act, str) else act
        try:
            await self._host.send(RUN, event, delivery=f"act-{number}", **data)
        except RunFinishedError:
            return "RunFinishedError"
        except Exception as error:  # noqa: BLE001 - whatever a chart raises is what is seen of it
            return f"{type(error).__name__}: {error}"
        return ""

    async def _start(self) -> str:
        if RUN not in await self._ids():
            await self._host.start(self.machine.name, self.given, run_id=RUN)
        return ""

    async def close(self) -> None:
        """Leave the host, if there is one."""
        host, self._host = self._host, None
        if host is not None:
            self.lab.plan.give_up()
            await host.stop()
