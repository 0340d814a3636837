"""A run that was set aside, to one that can live again: no verdict is final."""

from __future__ import annotations

from typing import TYPE_CHECKING

from machines.errors import RunFinishedError, UnknownMachineError
from machines.migrations import chain
from machines.recovery.decision import Decision, drifted, read, unfindable
from snapshots.heads import UNFINDABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.definition import Machine
    from snapshots.records import StoredRun

REVIVABLE = frozenset({"lost", "drifted", "error"})


def revival(
    stored: StoredRun, machines: Mapping[str, Machine], shape: Callable[[str], bytes | None]
) -> Decision:
    """Return how a row that is lost, drifted or broken goes on: resumed, or migrated first.

    Raises RunFinishedError for any other status, UnknownMachineError, DriftError while the
    machine has another shape and no migration to it, DecodeError.
    """
    header = stored.header
    if header.status not in REVIVABLE:
        raise RunFinishedError(header.run_id, header.status)
    machine = machines.get(header.machine)
    if machine is None:
        raise UnknownMachineError(header.machine, tuple(machines), header.run_id)
    if header.revision == UNFINDABLE:
        raise unfindable(header.run_id)
    steps = chain(machine.migrations, header.digest, machine.digest)
    if header.digest != machine.digest and not steps:
        raise drifted(stored, machine, shape(header.digest))
    value = read(stored, machine)
    value.pop("error", None)
    return Decision("migrate" if steps else "resume", "", machine, value, steps=steps)
