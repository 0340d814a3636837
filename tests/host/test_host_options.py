"""What a host is given is looked at before it opens anything, and refused by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import (
    DefinitionError,
    Host,
    HostOptionError,
    HostStoppedError,
    Machine,
    UnknownMachineError,
)


class Switch(StateChart):
    off = State(initial=True)
    on = State()
    turn = off.to(on) | on.to(off)


@pytest.mark.parametrize("alone", [Switch, Machine(Switch)])
def test_a_chart_that_stands_alone_is_refused(tmp_path: Path, alone: Any) -> None:
    """The brackets of a list are easily forgotten: the error names the machine, and says so."""
    with pytest.raises(DefinitionError, match=r"'Switch': it stands alone, .* machines=\[…\]"):
        Host(tmp_path / "state.db", machines=alone)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [None, 7])
def test_machines_that_are_no_list_are_refused(tmp_path: Path, wrong: Any) -> None:
    """The error names the option, its value and what is expected."""
    with pytest.raises(HostOptionError, match=f"machines={wrong}.: expected a list of charts"):
        Host(tmp_path / "state.db", machines=wrong)


@pytest.mark.parametrize("wrong", [-1, "10", None, True, math.nan])
def test_a_grace_that_is_no_time_is_refused(tmp_path: Path, wrong: Any) -> None:
    """It is found as the host is made, not when it is to stop with calls under way."""
    with pytest.raises(HostOptionError) as caught:
        Host(tmp_path / "state.db", machines=[Switch], grace_s=wrong)
    assert caught.value.fields["option"] == "grace_s"
    assert repr(wrong) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("grace_s", [0, 0.5, math.inf])
async def test_a_grace_may_be_any_length_of_time(tmp_path: Path, grace_s: float) -> None:
    """None at all, a part of a second, and as long as it takes."""
    async with Host(tmp_path / "state.db", machines=[Switch], grace_s=grace_s) as host:
        run = await host.start(Switch)
        await host.send(run, "turn")
        assert (await host.read(run)).configuration == ("on",)


async def test_a_host_that_was_left_says_so_without_repeating_itself(tmp_path: Path) -> None:
    """Whoever keeps the name of a closed host is told to open a new one."""
    async with Host(tmp_path / "state.db", machines=[Switch]) as host:
        run = await host.start(Switch)
    with pytest.raises(HostStoppedError, match=r"state.db' has stopped; open a new host$"):
        await host.send(run, "turn")


async def test_a_class_that_was_defined_anew_is_not_called_unknown(tmp_path: Path) -> None:
    """In a notebook the host still has the former class; its name starts a run of that."""
    anew = type("Switch", (StateChart,), {"off": State(initial=True, final=True)})
    async with Host(tmp_path / "state.db", machines=[Switch]) as host:
        for other in (anew, Machine(Switch)):
            with pytest.raises(UnknownMachineError, match="another class or Machine") as caught:
                await host.start(other)
            assert "the name 'Switch'" in str(caught.value)
        assert host.is_live(await host.start("Switch"))
