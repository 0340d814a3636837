"""What a workspace refuses, each error built from fields and writing its own message.

```
NotFoundError
└── EntityNotFoundError       no such artifact, proposal or thread, or a type that is not used here
ConflictError
├── EntityExistsError         an id that is in use
└── ProposalSettledError      a proposal that is decided already
```

The rest of the tree is drawn in `snapshots.errors`.
"""

from __future__ import annotations

from typing import ClassVar

from snapshots.errors import ConflictError, NotFoundError


class EntityNotFoundError(NotFoundError):
    """A workspace has no such thing, or its application does not use such a type.

    Fields: `what` (such as "artifact type"), `key`, `hint`. `code` is the word for clients.
    """

    code: ClassVar[str] = "not_found"

    def __init__(self, what: str, key: str, hint: str) -> None:
        self.what = what
        self.key = key
        self.hint = hint
        super().__init__(f"{what} {key!r} is not in this workspace: {hint}")


class EntityExistsError(ConflictError):
    """An id is in use in this workspace, and what has it is untouched. Fields: `what`, `key`."""

    def __init__(self, what: str, key: str) -> None:
        self.what = what
        self.key = key
        super().__init__(
            f"{what} {key!r} exists already: expected an id that is not in use; read that one,"
            " or choose another id"
        )


class ProposalSettledError(ConflictError):
    """A proposal is decided once, and this one was. Fields: `proposal`, `status` that it has."""

    def __init__(self, proposal: str, status: str) -> None:
        self.proposal = proposal
        self.status = status
        super().__init__(
            f"proposal {proposal!r} is {status} already, expected an open one: nothing was"
            " changed; make a new proposal for what is still wanted"
        )
