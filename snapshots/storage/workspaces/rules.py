"""The rules of workspaces, each a pure function of what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapshots import limits
from snapshots.errors import LimitError, RevisionConflictError
from snapshots.storage.rows import check_whole
from snapshots.storage.scopes import check_text
from snapshots.storage.workspaces.errors import (
    EntityExistsError,
    EntityNotFoundError,
    ProposalSettledError,
)
from snapshots.storage.workspaces.records import ArtifactType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from snapshots.storage.workspaces.records import (
        Artifact,
        LogEntry,
        Proposal,
    )
    from snapshots.storage.workspaces.rows import LogRow

# What these tell concerns everybody in the workspace, whatever thread it came from.
SHARED: Final = frozenset(
    {
        *("artifact.created", "artifact.changed"),
        *("proposal.made", "proposal.accepted", "proposal.rejected"),
    }
)


_TYPE: Final = "artifact type"
_READ_THE_LIST: Final = "name one of those that are there, or make it first"

Found = TypeVar("Found")


def delivered_to(entry: LogEntry | LogRow, thread: str | None) -> bool:
    """Whether who follows `thread` is given an entry of the log; None follows all.

    What happens to artifacts and proposals is for every thread. A thread's own opening and its
    facts are for that thread alone.
    """
    return thread is None or entry.kind in SHARED or entry.thread == thread


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` changed as `patch` says, by RFC 7386, section 2.

    An object in the sense of the RFC is a dict whose keys are texts; every other value, a dict
    with other keys among them, stands for itself. None in a patch takes a member away, so no
    patch can set one to None. Neither argument is changed, and containers may be shared with the
    result.
    """
    if not is_object(patch):
        return patch
    merged = dict(target) if is_object(target) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def is_object(value: object) -> bool:
    """Whether a value is what JSON calls an object: a dict whose keys are texts."""
    return type(value) is dict and all(type(key) is str for key in value)


def require_content(value: object, what: str) -> None:
    """Raise `TypeError` for a content or a patch that is no document."""
    if not is_object(value):
        others = (type(key) for key in value if type(key) is not str) if type(value) is dict else ()
        found = next((f"one with a key of type {each.__qualname__}" for each in others), None)
        found = found or type(value).__qualname__
        message = f"{what} is a dict whose keys are texts, not {found}"
        raise TypeError(message)


def require_size(what: str, size: int, limit: int) -> None:
    """Raise `LimitError` if something is larger than its bound."""
    if size > limit:
        raise LimitError(what, limit, size)


def require_count(what: str, number: int, limit: int) -> None:
    """Raise for a count that nobody may ask for: `ValueError` below 0, `LimitError` above."""
    require_seq(what, number)
    require_size(what, number, limit)


def require_poll(poll_ms: int) -> None:
    """Raise `ValueError` or `LimitError` for a time between two looks that nobody may ask for."""
    if check_whole("the time between two looks in ms", poll_ms) < 1:
        message = f"a subscription looks again after 1 ms or more, not {poll_ms}"
        raise ValueError(message)
    require_size("the time between two looks in ms", poll_ms, limits.LOG_POLL_MS_MAX)


def require_seq(what: str, seq: int) -> None:
    """Raise `TypeError` or `ValueError` for a place in a log that is no number from 0."""
    if check_whole(what, seq) < 0:
        message = f"{what} is a number from 0, not {seq}"
        raise ValueError(message)


def require_revision(artifact: Artifact, expected: int) -> None:
    """Raise `RevisionConflictError` if an artifact is not at the revision that is to change."""
    if artifact.revision != check_whole("expected_revision", expected):
        raise RevisionConflictError(artifact.artifact, expected, artifact.revision)


def require_there(what: str, key: str, found: Found | None) -> Found:
    """Return what was found, or raise `EntityNotFoundError`."""
    if found is None:
        raise EntityNotFoundError(what, key, _READ_THE_LIST)
    return found


def require_storage(storage: object) -> None:
    """Raise `TypeError` for what is no `Storage`: the whole backend is given easily."""
    if not hasattr(storage, "entities"):
        found = type(storage).__name__
        message = f"workspaces lie in the `workspaces` of an open storage, found a {found}"
        raise TypeError(message)


def require_new(what: str, key: str, found: object | None) -> None:
    """Raise `EntityExistsError` if an id is in use."""
    if found is not None:
        raise EntityExistsError(what, key)


def require_open(proposal: Proposal) -> None:
    """Raise `ProposalSettledError` if a proposal was accepted or rejected before."""
    if proposal.status != "open":
        raise ProposalSettledError(proposal.proposal, proposal.status)


def require_forward(artifact: Artifact, version: int) -> None:
    """Raise `RevisionConflictError` for a write under an older version of an artifact's type.

    A later release has written it, and what this one would write it may not read again.
    """
    if version < artifact.version:
        what = f"the version of the type of {artifact.artifact}"
        raise RevisionConflictError(what, version, artifact.version)


def allow(types: Iterable[ArtifactType | str]) -> dict[str, ArtifactType]:
    """Return types by name; a bare name is one at version 1.

    Raises `ValueError` for two of one name or a version below 1, and `TypeError` for what is no
    list of types: a text, taken letter by letter, would forbid what it was to allow.
    """
    allowed: dict[str, ArtifactType] = {}
    for given in types:
        each = ArtifactType(name=given) if isinstance(given, str) else given
        if isinstance(types, str) or not isinstance(each, ArtifactType):
            message = f"types={types!r}: expected a list of ArtifactType and of names"
            raise TypeError(message)
        check_text(each.name, "the name of an artifact type")
        require_version(each.version)
        if each.name in allowed:
            message = f"two artifact types have the name {each.name!r}"
            raise ValueError(message)
        allowed[each.name] = each
    return allowed


def require_type(allowed: Mapping[str, ArtifactType] | None, name: str, version: int | None) -> int:
    """Return the version under which an artifact of a type may be created.

    Without an allow-list every name is a type, at version 1 unless another is asked for. Raises
    `EntityNotFoundError` for a type that is not on the list, or is there at another version.
    """
    if allowed is None:
        check_text(name, "the name of an artifact type")
        return require_version(1 if version is None else version)
    found = allowed.get(name)
    if found is None:
        listed = ", ".join(map(repr, sorted(allowed)[: limits.KEYS_SHOWN_MAX])) or "none"
        raise EntityNotFoundError(_TYPE, name, f"this application uses {listed}")
    if version not in (None, found.version):
        hint = f"this application uses version {found.version} of it, not {version}"
        raise EntityNotFoundError(_TYPE, name, hint)
    return found.version


def require_version(version: object) -> int:
    """Return a version of a type, or raise `ValueError` if it is not a number from 1."""
    if type(version) is not int or version < 1:
        message = f"the version of an artifact type is a number from 1, not {version!r}"
        raise ValueError(message)
    return version


def run_key(thread: str, run: str) -> str:
    """Return the key of a run: ids may hold any sign, so the first one's length comes before."""
    return f"{len(thread)}:{thread}/{run}"
