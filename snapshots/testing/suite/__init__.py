"""The behaviour of a storage as plain classes with asserts, for a backend of anybody's.

Subclass them in a test module of your own, and give each of their methods what its parameters
name, in pytest by fixtures: `backend`, an open storage; `another`, which opens a further handle on
the same storage as a context manager, for use in another thread; `scope`, which no other test
uses; `clock`, a `snapshots.testing.ManualClock` that the storage goes by. Errors are told by the
names of their classes, so that a backend need not share ours.
"""

from snapshots.testing.suite.approvals import ApprovalBehaviours
from snapshots.testing.suite.carry import CarryBehaviours
from snapshots.testing.suite.contracts import ContractBehaviours
from snapshots.testing.suite.keyed import KeyedBehaviours
from snapshots.testing.suite.keys import KeyBehaviours
from snapshots.testing.suite.leases import LeaseBehaviours
from snapshots.testing.suite.state import StateBehaviours
from snapshots.testing.suite.transactions import TransactionBehaviours
from snapshots.testing.suite.workspaces import ArtifactBehaviours
from snapshots.testing.suite.workspaces_following import SubscriptionBehaviours
from snapshots.testing.suite.workspaces_log import LogBehaviours
from snapshots.testing.suite.workspaces_proposals import ProposalBehaviours
from snapshots.testing.suite.workspaces_threads import FactBehaviours, ThreadBehaviours
from snapshots.testing.suite.workspaces_transactions import WorkspaceTransactionBehaviours

__all__ = [
    "ApprovalBehaviours",
    "ArtifactBehaviours",
    "CarryBehaviours",
    "ContractBehaviours",
    "FactBehaviours",
    "KeyBehaviours",
    "KeyedBehaviours",
    "LeaseBehaviours",
    "LogBehaviours",
    "ProposalBehaviours",
    "StateBehaviours",
    "SubscriptionBehaviours",
    "ThreadBehaviours",
    "TransactionBehaviours",
    "WorkspaceTransactionBehaviours",
]
