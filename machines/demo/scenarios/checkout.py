"""Orders: a charge, labels and couriers that must not happen twice, and who decides in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from machines.demo.moments import occasions
from machines.demo.outsiders import Wish, start
from machines.demo.results import OF_EFFECTS, REPEATED, effects
from machines.demo.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun

AMOUNT_CENTS: Final = 1_999


def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
    """Yield what a customer wants, and what a clerk does once it is time to."""
    run = planned.run
    given: dict[str, Any] = {"number": run, "service": outsiders.service}
    if planned.machine == "checkout":
        given["amount_cents"] = AMOUNT_CENTS
    yield start(planned, given)
    if planned.machine == "checkout" and outsiders.is_started(run):
        yield Wish(name=("pay",), line={"do": "send", "event": "pay", "delivery": f"{run}-pay"})
    if planned.gates_at <= outsiders.share:
        for gate, event in outsiders.gates(run).items():
            yield Wish(name=("gate", gate), line={"do": "answer", "gate": gate, "event": event})


CHECKOUT: Final = Scenario(
    name="checkout",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=("checkout", "fulfilment"),
    runs_default=6,
    kills_per_run=1.25,
    occasions=occasions("receiver"),
    habits=habits,
    claims=OF_EFFECTS,
    control=REPEATED,
    deeds=effects,
)
