"""Workspaces: artifacts, proposals, threads and facts, with a log that has no holes.

`Workspaces(storage, types=[…]).open(name)` is a handle on one; `Storage` is what a backend
implements, and what holds for all of them is in `rules`. Nothing here knows what wrote the
history that it keeps.
"""

from snapshots.storage.workspaces.changes import Changes
from snapshots.storage.workspaces.claims import ThreadClaim
from snapshots.storage.workspaces.errors import (
    EntityExistsError,
    EntityNotFoundError,
    ProposalSettledError,
)
from snapshots.storage.workspaces.protocols import Storage, Transaction, Watch
from snapshots.storage.workspaces.records import (
    Artifact,
    ArtifactType,
    Fact,
    HistorySegment,
    LogEntry,
    Proposal,
    Thread,
    ThreadRun,
)
from snapshots.storage.workspaces.rules import delivered_to, merge_patch
from snapshots.storage.workspaces.subscription import Follower, Subscription
from snapshots.storage.workspaces.views import WorkspaceView
from snapshots.storage.workspaces.workspace import Workspace, Workspaces

__all__ = [
    "Artifact",
    "ArtifactType",
    "Changes",
    "EntityExistsError",
    "EntityNotFoundError",
    "Fact",
    "Follower",
    "HistorySegment",
    "LogEntry",
    "Proposal",
    "ProposalSettledError",
    "Storage",
    "Subscription",
    "Thread",
    "ThreadClaim",
    "ThreadRun",
    "Transaction",
    "Watch",
    "Workspace",
    "WorkspaceView",
    "Workspaces",
    "delivered_to",
    "merge_patch",
]
