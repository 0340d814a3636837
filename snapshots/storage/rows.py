"""The values that travel between a backend and its callers, and the bounds of what goes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshots import limits
from snapshots.errors import InvalidTtlError, LimitError

if TYPE_CHECKING:
    from snapshots.storage.scopes import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedEntry:
    """One key that has not expired; `expires_ms` is None where it never does."""

    key: str
    value: bytes
    expires_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claim of a name until `expires_ms`, exclusively.

    `token` tells this claim from each other one of that name: a later claim has a greater one.
    `holder` is what the claimant calls itself, for people to read.
    """

    scope: Scope
    name: str
    token: int
    holder: str
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryRecord:
    """Carry state as it is stored: `revision` counts its saves from 1 since it was created."""

    contract_version: int
    revision: int
    payload: bytes
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Numbers of one open storage.

    `backend` is "memory", "sqlite" or "postgres". `total_bytes` is what it takes, `free_bytes`
    what of that holds nothing and will be used again, None where the backend does not know.
    """

    backend: str
    total_bytes: int
    free_bytes: int | None


def check_value(value: bytes, key: str) -> bytes:
    """Return a value that may be stored under `key`, or raise `LimitError` for its size."""
    if len(value) > limits.KEYED_VALUE_BYTES_MAX:
        what = f"the size of the value of {key!r} in bytes"
        raise LimitError(what, limits.KEYED_VALUE_BYTES_MAX, len(value))
    return value


def check_payload(payload: bytes, key: str) -> bytes:
    """Return a payload that may be stored under `key`, or raise `LimitError` for its size."""
    if len(payload) > limits.CARRY_PAYLOAD_BYTES_MAX:
        what = f"the size of the carry state {key!r} in bytes"
        raise LimitError(what, limits.CARRY_PAYLOAD_BYTES_MAX, len(payload))
    return payload


def check_ttl(ttl_ms: int, least_ms: int = 1) -> int:
    """Return a time to live within bounds.

    Raises `InvalidTtlError` below `least_ms` and for what is no whole number, which each backend
    would take in its own way; `LimitError` above `TTL_MS_MAX`.
    """
    if type(ttl_ms) is not int or ttl_ms < least_ms:
        raise InvalidTtlError(ttl_ms, least_ms)
    if ttl_ms > limits.TTL_MS_MAX:
        what = "the time to live in ms"
        raise LimitError(what, limits.TTL_MS_MAX, ttl_ms)
    return ttl_ms


def check_whole(what: str, number: int) -> int:
    """Return a whole number, or raise `TypeError`: each backend would take it in its own way."""
    if type(number) is not int:
        message = f"{what} is {number!r}: expected a whole number"
        raise TypeError(message)
    return number


def check_count(rows: int) -> int:
    """Return how many rows a list may have at most.

    Raises `TypeError` for no whole number, `ValueError` below 0, `LimitError`.
    """
    if check_whole("the number of rows asked for", rows) < 0:
        message = f"the number of rows asked for is {rows}: expected one from 0"
        raise ValueError(message)
    if rows > limits.LIST_ROWS_MAX:
        what = "the number of rows asked for"
        raise LimitError(what, limits.LIST_ROWS_MAX, rows)
    return rows
