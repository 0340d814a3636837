"""A stock list that many runs add to at once: one carry key, compared and swapped.

Each run loads the list, has its goods counted, and saves the list with itself at the end. A run
that was overtaken meanwhile loads again; one that finds itself in the list has saved before a
crash that hid it. The place of an entry is the revision that its save has made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from statemachine import State, StateChart

from machines import effect
from machines.carry import Carry
from machines.charts.service import RETRIES, post, shortly
from snapshots.errors import RevisionConflictError
from snapshots.storage import Scope
from snapshots.storage.contracts import Contract

if TYPE_CHECKING:
    from snapshots.storage.carry import Carried

SCOPE: Final = Scope(workflow="stock")
KEY: Final = "list"
CONTRACT: Final = Contract("stock.list", 1)
STOCK: Final = Carry(CONTRACT, scope=SCOPE)

Listed = list[list[str]]
"""Name and reference of each entry, in the order in which they came."""


@dataclass
class Goods:
    """What one run adds, and what it found on the list."""

    number: str
    service: str
    reference: str = ""
    found: Listed = field(default_factory=list)
    revision: int = 0
    booked: int = 0
    """The revision that its own save has made."""
    conflicts: int = 0


def place_of(name: str, listed: Listed) -> int:
    """Return the place of a name on the list, from 1 on; 0 if it is not there."""
    return next((n for n, entry in enumerate(listed, start=1) if entry[0] == name), 0)


def count_key(model: Goods) -> str:
    """Return the key of the one count of these goods, however often the list is loaded again."""
    return f"count-{model.number}"


def count(model: Goods, key: str) -> str:
    """Have the goods counted, which takes its time."""
    return post(model.service, "count", key=key, subject=model.number)


def tell(model: Goods, key: str) -> str:
    """Tell which revision has these goods."""
    return post(model.service, "booked", key=key, subject=model.number, revision=model.booked)


def added(model: Goods) -> Listed:
    """Return the list with these goods at its end."""
    return [*model.found, [model.number, model.reference]]


def revision_found(model: Goods) -> int:
    """Return the revision that was loaded."""
    return model.revision


class Tally(StateChart[Goods]):
    """One delivery on its way to the list."""

    loading = State(initial=True, invoke=STOCK.load(KEY))
    counting = State(
        invoke=effect(
            count, kind="count", key=count_key, idempotent=True, retries=RETRIES, backoff=shortly
        )
    )
    saving = State(invoke=STOCK.save(KEY, added, expected_revision=revision_found))
    telling = State(
        invoke=effect(tell, kind="booked", idempotent=True, retries=RETRIES, backoff=shortly)
    )
    booked = State(final=True)

    done_invoke_loading = loading.to(telling, cond="is_listed", on="keep_list") | loading.to(
        counting, on="keep_list"
    )
    done_invoke_counting = counting.to(saving, on="keep_reference")
    done_invoke_saving = saving.to(telling, on="keep_revision")
    done_invoke_telling = telling.to(booked)
    error_execution = (
        saving.to(loading, cond="was_overtaken", on="note_conflict")
        | saving.to(saving)
        | loading.to(loading)
        | counting.to(counting)
        | telling.to(telling)
    )

    def is_listed(self, data: Carried | None) -> bool:
        """Whether a save of before has come through."""
        return data is not None and place_of(self.model.number, data.value) > 0

    def keep_list(self, data: Carried | None) -> None:
        """Note what is on the list."""
        if data is not None:
            self.model.found, self.model.revision = data.value, data.revision
            self.model.booked = place_of(self.model.number, data.value)

    def keep_reference(self, data: str) -> None:
        """Note what was counted."""
        self.model.reference = data

    def keep_revision(self, data: int) -> None:
        """Note which revision the save has made."""
        self.model.booked = data

    def was_overtaken(self, error: BaseException) -> bool:
        """Whether somebody else has saved since the list was loaded."""
        # One that came out of a row has its name only.
        name = RevisionConflictError.__name__
        return isinstance(error, RevisionConflictError) or (
            getattr(error, "type_name", "").endswith(name)
        )

    def note_conflict(self) -> None:
        """Count it."""
        self.model.conflicts += 1
