"""Contracts of carry state: what a value must be, and how one of an older version becomes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from snapshots.errors import InvalidKeyError, StateContractMismatchError
from snapshots.limits import CONTRACT_DETAIL_CHARS_MAX, CONTRACT_VERSION_MAX, KEY_CHARS_MAX
from snapshots.storage.models import Form, form_of

Judge = Callable[[Any], object]
Migrate = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Contract:
    """What values of one kind are, in the `version` that this code reads and writes.

    `validate` is a function that is given the plain value and refuses it by raising or by
    returning False; or a dataclass, a pydantic or a msgspec class: values then are its instances,
    and what is stored is what they consist of. A dataclass's annotations are compared as far as
    they are plain. `migrations[n]` is given the plain value of version n and returns that of
    version n + 1. `id` names the contract where its work is listed.

    Raises:
        InvalidKeyError: the id is not a printable text of 1 to `KEY_CHARS_MAX` characters.
        ValueError: the version is not from 1 on, or a migration starts at no earlier version.
        TypeError: `validate` or a migration cannot be called, or is a class of another kind.
    """

    id: str
    version: int
    validate: Judge | type | None = field(default=None, kw_only=True)
    migrations: Mapping[int, Migrate] = field(default_factory=dict, kw_only=True)
    form: Form | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what could never be satisfied."""
        if not isinstance(self.id, str) or not 0 < len(self.id) <= KEY_CHARS_MAX:
            reason = f"a contract's id is a text of 1 to {KEY_CHARS_MAX} characters"
            raise InvalidKeyError(str(self.id)[:KEY_CHARS_MAX], reason)
        if not self.id.isprintable():
            raise InvalidKeyError(self.id, "a contract's id has printable characters only")
        _check_versions(self.version, self.migrations)
        judge = self.validate
        if judge is not None and not callable(judge):
            message = f"validate={judge!r}: expected a function or a class"
            raise TypeError(message)
        settle = cast("Callable[[Any, str, Any], None]", object.__setattr__)
        settle(self, "form", form_of(judge) if isinstance(judge, type) else None)
        settle(self, "migrations", dict(self.migrations))

    def plain(self, key: str, value: Any) -> Any:
        """Return a value as plain data, as it is to be stored.

        Raises StateContractMismatchError (`validation-failed`) for one that no load would take.
        """
        try:
            plain = value if self.form is None else self.form.plain(value)
        except Exception as error:
            raise self._invalid(key, self.version, _told(error)) from error
        self._made(key, plain, self.version)
        return plain

    def bring(self, key: str, plain: Any, found: int) -> tuple[Any, tuple[int, int] | None]:
        """Return the value that plain data of version `found` makes now, and which way it came.

        Raises StateContractMismatchError with its reason: `future-version`, `no-migration-path`,
        `migration-failed`, `validation-failed`. No migration is called unless all are there.
        """
        current = self.version
        if found > current:
            hint = "another release wrote it: deploy that one, or a later one"
            raise StateContractMismatchError(key, "future-version", found, current, hint)
        missing = [n for n in range(found, current) if n not in self.migrations]
        if missing:
            lack = f"nothing leads from version {missing[0]} to {missing[0] + 1}"
            raise StateContractMismatchError(key, "no-migration-path", found, current, lack)
        for version in range(found, current):
            plain = self._migrated(key, plain, found, version)
        return self._made(key, plain, found), (found, current) if found < current else None

    def _migrated(self, key: str, plain: Any, found: int, version: int) -> Any:
        try:
            return self.migrations[version](plain)
        except Exception as error:
            told = f"from version {version}: {_told(error)}"
            raise StateContractMismatchError(
                key, "migration-failed", found, self.version, told
            ) from error

    def _made(self, key: str, plain: Any, found: int) -> Any:
        """Return the value that plain data of today's version makes."""
        judge = self.validate
        if judge is None:
            return plain
        try:
            if self.form is not None:
                return self.form.make(plain)
            accepted = judge(plain)
        except Exception as error:
            raise self._invalid(key, found, _told(error)) from error
        if accepted is False:
            refused = f"{getattr(judge, '__name__', 'its contract')} returned False"
            raise self._invalid(key, found, refused)
        return plain

    def _invalid(self, key: str, found: int, told: str) -> StateContractMismatchError:
        return StateContractMismatchError(key, "validation-failed", found, self.version, told)


def _check_versions(version: int, migrations: Mapping[int, Migrate]) -> None:
    if type(version) is not int or not 1 <= version <= CONTRACT_VERSION_MAX:
        message = f"version={version!r}: expected a whole number from 1 to {CONTRACT_VERSION_MAX}"
        raise ValueError(message)
    for start, migrate in migrations.items():
        if type(start) is not int or not 1 <= start < version:
            message = (
                f"a migration starts at version {start!r}: expected one from 1 to {version - 1},"
                f" since version {version} is today's"
            )
            raise ValueError(message)
        if not callable(migrate):
            message = f"the migration from version {start} is {migrate!r}: expected a function"
            raise TypeError(message)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:CONTRACT_DETAIL_CHARS_MAX]
