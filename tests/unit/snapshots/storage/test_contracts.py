"""Contracts and their forms: what is taken, what is refused, and why."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import attrs
import msgspec
import pydantic
import pytest

from snapshots.codec import Codec
from snapshots.errors import EncodeError, InvalidKeyError, StateContractMismatchError
from snapshots.limits import CONTRACT_DETAIL_CHARS_MAX, CONTRACT_VERSION_MAX, KEY_CHARS_MAX
from snapshots.storage.canonical import canonical
from snapshots.storage.contracts import Contract
from snapshots.storage.models import fits
from snapshots.storage.nesting import (
    NestedTransactionError,
    OpenTransactionError,
    OtherWorkspaceError,
)
from snapshots.storage.refusals import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    ApprovalTakenError,
    DecisionRefusedError,
    LiveOccurrenceError,
    UnaddressedDecisionError,
)


@dataclass
class Cursor:
    """A dataclass as a contract."""

    at: int
    tags: list[str] = field(default_factory=list)
    seen: datetime | None = None

    def __post_init__(self) -> None:
        if self.at < 0:
            message = "at is before the beginning"
            raise ValueError(message)


class Struct(msgspec.Struct):
    """A msgspec class as a contract."""

    at: int
    price: Decimal = Decimal(0)
    tags: tuple[str, ...] = ()


class Inner(pydantic.BaseModel):
    """A part of a pydantic model."""

    name: str


class Model(pydantic.BaseModel):
    """A pydantic model as a contract, one of its fields under another name."""

    at: int
    inner: Inner = Inner(name="i")
    from_: str = pydantic.Field(default="x", alias="from")


WHEN = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = (
    (Cursor, Cursor(1, ["a"], WHEN)),
    (Struct, Struct(1, Decimal("1.10"), ("a",))),
    (Model, Model.model_validate({"at": 1, "inner": {"name": "n"}, "from": "y"})),
)


def bring(contract: Contract, plain: Any, found: int = 1) -> Any:
    """Return what plain data of a version makes."""
    return contract.bring("k", plain, found)[0]


def mismatch(act: Callable[[], object]) -> StateContractMismatchError:
    """Return the refusal of a value."""
    with pytest.raises(StateContractMismatchError) as refusal:
        act()
    return refusal.value


@pytest.mark.parametrize(("cls", "value"), VALUES)
def test_an_instance_comes_back_from_plain_data(cls: type, value: Any) -> None:
    """Whatever kind of class: what is stored is plain, and needs no codec that knows the class."""
    contract = Contract("c", 1, validate=cls)
    plain = contract.plain("k", value)
    assert type(plain) is dict
    assert bring(contract, Codec().decode(Codec().encode(plain))) == value


@pytest.mark.parametrize("cls", [Cursor, Struct, Model])
@pytest.mark.parametrize("plain", [{}, {"at": "one"}, {"at": None}, 7, None, "at"])
def test_what_does_not_fit_a_class_is_refused(cls: type, plain: Any) -> None:
    """When it is loaded and when it is saved, with the reason in words."""
    contract = Contract("c", 1, validate=cls)
    for act in (lambda: bring(contract, plain), lambda: contract.plain("k", plain)):
        error = mismatch(act)
        assert (error.reason, error.found, error.current) == ("validation-failed", 1, 1)
        assert error.detail


def test_a_dataclass_judges_for_itself() -> None:
    """Fields it does not have, and what its own check refuses, are refused; a changed one too."""
    contract = Contract("c", 1, validate=Cursor)
    assert "unexpected keyword" in mismatch(lambda: bring(contract, {"at": 1, "to": 2})).detail
    assert "before the beginning" in mismatch(lambda: bring(contract, {"at": -1})).detail
    changed = Cursor(1)
    changed.at = -1
    assert "before the beginning" in mismatch(lambda: contract.plain("k", changed)).detail


def test_a_secret_in_a_model_is_refused_by_the_codec() -> None:
    """It is not turned into asterisks on its way."""

    class Account(pydantic.BaseModel):
        token: pydantic.SecretStr

    plain = Contract("c", 1, validate=Account).plain("k", Account(token=pydantic.SecretStr("hush")))
    with pytest.raises(EncodeError):
        Codec().encode(plain)


def test_a_function_refuses_by_raising_or_by_false() -> None:
    """What else it returns says nothing; the value is as it was."""
    assert bring(Contract("c", 1, validate=lambda _: None), [1]) == [1]
    assert bring(Contract("c", 1, validate=lambda _: 0), [1]) == [1]
    assert mismatch(lambda: bring(Contract("c", 1, validate=lambda _: False), 1)).detail == (
        "<lambda> returned False"
    )
    raised = mismatch(lambda: bring(Contract("c", 1, validate=lambda v: v["x"]), {}))
    assert raised.detail == "KeyError: 'x'"


def test_migrations_are_called_one_after_the_other() -> None:
    """From the version that was found, each with what the one before returned."""
    steps = {n: lambda value, n=n: [*value, n] for n in (1, 2, 3)}
    contract = Contract("c", 4, migrations=steps)
    assert contract.bring("k", [], 1) == ([1, 2, 3], (1, 4))
    assert contract.bring("k", [], 3) == ([3], (3, 4))
    assert contract.bring("k", [], 4) == ([], None)


def test_no_migration_is_called_where_one_is_missing() -> None:
    """The whole way is looked at first; the refusal names the gap."""
    called: list[int] = []
    contract = Contract("c", 4, migrations={1: called.append, 3: called.append})
    error = mismatch(lambda: contract.bring("k", 0, 1))
    assert (error.reason, error.detail) == (
        "no-migration-path",
        "nothing leads from version 2 to 3",
    )
    assert called == []


def test_what_a_migration_raises_is_told_and_cut() -> None:
    """With the version that it started from."""

    def fail(value: Any) -> Any:
        raise ValueError(value * 10_000)

    error = mismatch(lambda: Contract("c", 2, migrations={1: fail}).bring("k", "x", 1))
    assert error.reason == "migration-failed"
    assert error.detail.startswith("from version 1: ValueError: xxx")
    assert len(error.detail) < CONTRACT_DETAIL_CHARS_MAX + 50
    assert isinstance(error.__cause__, ValueError)


def test_the_result_of_migrations_is_validated() -> None:
    """A migration that forgets a field is found out, before anybody goes on with it."""
    contract = Contract("c", 2, validate=Cursor, migrations={1: lambda _: {"to": 1}})
    error = mismatch(lambda: contract.bring("k", {}, 1))
    assert (error.reason, error.found) == ("validation-failed", 1)


@pytest.mark.parametrize(
    ("version", "options"),
    [
        (0, {}),
        (CONTRACT_VERSION_MAX + 1, {}),
        (True, {}),
        ("1", {}),
        (2, {"migrations": {2: list}}),
        (2, {"migrations": {0: list}}),
        (2, {"migrations": {"1": list}}),
    ],
)
def test_versions_that_cannot_be_are_refused(version: Any, options: Any) -> None:
    """From 1 on, and each migration from an earlier version."""
    with pytest.raises(ValueError, match="version"):
        Contract("c", version, **options)


@attrs.define
class Attrs:
    """A class of a kind that is no form."""

    at: int


@pytest.mark.parametrize(
    "options", [{"validate": 7}, {"validate": Attrs}, {"validate": int}, {"migrations": {1: 7}}]
)
def test_what_cannot_judge_or_migrate_is_refused(options: Any) -> None:
    """When the contract is made."""
    with pytest.raises(TypeError, match="expected"):
        Contract("c", 2, **options)


@pytest.mark.parametrize("name", ["", "a\n", "x" * (KEY_CHARS_MAX + 1), 7])
def test_an_id_is_a_printable_text(name: Any) -> None:
    """It is shown where work is listed."""
    with pytest.raises(InvalidKeyError):
        Contract(name, 1)
    assert Contract("x" * KEY_CHARS_MAX, 1).version == 1


class Color(Enum):
    """A class in an annotation."""

    RED = 1


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (True, object, True),
        (1, float, True),
        (1.0, int, False),
        (None, None, True),
        (None, int | None, True),
        (0, None, False),
        ("a", int | None, False),
        ([1, 2], list[int], True),
        ([1, "2"], list[int], False),
        ((1, 2), list[int], False),
        ({1}, set[int], True),
        (frozenset("a"), frozenset[int], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ([1], tuple[int], False),
        ((1, 2, 3), tuple[int, ...], True),
        ((1, "2"), tuple[int, ...], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": ["1"]}, dict[str, list[int]], False),
        ({1: 1}, dict[str, int], False),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (1, Literal[True], False),
        (Color.RED, Color, True),
        (1, Color, False),
        ("anything", Any, True),
        (True, Any, True),
        ("anything", Callable[[], int], True),
    ],
)
def test_annotations_are_compared_as_far_as_they_are_plain(
    value: Any, hint: Any, *, expected: bool
) -> None:
    """What is not understood refuses nothing."""
    assert fits(value, hint) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"y": 2, "x": 1}]}, True),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}, True),
        ({(1, 2): {"$": 1, "a": 2}}, {(1, 2): {"a": 2, "$": 1}}, True),
        ([1, 2], [2, 1], False),
        ((1, 2), [1, 2], False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({1: "a"}, {"1": "a"}, False),
    ],
)
def test_values_are_one_whatever_the_order_of_their_keys(
    one: Any, other: Any, *, expected: bool
) -> None:
    """And only then."""
    encode = Codec().encode
    assert (canonical(encode(one)) == canonical(encode(other))) is expected


def test_a_value_that_was_never_stored_is_not_called_stored() -> None:
    """What a save refuses was written under no version; what a load refuses was."""
    contract = Contract("cursor", 2, validate=Cursor, migrations={1: lambda value: value})
    with pytest.raises(StateContractMismatchError) as caught:
        contract.plain("crawl", {"at": "7"})
    assert "is expected to meet version 2 of its contract, and does not" in str(caught.value)
    with pytest.raises(StateContractMismatchError) as caught:
        contract.bring("crawl", {"at": "7"}, 1)
    assert "was written under version 1 of its contract, expected version 2" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ApprovalTakenError("k", "/f", "r"),
        ApprovalTakenError("k", "", None),
        AlreadyDecidedError("k", "approve", None),
        ApprovalNotFoundError("k"),
        DecisionRefusedError("k", "aprove", ("approve", "reject")),
        LiveOccurrenceError("nightly", "r", "/f"),
        OpenTransactionError("run-1", "/f"),
        NestedTransactionError("/f", ("acme", "home"), ("acme", "away")),
        OtherWorkspaceError("get 'a'", "/f", ("acme", "home"), ("acme", "away")),
        LiveOccurrenceError("nightly", "r", "/f", is_elsewhere=True),
        UnaddressedDecisionError("verdict-17", "bad"),
    ],
)
def test_errors_cross_processes_whole(error: Exception) -> None:
    """With their message and their fields; the message names the key and what is expected."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was pickled the line before
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert "expected" in str(error)
