"""What is read again and again: a market's prices, feeds with items, and the levels of rivers.

    python -m machines.demo.outside.sources LOG SEED

All of it grows or changes with time. Who reads what, and from where on, is in the log.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from machines.demo.lines import tell
from machines.demo.outside.book import Book
from machines.demo.outside.server import serve

if TYPE_CHECKING:
    from snapshots.clock import Clock

PRICES: Final = 60
PRICES_FIRST: Final = 20
"""How many of them are there from the beginning."""
PRICE_S: Final = 0.15
"""How long it is from one price to the next."""
PAGE_ROWS_MAX: Final = 3
PAGE_S: Final = 0.03
"""How long it takes to read a page of prices."""
ITEMS: Final = 10
SHOWN: Final = 2
"""How often a feed shows each of its items."""
SHOWING_S: Final = 0.12
"""How long it is from one showing of an item to the next, of any item."""
GAUGE_S: Final = 0.2
"""How long it takes to read the levels."""
LEVEL_S: Final = 0.5
"""How long a level of the Rhine lasts."""


def price_of(at: int) -> float:
    """Return the price at a time."""
    return at * 1.5


def items_of(feed: str) -> list[dict[str, Any]]:
    """Return everything that a feed will have shown, in its order: each item `SHOWN` times."""
    return [{"at": at, "id": f"{feed}-item-{at // SHOWN}"} for at in range(ITEMS * SHOWN)]


class Sources(Book):
    """What can be read by now."""

    def __init__(self, path: str, seed: str, clock: Clock) -> None:
        super().__init__(path, seed, clock)
        self._began_s = time.monotonic()

    def look_up(self, what: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Give a page of prices or of items, or the levels; or look up as ever."""
        time.sleep({"prices": PAGE_S, "levels": GAUGE_S}.get(what, 0.0))
        past_s = time.monotonic() - self._began_s
        if what == "prices":
            return self._page_of_prices(query, PRICES_FIRST + int(past_s / PRICE_S))
        if what == "items":
            return self._page_of_items(query, int(past_s / SHOWING_S))
        if what == "levels":
            levels = {"rhine": int(past_s / LEVEL_S), "main": 1}
            self._note("levels", "levels", levels=levels)
            return {"levels": levels}
        return super().look_up(what, query)

    def _page_of_prices(self, query: dict[str, str], there: int) -> dict[str, Any]:
        after, market = int(query["after"]), query["market"]
        ats = range(min(PRICES, there))[after + 1 :][:PAGE_ROWS_MAX]
        by, token = query["by"], int(query["token"])
        self._note("prices", market, after=after, ats=list(ats), by=by, token=token)
        return {"rows": [{"at": at, "price": price_of(at)} for at in ats]}

    def _page_of_items(self, query: dict[str, str], there: int) -> dict[str, Any]:
        after, feed = int(query["after"]), query["feed"]
        page = items_of(feed)[:there][after + 1 :][:PAGE_ROWS_MAX]
        self._note("items", feed, after=after, ids=[item["id"] for item in page])
        return {"items": page}

    def _note(self, what: str, subject: str, **fields: Any) -> None:
        self.write(note=what, subject=subject, **fields)
        tell({"at": "read", "what": what, "subject": subject})


if __name__ == "__main__":
    serve(Sources, sys.argv[1:])
