"""A stored run to what becomes of it: resumed, set aside, or left for the next boot.

Pure but for the user's own `reconcile`; it builds nothing and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from machines.errors import DriftError, RunFinishedError, UnknownMachineError, UnresumedError
from machines.migrations import Migration, chain, route
from machines.recovery.form import check_form
from machines.shape import drift
from snapshots.codec import load
from snapshots.errors import DecodeError
from snapshots.heads import UNFINDABLE
from snapshots.layout import unfold_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.definition import Machine
    from snapshots.records import StoredRun

Fate = Literal["resume", "migrate", "unresumed", "lost", "drifted"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one stored run, and why."""

    fate: Fate
    reason: str = ""
    machine: Machine | None = None
    value: dict[str, Any] = field(default_factory=dict)
    """The decoded blob of a run that is resumed or migrated."""
    error: Exception | None = None
    """What says the reason, for who asked for this one run."""
    steps: tuple[Migration, ...] = ()
    """The migrations that lead a run to today's shape."""


@dataclass(slots=True)
class Report:
    """What a boot found, by run id; the reasons are for people."""

    resumed: list[str] = field(default_factory=list)
    unresumed: dict[str, str] = field(default_factory=dict)
    """Left live and tried again at the next boot."""
    lost: dict[str, str] = field(default_factory=dict)
    drifted: dict[str, str] = field(default_factory=dict)
    migrated: dict[str, str] = field(default_factory=dict)
    """The way from shape to shape that a run was brought here, which then counts as resumed."""
    unswept: str = ""
    """Why the last sweep deleted less than it should, if it did."""

    def leave(self, run_id: str, reason: str) -> None:
        """Say why a run could not be taken up, unless it is lost: it is left live."""
        if run_id not in self.lost:
            self.unresumed[run_id] = reason
        if run_id in self.resumed:
            self.resumed.remove(run_id)

    def take_back(self, run_id: str) -> None:
        """Say that a run was taken up after all, if it was left."""
        if self.unresumed.pop(run_id, None) is not None:
            self.resumed.append(run_id)

    def __str__(self) -> str:
        counts = (
            f"{len(self.resumed)} resumed, {len(self.unresumed)} not resumed, "
            f"{len(self.lost)} lost, {len(self.drifted)} drifted"
        )
        lines = [counts]
        if self.migrated:
            lines[0] += f", {len(self.migrated)} of them migrated"
        for word in ("migrated", "unresumed", "lost", "drifted"):
            found: dict[str, str] = getattr(self, word)
            lines += [f"  {word} {run_id}: {reason}" for run_id, reason in found.items()]
        return "\n".join(lines)


def decide(  # noqa: PLR0911 - a verdict each
    stored: StoredRun,
    machines: Mapping[str, Machine],
    shape: bytes | None,
    *,
    reconcile: bool = True,
) -> Decision:
    """Say what becomes of a live row at a boot.

    `machines` by name; `shape` is the stored shape of the row's digest. `reconcile` says whether
    the machine is asked for the run's outside world: not for one that this process knows already,
    and for one that is migrated only then, with what it became.
    """
    header = stored.header
    machine = machines.get(header.machine)
    if machine is None:
        error = UnknownMachineError(header.machine, tuple(machines), header.run_id)
        return Decision("unresumed", str(error), error=error)
    if header.revision == UNFINDABLE:
        # It could run, and nothing of that could ever be saved.
        damage = unfindable(header.run_id)
        return Decision("unresumed", str(damage), machine, error=damage)
    steps = chain(machine.migrations, header.digest, machine.digest)
    if header.digest != machine.digest and not steps:
        difference = drifted(stored, machine, shape)
        return Decision("drifted", str(difference), machine, error=difference)
    try:
        value = read(stored, machine)
    except DecodeError as error:
        return Decision("unresumed", str(error), machine, error=error)
    # A run that was revived and not saved since still says what it died of.
    value.pop("error", None)
    if steps:
        return Decision("migrate", route(steps, machine.digest), machine, value, steps=steps)
    gone = ask(machine, header.run_id, value) if reconcile else None
    if gone is not None:
        return gone
    return Decision("resume", "", machine, value)


def unfindable(run_id: str) -> DecodeError:
    """Return the error that says that no save would find a row."""
    reason = "the head of its row is damaged: no save would find it"
    return DecodeError(run_id, reason)


def drifted(stored: StoredRun, machine: Machine, shape: bytes | None) -> DriftError:
    """Return the error that says how a row's machine differs from today's."""
    try:
        before: Any = load(shape) if shape is not None else None
        changes = drift(before, machine.shape)
    except (DecodeError, AttributeError, LookupError, TypeError, ValueError):
        # That it has another one is known without it.
        changes = ("the shape that wrote it cannot be read",)
    return DriftError(stored.header.run_id, machine.name, changes)


def read(stored: StoredRun, machine: Machine) -> dict[str, Any]:
    """Return a row's blob as values; DecodeError names the run.

    A blob of another run, or of a version that is not known, is refused too.
    """
    run_id = stored.header.run_id
    try:
        value = machine.codec.decode_blob(stored.blob)
    except DecodeError as error:
        raise DecodeError(run_id, error.reason, error.version) from error
    value = unfold_blob(value, run_id)
    if not isinstance(value, dict):
        raise DecodeError(run_id, "its blob is no snapshot of a run")
    if value.get("v") != 1:
        raise DecodeError(run_id, f"its blob has version {value.get('v')!r}, 1 is known")
    check_form(run_id, value)
    header = stored.header
    expected = {"run": run_id, "machine": header.machine, "digest": header.digest}
    for key, known in expected.items():
        if value[key] != known:
            raise DecodeError(run_id, f"its blob is of {key} {value[key]!r}, not {known!r}")
    return value


def ask(machine: Machine, run_id: str, value: dict[str, Any]) -> Decision | None:
    """Ask the machine whether a run's outside world is there; return what becomes of it if not."""
    if machine.reconcile is None:
        return None
    try:
        there = machine.reconcile(Restored(run_id, machine.name, value))
    except Exception as error:  # noqa: BLE001 - the run is left live and reported, to be tried again
        refusal = UnresumedError(run_id, f"reconcile raised {type(error).__name__}: {error}")
        return Decision("unresumed", refusal.reason, machine, value, refusal)
    if there is not False:
        return None
    reason = "reconcile found its outside world gone"
    return Decision("lost", reason, machine, value, RunFinishedError(run_id, "lost"))


@dataclass(frozen=True, slots=True)
class Restored:
    """A stored run as `reconcile` sees it, before anything is built."""

    run_id: str
    machine: str
    value: Mapping[str, Any]
    """The decoded blob; see the format of blobs in the docs."""

    @property
    def input(self) -> Mapping[str, Any]:
        """What the run was started with."""
        return dict(self.value.get("input", {}))

    @property
    def context(self) -> Mapping[str, Any]:
        """The fields of the root chart's model."""
        return dict(self.value["root"].get("context", {}))

    @property
    def admissions(self) -> Mapping[str, Any]:
        """The outside sessions that the run was admitted to, by their keys."""
        return dict(self.value.get("admissions", {}))

    @property
    def configuration(self) -> tuple[str, ...]:
        """The names of the root chart's active states."""
        return tuple(self.value["root"].get("configuration", ()))
