"""A checkout: a charge that must not happen twice, a clerk's approval, a pause, a mail.

What each step shows:

- `charging` calls an effect that is not idempotent. If its outcome is hidden, by a crash or by a
  lost answer, the chart itself decides: `error.indoubt.charging` leads to `asking`.
- `asking` reads what became of the charge. Reading changes nothing, so it is a plain function
  without a ledger row, started again after a restart; if it fails, `pausing` comes before it is
  tried again.
- `reviewing` is a gate: the run waits for a person, for days if need be.
- `holding` is a timer, whose end is fixed when it is set and does not move over a restart.
- `mailing` is an effect that the mail service does once per key, so it may be called again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from statemachine import State, StateChart

from machines import effect, gate, timeout
from machines.charts.service import RETRIES, RefusedError, find, post, shortly

HOLD_S = 0.25
PAUSE_S = 0.5


@dataclass
class Order:
    """What a checkout knows: its order, who charges and mails for it, and the charge's receipt."""

    number: str
    amount_cents: int
    service: str
    receipt: str | None = None


def payment_key(model: Order) -> str:
    """Return the key of the order's one payment, whichever attempt it is."""
    return f"payment-{model.number}"


def charge(model: Order, key: str) -> str:
    """Take the money; the service would take it twice if it were asked twice."""
    return post(
        model.service, "charge", key=key, subject=model.number, amount_cents=model.amount_cents
    )


def find_charge(machine: Checkout) -> str | None:
    """Return the receipt of the order's charge, None if there was none."""
    order = machine.model
    return find(order.service, "charge", key=payment_key(order))


async def mail(model: Order, key: str) -> str:
    """Send the receipt; the service sends one mail per key."""
    return await asyncio.to_thread(
        post, model.service, "mail", key=key, subject=model.number, receipt=model.receipt
    )


class Checkout(StateChart[Order]):
    """One order on its way from the cart to the receipt."""

    cart = State(initial=True)
    charging = State(invoke=effect(charge, key=payment_key, failed_on=RefusedError))
    asking = State(invoke=find_charge)
    pausing = State(invoke=timeout(PAUSE_S))
    reviewing = State(
        invoke=gate("approve", "reject", key="review", meta={"asks": "is this order genuine?"})
    )
    holding = State(invoke=timeout(HOLD_S))
    mailing = State(invoke=effect(mail, idempotent=True, retries=RETRIES, backoff=shortly))
    complete = State(final=True)
    refused = State(final=True)

    pay = cart.to(charging)
    done_invoke_charging = charging.to(reviewing, on="keep_receipt")
    error_indoubt_charging = charging.to(asking)
    done_invoke_asking = asking.to(reviewing, cond="was_charged", on="keep_receipt") | asking.to(
        charging
    )
    done_invoke_pausing = pausing.to(asking)
    approve = reviewing.to(holding)
    reject = reviewing.to(refused)
    done_invoke_holding = holding.to(mailing)
    done_invoke_mailing = mailing.to(complete)
    error_execution = charging.to(refused) | asking.to(pausing) | mailing.to(mailing)

    def was_charged(self, data: str | None) -> bool:
        """Whether the service knows of a charge."""
        return data is not None

    def keep_receipt(self, data: str) -> None:
        """Note the charge's receipt in the order."""
        self.model.receipt = data
