"""What invoked work and callbacks keep in the ledgers of their run, on disk before they go on.

`ctx.admissions`, `ctx.epochs`, `ctx.notices`, `ctx.picks` and `ctx.pushes` change a ledger *at
the write*: the whole run is saved, synchronously, before the method returns. If that save fails,
the ledger is as it was, and the method raises what the save raised. Reading never saves. They may
be used from the thread of a blocking call as from a coroutine. Values are stored as the codec
stores them, and given out as copies: changing one afterwards changes nothing that is kept.

A long job that another process does, posted once however often this process dies:

```python
async def follow(ctx, model):
    job = ctx.admission                           # what a former life of this very call recorded
    if job is None:
        news = ctx.notices.take()
        handle = await post(model.task, news=[notice.text for notice in news])
        job = ctx.admissions.record(handle)       # on disk, and the notices are delivered with it
    async for offset, line in read(job.handle, start=job.offset):
        ctx.admissions.advance(offset)
    ctx.admissions.settle()
```

Here a crash between `post` and `record` posts twice; where that matters, let an `effect` post.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.books.admissions import AdmissionBook, EpochBook, NoticeBook
from machines.books.desk import AtTheWrite, Desk, Owner, Shelf
from machines.books.effects import EffectBook, EffectEntry
from machines.books.pushes import PickBook, PushBook
from machines.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine import StateChart

    from snapshots.ledgers.admissions import Admission

__all__ = [
    "AdmissionBook",
    "AtTheWrite",
    "Books",
    "EffectBook",
    "EffectEntry",
    "EpochBook",
    "NoticeBook",
    "Owner",
    "PickBook",
    "PushBook",
    "Shelf",
    "ledgers_of",
]


class Books:
    """The ledgers of a run, as one invocation has them; without an owner, as the run itself."""

    def __init__(self, shelf: Shelf, owner: Owner | None, write: AtTheWrite) -> None:
        self._desk = desk = Desk(shelf=shelf, owner=owner, write=write)
        self.effects = EffectBook(desk)
        self.admissions = AdmissionBook(desk)
        self.epochs = EpochBook(desk)
        self.notices = NoticeBook(desk)
        self.picks = PickBook(desk)
        self.pushes = PushBook(desk)

    @property
    def admission(self) -> Admission | None:
        """The admission that this very invocation recorded, settled or not; None without one."""
        return self.admissions.get() if self._desk.owner is not None else None


def ledgers_of(machine: StateChart[Any]) -> Books:
    """Return the ledgers of the run that a chart belongs to, for its callbacks.

    What a callback changes is on disk before its macrostep is, and stays if that raises; only in
    the first macrostep of a run it comes with it. Raises DefinitionError for a chart of no run.
    """
    node = getattr(machine._engine, "node", None)  # noqa: SLF001 - pinned
    books: Callable[[], Books] | None = getattr(node and node.tree.keeper, "books", None)
    if books is None:
        reason, hint = "it has no run, and so no ledgers", "run it with a Host or open_run"
        raise DefinitionError(type(machine).__name__, reason, hint)
    return books()
