"""The errors: a tree that is drawn, messages that help, fields that travel."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from snapshots import errors
from snapshots.errors import SnapshotsError

EXAMPLES: list[SnapshotsError] = [
    SnapshotsError("bare"),
    errors.StorageError("save", "/data/state.db", "look at the disk", detail="disk I/O error"),
    errors.StorageBusyError("save", "/data/state.db", "try again"),
    errors.StorageUnavailableError("open", "/data/state.db", "mount the disk"),
    errors.StorageFullError("save", "/data/state.db", "make room"),
    errors.StorageReadOnlyError("save", "/data/state.db", "change its mode"),
    errors.StorageCorruptError("load", "/data/state.db", "restore a backup"),
    errors.StorageClosedError("save", "/data/state.db"),
    errors.StorageForkedError("save", "/data/state.db", 100, 101),
    errors.UnsupportedSqliteError("3.45.1", "3.51.3", "/data/state.db"),
    errors.NetworkFileSystemError("/data/state.db", "nfs4"),
    errors.ForeignFileError("/data/state.db", "no SQLite database"),
    errors.ConflictError("bare"),
    errors.RunExistsError("run-1", same_machine=True, same_input=False),
    errors.FencedError("/data/state.db", 7, "host-b"),
    errors.RevisionConflictError("run-1", 3, 5, status="done"),
    errors.LeaseLostError("etl", "host-b"),
    errors.NotFoundError("bare"),
    errors.RunNotFoundError("run-1", "/data/state.db"),
    errors.AmbiguousRunError("run-", ("run-1", "run-2")),
    errors.CodecError("bare"),
    errors.EncodeError("root.context.lines[3].price", "Money", "its class is not registered"),
    errors.DecodeError("run-1", "the node has no configuration", 1),
    errors.SchemaError("bare"),
    errors.NewerFileError("/data/state.db", 4, 1),
    errors.MigrationError("/data/state.db", "step 2 failed"),
    errors.StateContractMismatchError("cursor", "future-version", 3, 2, "written by a later one"),
    errors.LimitError("the size of the blob in bytes", 16, 17, "run-1"),
    errors.InvalidKeyError("", "it is empty"),
    errors.InvalidTtlError(0),
    errors.ExtraNotInstalledError("postgres", "a PostgreSQL storage"),
]
by_class = pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)


def classes() -> dict[str, type[SnapshotsError]]:
    """Every error class of the module."""
    members = inspect.getmembers(errors, inspect.isclass)
    return {name: cls for name, cls in members if issubclass(cls, SnapshotsError)}


def test_every_error_has_an_example_here() -> None:
    """A class that is added to the tree is put to the tests below."""
    assert {type(error) for error in EXAMPLES} == set(classes().values())


def test_the_tree_is_drawn_as_it_is() -> None:
    """The picture at the top of the module names every class, under its own parent."""
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    parent = ""
    for line in errors.__doc__.splitlines():
        names = re.findall(r"\w+Error\b", line)
        if line.startswith("SnapshotsError"):
            drawn["SnapshotsError"] = "Exception"
        elif line.startswith(("├── ", "└── ")):
            drawn |= dict.fromkeys(names, "SnapshotsError")
            parent = names[-1]
        elif line.startswith(("│   ", "    ")) and names:
            drawn |= dict.fromkeys(names, parent)
    assert drawn == {name: cls.__base__.__name__ for name, cls in classes().items() if cls.__base__}


@by_class
def test_an_error_survives_pickling_with_its_fields(error: SnapshotsError) -> None:
    """An error that crosses a process comes back of its class, with its message and fields."""
    error.add_note("a note")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, the claim itself
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert vars(back) == vars(error)


@by_class
def test_an_error_can_be_copied(error: SnapshotsError) -> None:
    """A copy is equal in all that can be seen, though its constructor takes other arguments."""
    for back in (copy.copy(error), copy.deepcopy(error)):
        assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@by_class
def test_a_message_is_one_sentence_that_names_each_text_field(error: SnapshotsError) -> None:
    """What an error was built from can be read in its message, which is a single line."""
    message = str(error)
    assert "\n" not in message
    told = {key: value for key, value in vars(error).items() if not key.startswith("__")}
    for value in told.values():
        assert not isinstance(value, str) or value in message
        assert not isinstance(value, int) or isinstance(value, bool) or str(value) in message


def test_only_what_may_pass_by_itself_is_retryable() -> None:
    """Trying again helps against a busy or an unreachable file, and against nothing else."""
    retryable = {name for name, cls in classes().items() if cls.retryable}
    assert retryable == {"StorageBusyError", "StorageUnavailableError"}


def test_a_run_that_exists_says_how_it_compares() -> None:
    """Whoever starts a run twice learns whether it is the same one."""
    said = {
        str(errors.RunExistsError("run-1", same_machine=machine, same_input=equal))
        for machine, equal in [(False, None), (True, None), (True, True), (True, False)]
    }
    assert len(said) == 4
    assert all("'run-1'" in text for text in said)


def test_a_conflict_without_a_row_says_so() -> None:
    """A revision that is compared with nothing is told apart from one with another number."""
    assert "nothing" in str(errors.RevisionConflictError("cursor", 1, None))
    assert "revision 4" in str(errors.RevisionConflictError("cursor", 1, 4))
    assert "'done'" in str(errors.RevisionConflictError("run-1", 1, 4, status="done"))
