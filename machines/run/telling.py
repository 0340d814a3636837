"""Whom a run tells what happens in it: one dispatcher, and here only what it is asked to hear."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from machines.engine.nodes import Node
    from machines.run.run import Run
    from snapshots.ledgers.effects import EffectRow


class Called(Protocol):
    """A call that has left."""

    verdict: str
    """What its end means: `done`, `failed`, `retry` or `unknown`; empty if nobody waited for it."""
    error: BaseException | None
    """What it ended with, if with an error."""


class Teller(Protocol):
    """What hears of a run. Nothing here raises, and nothing is passed on before it is on disk."""

    each: bool
    """Whether anybody listens to each macrostep and each save: nothing is measured for nobody."""

    def begins(self, run: Run) -> None:
        """Hear that a run's charts begin to run: its next macrostep begins here."""

    def stepping(self, run: Run, node: Node) -> Callable[[], object]:
        """Hear that a macrostep is over and about to be saved; return what takes that back."""

    def saving(self, run: Run) -> None:
        """Hear that a save begins."""

    def swallowed(self, run: Run, node: Node) -> Callable[[], object]:
        """Hear of errors that no transition took, before they are saved; as `stepping`."""

    def raised(self, run: Run, event: str, error: BaseException) -> None:
        """Hear that a macrostep raised, and that the run was put back."""

    def calling(self, run: Run, row: EffectRow) -> AbstractContextManager[Called]:
        """Hear that a call leaves, whose row says so on disk; it is under way in the block."""

    def outcome(self, run: Run, row: EffectRow) -> Callable[[], object]:
        """Hear what became of an effect, which the run's next save holds; as `stepping`."""


class _Unheard:
    """A call that nobody hears of."""

    __slots__ = ("error", "verdict")

    def __init__(self) -> None:
        self.verdict, self.error = "", None


class Silence:
    """A teller that tells nobody, for runs that nobody runs."""

    each = False
    hears = False

    def stepping(self, run: Run, node: Node) -> Callable[[], object]:
        """Take no note."""
        del run, node
        return _nothing

    swallowed = stepping

    def begins(self, run: Run) -> None:
        """Take no note."""

    saving = saved = ended = begins

    def raised(self, run: Run, event: str, error: BaseException) -> None:
        """Take no note."""

    def calling(self, run: Run, row: EffectRow) -> AbstractContextManager[Any]:
        """Take no note."""
        del run, row
        return nullcontext(_Unheard())

    def outcome(self, run: Run, row: EffectRow) -> Callable[[], object]:
        """Take no note."""
        del run, row
        return _nothing


def _nothing() -> None:
    return


SILENCE: Final = Silence()
"""Holds nothing, so that one is enough."""
