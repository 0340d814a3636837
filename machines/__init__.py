"""State machines that survive crashes: python-statemachine charts, kept in one SQLite file."""

from machines.binding import Snapshot, capture, rebuild
from machines.books import ledgers_of
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
    HostStoppedError,
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
from machines.opening import open_run
from machines.parameters import Parameter
from machines.recovery.decision import Report, Restored
from machines.run.views import RunView
from machines.run.waiters import STALE, TAKEN, Receipt
from machines.timers import timeout

__all__ = [
    "STALE",
    "TAKEN",
    "AmbiguousGateError",
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
    "HostStoppedError",
    "IllegalConfigurationError",
    "Machine",
    "MachinesError",
    "MicrostepLimitError",
    "Migration",
    "MigrationRefusedError",
    "NeedsLoopError",
    "NotDone",
    "OpenGate",
    "Parameter",
    "Receipt",
    "Report",
    "Restored",
    "RunFinishedError",
    "RunView",
    "Snapshot",
    "Unknown",
    "UnknownMachineError",
    "UnsettledEffectError",
    "capture",
    "child",
    "children",
    "effect",
    "gate",
    "ledgers_of",
    "open_run",
    "rebuild",
    "send_down",
    "send_up",
    "spawn",
    "spawned",
    "stop_child",
    "timeout",
]
