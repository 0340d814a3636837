"""Incidents: what is open under a fingerprint, until somebody closes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapshots.limits import LIST_ROWS_MAX

if TYPE_CHECKING:
    import builtins

    from snapshots.storage.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident as it is, or was when it was closed; `is_new` says that this call opened it."""

    fingerprint: str
    value: Any
    is_new: bool = False


class Incidents:
    """The open incidents of a workflow, at most one per fingerprint, on disk when a call returns.

    A fingerprint is what its source repeats of one incident: a key of keyed state. Errors are
    those of `StateStore`.
    """

    def __init__(self, values: Values) -> None:
        self._values = values

    def open(self, fingerprint: str, value: Any = None, *, ttl_ms: int | None = None) -> Incident:
        """Open an incident with a value, or return the one that is open, as it is.

        Of any number of callers at once, one is told that it is new. `ttl_ms` is how long it
        stays open if nobody closes it.
        """
        kept = self._kept(value)
        while not self._values.put_if_absent(fingerprint, kept, ttl_ms=ttl_ms):
            found = self.find(fingerprint)
            if found is not None:
                return found
        return Incident(fingerprint=fingerprint, value=value, is_new=True)

    def find(self, fingerprint: str) -> Incident | None:
        """Return the open incident of a fingerprint, None if there is none."""
        found = self._values.get(fingerprint)
        return None if found is None else Incident(fingerprint=fingerprint, value=found[0])

    def update(self, fingerprint: str, value: Any) -> bool:
        """Give an open incident another value, and return whether it is open.

        It stays open as long as it would have: its time to live is neither ended nor begun anew.
        """
        return self._values.replace(fingerprint, self._kept(value))

    def close(self, fingerprint: str) -> Incident | None:
        """Close an incident and return it to one of many callers; None if none is open."""
        with self._values.transaction():
            found = self.find(fingerprint)
            if found is not None:
                self._values.delete(fingerprint)
            return found

    def list(self, *, after: str | None = None, limit: int = LIST_ROWS_MAX) -> list[Incident]:
        """Return the open incidents by fingerprint, behind `after`."""
        entries = self._values.list(after=after, limit=limit)
        return [Incident(fingerprint=entry.key, value=entry.value[0]) for entry in entries]

    def _kept(self, value: Any) -> builtins.list[Any]:
        """Return a value in a list, so that one of None is told from none.

        What cannot be stored of it is refused here, by its place in the value itself.
        """
        self._values.require_storable(value)
        return [value]
