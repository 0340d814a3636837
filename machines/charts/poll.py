"""A poll trigger: what a source shows again and again is handled once, item by item.

What each part shows:

- `sifting` drops what was seen. A source may show an item twice, pages may overlap, and the cursor
  stands behind whole pages only; the set of what was seen tells one item from its repeat.
- Each item is handled by a chart of its own, in the run's row: killed in the middle, it goes on.
- `noting` comes last. An item is noted as seen, and the cursor moves, once all of the page is
  handled: a crash before that handles nothing twice, since the children are in the row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart

from machines import children, effect, spawn, timeout
from machines.carry import storage_effect
from machines.charts.service import RETRIES, ask, post, shortly
from machines.state import state_of
from snapshots.storage import Scope

if TYPE_CHECKING:
    from machines import Context

SCOPE: Final = Scope(workflow="inbox")
SEEN_TTL_MS: Final = 30 * 24 * 60 * 60 * 1000
INTERVAL_S: Final = 5.0


@dataclass
class Inbox:
    """What is polled, and the page that is being handled."""

    feed: str
    service: str
    page: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    handled: int = 0


@dataclass
class Item:
    """One item of a feed."""

    id: str
    service: str


def handle(model: Item, key: str) -> str:
    """Do what an item asks for; the service does it once per key."""
    return post(model.service, "handle", key=key, subject=model.id)


class Handling(StateChart[Item]):
    """One item."""

    handling = State(
        initial=True, invoke=effect(handle, idempotent=True, retries=RETRIES, backoff=shortly)
    )
    handled = State(final=True)
    done_invoke_handling = handling.to(handled)


def read_page(ctx: Context, model: Inbox) -> int:
    """Return the position behind which the next page begins."""
    position = state_of(ctx.machine, SCOPE).poll_cursor(model.feed).position()
    return -1 if position is None else int(position)


def poll(model: Inbox, data: int) -> list[dict[str, Any]]:
    """Ask for a page; asking changes nothing, so it is no effect."""
    return list(ask(model.service, "items", feed=model.feed, after=data)["items"])


def sift(ctx: Context, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the page, and the ids in it that were never seen, each once."""
    state = state_of(ctx.machine, SCOPE)
    ids = dict.fromkeys(str(item["id"]) for item in data)
    return {"page": data, "new": [id_ for id_ in ids if not state.was_seen(id_)]}


def note_page(ctx: Context, model: Inbox) -> None:
    """Note all of a page as seen, and move behind it."""
    state = state_of(ctx.machine, SCOPE)
    with state.transaction():
        for item in model.page:
            state.seen(str(item["id"]), SEEN_TTL_MS)
        if model.page:
            state.poll_cursor(model.feed).advance(model.page[-1]["at"])


class Poll(StateChart[Inbox]):
    """Polls a feed until it is told to stop."""

    reading = State(initial=True, invoke=storage_effect(read_page, kind="cursor.read"))
    polling = State(invoke=poll)
    sifting = State(invoke=storage_effect(sift, kind="items.sift"))
    handling = State(invoke=children(Handling))
    noting = State(invoke=storage_effect(note_page, kind="items.note"))
    resting = State(invoke=timeout(INTERVAL_S))
    stopped = State(final=True)

    done_invoke_reading = reading.to(polling)
    done_invoke_polling = polling.to(resting, cond="is_empty") | polling.to(sifting)
    done_invoke_sifting = sifting.to(noting, cond="has_nothing_new", on="keep_page") | sifting.to(
        handling, on="keep_page"
    )
    done_invoke_handling = handling.to(noting, cond="is_last", on="count") | handling.to(
        None, on="count"
    )
    done_invoke_noting = noting.to(reading)
    done_invoke_resting = resting.to(reading)
    wake = resting.to(reading)
    stop = resting.to(stopped)
    error_execution = polling.to(resting)

    def on_enter_handling(self) -> None:
        """Begin a chart for each new item."""
        for item in self.model.waiting:
            spawn(self, item, {"id": item, "service": self.model.service})

    def is_empty(self, data: list[Any]) -> bool:
        """Whether there is nothing to look at."""
        return not data

    def has_nothing_new(self, data: dict[str, Any]) -> bool:
        """Whether all of the page was seen before."""
        return not data["new"]

    def keep_page(self, data: dict[str, Any]) -> None:
        """Note the page, and what of it is to be handled."""
        self.model.page, self.model.waiting = data["page"], data["new"]

    def is_last(self, child: str) -> bool:
        """Whether every other item of the page was handled."""
        return self.model.waiting == [child]

    def count(self, child: str) -> None:
        """Note that an item was handled."""
        self.model.waiting = [item for item in self.model.waiting if item != child]
        self.model.handled += 1
