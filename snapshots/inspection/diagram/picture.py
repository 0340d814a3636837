"""A picture of a chart as plain records: what is in it, and how each part is marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Change = Literal["", "gone", "new", "changed"]
"""What drift did to a part: nothing; it is only in the old shape; only in the new; it differs."""

MarkKind = Literal["gate", "timer", "effect", "invoke", "child"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that a state or a transition carries: a gate, a timer, an effect, an invoke.

    `status` is "declared" for what the shape says and no run has open, else "open" (a gate),
    "waiting" or "overdue" (a timer), "in doubt", "calling", "to call", "done" or "failed" (an
    effect), "running" or "starting" (an invoke, a child chart). `text` is short and stands in the
    picture; `detail` is the whole of it, for a title.
    """

    kind: MarkKind
    status: str
    text: str
    detail: str = ""

    @property
    def is_live(self) -> bool:
        """Whether a run has it open at this moment."""
        return self.status != "declared"

    @property
    def is_urgent(self) -> bool:
        """Whether it needs a look: an effect in doubt, or a timer that is overdue."""
        return self.status in {"in doubt", "overdue"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureState:
    """One state and those in it; `kind` is the shape's word, "unknown" without a shape.

    `heat` says how lately the trail saw it active: 0 never, 1 earlier, 2 lately, 3 before the last
    transition or since. `remembers` is what a history state would restore, `invokes` the shape's
    words for what the state invokes, `value` its value as text, `note` what changed of it.
    """

    name: str
    kind: str
    initial: bool = False
    active: bool = False
    heat: int = 0
    remembers: tuple[str, ...] = ()
    invokes: tuple[str, ...] = ()
    value: str = ""
    marks: tuple[Mark, ...] = ()
    change: Change = ""
    note: str = ""
    states: tuple[PictureState, ...] = ()

    @property
    def visited(self) -> bool:
        """Whether the trail saw it active."""
        return self.heat > 0

    @property
    def is_urgent(self) -> bool:
        """Whether something in it needs a look."""
        return any(mark.is_urgent for mark in self.marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureEdge:
    """One transition; `events` is empty for one without an event.

    `taken` is how many entries of the trail it explains, `is_last` whether it explains the newest
    of its chart. `targets` is empty for a transition that stays where it is.
    """

    source: str
    targets: tuple[str, ...]
    events: tuple[str, ...]
    internal: bool = False
    initial: bool = False
    taken: int = 0
    is_last: bool = False
    marks: tuple[Mark, ...] = ()
    change: Change = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One chart, and the charts below it, each a picture of its own.

    `path` is the chart's path in its run ("" for the root, and without a run), `state` the state
    that invoked it, `status` the chart's status in its run ("" without one). `notes` are lines
    that stand with the picture, `left_out` how many charts below it are not drawn.
    """

    title: str
    path: str = ""
    state: str | None = None
    status: str = ""
    states: tuple[PictureState, ...] = ()
    edges: tuple[PictureEdge, ...] = ()
    notes: tuple[str, ...] = ()
    change: Change = ""
    children: tuple[Picture, ...] = ()
    left_out: int = 0

    def every_state(self) -> Iterator[PictureState]:
        """Yield the states of this chart alone, each before those in it."""
        for state in self.states:
            yield from _walk(state)

    def every_picture(self) -> Iterator[Picture]:
        """Yield this picture and all below it, in the order of the tree."""
        yield self
        for child in self.children:
            yield from child.every_picture()


def _walk(state: PictureState) -> Iterator[PictureState]:
    yield state
    for child in state.states:
        yield from _walk(child)
