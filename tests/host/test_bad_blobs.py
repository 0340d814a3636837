"""One row that cannot be read: that run is reported and kept as it is, all others resume."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from statemachine import HistoryState, State, StateChart

from machines import DefinitionError, Host, child, effect, gate, rebuild, timeout
from tests.host.charts import Leaf
from tests.host.world import Outside, World, settled, until

WRONG: list[Any] = [None, 7, "x", [], {}]
HARMLESS = {
    # What a person reads and nothing runs by.
    "class": "x",
    "trail": [],
    # Values that any run could have there.
    "input": {},
    "step": 7,
    "spawned": 7,
    "floors": {},
    "deliveries": [],
    "history": {},
    "h": [],
    "name": "x",
    "send_id": "x",
    "kwargs": {},
    "args": [],
    "output": None,
    "context": {},
    "at": 7,
    "due": 7,
    "span": 7,
    "attempt": 7,
    "index": 7,
    "order": 7,
    "key": "x",
    "events": [],
    "meta": None,
    "stamp": 7,
}
HARMLESS_PLACES = {
    # Labels, and names that only the chart could tell to be wrong.
    ("invokes", "id"),
    ("invokes", "events"),
    ("timers", "id"),
    ("timers", "seq"),
    ("timers", "event"),
    ("effects", "kind"),
    # A number that has not been given yet.
    ("clock", "seq"),
}


def everything(outside: Outside) -> Any:
    """Return a chart whose run has something of all that a blob can hold."""

    class Everything(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                paying = State(initial=True, invoke=effect(outside.service("charge")))
                paid = State(final=True)
                done_invoke_paying = paying.to(paid)

            class Middle(State.Compound):
                asking = State(initial=True, invoke=[gate("yes"), timeout(600, on="expired")])
                told = State(final=True)
                yes = asking.to(told)
                expired = asking.to(told)

            class Right(State.Compound):
                holding = State(initial=True, invoke=child(Leaf))
                held = State(final=True)
                done_invoke_holding = holding.to(held)

            class Past(State.Compound):
                class deep(State.Compound):  # noqa: N801 - a state, named as states are
                    one = State(initial=True)
                    two = State()
                    step = one.to(two)
                    h = HistoryState()

                outer = State()
                leave = deep.to(outer)
                back = outer.to(deep.h)

        over = State(final=True)
        done_state_Both = Both.to(over)  # noqa: N815 - the library's name

        def on_step(self) -> None:
            self.send("later", delay=3_600_000, send_id="s", n=1)

    return Everything


async def rich_run(world: World, outside: Outside) -> tuple[Any, str, str, World]:
    """Return a world with a run that has everything, and one that is well."""
    outside.hold("charge")
    chart = everything(outside)
    async with world.host(chart, grace_s=0) as host:
        bad = await host.start(chart, {"amount": 1, "who": ["a", {"b": 2}]}, run_id="bad")
        good = await host.start(chart, run_id="good")
        await until(lambda: outside.count("charge") == 2)
        for event in ("step", "leave"):
            await host.send(bad, event, delivery=f"d-{event}")
        after = world.after_kill()
    return chart, bad, good, after


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field of a JSON value."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, part in children:
        yield (*path, key)
        yield from places(part, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], part: Any) -> Any:
    """Return a copy of a JSON value with one field replaced."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = part
    return changed


def is_harmless(path: tuple[Any, ...], part: Any) -> bool:
    """Whether a field may hold this value in a run that is well."""
    names = [key for key in path if isinstance(key, str)]
    if {"context", "input", "kwargs", "meta"} & set(names[:-1]) or "args" in names[:-1]:
        return True  # values of the user's own
    if len(names) > 1 and (names[-2], names[-1]) in HARMLESS_PLACES and type(part) in (str, int):
        return True
    if path[-1] in HARMLESS and type(part) is type(HARMLESS[path[-1]]):
        return True
    # One entry of a list of names that only people read, or that only repeats are checked with.
    return names[-1] in ("trail", "deliveries") or (names[-1] == "turn" and part == [])


async def boots(world: World, chart: Any, bad: str, good: str) -> Host:
    """Boot a host on the file, and stop it; the run that is well must be resumed."""
    host = world.host(chart, grace_s=0)
    async with host:
        assert host._broken is None
        assert good in host.report.resumed, str(host.report)
        assert bad in host.report.resumed or bad in host.report.unresumed
        await settled()
    return host


async def test_a_run_with_a_field_replaced_is_reported_and_kept(
    world: World, outside: Outside
) -> None:
    """Each field of a blob replaced by null, 7, "x", [] and {}: reported, kept, others resume."""
    chart, bad, good, after = await rich_run(world, outside)
    blob = json.loads(after.stored(bad).blob)
    assert {"effects", "deliveries", "trail", "clock"} <= blob.keys()
    assert {"children", "invokes", "history", "context", "timers"} <= blob["root"].keys()
    damages = [
        (path, part)
        for path in places(blob)
        for part in WRONG
        if part != blob_at(blob, path) and not is_harmless(path, part)
    ]
    assert len(damages) > 300
    rows = after.multiply(bad, len(damages))
    named: dict[str, str] = {}
    for (path, part), (run, own) in zip(damages, rows.items(), strict=True):
        named[run] = f"{'.'.join(map(str, path))} = {part!r}"
        rows[run] = json.dumps(replaced(json.loads(own), path, part)).encode()
    after.overwrite_all(rows)
    host = await boots(after, chart, bad, good)
    taken = [named[run] for run in rows if run not in host.report.unresumed]
    assert taken == [], "\n".join(taken)
    with after.opened() as store:
        for run, damaged in rows.items():
            stored = store.load(run)
            assert (bytes(stored.blob), stored.header.status) == (damaged, "live")


