"""What carry state does under a contract on a backend: checked, migrated, adopted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from snapshots import Secret
from snapshots.storage.carry import Carried, CarryState
from snapshots.storage.contracts import Contract
from snapshots.testing.suite.acting import race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope

    Another = Callable[[], AbstractContextManager[Backend]]

KEY: Final = "crawl"


@dataclass
class Cursor:
    """What version 3 carries."""

    at: int
    region: str
    tags: list[str] = field(default_factory=list)


def add_region(value: dict[str, Any]) -> dict[str, Any]:
    """Bring version 1 to 2."""
    return {**value, "region": "eu"}


def rename(value: dict[str, Any]) -> dict[str, Any]:
    """Bring version 2 to 3."""
    return {"at": value["position"], "region": value["region"]}


FIRST: Final = Contract("cursor", 1)
SECOND: Final = Contract("cursor", 2, migrations={1: add_region})
THIRD: Final = Contract("cursor", 3, validate=Cursor, migrations={1: add_region, 2: rename})


def carry(backend: Backend, scope: Scope, contract: Contract) -> CarryState:
    """Return carry state on a backend: a further one is what a restarted process has."""
    return CarryState(backend.carry, scope, contract=contract)


class ContractBehaviours:
    """Behaviours of `CarryState` on a backend."""

    def test_what_was_never_saved_is_nothing(self, backend: Backend, scope: Scope) -> None:
        """Loading gives None, clearing does nothing; what was cleared is created anew."""
        state = carry(backend, scope, THIRD)
        assert state.load(KEY) is None
        state.clear(KEY)
        assert state.save(KEY, Cursor(1, "eu"), expected_revision=0) == 1
        state.clear(KEY)
        assert state.load(KEY) is None
        assert state.save(KEY, Cursor(2, "eu"), expected_revision=0) == 1

    def test_a_value_comes_back_as_what_its_contract_says(
        self, backend: Backend, scope: Scope
    ) -> None:
        """An instance, from an instance or from what one consists of; with its revision."""
        state = carry(backend, scope, THIRD)
        assert state.save(KEY, {"at": 1, "region": "eu"}, expected_revision=0) == 1
        assert state.load(KEY) == Carried(value=Cursor(1, "eu"), revision=1)
        assert state.save(KEY, Cursor(2, "us", ["a"]), expected_revision=1) == 2
        assert carry(backend, scope, THIRD).load(KEY) == Carried(
            value=Cursor(2, "us", ["a"]), revision=2
        )

    def test_old_state_is_migrated_on_load_and_written_on_save(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Step by step; loading writes nothing, and says which way it came; the save ends it."""
        carry(backend, scope, FIRST).save(KEY, {"position": 7}, expected_revision=0)
        third = carry(backend, scope, THIRD)
        for _ in range(2):
            loaded = third.load(KEY)
            assert loaded == Carried(value=Cursor(7, "eu"), revision=1, migrated=(1, 3))
        record = backend.carry.load(scope, KEY)
        assert record is not None
        assert (record.contract_version, record.revision) == (1, 1)
        third.save(KEY, Cursor(8, "eu"), expected_revision=1)
        assert third.load(KEY) == Carried(value=Cursor(8, "eu"), revision=2)
        record = backend.carry.load(scope, KEY)
        assert record is not None
        assert record.contract_version == 3

    def test_each_mismatch_says_which_it_is(self, backend: Backend, scope: Scope) -> None:
        """Future version, no path, a migration that failed, a value that is refused."""
        carry(backend, scope, SECOND).save(KEY, {"region": 4}, expected_revision=0)
        lacking = Contract("cursor", 4, migrations={3: rename})
        unfit = Contract("cursor", 2, validate=Cursor)
        for contract, reason in (
            (FIRST, "future-version"),
            (lacking, "no-migration-path"),
            (THIRD, "migration-failed"),
            (unfit, "validation-failed"),
        ):
            with refused("StateContractMismatchError") as mismatch:
                carry(backend, scope, contract).load(KEY)
            assert mismatch.field("reason") == reason
            assert (mismatch.field("found"), mismatch.field("current")) == (2, contract.version)
        assert carry(backend, scope, SECOND).load(KEY) is not None

    def test_what_no_load_would_take_is_not_saved(self, backend: Backend, scope: Scope) -> None:
        """Neither a value that the contract refuses, nor a secret."""
        state = carry(backend, scope, THIRD)
        state.save(KEY, Cursor(1, "eu"), expected_revision=0)
        bad: Any = "two"
        with refused("StateContractMismatchError") as mismatch:
            state.save(KEY, Cursor(bad, "eu"), expected_revision=1)
        assert mismatch.field("reason") == "validation-failed"
        with refused("EncodeError"):
            carry(backend, scope, Contract("cursor", 3)).save(
                KEY, {"at": Secret("vault/at")}, expected_revision=1
            )
        assert state.load(KEY) == Carried(value=Cursor(1, "eu"), revision=1)

    def test_a_repeated_save_finds_its_own_write(self, backend: Backend, scope: Scope) -> None:
        """Whatever the order of keys, at any depth; its revision is the one that it was."""
        state = carry(backend, scope, SECOND)
        state.save(KEY, {"a": 1, "b": [{"c": 2, "d": {3: "x", 4: "y"}}]}, expected_revision=0)
        again = {"b": [{"d": {4: "y", 3: "x"}, "c": 2}], "a": 1}
        assert carry(backend, scope, SECOND).save(KEY, again, expected_revision=0) == 1
        loaded = state.load(KEY)
        assert loaded is not None
        assert loaded.revision == 1

    def test_another_write_is_never_taken_for_its_own(self, backend: Backend, scope: Scope) -> None:
        """Not one of another value, order of items or contract, nor one that was saved over."""
        second = carry(backend, scope, SECOND)
        second.save(KEY, [1, 2], expected_revision=0)
        for contract, value in ((SECOND, [2, 1]), (SECOND, [1, 2.0]), (FIRST, [1, 2])):
            with refused("RevisionConflictError"):
                carry(backend, scope, contract).save(KEY, value, expected_revision=0)
        second.save(KEY, [1, 2], expected_revision=1)
        with refused("RevisionConflictError") as conflict:
            second.save(KEY, [1, 2], expected_revision=0)
        assert (conflict.field("expected"), conflict.field("actual")) == (0, 2)

    def test_two_live_writers_conflict_loudly(self, another: Another, scope: Scope) -> None:
        """Of sixteen that go on from one revision with values of their own, one does."""

        def act(mine: Backend, number: int) -> bool:
            try:
                carry(mine, scope, SECOND).save(KEY, number, expected_revision=0)
            except Exception as error:
                if type(error).__name__ != "RevisionConflictError":
                    raise
                return False
            return True

        assert sum(race(another, act)) == 1
