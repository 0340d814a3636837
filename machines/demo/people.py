"""People who each say one thing, in a process of their own that is killed as well."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from machines.demo.limits import REPEAT_S, REPORTED_CHARS_MAX
from machines.demo.processes import Errand
from machines.demo.scenario import Bystanders, Field
from snapshots.codec import load

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from machines.demo.witness import Row

Saying = TypeVar("Saying", bound="Hashable")
Outcome = TypeVar("Outcome")


class People(Bystanders, Generic[Saying, Outcome]):
    """Has things said by processes, again where one was killed or came too early.

    A scenario's own people say, by `say`, what is due each time that they `act`, and how.
    """

    module: ClassVar[str]
    """What a process runs; it prints one JSON object."""
    result: ClassVar[str]
    """The member of that object that is what came of it."""
    too_early: ClassVar[object] = object()
    """What comes of something that is to be said again a moment later."""
    interrupted_share: ClassVar[float] = 0.3
    """The share of processes that die together with the orchestrator, and begin again."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.interrupted = 0
        """How many processes were killed."""
        self.told: dict[Saying, Outcome] = {}
        """What came of each saying."""
        self.dice = random.Random("people")  # noqa: S311 - it guards nothing
        self._errands: dict[Saying, Errand] = {}
        self._again: list[tuple[float, Saying]] = []

    def arguments(self, saying: Saying) -> Iterable[str]:
        """Return what the process of a saying is started with."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Whether everybody was told."""
        return not (self._errands or self._again)

    def say(self, saying: Saying) -> None:
        """Begin to say something."""
        self._errands[saying] = Errand([*self.arguments(saying)], self.module)

    def hear(self) -> None:
        """Hear what came of what was said, and say again what came too early."""
        now_s = time.monotonic()
        for due in [due for due in self._again if due[0] <= now_s]:
            self._again.remove(due)
            self.say(due[1])
        for saying in [one for one, errand in self._errands.items() if errand.poll() is not None]:
            self._hear(saying, self._errands.pop(saying))

    def _hear(self, saying: Saying, errand: Errand) -> None:
        code, (output, complaint) = errand.poll(), errand.said()
        errand.close()
        if code != 0:
            words = complaint.decode("utf-8", "replace").strip()[-REPORTED_CHARS_MAX:]
            self.field.outsiders.refused.append(f"{saying}: code {code}, {words}")
            return
        outcome = load(output)[self.result]
        if outcome == self.too_early:
            self._again.append((time.monotonic() + REPEAT_S, saying))
        else:
            self.told[saying] = outcome

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Interrupt some of them; they say it again."""
        del rows
        for saying in list(self._errands):
            if self.dice.random() < self.interrupted_share:
                self._errands.pop(saying).close()
                self.interrupted += 1
                self.say(saying)

    def close(self) -> None:
        """End the processes that are still at it."""
        for errand in self._errands.values():
            errand.close()
