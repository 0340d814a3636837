"""How the blobs of the simulation's charts are read, and what each chart promises of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.simulation.calling import ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from machines.run.run import Run
    from tools.simulation.world import World

Found = tuple[str, str]


def nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the charts of a blob, the root first."""
    yield root
    for below in root.get("children", {}).values():
        yield from nodes(below)


def tokens(root: dict[str, Any]) -> list[str]:
    """Return the tokens that the root chart has kept; those of others come up to it."""
    return list(root.get("context", {}).get("seen", ()))


def queued(root: dict[str, Any]) -> list[Any]:
    """Return the events that wait in a blob."""
    return [item for node in nodes(root) for item in node.get("queue", ())]


def queued_tokens(value: dict[str, Any]) -> set[str]:
    """Return the tokens of the events that wait in a blob."""
    waiting = [*queued(value["root"]), *(arrived["item"] for arrived in value.get("arrivals", ()))]
    return {item["kwargs"]["token"] for item in waiting if "token" in item.get("kwargs", {})}


TRAITS = ("arrivals", "queue", "intent", "calling", "unknown", "done", "between")


def traits(value: dict[str, Any]) -> frozenset[str]:
    """Return what makes the moment behind a save a bad one to die at."""
    found = {row["status"] for row in value.get("effects", ())[-2:]}
    found |= {name for name in ("arrivals", "between") if value.get(name)}
    if queued(value["root"]):
        found.add("queue")
    return frozenset(found)


def entry(value: dict[str, Any], ledger: str, key: str) -> Any:
    """Return how far a row of a ledger is: a number, or whether it is there."""
    held = value.get(ledger, {})
    if ledger == "admissions":
        return held.get(key, {}).get("offset", 0) if key in held else None
    if ledger == "epochs":
        return held.get(key, 0)
    return 1 if key in held else None


def lasting(value: dict[str, Any]) -> dict[str, Any]:
    """Return a blob without the tails of effects: they go with the next save."""
    effects = [{**row, "tail": None} for row in value.get("effects", ())]
    return {**value, "effects": effects}


def shown(run: Run) -> list[Any]:
    """Return what the charts of a run in memory are like: where they are, and their models."""
    root = run.tree.root
    charts = root.walk() if root is not None else ()
    return [
        [node.path, sorted(state.id for state in node.chart.configuration), vars(node.chart.model)]
        for node in charts
    ]


def _watch(model: dict[str, Any], world: World) -> Iterator[Found]:
    del world
    fired = model.get("fired", ())
    numbers = [number for number, _, _ in fired]
    if len(set(numbers)) != len(numbers):
        yield "timer twice", f"{numbers}"
    for number, at_ms, due_ms in fired:
        if at_ms < due_ms:
            yield "timer early", f"timeout {number} fired {due_ms - at_ms} ms early"
    for number, (word, after_ms) in model.get("nudges", {}).items():
        if word not in ("set", "cancelled", "heard"):
            yield "timer twice", f"delayed event {number} was {word}"
        if word == "heard" and after_ms < 1500:
            yield "timer early", f"delayed event {number} came after {after_ms} ms"


def _patient(model: dict[str, Any], world: World) -> Iterator[Found]:
    fired = model.get("fired", ())
    names = [name for name, _, _ in fired]
    if len(set(names)) != len(names):
        yield "timer twice", f"{names}"
    for name, at_ms, due_ms in fired:
        if at_ms < due_ms - world.time.back_ms:
            yield "timer early", f"{name} fired {due_ms - at_ms} ms early"


def _review(model: dict[str, Any], world: World) -> Iterator[Found]:
    del world
    answers = model.get("answers", [])
    if sorted(set(answers)) != list(answers):
        yield "gate", f"openings were answered as {answers}"


def _tree(model: dict[str, Any], world: World) -> Iterator[Found]:
    del world
    if any(times != 1 for times in model.get("rounds", ())):
        yield "child", f"its leaf told {model['rounds']} times"


def _talker(model: dict[str, Any], world: World) -> Iterator[Found]:
    del world
    if model.get("heard", 0) > model.get("asked", 0):
        yield "event twice", f"it heard {model['heard']} of {model['asked']}"


def _crawl(model: dict[str, Any], world: World) -> Iterator[Found]:
    del world
    outcomes, active = model.get("outcomes", {}), model.get("active", [])
    both = set(outcomes) & set(active)
    strange = (set(outcomes) | set(active)) - set(ITEMS)
    if both or strange or len(set(active)) != len(active):
        yield "pool", f"{sorted(both)} twice, {sorted(strange)} unknown, {active} at work"


def _paid(model: dict[str, Any], world: World) -> Iterator[Found]:
    receipts = model.get("receipts", [])
    if len(set(receipts)) != len(receipts):
        yield "outcome twice", f"{receipts}"
    for receipt in receipts:
        key = receipt.partition(" ")[2]
        if not world.outside.has_happened(key) and key not in world.follower.jobs:
            yield "outcome", f"{receipt!r} is of no call that happened"


PROMISES: dict[str, Callable[[dict[str, Any], World], Iterator[Found]]] = {
    "Watch": _watch,
    "Patient": _patient,
    "Review": _review,
    "Tree": _tree,
    "Talker": _talker,
    "Crawl": _crawl,
    "Checkout": _paid,
    "Asker": _paid,
    "Doubter": _paid,
    "Session": _paid,
}


def of(machine: str, model: dict[str, Any], world: World) -> Iterator[Found]:
    """Yield what a chart has broken of its own promises, by its model as the file has it."""
    check = PROMISES.get(machine)
    return iter(()) if check is None else check(model, world)
