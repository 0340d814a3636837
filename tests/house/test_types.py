"""Whoever types their charts keeps the types: an editor and a checker know what comes back."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house.sources import ROOT

USER = """
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from machines import Host, Machine, RunView, capture, effect, gate, open_run, rebuild
from snapshots import open_store
from statemachine import State, StateChart


@dataclass
class Basket:
    amount: int = 0


async def charge(model: Basket, key: str) -> str:
    return f"{model.amount} under {key}"


class Order(StateChart[Basket]):
    cart = State(initial=True)
    paying = State(invoke=effect(charge, idempotent=True))
    review = State(invoke=gate("approve"))
    shipped = State(final=True)
    pay = cart.to(paying)
    done_invoke_paying = paying.to(review)
    approve = review.to(shipped)


async def hosted() -> None:
    async with Host("state.db", machines=[Order, Machine(Order, name="other")]) as host:
        run = assert_type(await host.start(Order, {"amount": 12}), str)
        await host.send(run, "pay", delivery="mail-7", by="Ada")
        assert_type(await host.settled(run), RunView)


def script() -> bool:
    with open_store("state.db") as store:
        with open_run(store, Order, "order-7") as chart:
            assert_type(chart, Order)
            chart.pay()
            chart.model.amount += 1
        with open_run(store, Machine(Order), "order-7") as of_a_machine:
            assert_type(of_a_machine, StateChart[Any])
    again = rebuild(Order, capture(Order(Basket())))
    assert_type(again, Order)
    return again.cart.is_active
"""


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy comes with the extra `lint`")
def test_a_chart_comes_back_as_the_class_that_was_given(tmp_path: Path) -> None:
    """`mypy --strict` knows the states, events and model of what is opened and rebuilt."""
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "user.py")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
