"""The errors that storage raises, each built from fields and writing its own message.

```
SnapshotsError(Exception)
├── StorageError (operation, path, hint, detail)
│   ├── StorageBusyError · StorageUnavailableError          (retryable)
│   ├── StorageFullError · StorageReadOnlyError · StorageCorruptError
│   ├── StorageClosedError · StorageForkedError
│   └── UnsupportedSqliteError · NetworkFileSystemError · ForeignFileError
├── ConflictError
│   └── RunExistsError · FencedError · RevisionConflictError · LeaseLostError
├── NotFoundError
│   └── RunNotFoundError · AmbiguousRunError
├── CodecError
│   └── EncodeError · DecodeError
├── SchemaError
│   └── NewerFileError · MigrationError
├── StateContractMismatchError
└── LimitError · InvalidKeyError · InvalidTtlError · ExtraNotInstalledError
```

`retryable` is a fact of the class: True says that the same call may succeed later although
nobody changes anything but the world outside.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

ContractMismatch = Literal[
    "no-migration-path", "migration-failed", "future-version", "validation-failed"
]


def _revive(cls: type[SnapshotsError], args: tuple[object, ...]) -> SnapshotsError:
    """Make an error without running its constructor, whose parameters are not its args."""
    return cls.__new__(cls, *args)


class SnapshotsError(Exception):
    """Root of everything that this package raises on purpose."""

    retryable: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the fields, so that an error crosses processes whole."""
        return _revive, (type(self), self.args), dict(self.__dict__)


class StorageError(SnapshotsError):
    """The file, or what lies under it, did not do what was asked.

    Fields: `operation` (a verb phrase such as "save"), `path` of the file, `hint` (what a
    person can do), `detail` (the driver's own words, empty if there were none).
    """

    def __init__(self, operation: str, path: str, hint: str, *, detail: str = "") -> None:
        self.operation = operation
        self.path = path
        self.hint = hint
        self.detail = detail
        said = f" ({detail})" if detail else ""
        super().__init__(f"{operation} failed on {path!r}{said}: {hint}")


class StorageBusyError(StorageError):
    """Another connection held the write lock for longer than this one waits."""

    retryable = True


class StorageUnavailableError(StorageError):
    """The file cannot be reached now: it cannot be opened, or reading or writing it failed."""

    retryable = True


class StorageFullError(StorageError):
    """The disk, or the file's page limit, is full; what was being written is rolled back."""


class StorageReadOnlyError(StorageError):
    """The file, its folder or the connection may only be read."""


class StorageCorruptError(StorageError):
    """SQLite found the file's content malformed."""


class StorageClosedError(StorageError):
    """A handle was used after its `close()`."""

    def __init__(self, operation: str, path: str) -> None:
        super().__init__(operation, path, "this handle is closed; open the file again")


class StorageForkedError(StorageError):
    """A handle was used in a child process of the one that opened it.

    SQLite's locks belong to the process that took them, so the child may use nothing, close
    nothing, and not open the file again (https://sqlite.org/howtocorrupt.html, 2.6).
    """

    def __init__(self, operation: str, path: str, opener_pid: int, pid: int) -> None:
        self.opener_pid = opener_pid
        self.pid = pid
        hint = (
            f"process {opener_pid} opened it and process {pid} is its fork; start processes"
            " that open it anew, with subprocess or multiprocessing's 'spawn'"
        )
        super().__init__(operation, path, hint)


class UnsupportedSqliteError(StorageError):
    """The SQLite library is older than the oldest one that is safe here.

    Fields: `found` and `required`, both like "3.51.3".
    """

    def __init__(self, found: str, required: str, path: str) -> None:
        self.found = found
        self.required = required
        hint = (
            f"SQLite {required} or later is required, since earlier ones can corrupt a"
            " write-ahead log that a second connection checkpoints; install a newer apsw"
        )
        super().__init__("open", path, hint, detail=f"SQLite is {found}")


class NetworkFileSystemError(StorageError):
    """The file lies on a network file system, where SQLite's locks and its WAL do not hold.

    Field: `file_system`, the type by which the kernel knows it, such as "nfs4".
    """

    def __init__(self, path: str, file_system: str) -> None:
        self.file_system = file_system
        hint = "move the file to a disk of this machine: a write-ahead log needs shared memory"
        super().__init__("open", path, hint, detail=f"file system {file_system!r}")


