"""The ledger of notices: news that the next admission in their scope must carry.

A notice is raised once for each source. Who asks for admission takes what is there, which is
remembered in memory only; it is delivered by the save that holds the admission which carried it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from snapshots.errors import LimitError
from snapshots.identifiers import check_key
from snapshots.limits import NOTICES_DELIVERED_MAX, NOTICES_OPEN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One piece of news."""

    source: str
    """What it is news of: a source is raised once."""
    text: Any
    """What the admission is to carry; None once it is delivered."""
    scope: str = ""
    """Which admissions carry it; every one if empty."""
    delivered: str | None = None
    """The key of the admission that carried it."""
    at_ms: int
    """When it was raised."""

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, under its source."""
        value: dict[str, Any] = {"text": self.text} if self.delivered is None else {}
        if self.scope:
            value["scope"] = self.scope
        if self.delivered is not None:
            value["delivered"] = self.delivered
        value["at"] = self.at_ms
        return value

    @classmethod
    def of(cls, source: str, value: Mapping[str, Any]) -> Notice:
        """Return the row that a snapshot holds under a source."""
        return cls(
            source=source,
            text=value.get("text"),
            scope=value.get("scope", ""),
            delivered=value.get("delivered"),
            at_ms=value["at"],
        )


class Notices:
    """The notices of one run, by source: as they were raised, and delivered ones as delivered.

    At most `NOTICES_OPEN_MAX` are not delivered. Of delivered ones the newest
    `NOTICES_DELIVERED_MAX` sources are remembered, so that they are not raised again.
    """

    def __init__(self) -> None:
        # Never changed in place, so that to keep it costs nothing and other threads can read it.
        self._rows: dict[str, Notice] = {}
        self._taken: dict[str, str] = {}
        """Source → who took the notice and has not delivered it. A crash forgets it.

        A notice is taken on the thread of who takes it, so there is no place for two in this.
        """
        self.changes = 0
        """How often the ledger changed: who keeps its JSON encodes it again after that."""

    @classmethod
    def of(cls, value: Mapping[str, Mapping[str, Any]]) -> Notices:
        """Return the ledger that a snapshot holds."""
        made = cls()
        made._rows = {source: Notice.of(source, row) for source, row in value.items()}
        return made

    def as_value(self) -> dict[str, dict[str, Any]]:
        """Return the ledger as a snapshot holds it, texts as they were given."""
        return {source: row.as_value() for source, row in self._rows.items()}

    def keep(self) -> Callable[[], None]:
        """Return what puts the ledger back to how it is now, with who has taken what."""
        rows, taken = self._rows, dict(self._taken)

        def undo() -> None:
            self._become(rows)
            for source, by in taken.items():
                self._taken.setdefault(source, by)

        return undo

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, source: str) -> Notice | None:
        """Return a notice, delivered or not, if it is remembered."""
        return self._rows.get(source)

    def open(self) -> tuple[Notice, ...]:
        """Return what is not delivered, oldest first, taken or not."""
        return tuple(row for row in self._rows.values() if row.delivered is None)

    def raise_(self, source: str, text: Any, scope: str = "", *, at_ms: int) -> bool:
        """Add a notice; False, and nothing else, if its source was raised before.

        Raises:
            InvalidKeyError: the source or the scope is no key.
            LimitError: too many are not delivered.
        """
        check_key(source, "the source of a notice")
        if scope != "":
            check_key(scope, "the scope of a notice")
        if source in self._rows:
            return False
        count = len(self.open()) + 1
        if count > NOTICES_OPEN_MAX:
            what = "the number of notices that no admission carried (deliver them)"
            raise LimitError(what, NOTICES_OPEN_MAX, count)
        row = Notice(source=source, text=text, scope=scope, at_ms=at_ms)
        self._become({**self._rows, source: row})
        return True

    def take(self, by: str, scope: str = "") -> tuple[Notice, ...]:
        """Return what an admission in a scope must carry, oldest first, and reserve it.

        Those are the notices of that scope and those without one, but for what somebody else has
        taken. What `by` has taken already is among them.
        """
        return tuple(
            row
            for row in self.open()
            if row.scope in ("", scope) and self._taken.setdefault(row.source, by) == by
        )

    def taken(self, by: str) -> tuple[Notice, ...]:
        """Return what `by` has taken and not delivered, oldest first."""
        return tuple(row for row in self.open() if self._taken.get(row.source) == by)

    def deliver(self, by: str, admission: str) -> tuple[str, ...]:
        """Note what `by` has taken as carried by an admission; return the sources.

        The text goes. The source stays, so that it is not raised again.
        """
        carried = {row.source: row for row in self.taken(by)}
        if not carried:
            return ()
        rows = {source: row for source, row in self._rows.items() if source not in carried}
        for source, row in carried.items():
            rows[source] = replace(row, text=None, delivered=admission)
        delivered = [source for source, row in rows.items() if row.delivered is not None]
        for source in delivered[: max(0, len(delivered) - NOTICES_DELIVERED_MAX)]:
            del rows[source]
        self._become(rows)
        self.release(by)
        return tuple(carried)

    def release(self, by: str) -> None:
        """Give back what `by` has taken: the next admission in scope carries it."""
        for source, who in list(self._taken.items()):
            if who == by:
                del self._taken[source]

    def _become(self, rows: dict[str, Notice]) -> None:
        self._rows = rows
        self.changes += 1
