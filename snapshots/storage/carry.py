"""Carry state: what a schedule's runs hand on from one to the next, under a versioned contract.

```python
CURSOR = Contract("cursor", 2, validate=Cursor, migrations={1: add_region})

with open_storage("state.db") as backend:
    carry = CarryState(backend.carry, Scope(workflow="crawl"), contract=CURSOR)
    carried = carry.load("crawl")                                  # None, or checked and migrated
    revision = carry.save("crawl", Cursor(7, "eu"), expected_revision=carried.revision)
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapshots.codec import Codec, persistent
from snapshots.errors import RevisionConflictError
from snapshots.storage.canonical import canonical

if TYPE_CHECKING:
    from snapshots.storage.contracts import Contract
    from snapshots.storage.protocols import CarryStates
    from snapshots.storage.scopes import Scope


@persistent("carry.carried")
@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Carry state as it was loaded.

    `revision` is what the next save must expect. `migrated` are the versions of the contract that
    the value came from and was brought to, None if it was stored under today's.
    """

    value: Any
    revision: int
    migrated: tuple[int, int] | None = None


class CarryState:
    """The carry state of one scope, under one contract.

    `codec` knows the classes inside the values (by default the built-in ones); an instance of the
    contract's own class is stored as plain data and needs no codec. Beside what each method says,
    all raise what `CarryStates` does.
    """

    def __init__(
        self,
        carry: CarryStates,
        scope: Scope,
        *,
        contract: Contract,
        codec: Codec | None = None,
    ) -> None:
        self.contract = contract
        self.scope = scope
        self._carry = carry
        self._codec = codec or Codec()

    def __repr__(self) -> str:
        return f"<CarryState {self.contract.id!r} version={self.contract.version}>"

    def load(self, key: str) -> Carried | None:
        """Return what was saved last, checked and brought to today's version; None if nothing was.

        Nothing is written: the next save writes today's version. Raises
        StateContractMismatchError with its reason, and DecodeError for bytes that the codec
        cannot read: state that is not known to be good is never given out.
        """
        record = self._carry.load(self.scope, key)
        if record is None:
            return None
        plain = self._codec.decode(record.payload, root=key)
        value, migrated = self.contract.bring(key, plain, record.contract_version)
        return Carried(value=value, revision=record.revision, migrated=migrated)

    def save(self, key: str, value: Any, *, expected_revision: int) -> int:
        """Write a value under today's version and return its revision, which is one more.

        An `expected_revision` of 0 creates. A save that finds its own earlier write, one revision
        on and equal whatever the order of keys, returns that one's revision: it may be repeated
        after a crash that hid its outcome. Raises RevisionConflictError for any other revision,
        StateContractMismatchError (`validation-failed`) for a value that no load would take, and
        EncodeError for one that would not come back as it is.
        """
        payload = self._codec.encode(self.contract.plain(key, value), root=key)
        try:
            record = self._carry.save(
                self.scope,
                key,
                contract_version=self.contract.version,
                payload=payload,
                expected_revision=expected_revision,
            )
        except Exception as error:
            if is_conflict(error) and self._is_own(key, payload, expected_revision + 1):
                return expected_revision + 1
            raise
        return record.revision

    def clear(self, key: str) -> None:
        """Remove what is stored, if anything is: the next save creates."""
        self._carry.clear(self.scope, key)

    def _is_own(self, key: str, payload: bytes, revision: int) -> bool:
        """Whether what is stored is what a save of this payload has left."""
        record = self._carry.load(self.scope, key)
        return (
            record is not None
            and record.revision == revision
            and record.contract_version == self.contract.version
            and canonical(record.payload) == canonical(payload)
        )


def is_conflict(error: Exception) -> bool:
    """Whether an error says that another revision is stored, by a class of that name.

    A storage that others wrote need not share our class.
    """
    name = RevisionConflictError.__name__
    return any(cls.__name__ == name for cls in type(error).__mro__)