def blob_at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return one field of a JSON value."""
    for key in path:
        value = value[key]
    return value


async def test_a_run_with_a_field_taken_out_is_reported_or_whole(
    world: World, outside: Outside
) -> None:
    """Each field that a run cannot do without: its absence is noticed."""
    chart, bad, good, after = await rich_run(world, outside)
    blob = json.loads(after.stored(bad).blob)
    missed = []
    for key in ("v", "run", "machine", "digest", "input", "step", "root", "clock", "effects"):
        damaged = {name: part for name, part in blob.items() if name != key}
        after.overwrite(bad, json.dumps(damaged).encode())
        host = await boots(after, chart, bad, good)
        if bad not in host.report.unresumed:
            missed.append(key)
    assert missed == []


@pytest.mark.parametrize("seed", range(3))
async def test_a_run_with_a_bit_flipped_stops_nobody(
    world: World, outside: Outside, seed: int
) -> None:
    """Wherever a bit flips: the boot goes through, the others resume, the row is kept."""
    chart, bad, good, after = await rich_run(world, outside)
    chance, rows = random.Random(seed), after.multiply(bad, 60)
    for run, blob in rows.items():
        flipped = bytearray(blob)
        flipped[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
        rows[run] = bytes(flipped)
    after.overwrite_all(rows)
    host = await boots(after, chart, bad, good)
    reported = rows.keys() & host.report.unresumed.keys()
    assert len(reported) > 20
    for run in reported:
        assert bytes(after.stored(run).blob) == rows[run]
        assert after.status(run) == "live"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
async def test_a_run_that_was_cut_off_is_reported_and_kept(
    world: World, outside: Outside, share: float
) -> None:
    """A truncated blob is no snapshot, wherever it ends."""
    chart, bad, good, after = await rich_run(world, outside)
    blob = bytes(after.stored(bad).blob)
    cut = blob[: int(len(blob) * share)]
    after.overwrite(bad, cut)
    host = await boots(after, chart, bad, good)
    assert bad in host.report.unresumed
    assert bytes(after.stored(bad).blob) == cut


async def test_a_state_that_the_chart_does_not_have_is_reported(
    world: World, outside: Outside
) -> None:
    """A name in the blob that no state has: the reason names it."""
    chart, bad, good, after = await rich_run(world, outside)
    blob = bytes(after.stored(bad).blob).replace(b'"paying"', b'"nowhere"')
    after.overwrite(bad, blob)
    host = await boots(after, chart, bad, good)
    assert "nowhere" in host.report.unresumed[bad]


async def test_a_configuration_that_the_chart_can_never_be_in_is_reported(
    world: World, outside: Outside
) -> None:
    """No state at all, and a region without its leaf: refused when read."""
    chart, bad, good, after = await rich_run(world, outside)
    blob = json.loads(after.stored(bad).blob)
    states = blob["root"]["configuration"]
    for gone in (["paying"], ["asking"], ["outer"], states):
        left = [state for state in states if state not in gone]
        damaged = replaced(blob, ("root", "configuration"), left)
        after.overwrite(bad, json.dumps(damaged).encode())
        host = await boots(after, chart, bad, good)
        assert bad in host.report.unresumed, gone


async def test_a_class_that_a_blob_names_is_never_imported(
    world: World, outside: Outside, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown tag is a typed error; the module that it names is not looked for."""
    witness = tmp_path / "imported"
    (tmp_path / "evil_module.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    chart, bad, good, after = await rich_run(world, outside)
    blob = json.loads(after.stored(bad).blob)
    blob["root"]["context"] = {"x": {"$": "evil_module:Evil", "v": {}}}
    after.overwrite(bad, json.dumps(blob).encode())
    host = await boots(after, chart, bad, good)
    assert bad in host.report.unresumed
    assert not witness.exists()


def shelf(*, with_callback: bool) -> type[StateChart[Any]]:
    """Return a chart that names a callback; without it the library cannot make one."""

    class Shelf(StateChart[Any]):
        empty = State(initial=True)
        full = State()
        turn = empty.to(full, on="keep") | full.to(empty, on="keep")

        if with_callback:

            def keep(self) -> None:
                """Do nothing."""

    return Shelf


async def test_a_chart_that_cannot_be_made_is_named_and_not_the_blob(world: World) -> None:
    """A callback's name is misspelt in a new release: the run waits until that is mended."""
    async with world.host(shelf(with_callback=True)) as host:
        run = await host.start("Shelf", run_id="shelf-7")
    wrong = shelf(with_callback=False)
    async with world.host(wrong) as host:
        with pytest.raises(DefinitionError, match=r"'Shelf': run 'shelf-7'.*'keep'.*mend the"):
            await host.send(run, "turn")
        assert "keep" in host.report.unresumed[run]
    with world.opened() as store:
        stored = store.load(run)
    with pytest.raises(DefinitionError, match=r"'Shelf': a chart of it cannot be made.*keep"):
        rebuild(wrong, stored.blob)
    async with world.host(shelf(with_callback=True)) as host:
        await host.send(run, "turn")
    assert world.configuration(run) == ["full"]
