"""State machines that survive crashes: python-statemachine charts, kept in one SQLite file."""

from machines.binding import Snapshot, capture, rebuild
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
    NeedsLoopError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from machines.gates import OpenGate, gate
from machines.host import TAKEN, Host
from machines.opening import open_run
from machines.parameters import Parameter
from machines.recovery.decision import Report, Restored
from machines.run.views import RunView
from machines.timers import timeout

__all__ = [
    "TAKEN",
    "AmbiguousGateError",
    "ChildExistsError",
    "Context",
    "DefinitionError",
    "Done",
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
    "NeedsLoopError",
    "NotDone",
    "OpenGate",
    "Parameter",
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
    "open_run",
    "rebuild",
    "send_down",
    "send_up",
    "spawn",
    "spawned",
    "stop_child",
    "timeout",
]
