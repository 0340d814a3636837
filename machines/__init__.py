"""State machines that survive crashes: python-statemachine charts, kept in one SQLite file."""

from machines.binding import Snapshot, capture, rebuild
from machines.children import child, send_down, send_up
from machines.definition import Machine
from machines.effects import Done, NotDone, Unknown, effect
from machines.engine.invocations import Context
from machines.errors import (
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
from machines.recovery.decision import Report, Restored
from machines.run.views import RunView
from machines.timers import timeout

__all__ = [
    "TAKEN",
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
    "effect",
    "gate",
    "open_run",
    "rebuild",
    "send_down",
    "send_up",
    "timeout",
]
