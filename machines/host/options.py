"""What a host is told about its storage, checked before it opens anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from machines.approvals import opens_approvals
from machines.errors import DefinitionError, HostOptionError
from snapshots.storage.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from machines.definition import Machine

_STORAGE: Final = "storage"
_APPROVALS: Final = "approvals"
_PARTS: Final = ("keyed", "leases", "carry", "workspaces", "path", "is_local", "sweep")


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
