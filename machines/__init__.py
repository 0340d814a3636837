"""State machines that survive crashes: python-statemachine charts, kept in one SQLite file."""

from machines.approvals import approval
from machines.binding import Snapshot, capture, rebuild
from machines.books import ledgers_of
from machines.carry import Carry, storage_effect
from machines.children import (
    child,
    children,
    send_down,
    send_up,
    spawn,
    spawned,
    stop_child,
)
from machines.definition import Machine
from machines.drawing import draw
from machines.effects import Done, NotDone, Unknown, effect
from machines.engine.invocations import Context
from machines.errors import (
    AmbiguousGateError,
    ChildExistsError,
    DefinitionError,
    DriftError,
    EffectNotFoundError,
    EventRefusedError,
    GateClosedError,
    HostLockedError,
    HostOptionError,
    HostStoppedError,
    HostThreadError,
    IllegalConfigurationError,
    MachinesError,
    MicrostepLimitError,
    MigrationRefusedError,
    NeedsLoopError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from machines.gates import OpenGate, gate
from machines.host import Host
from machines.migrations import Draft, Migration
from machines.offload import AsyncSubscription, AsyncWorkspace, Offload
from machines.opening import open_run
from machines.parameters import Parameter
from machines.recovery.decision import Report, Restored
from machines.run.views import RunView
from machines.run.waiters import STALE, TAKEN, Receipt
from machines.sentinel import Sentinel, sentinel_state
from machines.state import approvals_of, state_of
from machines.telemetry import Occurrence, Subscription
from machines.timers import timeout

__all__ = [
    "STALE",
    "TAKEN",
    "AmbiguousGateError",
    "AsyncSubscription",
    "AsyncWorkspace",
    "Carry",
    "ChildExistsError",
    "Context",
    "DefinitionError",
    "Done",
    "Draft",
    "DriftError",
    "EffectNotFoundError",
    "EventRefusedError",
    "GateClosedError",
    "Host",
    "HostLockedError",
    "HostOptionError",
    "HostStoppedError",
    "HostThreadError",
    "IllegalConfigurationError",
    "Machine",
    "MachinesError",
    "MicrostepLimitError",
    "Migration",
    "MigrationRefusedError",
    "NeedsLoopError",
    "NotDone",
    "Occurrence",
    "Offload",
    "OpenGate",
    "Parameter",
    "Receipt",
    "Report",
    "Restored",
    "RunFinishedError",
    "RunView",
    "Sentinel",
    "Snapshot",
    "Subscription",
    "Unknown",
    "UnknownMachineError",
    "UnsettledEffectError",
    "approval",
    "approvals_of",
    "capture",
    "child",
    "children",
    "draw",
    "effect",
    "gate",
    "ledgers_of",
    "open_run",
    "rebuild",
    "send_down",
    "send_up",
    "sentinel_state",
    "spawn",
    "spawned",
    "state_of",
    "stop_child",
    "storage_effect",
    "timeout",
]
