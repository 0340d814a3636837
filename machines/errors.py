"""The errors of the package, each built from fields and saying what to do next.

MachinesError(Exception)
├── DefinitionError            a machine cannot be kept alive as it is written
├── UnknownMachineError        a name that this host was not given
├── UnresumedError             a live run that cannot be taken up now, and is left as it is
├── DriftError                 a stored run whose machine has another shape now
├── MigrationRefusedError      a migration that fails, or whose result could not go on
├── IllegalConfigurationError  a snapshot that no chart of this shape can be in
├── UnsettledEffectError       an effect whose outcome must be decided first
├── EffectNotFoundError        no such effect in the run
├── EventRefusedError          an event that the run cannot take
│   ├── GateClosedError        no open gate of that name, or it does not take the event
│   └── AmbiguousGateError     several open gates of that name
├── ChildExistsError           a chart spawns a child under an id that is in use
├── RunFinishedError           a run that takes nothing more
├── HostLockedError            another host holds the file
├── HostStoppedError           the host takes no new work
├── HostThreadError            a host that is called from another thread than its own
├── HostOptionError            a host is told something that cannot be
├── NeedsLoopError             work that only a host with an event loop can do
├── MicrostepLimitError        a chart that never comes to rest
└── ItemRefusedError, WorkerStoppedError, of `machines.charts.pool`
"""

from __future__ import annotations

from typing import Any


class MachinesError(Exception):
    """What every error of this package is; its fields are its keyword arguments."""

    retryable = False

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields
        vars(self).update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.message, self.fields)


def _revive(cls: type[MachinesError], message: str, fields: dict[str, Any]) -> MachinesError:
    error = cls.__new__(cls)
    MachinesError.__init__(error, message, **fields)
    return error


class DefinitionError(MachinesError):
    """A chart, or something it invokes, cannot be kept alive as it is written."""

    def __init__(self, machine: str, reason: str, hint: str) -> None:
        super().__init__(
            f"machine {machine!r}: {reason}; {hint}", machine=machine, reason=reason, hint=hint
        )


class UnknownMachineError(MachinesError):
    """A machine name that the host was not given."""

    def __init__(self, machine: str, known: tuple[str, ...], run_id: str | None = None) -> None:
        whose = "" if run_id is None else f"run {run_id!r} needs "
        listed = ", ".join(map(repr, known)) or "none"
        told = f", which this host was not given (it knows {listed}); add it to machines=[…]"
        if machine in known:  # a class that was defined anew, or another Machine of one
            told = (
                " is another class or Machine here than the one that the host has under that name; "
                f"give the very object of its machines=[…], or the name {machine!r}"
            )
        super().__init__(
            f"{whose}machine {machine!r}{told}",
            machine=machine,
            known=known,
            run_id=run_id,
        )


class UnresumedError(MachinesError):
    """A live run cannot be taken up now; its row stays as it is."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(
            f"run {run_id!r} was not resumed: {reason}; it stays live and is tried again at the "
            "next event and at the next boot",
            run_id=run_id,
            reason=reason,
        )
        self.reason = reason


class DriftError(MachinesError):
    """The machine of a stored run has another shape than the one that wrote it."""

    def __init__(self, run_id: str | None, machine: str, changes: tuple[str, ...]) -> None:
        what = "; ".join(changes) or "the shape that wrote it is unknown"
        super().__init__(
            f"run {run_id!r} of machine {machine!r} was written by another shape: {what}; "
            "give the machine a migration, or deploy the shape that wrote it, and revive the run",
            run_id=run_id,
            machine=machine,
            changes=changes,
        )


class MigrationRefusedError(MachinesError):
    """A run cannot be brought to today's shape: its migration fails, or leads nowhere legal."""

    def __init__(self, run_id: str, machine: str, migration: str, reason: str) -> None:
        super().__init__(
            f"run {run_id!r} of machine {machine!r}: its migration {migration} is refused: "
            f"{reason}; its row stays as it is, mend the migration and try again",
            run_id=run_id,
            machine=machine,
            migration=migration,
            reason=reason,
        )


class IllegalConfigurationError(MachinesError):
    """A snapshot holds a configuration that its chart can never be in."""

    def __init__(self, machine: str, path: str, reason: str) -> None:
        super().__init__(
            f"snapshot of machine {machine!r}, chart at {path or 'the root'!r}: {reason}; "
            "the row is kept as it is, look at it with `snapshots show`",
            machine=machine,
            path=path,
            reason=reason,
        )


class UnsettledEffectError(MachinesError):
    """An effect cannot be settled as asked, or must be settled before what was asked."""

    def __init__(self, run_id: str, effect: str, status: str, hint: str) -> None:
        super().__init__(
            f"run {run_id!r}: effect {effect!r} is {status}; {hint}",
            run_id=run_id,
            effect=effect,
            status=status,
            hint=hint,
        )


