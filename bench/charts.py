"""The charts under measurement: a small one, one of 40 states, one that holds values, a pool."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import new_class
from typing import Any, Final

from statemachine import State, StateChart
from statemachine.model import Model

from machines import child, effect, timeout

STATES: Final = 40
WORKERS: Final = 40


@dataclass
class Parcel:
    """What a `Small` carries."""

    boxes: int = 0
    carrier: str = ""
    trips: int = 0


class Small(StateChart[Parcel]):
    """Four states in a ring and three callbacks: one per transition, entry and exit."""

    packing = State(initial=True)
    packed = State()
    shipped = State()
    returned = State()

    pack = packing.to(packed)
    ship = packed.to(shipped)
    give_back = shipped.to(returned)
    restart = returned.to(packing)

    def on_pack(self, model: Parcel, boxes: int) -> int:
        """Note how many boxes were packed."""
        model.boxes = boxes
        return boxes

    def on_enter_shipped(self, model: Parcel, carrier: str) -> None:
        """Note who carries them."""
        model.carrier = carrier

    def on_exit_returned(self, model: Parcel) -> None:
        """Count the round."""
        model.trips += 1


ROUND: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("pack", {"boxes": 3}),
    ("ship", {"carrier": "north"}),
    ("give_back", {}),
    ("restart", {}),
)
"""The events that lead a `Small` through its states and back, with their data."""


def _fill(namespace: dict[str, Any]) -> None:
    namespace["__module__"] = __name__
    steps = [State(initial=number == 0) for number in range(STATES)]
    step = steps[-1].to(steps[0])
    for before, after in pairwise(steps):
        step |= before.to(after)
    namespace |= {f"step_{number:02}": state for number, state in enumerate(steps)}
    namespace["step"] = step


Forty: type[StateChart[Any]] = new_class("Forty", (StateChart,), exec_body=_fill)
"""40 states in a ring, one event that leads from each to the next."""


class Holder(StateChart[Model]):
    """Holds the values of its model, and a way on."""

    holding = State(initial=True)
    released = State(final=True)

    release = holding.to(released)


def pool_of(worker: type[StateChart[Any]], count: int) -> type[StateChart[Model]]:
    """Return a chart in whose run as many others lie, declared with the state that invokes them."""

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = __name__
        # As many digits as the last number has: what the run weighs does not depend on who moves.
        width = len(str(count - 1))
        workers = [child(worker, id=f"worker{number:0{width}}") for number in range(count)]
        namespace["working"] = working = State(initial=True, invoke=workers)
        namespace["closed"] = closed = State(final=True)
        namespace["close"] = working.to(closed)

    return new_class(f"{worker.__name__}Pool{count}", (StateChart[Model],), exec_body=fill)


Pool: Final = pool_of(Holder, WORKERS)
"""40 charts that lie in one run."""


class Waiter(StateChart[Model]):
    """Keeps what it is told, and has a timer every other time."""

    resting = State(initial=True)
    waiting = State(invoke=timeout(3_600, on="expire"))

    wait = resting.to(waiting, on="note")
    go_on = waiting.to(resting, on="note")
    expire = waiting.to(resting)

    def note(self, values: dict[str, Any]) -> None:
        """Take the values for those of its model."""
        vars(self.model).update(values)


def nothing(key: str) -> str:
    """Answer as the world outside would, at once."""
    return key


class Looper(StateChart[Model]):
    """Goes through one effect again and again: a pass is begun by an event, and ends by itself."""

    resting = State(initial=True)
    calling = State(invoke=effect(nothing))

    call = resting.to(calling)
    done_invoke_calling = calling.to(resting)
