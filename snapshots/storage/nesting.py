"""The errors of who begins, inside a transaction, what does not belong into it.

```
SnapshotsError
├── StorageError
│   └── StorageBusyError
│       └── OpenTransactionError
├── NestedTransactionError
└── OtherWorkspaceError
```

The last two are mistakes of a program, as a broken `assert` is, and may be caught as one.
"""

from __future__ import annotations

from typing import Final

from snapshots.errors import SnapshotsError, StorageBusyError

_BEHIND_IT: Final = (
    "expected no open transaction on the file's connection, since one that is taken back"
    " would take the run back with it; send to runs, and change their ledgers, behind its block"
)


class OpenTransactionError(StorageBusyError):
    """A run would have been saved inside an open transaction; nothing of it was written.

    Fields: `operation`, `path`, `hint`; `run_id`.
    """

    def __init__(self, run_id: str, path: str) -> None:
        self.run_id = run_id
        super().__init__(f"save of run {run_id!r}", path, _BEHIND_IT)


class NestedTransactionError(SnapshotsError, AssertionError):
    """A transaction was begun inside another one of the same storage and thread.

    The first one ends with this error, unless it is caught inside: then it goes on. Fields:
    `path` of the storage; `open` and `asked`, tenant and workspace of either one.
    """

    def __init__(self, path: str, open: tuple[str, str], asked: tuple[str, str]) -> None:  # noqa: A002 - a state, not a verb
        self.path = path
        self.open = open
        self.asked = asked
        super().__init__(
            f"a transaction of {_shown(asked)} on {path!r} was begun inside that of"
            f" {_shown(open)}: expected none to be open, they do not nest; end the outer one"
            " first, or make the calls of the inner one directly: they are a part of what is open"
        )


class OtherWorkspaceError(SnapshotsError, AssertionError):
    """A call for one workspace was made inside the transaction of another one.

    Fields: `operation`; `path` of the storage; `open` and `asked`, tenant and workspace of the
    transaction and of the call.
    """

    def __init__(
        self,
        operation: str,
        path: str,
        open: tuple[str, str],  # noqa: A002 - a state, not a verb
        asked: tuple[str, str],
    ) -> None:
        self.operation = operation
        self.path = path
        self.open = open
        self.asked = asked
        super().__init__(
            f"{operation} on {path!r} is for {_shown(asked)}, inside the transaction of"
            f" {_shown(open)}: expected a call for that one; make it behind the block"
        )


def _shown(workspace: tuple[str, str]) -> str:
    tenant, name = workspace
    return f"workspace {name!r} of tenant {tenant!r}"
