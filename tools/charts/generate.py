"""Random charts and random scripts of events for them, from a seeded generator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from tools.charts.children import finishes_at_once
from tools.charts.growth import Growth, give_values
from tools.charts.invoking import Invoking
from tools.charts.spec import Act, Advance, ChartSpec, Finish, Flavour, Send, StateSpec, Step
from tools.charts.wiring import DELAYED, EVENTS, ROLLED, Theme, Wiring

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

STEPS_MIN, STEPS_MAX = 8, 18
ADVANCES_MS = (10, 60, 100, 250, 500)


def chart(rng: random.Random, *, flavour: Flavour | None = None) -> ChartSpec:
    """A random chart; its flavour is drawn too unless it is given."""
    drawn_flavour: Flavour = rng.choice(("chart", "chart", "chart-async", *get_args(Flavour)))
    chosen = flavour or drawn_flavour
    is_async = chosen.endswith("async")
    strict = chosen.startswith("machine") and rng.random() < 0.5
    theme = _theme(rng, chosen, strict=strict)
    top = Growth(rng).states(parallel_root=theme.parallel_root, has_final=rng.random() < 0.6)
    if rng.random() < 0.3:
        give_values(rng, top, rng.choice(("int", "str", "grade", "mixed")))
    wiring = Wiring(rng, theme, top, is_machine=chosen.startswith("machine"))
    wiring.connect()
    Invoking(wiring, is_async=is_async).add()
    spec = _freeze(wiring, chosen, strict=strict)
    return replace(spec, incomparable=tuple(_incomparable(spec)))


def _theme(rng: random.Random, flavour: Flavour, *, strict: bool) -> Theme:
    def chance(probability: float) -> bool:
        return rng.random() < probability

    # A strict machine refuses events that lead nowhere. Where nobody waits for the answer, that
    # ends the run, so strict machines get events from scripts only.
    children = not strict and chance(0.3)
    # Half of the parents have nothing else going on, so that the library's own run is not open.
    alone = children and chance(0.6)
    quiet = strict or alone
    failing = 0.35 if flavour.startswith("chart") else 0.1
    return Theme(
        parallel_root=not alone and chance(0.17),
        eventless=chance(0.35),
        raises=chance(0.35),
        sends=not quiet and chance(0.3),
        delays=not quiet and chance(0.35),
        declared=not quiet and chance(0.2),
        failing=not quiet and chance(failing),
        calls=not quiet and chance(0.45),
        timeouts=not quiet and chance(0.4),
        children=children,
        weighted=chance(0.12),
    )


def _freeze(wiring: Wiring, flavour: Flavour, *, strict: bool) -> ChartSpec:
    rng, theme = wiring.rng, wiring.theme
    listens = rng.random() < 0.3
    start = {"n": rng.randint(1, 9), "limit": rng.randint(2, 9)} if rng.random() < 0.4 else {}
    events = (
        EVENTS + ((DELAYED,) if theme.declared else ()) + ((ROLLED,) if wiring.weighted else ())
    )
    return ChartSpec(
        name="RandomChart",
        flavour=flavour,
        asynchronous=_asynchronous(rng, flavour, listens=listens),
        states=tuple(state.freeze() for state in wiring.top),
        transitions=tuple(wiring.transitions),
        weighted=tuple(wiring.weighted),
        declared=wiring.declared(),
        events=events,
        fields={
            "f0": rng.randint(0, 6),
            "f1": rng.randint(0, 6),
            "f2": rng.randint(0, 6),
            "fuel": rng.randint(2, 4),
            "budget": rng.randint(20, 40),
        },
        own={"armed": rng.randint(0, 1), "level": rng.randint(0, 4)},
        start=start,
        listens=listens,
        strict=strict,
    )


def _asynchronous(
    rng: random.Random, flavour: Flavour, *, listens: bool
) -> Literal["no", "callbacks", "listener"]:
    if not flavour.endswith("async"):
        return "no"
    return "listener" if listens and rng.random() < 0.5 else "callbacks"


def _incomparable(spec: ChartSpec) -> Iterator[str]:
    """Why our engine may rightly do something else than the library, in words."""
    invoking = [state for state in spec.walk() if state.invokes]
    children = [state for state in invoking if any(invoke.child for invoke in state.invokes)]
    if any(not finishes_at_once(child) for child in spec.child_charts()):
        # The library sends done.invoke when the child's constructor returns, wherever the child
        # is by then; SCXML, and our engine, when the child reaches a final state.
        yield "a child chart goes on after its constructor returned"
    sends = any(act.verb == "send" and act.name in EVENTS for act in _all_acts(spec))
    if children and (len(invoking) > 1 or sends or _in_region(spec, children[0])):
        # The library makes a child on a thread, while its parent's loop goes on.
        yield "a child chart is made while its parent has something else to do"
    if any(len(state.invokes) > 1 for state in children):
        yield "a child chart is made beside another invoke of its state"
    fails = any(act.verb == "fail" for act in _all_acts(spec))
    if spec.flavour.startswith("machine") and (fails or _has_failing_guard(spec)):
        # Our engine then takes the whole run back to its last save, the library only its states.
        yield "an exception leaves the engine"
    # Several invokes at once are comparable all the same: the library leaves it to its threads
    # which finishes first, but here the script decides, by the ids that both runs share.


def _all_acts(spec: ChartSpec) -> Iterator[Act]:
    for state in spec.walk():
        yield from state.enter + state.exit
    for transition in spec.transitions:
        yield from transition.before + transition.on + transition.after


def _has_failing_guard(spec: ChartSpec) -> bool:
    return any(guard.kind == "failing" for made in spec.transitions for guard in made.guards)


def _in_region(spec: ChartSpec, state: StateSpec) -> bool:
    return any(
        outer.kind == "parallel" and any(inner is state for inner in outer.walk())
        for outer in spec.walk()
    )


def script(rng: random.Random, spec: ChartSpec) -> list[Step]:
    """A random script for a chart; it ends with everything outstanding let go."""
    invokes = any(state.invokes for state in spec.walk())
    waits = invokes or any(act.verb == "later" for act in _all_acts(spec)) or bool(spec.declared)
    kinds = ["send"] * 6 + ["finish"] * 2 * invokes + ["advance"] * 2 * waits
    steps = [_step(rng, rng.choice(kinds), spec) for _ in range(rng.randint(STEPS_MIN, STEPS_MAX))]
    if invokes or waits:
        steps += [Finish(every=True), Advance(ms=400), Finish(every=True), Advance(ms=1000)]
    return [*steps, _step(rng, "send", spec)]


def _step(rng: random.Random, kind: str, spec: ChartSpec) -> Step:
    if kind == "finish":
        return Finish(every=rng.random() < 0.3)
    if kind == "advance":
        return Advance(ms=rng.choice(ADVANCES_MS))
    unknown = () if rng.random() < 0.9 else ("unheard-of",)
    return Send(
        event=rng.choice(spec.events + unknown),
        args=(rng.randint(1, 9),) if rng.random() < 0.1 else (),
        kwargs={"n": rng.randint(1, 9)} if rng.random() < 0.5 else {},
    )
