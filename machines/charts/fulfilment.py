"""The fulfilment of an order in two shipments at once, charts within charts, three levels deep.

What each chart shows:

- `Parcel` prints a label that must not be printed twice. Its effect has a probe: after a crash the
  printer is asked first, and prints only if the answer is that it has not.
- `Shipment` runs a parcel as its child, waits at a gate that is addressed by its place in the tree,
  and hands the parcel to a courier. That call can be neither repeated nor asked about: in doubt it
  waits for a person who looks into the courier's book.
- `Fulfilment` runs two shipments in parallel regions, joins them, and tells the customer.
"""

from __future__ import annotations

from dataclasses import dataclass

from statemachine import State, StateChart

from machines import Done, NotDone, child, effect, gate, timeout
from machines.charts.service import RETRIES, find, post, shortly

DRY_S = 0.15


@dataclass
class Goods:
    """What every chart of the tree knows: which goods it is about, and whom it calls."""

    number: str
    service: str
    reference: str | None = None


def print_label(model: Goods, key: str) -> str:
    """Print a label; asked twice, the printer prints two."""
    return post(model.service, "print_label", key=key, subject=model.number)


def find_label(model: Goods, key: str) -> Done | NotDone:
    """Ask the printer whether it has printed this label."""
    reference = find(model.service, "print_label", key=key)
    return NotDone() if reference is None else Done(reference)


def hand_over(model: Goods, key: str) -> str:
    """Have the parcel collected; asked twice, two couriers come."""
    return post(model.service, "hand_over", key=key, subject=model.number)


def announce(model: Goods, key: str) -> str:
    """Tell the customer; the service sends one message per key."""
    return post(model.service, "announce", key=key, subject=model.number)


def same_goods(model: Goods) -> dict[str, str]:
    """Return the input of a child that is about the same goods."""
    return {"number": model.number, "service": model.service}


def northern(model: Goods) -> dict[str, str]:
    """Return the input of the shipment from the northern store."""
    return {"number": f"{model.number}-north", "service": model.service}


def southern(model: Goods) -> dict[str, str]:
    """Return the input of the shipment from the southern store."""
    return {"number": f"{model.number}-south", "service": model.service}


class Parcel(StateChart[Goods]):
    """One parcel, from its label to the moment when it can be carried."""

    labelling = State(initial=True, invoke=effect(print_label, probe=find_label))
    drying = State(invoke=timeout(DRY_S))
    packed = State(final=True, donedata="label")

    done_invoke_labelling = labelling.to(drying, on="keep_reference")
    done_invoke_drying = drying.to(packed)
    error_execution = labelling.to(labelling)

    def keep_reference(self, data: str) -> None:
        """Note the label's number."""
        self.model.reference = data

    def label(self) -> str | None:
        """Return the label's number, for the chart that waits for the parcel."""
        return self.model.reference


class Shipment(StateChart[Goods]):
    """One parcel on its way out of the house."""

    packing = State(initial=True, invoke=child(Parcel, input=same_goods))
    inspecting = State(invoke=gate("release", meta={"asks": "is the parcel well packed?"}))
    handing_over = State(invoke=effect(hand_over))
    shipped = State(final=True)

    done_invoke_packing = packing.to(inspecting, on="keep_reference")
    release = inspecting.to(handing_over)
    done_invoke_handing_over = handing_over.to(shipped)
    # A person who finds that the courier never heard of it has the call made anew.
    error_execution = handing_over.to(handing_over)

    def keep_reference(self, data: str) -> None:
        """Note the label of the parcel that was packed."""
        self.model.reference = data


class Fulfilment(StateChart[Goods]):
    """An order that leaves the house in two shipments."""

    class shipping(State.Parallel):  # noqa: N801 - a state, named as states are
        """Both shipments at once."""

        class north(State.Compound):  # noqa: N801 - a state, named as states are
            """The shipment from the northern store."""

            north_moving = State(initial=True, invoke=child(Shipment, input=northern))
            north_gone = State(final=True)
            done_invoke_north_moving = north_moving.to(north_gone)

        class south(State.Compound):  # noqa: N801 - a state, named as states are
            """The shipment from the southern store."""

            south_moving = State(initial=True, invoke=child(Shipment, input=southern))
            south_gone = State(final=True)
            done_invoke_south_moving = south_moving.to(south_gone)

    announcing = State(invoke=effect(announce, idempotent=True, retries=RETRIES, backoff=shortly))
    delivered = State(final=True)

    done_state_shipping = shipping.to(announcing)
    done_invoke_announcing = announcing.to(delivered)
    error_execution = announcing.to(announcing)