class ForeignFileError(StorageError):
    """The file is not ours: another program's database, or no database at all.

    It is left as it was found. Field: `found`, what it seems to be.
    """

    def __init__(self, path: str, found: str = "not a snapshots file") -> None:
        self.found = found
        hint = "it is left untouched; name a file of this program, or a new one"
        super().__init__("open", path, hint, detail=found)


class ConflictError(SnapshotsError):
    """Somebody else got there first."""


class RunExistsError(ConflictError):
    """A run with this id is already stored; it is untouched.

    Fields: `run_id`; `same_machine`; `same_input`, None where nobody compared the inputs.
    """

    def __init__(self, run_id: str, same_machine: bool, same_input: bool | None) -> None:  # noqa: FBT001 - fields of the error, constructed by name
        self.run_id = run_id
        self.same_machine = same_machine
        self.same_input = same_input
        if not same_machine:
            told = "of another machine"
        elif same_input is None:
            told = "of the same machine"
        else:
            told = f"of the same machine with {'the same' if same_input else 'another'} input"
        super().__init__(
            f"run {run_id!r} exists already, {told}: expected an id that is not in use;"
            " read that run, or choose another id"
        )


class FencedError(ConflictError):
    """The file has another owner now, so this one may not write any more.

    Fields: `path`; `term` and `holder` of the owner that the file has now (`holder` None if
    the file names none).
    """

    def __init__(self, path: str, term: int, holder: str | None) -> None:
        self.path = path
        self.term = term
        self.holder = holder
        super().__init__(
            f"{path!r} was taken over by {holder!r} in term {term}: this owner is fenced and"
            " wrote nothing; stop it, and open the file anew to take it back"
        )


class RevisionConflictError(ConflictError):
    """What was to be written over is not what is stored.

    Fields: `run_id` (or another key); `expected` and `actual` revision, `actual` None where
    nothing is stored; `status`, if the row was refused because it is not live.
    """

    def __init__(
        self, run_id: str, expected: int, actual: int | None, *, status: str | None = None
    ) -> None:
        self.run_id = run_id
        self.expected = expected
        self.actual = actual
        self.status = status
        found = "nothing" if actual is None else f"revision {actual}"
        if status is not None and status != "live":
            found = f"{found} with status {status!r}"
        super().__init__(
            f"{run_id!r} is stored as {found}, expected revision {expected}: somebody else"
            " wrote it; load it again and decide anew"
        )


class LeaseLostError(ConflictError):
    """A lease that this caller held has lapsed or belongs to another.

    Fields: `key`; `holder` of the lease now, None if nobody holds it.
    """

    def __init__(self, key: str, holder: str | None = None) -> None:
        self.key = key
        self.holder = holder
        now = "nobody" if holder is None else repr(holder)
        super().__init__(
            f"the lease on {key!r} is lost and is now held by {now}: expected to hold it;"
            " stop the work that it guarded"
        )


class NotFoundError(SnapshotsError):
    """What was named is not stored."""


class RunNotFoundError(NotFoundError):
    """No run has this id, or an id that starts so. Fields: `run_id` as given, `path`."""

    def __init__(self, run_id: str, path: str) -> None:
        self.run_id = run_id
        self.path = path
        super().__init__(
            f"run {run_id!r} is not in {path!r}: expected the id of a stored run or a prefix"
            " of it; `snapshots runs` lists them, one that has ended is deleted after a week"
        )


