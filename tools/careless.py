"""The demo's orchestrator with one thing done wrongly, to see that it is noticed.

    python tools/crash.py --scenario pool --control

What is wrong, by scenario: every effect is declared idempotent (`checkout`); the pool has what it
works in the memory of its process alone (`pool`); a job is posted anew by each process that wants
to follow it (`reattach`); everybody who answers a gate is told that he was first (`approval`);
the others forget what lies beside the runs, or do it again (see `tools.careless_state`).
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import machines
from machines.effects import Effect, effect

if TYPE_CHECKING:
    from collections.abc import Callable


def careless(fn: Any, **options: Any) -> Effect:
    """Return an effect that is called again whatever became of its last call."""
    return effect(fn, **{"retries": 50, **options, "idempotent": True})


def call_again() -> None:
    """Declare the effects of all charts wrongly: they are not imported yet."""
    machines.effect = careless


def forget_what_is_worked() -> None:
    """Let a pool know only of the workers that it began in this process."""
    from machines.charts import pool  # noqa: PLC0415 - where effects are replaced it comes later

    enter, known = pool.PoolChart.on_enter_asking, set[str]()

    def enter_forgetfully(chart: pool.PoolChart) -> None:
        if chart.model.name not in known:
            known.add(chart.model.name)
            chart.model.active = []
        enter(chart)

    def begin(machine: Any, name: str, given: dict[str, Any]) -> str:
        beside = sum(one.rstrip("+") == name for one in machines.spawned(machine))
        return machines.spawn(machine, name + "+" * beside, given)

    vars(pool).update(spawn=begin)
    # The type checker is right, and it is the point.
    pool.PoolChart.on_enter_asking = enter_forgetfully  # type: ignore[method-assign, assignment]  # so


def post_again() -> None:
    """Post the job of a film whenever its follower starts, under a key of that very start."""
    from machines.charts import rendering, service  # noqa: PLC0415 - as above

    async def admit(ctx: Any, film: rendering.Film) -> Any:
        key = f"{ctx.key}, term {ctx.term}"
        job = await rendering.patiently(
            lambda: service.post(film.service, "render", key=key, subject=film.number)
        )
        return ctx.admissions.record(job, replace=True)

    rendering.admit = admit


def tell_everybody_yes() -> None:
    """Tell whoever answers a gate that it counted."""
    from machines.demo import orchestrator  # noqa: PLC0415 - as above

    class Flatterer(orchestrator.AnnouncingHost):
        """A host that refuses no answer."""

        async def answer(self, *given: Any, **named: Any) -> Any:
            """Pass an answer on, and say that it was the first."""
            try:
                return await super().answer(*given, **named)
            except (machines.GateClosedError, machines.RunFinishedError):
                return None

    orchestrator.AnnouncingHost = Flatterer  # type: ignore[misc]  # the point of it


def beside_the_runs(scenario: str) -> None:
    """Do what is wrong with the state of a scenario."""
    from tools import careless_state  # noqa: PLC0415 - as above

    careless_state.WRONGS[scenario]()


WRONGS: dict[str, Callable[[], None]] = {
    "checkout": call_again,
    "pool": forget_what_is_worked,
    "reattach": post_again,
    "approval": tell_everybody_yes,
    **{
        scenario: partial(beside_the_runs, scenario)
        for scenario in (
            *("incident", "triage", "etl", "poll", "sentinel"),
            *("approvals", "carry"),
        )
    },
}

if __name__ == "__main__":
    WRONGS[sys.argv[2]]()
    from machines.demo.orchestrator import World, main
    from tools.scenarios.hosted import APPROVALS, HOSTED

    main(sys.argv[1:], World(hosted=HOSTED, approvals=APPROVALS))
