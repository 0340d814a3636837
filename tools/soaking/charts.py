"""What the soak runs beside the demo's orders: a logbook, which is told much and does a bit of all.

It takes notes in whatever state it is, and goes through a charge that must not happen twice, a pool
of children, a timer, a gate and a mail that may be repeated, to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from statemachine import State, StateChart

from machines import child, effect, gate, timeout
from machines.charts.pool import pool
from machines.charts.service import RETRIES, post, shortly

REST_S: Final = 0.2
AT_ONCE: Final = 3


@dataclass
class Pages:
    """What a logbook knows: whom it calls, what is to be sorted, and what it was told, in order."""

    number: str
    service: str
    items: int
    notes: list[int] = field(default_factory=list)
    text: str = ""
    """The last note, whole, so that rows vary in length."""
    receipt: str | None = None


@dataclass
class Slip:
    """What a worker of the pool knows."""

    item: dict[str, str]
    reference: str | None = None


@dataclass
class Box:
    """What the pool knows."""

    number: str
    service: str
    items: int


def charge(model: Pages, key: str) -> str:
    """Take money; asked twice, it is taken twice."""
    return post(model.service, "charge", key=key, subject=model.number)


def mail(model: Pages, key: str) -> str:
    """Send a mail; one for each key."""
    return post(model.service, "mail", key=key, subject=model.number)


def sort(model: Slip, key: str) -> str:
    """Sort a slip; a key is sorted once."""
    return post(model.item["service"], "sort", key=key, subject=model.item["subject"])


class Sorting(StateChart[Slip]):
    """One slip of a box."""

    sorting = State(
        initial=True, invoke=effect(sort, idempotent=True, retries=RETRIES, backoff=shortly)
    )
    sorted_ = State(final=True, donedata="reference")

    done_invoke_sorting = sorting.to(sorted_, on="keep_reference")
    error_execution = sorting.to(sorting)

    def keep_reference(self, data: str) -> None:
        """Note under which reference it was sorted."""
        self.model.reference = data

    def reference(self) -> str | None:
        """Return the reference, for the pool."""
        return self.model.reference


def next_slip(model: Box, active: tuple[str, ...], outcomes: dict[str, Any]) -> Any:
    """Return a slip that nobody sorts and nobody has sorted."""
    for number in range(model.items):
        name = f"slip-{number}"
        if name not in active and name not in outcomes:
            return {"id": name, "service": model.service, "subject": f"{model.number}-{name}"}
    return None


SlipBox = pool(Sorting, next_slip, cap=AT_ONCE, name="SlipBox")


def box_of(model: Pages) -> dict[str, Any]:
    """Return the input of the pool."""
    return {"number": model.number, "service": model.service, "items": model.items}


class Logbook(StateChart[Pages]):
    """Takes notes all the time, and does everything once on its way to its end."""

    class open_(State.Compound):  # noqa: N801 - a state, named as states are
        """Where notes are taken."""

        collecting = State(initial=True)
        charging = State(invoke=effect(charge))
        sorting = State(invoke=child(SlipBox, input=box_of))
        resting = State(invoke=timeout(REST_S))
        reviewing = State(invoke=gate("sign"))
        mailing = State(invoke=effect(mail, idempotent=True, retries=RETRIES, backoff=shortly))

        go = collecting.to(charging)
        done_invoke_charging = charging.to(sorting, on="keep_receipt")
        done_invoke_sorting = sorting.to(resting)
        done_invoke_resting = resting.to(reviewing)
        sign = reviewing.to(mailing)

    closed = State(final=True)
    note = open_.to(None, on="keep")  # type: ignore[arg-type]  # the library takes it, as State.to does: no state is left
    done_invoke_mailing = open_.mailing.to(closed)
    error_execution = open_.charging.to(open_.charging) | open_.mailing.to(open_.mailing)

    def keep(self, number: int, text: str) -> None:
        """Keep a note."""
        self.model.notes = [*self.model.notes, number]
        self.model.text = text

    def keep_receipt(self, data: str) -> None:
        """Note under which reference was charged."""
        self.model.receipt = data
