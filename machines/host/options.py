"""What a host is told, checked before it opens anything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from machines.approvals import opens_approvals
from machines.definition import Machine
from machines.errors import DefinitionError, HostOptionError
from snapshots.storage.scopes import Scope

_MACHINES: Final = "machines"
_GRACE: Final = "grace_s"
_STORAGE: Final = "storage"
_APPROVALS: Final = "approvals"
_PARTS: Final = ("keyed", "leases", "carry", "workspaces", "path", "is_local", "sweep")


def require_machines(machines: object) -> None:
    """Raise DefinitionError for a chart that stands alone, HostOptionError for what is no list."""
    if isinstance(machines, Machine | type):
        name = machines.name if isinstance(machines, Machine) else machines.__name__
        reason = "it stands alone, and a host is given a list of machines"
        raise DefinitionError(name, reason, "write machines=[…] around it")
    if not isinstance(machines, Iterable):
        raise HostOptionError(_MACHINES, machines, "a list of charts or machines")


def require_grace(grace_s: object) -> None:
    """Raise HostOptionError for what is no length of time, in seconds."""
    if isinstance(grace_s, bool) or not isinstance(grace_s, int | float) or not grace_s >= 0:
        raise HostOptionError(_GRACE, grace_s, "a number of seconds, at least 0")


def require_storage(storage: object) -> None:
    """Raise HostOptionError for what is no open storage; None means the runs' own file."""
    if storage is None or all(hasattr(storage, part) for part in _PARTS):
        return
    # An address may hold a password.
    shown = "…" if isinstance(storage, str | os.PathLike) else storage
    raise HostOptionError(_STORAGE, shown, "an open storage, as open_storage(…) returns")


def require_approvals(approvals: object, machines: Iterable[Machine]) -> None:
    """Raise HostOptionError for what is no scope, DefinitionError where a machine lacks one."""
    if approvals is not None and not isinstance(approvals, Scope):
        raise HostOptionError(_APPROVALS, approvals, "a Scope, as Scope(workflow='tickets')")
    if approvals is not None:
        return
    for machine in machines:
        if opens_approvals(machine.chart):
            reason = "it waits for an approval, and its host announces none and takes no decisions"
            hint = "give the host approvals=Scope(…), or have it wait for a gate(…)"
            raise DefinitionError(machine.name, reason, hint)
