"""Keyed state, leases and carry state, each a small protocol with three backends."""

from snapshots.storage.protocols import Backend, CarryStates, KeyedStates, Leases
from snapshots.storage.rows import CarryRecord, KeyedEntry, Lease, StorageStats
from snapshots.storage.scopes import Scope

__all__ = [
    "Backend",
    "CarryRecord",
    "CarryStates",
    "KeyedEntry",
    "KeyedStates",
    "Lease",
    "Leases",
    "Scope",
    "StorageStats",
]
