"""What is refused about files beside the one that is open; the rest is in `snapshots.errors`.

```
StorageError
└── TargetExistsError         a file lies where a copy is to be written
```
"""

from __future__ import annotations

from snapshots.errors import StorageError


class TargetExistsError(StorageError):
    """Something lies where a copy was to be written, or would be taken for a part of the copy.

    It is untouched. Field: `found`, the path of what lies there: `path` itself, or a file that
    SQLite would read as the copy's log.
    """

    def __init__(self, operation: str, path: str, found: str) -> None:
        self.found = found
        hint = "name a file that does not exist yet, or move that one away"
        detail = f"{found!r} exists"
        if found != path:
            detail = f"{detail}, and would be read as a part of the copy"
        super().__init__(operation, path, hint, detail=detail)
