"""What a workspace holds, as its callers see it: values decoded, each a copy of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Content = dict[str, Any]
"""What an artifact is: a document, whose values the workspace's codec knows."""

ProposalStatus = Literal["open", "accepted", "rejected"]

EntryKind = Literal[
    "artifact.created",
    "artifact.changed",
    "proposal.made",
    "proposal.accepted",
    "proposal.rejected",
    "thread.opened",
    "fact",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactType:
    """A type of artifacts that an application uses, at the version that it writes.

    `check`, if given, is called with the content of each artifact of the type before it is
    stored; what it raises leaves everything as it was.
    """

    name: str
    version: int = 1
    check: Callable[[Content], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A document of a workspace.

    `version` is that of its type, under which the content was last written; `revision` counts
    the writes from 1, and is what the next change must expect.
    """

    artifact: str
    type: str
    version: int
    revision: int
    content: Content
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change to an artifact, or the creation of one, that somebody is to decide about once.

    A creation has `expected_revision` 0, and `patch` is then the whole content. `thread` is
    where it came from, None if from no thread. `reason` is the decider's, empty if none was
    given.
    """

    proposal: str
    artifact: str
    type: str
    version: int
    patch: Content
    expected_revision: int
    status: ProposalStatus
    thread: str | None
    reason: str
    created_ms: int
    settled_ms: int | None

    @property
    def creates(self) -> bool:
        """Whether accepting it makes a new artifact."""
        return self.expected_revision == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A line of work in a workspace, which one run at a time goes on with."""

    thread: str
    title: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that a run of a thread establishes; it stays in the log as it was recorded."""

    thread: str
    run: str
    name: str
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRun:
    """A run of a thread, as far as its facts tell.

    `facts` and `segments` of history are counts, `seq` is where the log has its newest fact,
    and `token` is that of the claim under which it was recorded.
    """

    thread: str
    run: str
    facts: int
    segments: int
    seq: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line of a workspace's log.

    `seq` counts from 1 without holes. `subject` is the id of the artifact, proposal or thread
    that it is about, or the name of a fact. `data` holds what has changed: of an artifact its
    content or the patch, of a fact its data.
    """

    seq: int
    kind: EntryKind
    subject: str
    thread: str | None
    run: str | None
    data: Any
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySegment:
    """A stretch of a run's history: bytes that mean something to whoever appended them.

    `segment` counts those of a run from 1; `seq` is that of the fact which ended it.
    """

    thread: str
    run: str
    segment: int
    seq: int
    payload: bytes
    at_ms: int
