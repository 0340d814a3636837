"""The ledger of picks: offers that somebody has to choose from, and what was said meanwhile.

While a pick of a chain is outstanding, the chain is held with every reply since it, whole. Once
its last pick is answered the chain is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.identifiers import check_key
from snapshots.limits import KEYS_SHOWN_MAX, LEDGER_KEY_CHARS_MAX, PICKS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """One outstanding pick."""

    id: str
    chain: str
    offer: Any
    """What there is to choose from."""
    since: int = 0
    """How many of the chain's replies are older than the pick."""
    at_ms: int
    """When it was offered."""

    def as_value(self) -> dict[str, Any]:
        """Return the row as a snapshot holds it, in the hold of its chain."""
        return {"id": self.id, "offer": self.offer, "at": self.at_ms, "since": self.since}

    @classmethod
    def of(cls, chain: str, value: Mapping[str, Any]) -> Pick:
        """Return the row that a snapshot holds in the hold of a chain."""
        return cls(
            id=value["id"],
            chain=chain,
            offer=value["offer"],
            since=value["since"],
            at_ms=value["at"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    """A chain with outstanding picks, oldest first, and the replies since the oldest."""

    picks: tuple[Pick, ...]
    replies: tuple[Any, ...] = ()

    def without(self, pick: Pick) -> _Hold:
        """Return the hold of the other picks, with the replies that any of them still needs."""
        picks = tuple(other for other in self.picks if other is not pick)
        first = min((other.since for other in picks), default=0)
        return _Hold(
            picks=tuple(replace(other, since=other.since - first) for other in picks),
            replies=self.replies[first:],
        )


class Picks:
    """The outstanding picks of one run, at most `PICKS_MAX`, held by chain."""

    def __init__(self) -> None:
        # Never changed in place, so that to keep it costs nothing and other threads can read it.
        self._holds: dict[str, _Hold] = {}
        self.changes = 0
        """How often the ledger changed: who keeps its JSON encodes it again after that."""

    @classmethod
    def of(cls, value: Iterable[Mapping[str, Any]]) -> Picks:
        """Return the ledger that a snapshot holds."""
        made = cls()
        made._holds = {
            hold["chain"]: _Hold(
                picks=tuple(Pick.of(hold["chain"], pick) for pick in hold["picks"]),
                replies=tuple(hold.get("replies", ())),
            )
            for hold in value
        }
        return made

    def as_value(self) -> list[dict[str, Any]]:
        """Return the ledger as a snapshot holds it, offers and replies as they were given."""
        return [
            {
                "chain": chain,
                "picks": [pick.as_value() for pick in hold.picks],
                **({"replies": list(hold.replies)} if hold.replies else {}),
            }
            for chain, hold in self._holds.items()
        ]

    def keep(self) -> Callable[[], None]:
        """Return what puts the ledger back to how it is now."""
        holds = self._holds
        return lambda: self._become(holds)

    def __len__(self) -> int:
        return len(self._holds)

    def outstanding(self, chain: str | None = None) -> tuple[Pick, ...]:
        """Return the outstanding picks, of one chain or of all, those of a chain oldest first."""
        holds = self._holds
        chains = holds if chain is None else (chain,) if chain in holds else ()
        return tuple(pick for name in chains for pick in holds[name].picks)

    def replies(self, pick: str) -> tuple[Any, ...]:
        """Return the replies of a pick's chain since the pick, oldest first.

        Raises:
            InvalidKeyError: no such pick is outstanding.
        """
        found = self._required(pick)
        return self._holds[found.chain].replies[found.since :]

    def pick(self, pick: str, chain: str, offer: Any, *, at_ms: int) -> Pick:
        """Hold a chain from here on, until the pick is answered; return the row.

        Raises:
            InvalidKeyError: the pick's id or the chain is no key, or the pick is outstanding.
            LimitError: too many picks are outstanding.
        """
        check_key(pick, "the id of a pick")
        check_key(chain, "the chain of a pick")
        outstanding = self.outstanding()
        for other in outstanding:
            if other.id == pick:
                reason = f"this pick of chain {other.chain!r} is outstanding; answer it first"
                raise InvalidKeyError(pick, reason)
        if len(outstanding) >= PICKS_MAX:
            what = "the number of outstanding picks (answer those that are decided)"
            raise LimitError(what, PICKS_MAX, len(outstanding) + 1)
        hold = self._holds.get(chain, _Hold(picks=()))
        row = Pick(id=pick, chain=chain, offer=offer, since=len(hold.replies), at_ms=at_ms)
        self._become({**self._holds, chain: replace(hold, picks=(*hold.picks, row))})
        return row

    def reply(self, chain: str, value: Any) -> bool:
        """Keep a reply of a chain if a pick of it is outstanding; return whether it is kept."""
        hold = self._holds.get(chain)
        if hold is None:
            return False
        self._become({**self._holds, chain: replace(hold, replies=(*hold.replies, value))})
        return True

    def answer(self, pick: str) -> tuple[Any, ...]:
        """Drop a pick that was decided, and return the replies since it, oldest first.

        Its chain is dropped with its last pick, and before that the replies which are older than
        every pick that is left.

        Raises:
            InvalidKeyError: no such pick is outstanding.
        """
        found = self._required(pick)
        replies = self.replies(pick)
        hold = self._holds[found.chain].without(found)
        if hold.picks:
            self._become({**self._holds, found.chain: hold})
        else:
            self._become({chain: h for chain, h in self._holds.items() if chain != found.chain})
        return replies

    def _required(self, pick: str) -> Pick:
        outstanding = self.outstanding()
        for found in outstanding:
            if found.id == pick:
                return found
        known = ", ".join(repr(other.id) for other in outstanding[:KEYS_SHOWN_MAX]) or "none"
        reason = f"no such pick is outstanding; outstanding are: {known}"
        raise InvalidKeyError(str(pick)[:LEDGER_KEY_CHARS_MAX], reason)

    def _become(self, holds: dict[str, _Hold]) -> None:
        self._holds = holds
        self.changes += 1
