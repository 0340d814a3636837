"""Whether a chart survives restarts: behind each macrostep there is one, and nobody notices."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from machines.definition import Machine
from machines.errors import HostStoppedError, RunFinishedError
from machines.testing.lab import Lab
from machines.testing.points import Crashed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from machines.definition import Chart
    from machines.run.views import RunView

Act: TypeAlias = "str | tuple[str, Mapping[str, Any]] | int"
"""An event, an event and its data, or milliseconds by which the clock is turned."""
RUN: Final = "survivor"
LIVES_MAX: Final = 10_000
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
    """Run a chart twice, once restarted behind every macrostep, and compare what is seen of it.

    `acts` are events, pairs of an event and its data, and milliseconds for the clock. After each
    of them, and what follows by itself, the views of the two runs must be equal, but for the
    revision: status, active states, model, effects, gates, output; and an exception that the
    sender gets must be the same. `prepare` is called with the lab of each of the two, to script
    its fakes, say. `options` are those of `Lab` and `Host`.

    Returns how often it was restarted. Raises what starting the chart raises, and AssertionError,
    which names the act and the first difference.
    """
    seen: list[list[_Sight]] = []
    restarts = 0
    for is_restarted in (False, True):
        with tempfile.TemporaryDirectory(prefix="machines-") as folder:
            lab = Lab(Path(folder) / "state.db", [chart], **options)
            if prepare is not None:
                prepare(lab)
            trial = _Trial(lab, Machine.of(chart), dict(input or {}), is_restarted=is_restarted)
            try:
                sights = [await trial.act(number, act) for number, act in enumerate((None, *acts))]
            finally:
                await trial.close()
            seen.append(sights)
            restarts += trial.restarts
    for act, calm, restarted in zip(("start", *acts), *seen, strict=True):
        _compare(act, calm, restarted)
    return restarts


class _Sight:
    """What is seen behind one act."""

    def __init__(self, view: RunView, error: str) -> None:
        names = [field.name for field in fields(view) if field.name not in UNSEEN]
        self.parts = {"raised": error, **{name: getattr(view, name) for name in names}}
        # A tail that is spent goes with the next save, whenever that is.
        self.parts["effects"] = [
            {name: value for name, value in row.items() if name != "tail"} for row in view.effects
        ]


def _compare(act: object, calm: _Sight, restarted: _Sight) -> None:
    for name, value in calm.parts.items():
        other = restarted.parts.get(name)
        if value != other:
            message = (
                f"a restart shows: behind {act!r} the run's {name} is {other!r} "
                f"if it is restarted behind each macrostep, and {value!r} if it is not"
            )
            raise AssertionError(message)


class _Trial:
    """One run of the chart, in one life or in many."""

    def __init__(
        self, lab: Lab, machine: Machine, given: dict[str, Any], *, is_restarted: bool
    ) -> None:
        self.lab = lab
        self.machine = machine
        self.given = given
        self.restarts = 0
        self._is_restarted = is_restarted
        self._host: Any = None

    async def act(self, number: int, act: Act | None) -> _Sight:
        """Do one act in as many lives as it takes, and look at the run."""
        until_ms = self.lab.clock.now_ms() + (act if isinstance(act, int) else 0)
        for _ in range(LIVES_MAX):
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
            if self._is_restarted:
                self.lab.crash_at("after step")
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