class AmbiguousRunError(NotFoundError):
    """A prefix fits several runs. Fields: `prefix`; `candidates`, the first of them."""

    def __init__(self, prefix: str, candidates: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.candidates = candidates
        listed = ", ".join(candidates)
        super().__init__(
            f"the prefix {prefix!r} fits {len(candidates)} or more runs, expected one:"
            f" give more of the id; {listed}"
        )


class CodecError(SnapshotsError):
    """A value cannot become bytes, or bytes cannot become a value."""


class EncodeError(CodecError):
    """A value that would not come back as it is.

    Fields: `path` to it, like "root.context.lines[3].price"; `type_name`; `reason`; `run_id`,
    None outside a run.
    """

    def __init__(self, path: str, type_name: str, reason: str, run_id: str | None = None) -> None:
        self.path, self.type_name, self.reason, self.run_id = path, type_name, reason, run_id
        whose = "" if run_id is None else f"run {run_id!r}: "
        super().__init__(f"{whose}cannot save {path} of type {type_name}: {reason}")


class DecodeError(CodecError):
    """Stored bytes that make no value here.

    Fields: `run_id`, None outside a run; `reason`; `version` of the bytes, None if they did
    not say.
    """

    def __init__(self, run_id: str | None, reason: str, version: int | None = None) -> None:
        self.run_id = run_id
        self.reason = reason
        self.version = version
        what = "stored bytes" if run_id is None else f"the stored bytes of run {run_id!r}"
        form = "" if version is None else f" (format {version})"
        super().__init__(f"cannot read {what}{form}: {reason}")


class SchemaError(SnapshotsError):
    """What is stored has a form that this release does not write."""


class NewerFileError(SchemaError):
    """A later release wrote the file; it is left untouched.

    Fields: `path`; `found` and `known`, the schema's number there and the highest here.
    """

    def __init__(self, path: str, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(
            f"{path!r} has schema {found}, this release knows up to {known}: the file is left"
            " untouched; install the release that wrote it, or a later one"
        )


class MigrationError(SchemaError):
    """A step from an old form to a new one failed, and nothing was changed.

    Fields: `subject` (a file or a run); `reason`.
    """

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"cannot migrate {subject!r}, which stays as it was: {reason}")


class StateContractMismatchError(SnapshotsError):
    """Carry state that does not satisfy the contract it is loaded under.

    Fields: `key`; `reason`, one of `ContractMismatch`; `found` and `current` version of the
    contract; `detail`.
    """

    def __init__(
        self, key: str, reason: ContractMismatch, found: int, current: int, detail: str = ""
    ) -> None:
        self.key = key
        self.reason = reason
        self.found = found
        self.current = current
        self.detail = detail
        said = f" ({detail})" if detail else ""
        written = f"was written under version {found} of its contract, expected version {current}"
        broken = f"is expected to meet version {current} of its contract, and does not"
        super().__init__(f"state {key!r} {broken if found == current else written}: {reason}{said}")


class LimitError(SnapshotsError):
    """Something would pass a bound of `snapshots.limits`; nothing was written.

    Fields: `what`; `limit` and `actual` in the unit that `what` names; `run_id`, None
    outside a run.
    """

    def __init__(self, what: str, limit: int, actual: int, run_id: str | None = None) -> None:
        self.what = what
        self.limit = limit
        self.actual = actual
        self.run_id = run_id
        where = "" if run_id is None else f" in run {run_id!r}"
        super().__init__(f"{what}{where} is {actual}, expected at most {limit}")


class InvalidKeyError(SnapshotsError):
    """A key that no backend may store. Fields: `key`, `reason`."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"key {key!r} is refused: {reason}")


class InvalidTtlError(SnapshotsError):
    """A time to live that is not in the future. Fields: `ttl_ms`; `least_ms` that is allowed."""

    def __init__(self, ttl_ms: int, least_ms: int = 1) -> None:
        self.ttl_ms = ttl_ms
        self.least_ms = least_ms
        hint = "; leave it out for a value that does not expire" if least_ms == 1 else ""
        expected = f"expected a whole number from {least_ms}{hint}"
        super().__init__(f"a time to live of {ttl_ms!r} ms is refused: {expected}")


class ExtraNotInstalledError(SnapshotsError):
    """A part of the package was used whose extra is not installed.

    Fields: `extra`; `needed_for`; `detail`, why what is installed of it is of no use, or empty.
    """

    def __init__(self, extra: str, needed_for: str, *, detail: str = "") -> None:
        self.extra = extra
        self.needed_for = needed_for
        self.detail = detail
        told = detail or f"pip install 'machine-snapshots[{extra}]'"
        super().__init__(f"{needed_for} needs the extra {extra!r}: {told}")
