"""Damaged rows without a boot, and so many of them: typed errors only, whoever reads the row.

The blob is one with all that a long-lived run has: room between its parts, settled effects that
are folded, charts with timers in them, and charts below charts.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Machine, child, effect
from machines.errors import DriftError
from machines.recovery.decision import decide
from snapshots.errors import DecodeError
from snapshots.inspection import read_report
from snapshots.limits import CHUNK_ROWS
from snapshots.records import StoredRun
from snapshots.testing import ManualClock
from tests.host.test_bad_blobs import everything, places
from tests.host.world import Outside, World, until

PASSES = CHUNK_ROWS + 3
PARTS: list[Any] = [
    *(None, True, 7, -1, 1.5, 10**9, -(2**63), 2**63, "", "x", "$", "\x00", "a" * 300),
    *([], {}, [[]], [{}], ["a", "a"], {"": {}}, {"a": 1}, [None]),
    *({"$": "tuple", "v": []}, {"$": "dict", "v": [1, 2]}, {"$": "set", "v": [[1]]}),
    *({"$": "float", "v": "nan"}, {"$": "error", "type": "X", "v": "y"}, {"$": 7}),
    {"$": "object", "class": "os.system", "v": {"command": "true"}},
]
SEEDS = range(2)
EACH = 200


def looping(outside: Outside) -> Any:
    """Return a chart that goes round an effect, with a run of everything below it."""

    def tick() -> int:
        return 1

    class Loops(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                working = State(initial=True, invoke=effect(tick, idempotent=True))
                resting = State()
                done_invoke_working = working.to(resting)
                again = resting.to(working)

            class Right(State.Compound):
                holding = State(initial=True, invoke=child(everything(outside), id="kid"))
                held = State(final=True)
                done_invoke_holding = holding.to(held)

        over = State(final=True)
        done_state_Both = Both.to(over)  # noqa: N815 - the library's name

    return Loops


async def long_lived(folder: Path) -> tuple[Machine, StoredRun]:
    """Return a machine, and a run of it after many passes."""
    outside = Outside()
    outside.hold("charge")
    world = World(folder / "state.db", ManualClock(), outside)
    chart = looping(outside)
    async with world.host(chart, grace_s=0) as host:
        run = await host.start(chart, {"text": "x" * 1_500}, run_id="bad")
        for number in range(PASSES):
            await until(lambda: "resting" in resting(host, run))
            await host.send(run, "again", delivery=f"d{number}")
        await until(lambda: "resting" in resting(host, run))
        stored = world.stored(run)
    return Machine(chart), stored


def resting(host: Any, run: str) -> set[str]:
    """Return the ids of the root's active states."""
    return {state.id for state in host._resident[run].tree.root.chart.configuration}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, StoredRun]:
    """Live long, once."""
    return asyncio.run(long_lived(tmp_path_factory.mktemp("lived")))


def test_the_blob_has_all_that_it_is_to_have(lived: tuple[Machine, StoredRun]) -> None:
    """Else what follows would be about less than it says."""
    blob = bytes(lived[1].blob)
    value = json.loads(blob)
    assert len(json.dumps(value, separators=(",", ":")).encode()) < len(blob) - 1_000
    assert {"settled", "effects", "trail", "deliveries"} <= value.keys()
    assert "timers" in json.dumps(value["root"])
    assert "children" in value["root"]["children"]["kid"]


Damage = Callable[[bytes, random.Random], bytes]


def flip(blob: bytes, chance: random.Random) -> bytes:
    """Flip bits."""
    flipped = bytearray(blob)
    for _ in range(chance.choice((1, 1, 1, 4))):
        flipped[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def cut(blob: bytes, chance: random.Random) -> bytes:
    """End early, or leave something out."""
    begin = chance.randrange(len(blob))
    return blob[:begin] + blob[begin + chance.randrange(1, len(blob)) :]


def swap(blob: bytes, chance: random.Random) -> bytes:
    """Put a part into the place of another one, or anything at all, or take it out."""
    value = json.loads(blob)
    for _ in range(chance.choice((1, 1, 2))):
        found = list(places(value))
        inner, other = value, value
        path = chance.choice(found)
        for key in path[:-1]:
            inner = inner[key]
        for key in chance.choice(found):
            other = other[key]
        choice = chance.random()
        if choice < 0.2:
            del inner[path[-1]]
        else:
            part = other if choice < 0.5 else chance.choice(PARTS)
            inner[path[-1]] = copy.deepcopy(part)
    return json.dumps(value).encode()


@pytest.mark.parametrize("damage", [flip, cut, swap])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_row_is_resumed_or_refused_and_never_an_error_of_ours(
    lived: tuple[Machine, StoredRun], damage: Damage, seed: int
) -> None:
    """By who boots and by who looks: each damage of each kind."""
    machine, stored = lived
    chance, blob = random.Random(seed), bytes(stored.blob)
    fates: Counter[str] = Counter()
    for _ in range(EACH):
        bad = replace(stored, blob=damage(blob, chance))
        decision = decide(bad, {machine.name: machine}, None)
        fates[decision.fate] += 1
        if decision.fate == "unresumed":
            assert isinstance(decision.error, DecodeError), decision.error
            assert "'bad'" in str(decision.error)
        said = "'bad'"
        try:
            read_report(bad.header, bad.blob, None, now_ms=0)
        except DecodeError as error:
            said = str(error)
        assert "'bad'" in said
    assert fates.keys() <= {"resume", "unresumed"}
    assert fates["unresumed"] > EACH // 4


def test_a_count_is_believed_once_it_is_that_of_what_is_there(
    lived: tuple[Machine, StoredRun],
) -> None:
    """One digit more, and a run of 64 settled effects would be one of a thousand million."""
    machine, stored = lived
    value = json.loads(stored.blob)
    for count in (10**9, -1, 2**62, 63.0, True, "64"):
        value["settled"][0]["rows"] = count
        bad = replace(stored, blob=json.dumps(value).encode())
        decision = decide(bad, {machine.name: machine}, None)
        assert (decision.fate, type(decision.error)) == ("unresumed", DecodeError)


def test_the_blob_of_another_run_is_refused_by_everybody(
    lived: tuple[Machine, StoredRun],
) -> None:
    """Its bytes are whole, and it is not this run."""
    machine, stored = lived
    other = StoredRun(header=stored.header._replace(run_id="another"), blob=stored.blob)
    decision = decide(other, {machine.name: machine}, None)
    assert (decision.fate, type(decision.error)) == ("unresumed", DecodeError)
    with pytest.raises(DecodeError, match="another"):
        read_report(other.header, other.blob, None, now_ms=0)


def test_a_damaged_shape_leaves_a_drifted_run_explained(
    lived: tuple[Machine, StoredRun],
) -> None:
    """It is drifted as before, whatever is left of the shape that it had."""
    machine, stored = lived
    drifted = StoredRun(header=stored.header._replace(digest="0" * 12), blob=stored.blob)
    whole, chance = json.dumps(machine.shape).encode(), random.Random(1)
    for damage in (flip, cut, swap):
        for _ in range(EACH):
            shape = damage(whole, chance)
            decision = decide(drifted, {machine.name: machine}, shape)
            assert (decision.fate, type(decision.error)) == ("drifted", DriftError)
