"""The ledger of deliveries: the newest ids, and JSON that is made once for each change."""

from __future__ import annotations

import json

from snapshots.ledgers.deliveries import Deliveries
from snapshots.limits import DELIVERIES_MAX


def test_the_newest_ids_are_kept_oldest_first() -> None:
    """At the bound all are there, one past it the oldest is forgotten."""
    ledger = Deliveries()
    for n in range(DELIVERIES_MAX):
        ledger.take(f"d{n}")
    assert len(ledger) == DELIVERIES_MAX
    assert "d0" in ledger
    ledger.take("more")
    assert "d0" not in ledger
    assert ledger.as_value() == [f"d{n}" for n in range(1, DELIVERIES_MAX)] + ["more"]


def test_the_json_is_kept_until_a_change() -> None:
    """A save in between copies it; an id that was taken or dropped is in the next one."""
    ledger = Deliveries(["a"])
    first = ledger.as_json()
    assert ledger.as_json() is first
    ledger.take("é")
    assert json.loads(ledger.as_json()) == ["a", "é"] == ledger.as_value()
    ledger.drop("a")
    ledger.drop("never taken")
    assert json.loads(ledger.as_json()) == ["é"]
    assert json.loads(Deliveries().as_json()) == []
