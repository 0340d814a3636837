"""Keyed state, leases, carry state and workspaces, on memory, SQLite and PostgreSQL.

What a backend implements is in `protocols`; callers hold what is made of it: `StateStore`,
`Approvals`, `CarryState`, `Workspaces`.
"""

from snapshots.storage.approvals import Approval, Approvals, Continuation, Decision
from snapshots.storage.carry import Carried, CarryState
from snapshots.storage.contracts import Contract
from snapshots.storage.nesting import (
    NestedTransactionError,
    OpenTransactionError,
    OtherWorkspaceError,
)
from snapshots.storage.protocols import Backend, CarryStates, KeyedStates, Leases
from snapshots.storage.refusals import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    ApprovalTakenError,
    DecisionRefusedError,
    LiveOccurrenceError,
    UnaddressedDecisionError,
)
from snapshots.storage.rows import CarryRecord, KeyedEntry, Lease, StorageStats
from snapshots.storage.scopes import Scope
from snapshots.storage.state import StateStore
from snapshots.storage.workspaces import (
    ArtifactType,
    EntityExistsError,
    EntityNotFoundError,
    Fact,
    ProposalSettledError,
    Workspace,
    Workspaces,
)

__all__ = [
    "AlreadyDecidedError",
    "Approval",
    "ApprovalNotFoundError",
    "ApprovalTakenError",
    "Approvals",
    "ArtifactType",
    "Backend",
    "Carried",
    "CarryRecord",
    "CarryState",
    "CarryStates",
    "Continuation",
    "Contract",
    "Decision",
    "DecisionRefusedError",
    "EntityExistsError",
    "EntityNotFoundError",
    "Fact",
    "KeyedEntry",
    "KeyedStates",
    "Lease",
    "Leases",
    "LiveOccurrenceError",
    "NestedTransactionError",
    "OpenTransactionError",
    "OtherWorkspaceError",
    "ProposalSettledError",
    "Scope",
    "StateStore",
    "StorageStats",
    "UnaddressedDecisionError",
    "Workspace",
    "Workspaces",
]
