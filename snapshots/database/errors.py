"""What is refused about a file by who has it open; the rest is in `snapshots.errors`.

```
StorageError
├── OtherThreadError          another thread has a transaction open on the same handle
└── TargetExistsError         a file lies where a copy is to be written
```
"""

from __future__ import annotations

from snapshots.errors import StorageError


class OtherThreadError(StorageError):
    """A handle was used while another thread had a transaction open on it.

    Nothing was written: it would have been kept or undone with what that thread does, whatever
    this one was told. Fields: `opener` and `thread`, as `threading.get_ident()` gives them.
    """

    def __init__(self, operation: str, path: str, opener: int, thread: int) -> None:
        self.opener = opener
        self.thread = thread
        hint = (
            f"thread {opener} has a transaction open on this handle and thread {thread} would"
            " have become a part of it; open a handle of its own in each thread"
        )
        super().__init__(operation, path, hint)


class TargetExistsError(StorageError):
    """Something lies where a copy was to be written, or would be taken for a part of the copy.

    It is untouched. Field: `found`, the path of what lies there: `path` itself, or a file that
    SQLite would read as the copy's log.
    """

    def __init__(self, operation: str, path: str, found: str) -> None:
        self.found = found
        hint = "name a file that does not exist yet, or move that one away"
        detail = "it exists"
        if found != path:
            detail = f"{found!r} exists, and would be read as a part of the copy"
        super().__init__(operation, path, hint, detail=detail)
