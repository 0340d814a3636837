"""A storage that ends with its handle: the plainest form of what the others do."""

from snapshots.storage.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
