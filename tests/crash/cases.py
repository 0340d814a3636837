"""Cases to be judged without a demo: what is said to be known, and what is found against it."""

from __future__ import annotations

from pathlib import Path

from machines.demo.outsiders import Outsiders, plan_runs
from machines.demo.results import judged
from machines.demo.scenario import Case, Field, Scenario
from machines.demo.witness import Doubt, Witness

SEED = 2


def case_of(
    scenario: Scenario,
    witness: Witness,
    runs: int,
    *,
    doubts: tuple[tuple[Doubt, str | None], ...] = (),
) -> Case:
    """Return the case of so many runs, of which a witness knows."""
    plan = plan_runs(runs, scenario.machines)
    outsiders = Outsiders(plan, "", lambda _kind, _key: {}, scenario.habits)
    field = Field(file=Path(), service="", outsiders=outsiders, witness=witness)
    return Case(
        scenario=scenario,
        seed=SEED,
        witness=witness,
        outsiders=outsiders,
        bystanders=scenario.bystanders(field),
        doubts=doubts,
    )


def claims(case: Case) -> dict[str, tuple[str, ...]]:
    """Return what is found against each claim."""
    return {check.claim: check.found for check in judged(case)}
