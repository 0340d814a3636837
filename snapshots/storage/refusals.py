"""The errors of approvals, which are conflicts and misses as the rest of the tree knows them.

```
SnapshotsError
├── ConflictError
│   └── ApprovalTakenError · AlreadyDecidedError · LiveOccurrenceError
├── NotFoundError
│   └── ApprovalNotFoundError
└── DecisionRefusedError · UnaddressedDecisionError
```
"""

from __future__ import annotations

from snapshots.errors import ConflictError, NotFoundError, SnapshotsError


class ApprovalTakenError(ConflictError):
    """The correlation key belongs to another open approval, which stays as it is.

    Fields: `key`; `run_id` and `file` of the approval that has it (`run_id` None for one of work
    that is finished, `file` empty for a run of the file that the approval itself lies in).
    """

    def __init__(self, key: str, file: str, run_id: str | None) -> None:
        self.key = key
        self.file = file
        self.run_id = run_id
        whose = "work that is finished" if run_id is None else f"run {run_id!r}"
        where = f" of {file!r}" if file else ""
        super().__init__(
            f"approval {key!r} is open already, for {whose}{where}: expected a key that no other"
            " open approval has; make it of what tells the runs apart"
        )


class AlreadyDecidedError(ConflictError):
    """Somebody decided first; what was decided stands.

    Fields: `key`; `event` that was decided, and `by` whom.
    """

    def __init__(self, key: str, event: str, by: str | None) -> None:
        self.key = key
        self.event = event
        self.by = by
        who = "somebody" if by is None else repr(by)
        super().__init__(
            f"approval {key!r} was decided {event!r} by {who}: expected an approval that is open;"
            " that decision stands"
        )


class ApprovalNotFoundError(NotFoundError):
    """No approval is open under this key, and none was decided. Field: `key`."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"no approval {key!r} is open: expected the correlation key of an open one; give"
            " early_ttl_ms= to decide before it opens"
        )


class DecisionRefusedError(SnapshotsError):
    """A decision that its approval does not take. Fields: `key`, `event`; `events` it takes."""

    def __init__(self, key: str, event: str, events: tuple[str, ...]) -> None:
        self.key = key
        self.event = event
        self.events = events
        listed = ", ".join(map(repr, events))
        super().__init__(f"approval {key!r} takes no {event!r}: expected one of {listed}")


class UnaddressedDecisionError(SnapshotsError):
    """A decision that is to begin a run, and whose approval says no file of runs.

    It waits for the host whose own file the storage is, and no other host takes it. Fields: `key`;
    `event` that was decided.
    """

    def __init__(self, key: str, event: str) -> None:
        self.key = key
        self.event = event
        super().__init__(
            f"{event!r} about {key!r} is to begin a run, and its approval names no file of runs:"
            " expected one where the storage is not such a file itself; request it with"
            " Approvals(state, file=…)"
        )


class LiveOccurrenceError(ConflictError):
    """A schedule has a live occurrence, and may have no second one.

    Fields: `schedule`; `run_id` of the live one, and the `file` that it is in; `is_elsewhere`,
    whether that is another file than the one asked from, which cannot see whether the run has
    ended.
    """

    def __init__(
        self, schedule: str, run_id: str, file: str, *, is_elsewhere: bool = False
    ) -> None:
        self.schedule = schedule
        self.run_id = run_id
        self.file = file
        self.is_elsewhere = is_elsewhere
        hint = "; from another file its end is seen only if it invokes release() before"
        super().__init__(
            f"schedule {schedule!r} has a live occurrence, run {run_id!r} of {file!r}: expected"
            f" none; wait for its end, or cancel it{hint if is_elsewhere else ''}"
        )
