"""The seam to psycopg: every class of error is decided on, and the extra is asked for by name."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psycopg
import psycopg_pool
import pytest
from psycopg import errors

from snapshots.errors import (
    StorageBusyError,
    StorageClosedError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from snapshots.opening import open_storage
from snapshots.storage.backends.postgres.addresses import shown
from snapshots.storage.backends.postgres.translation import BY_CLASS, decided, translate


def classes(*modules: ModuleType) -> set[type[psycopg.Error]]:
    """Every error class of the driver and its pool."""
    members = [cls for module in modules for _, cls in inspect.getmembers(module, inspect.isclass)]
    # What is private to the driver never leaves it.
    public = [cls for cls in members if not cls.__name__.startswith("_")]
    return {cls for cls in public if issubclass(cls, psycopg.Error)}


DRIVER = classes(psycopg, errors, psycopg_pool)


def test_every_error_of_the_driver_is_decided_on() -> None:
    """A class that a later driver adds is missing here until somebody has looked at it."""
    assert len(DRIVER) > 200
    undecided = {cls for cls in DRIVER if decided(cls, cls.sqlstate) is None}
    assert undecided == set()


def test_every_class_that_was_decided_on_is_there() -> None:
    """What is named without a state exists, and has none."""
    assert set(BY_CLASS) == {cls for cls in DRIVER if cls.sqlstate is None}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (psycopg.OperationalError, StorageUnavailableError),
        (errors.ConnectionTimeout, StorageUnavailableError),
        (errors.AdminShutdown, StorageUnavailableError),
        (errors.CannotConnectNow, StorageUnavailableError),
        (errors.TooManyConnections, StorageUnavailableError),
        (errors.IdleInTransactionSessionTimeout, StorageUnavailableError),
        (errors.IoError, StorageUnavailableError),
        (psycopg_pool.PoolTimeout, StorageUnavailableError),
        (psycopg_pool.PoolClosed, StorageClosedError),
        (errors.LockNotAvailable, StorageBusyError),
        (errors.SerializationFailure, StorageBusyError),
        (errors.DeadlockDetected, StorageBusyError),
        (errors.DiskFull, StorageFullError),
        (errors.ReadOnlySqlTransaction, StorageReadOnlyError),
        (errors.DataCorrupted, StorageCorruptError),
        (errors.IndexCorrupted, StorageCorruptError),
        (errors.InsufficientPrivilege, StorageError),
        (errors.InvalidPassword, StorageError),
        (errors.UniqueViolation, StorageError),
        (errors.QueryCanceled, StorageError),
        (errors.UndefinedTable, StorageError),
        (errors.SyntaxError, StorageError),
    ],
)
def test_an_error_of_the_driver_becomes_the_one_that_says_what_to_do(
    theirs: type[psycopg.Error], ours: type[StorageError]
) -> None:
    """Each cause that a caller can act on has a class of its own."""
    translated = translate(theirs("said\nmore"), "put 'a'", "postgresql://host/db")
    assert type(translated) is ours
    assert (translated.operation, translated.path) == ("put 'a'", "postgresql://host/db")


def test_a_class_that_nobody_knows_is_still_ours() -> None:
    """An error of a later driver is a `StorageError` all the same."""

    class LaterError(psycopg.Error):
        sqlstate = "ZZ000"

    assert type(translate(LaterError("new"), "put", "postgresql://host/db")) is StorageError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:hush@host:5433/db", "postgresql://me@host:5433/db"),
        ("postgresql://host/db?password=hush", "postgresql://host/db"),
        ("postgresql://?host=/run&dbname=db&user=me", "postgresql://me@/run/db"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, expected: str) -> None:
    """Wherever in the address it stands."""
    assert shown(url) == expected


@pytest.mark.parametrize("password", ["hush%zz", "hush/me", "hush\ud800"])
def test_an_address_that_is_none_is_not_shown(password: str) -> None:
    """A password with a character that must be written in another way is easily taken apart."""
    with pytest.raises(StorageError) as caught:
        open_storage(f"postgresql://me:{password}@host/db")
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(vars(caught.value))
    assert caught.value.__cause__ is None


WITHOUT = """
import sys
sys.modules["{missing}"] = None
from snapshots import ExtraNotInstalledError, open_storage, prepare_storage
for use in (open_storage, prepare_storage):
    try:
        use("postgresql://host/db")
    except ExtraNotInstalledError as error:
        print(error.extra, str(error).count("machine-snapshots[postgres]"))
with open_storage("memory:") as storage:
    print(storage)
"""


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_without_the_extra_its_name_is_given(missing: str) -> None:
    """A place of another kind opens all the same."""
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert process.stderr == ""
    assert process.stdout.splitlines()[:2] == ["postgres 1", "postgres 1"]


WITHOUT_LIBPQ = """
from snapshots import ExtraNotInstalledError, open_storage, prepare_storage
for use in (open_storage, prepare_storage):
    try:
        use("postgresql://host/db")
    except ExtraNotInstalledError as error:
        print(error)
"""


def test_a_driver_without_its_client_library_is_not_asked_for_again() -> None:
    """The extra is installed: what is missing is said, and the driver's own words."""
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBPQ],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
        env={**os.environ, "PSYCOPG_IMPL": "none of them"},
    )
    assert process.stderr == ""
    said = process.stdout.splitlines()
    assert len(said) == 2
    for line in said:
        assert "psycopg finds no client library" in line
        assert "none of them" in line
        assert "pip install" not in line