class EffectNotFoundError(MachinesError):
    """The run has no effect of that id."""

    def __init__(self, run_id: str, effect: str, known: tuple[str, ...]) -> None:
        listed = ", ".join(map(repr, known)) or "none"
        super().__init__(
            f"run {run_id!r} has no effect {effect!r} (it has {listed}); "
            "`snapshots show` lists them",
            run_id=run_id,
            effect=effect,
            known=known,
        )


class EventRefusedError(MachinesError):
    """The run cannot take the event."""

    def __init__(self, run_id: str | None, event: str, reason: str, hint: str) -> None:
        super().__init__(
            f"run {run_id!r}: event {event!r} is refused: {reason}; {hint}",
            run_id=run_id,
            event=event,
            reason=reason,
            hint=hint,
        )


class GateClosedError(EventRefusedError):
    """No open gate of that name takes the event."""

    def __init__(self, run_id: str, gate: str, event: str, open_gates: tuple[str, ...]) -> None:
        listed = ", ".join(map(repr, open_gates)) or "none"
        super().__init__(
            run_id,
            event,
            f"gate {gate!r} is not open for it (open: {listed})",
            "look at the run's gates and answer one that is open",
        )
        self.gate = self.fields["gate"] = gate
        self.open_gates = self.fields["open_gates"] = open_gates


class AmbiguousGateError(EventRefusedError):
    """Several charts of the run have a gate open under that key."""

    def __init__(self, run_id: str, gate: str, event: str, addresses: tuple[str, ...]) -> None:
        super().__init__(
            run_id,
            event,
            f"gate {gate!r} is open in several charts",
            f"name one of them: {', '.join(map(repr, addresses))}",
        )
        self.gate = self.fields["gate"] = gate
        self.addresses = self.fields["addresses"] = addresses


class ChildExistsError(MachinesError):
    """A chart spawns a child under an id that a child of its has."""

    def __init__(self, machine: str, child: str) -> None:
        super().__init__(
            f"chart {machine!r} has a child {child!r} already; give the new one another id, or "
            "wait until the end of the first was taken",
            machine=machine,
            child=child,
        )


class RunFinishedError(MachinesError):
    """The status of the run does not allow what was asked."""

    def __init__(self, run_id: str, status: str) -> None:
        hint = _NEXT.get(status, "it takes nothing more; start a new run to go on")
        super().__init__(f"run {run_id!r} is {status}: {hint}", run_id=run_id, status=status)


_NEXT = {
    "live": "there is nothing to revive",
    "lost": "revive it first",
    "drifted": "revive it first, with a migration or the chart that wrote it",
    "error": "revive it once what it died of is mended, or start a new run",
}
"""What to do about a run in a status, where it is not over for good."""


class HostLockedError(MachinesError):
    """Another host holds the file."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(
            f"{path!r} is held by {holder}; wait for it, stop it, or open the host with "
            "take_over=True",
            path=path,
            holder=holder,
        )


class HostStoppedError(MachinesError):
    """The host takes no new work."""

    def __init__(self, path: str, reason: str) -> None:
        why = "" if reason == "stopped" else f" ({reason})"
        super().__init__(
            f"the host on {path!r} has stopped{why}; open a new host",
            path=path,
            reason=reason,
        )


class HostThreadError(MachinesError):
    """A host is called from another thread than the one whose event loop it runs on.

    Nothing was done. Fields: `path`; `opener` and `thread`, as `threading.get_ident()` gives them.
    """

    def __init__(self, path: str, opener: int, thread: int) -> None:
        super().__init__(
            f"the host on {path!r} runs on the event loop of thread {opener}, and was called from "
            f"thread {thread}; hand the call over to its loop: "
            "asyncio.run_coroutine_threadsafe(host.send(…), loop).result()",
            path=path,
            opener=opener,
            thread=thread,
        )


class HostOptionError(MachinesError):
    """A host is given an option whose value cannot be."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(
            f"Host({option}={value!r}): expected {expected}; leave it out for the default",
            option=option,
            value=value,
            expected=expected,
        )


class NeedsLoopError(MachinesError):
    """The chart needs an event loop, and none runs it."""

    def __init__(self, machine: str, reason: str) -> None:
        super().__init__(
            f"machine {machine!r} {reason}, which needs an event loop; run it with a Host",
            machine=machine,
            reason=reason,
        )


class MicrostepLimitError(MachinesError):
    """A macrostep did not come to rest within the bound on microsteps."""

    def __init__(self, machine: str, limit: int) -> None:
        super().__init__(
            f"machine {machine!r} took {limit} microsteps in one macrostep without coming to "
            "rest; guard its eventless transitions, or send instead of raise",
            machine=machine,
            limit=limit,
        )
