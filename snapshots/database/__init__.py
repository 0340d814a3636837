"""One SQLite file: opening it, its transactions, its checkpoints, its driver's errors."""

from snapshots.database.connection import Database, Row
from snapshots.database.opening import open_database, patiently
from snapshots.database.transactions import Transaction

__all__ = ["Database", "Row", "Transaction", "open_database", "patiently"]
