"""What a stored run says of itself: a `RunReport` and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.inspection.reports.states import StateReport
    from snapshots.records import RunHeader

WaitKind = Literal["gate", "effect", "invoke", "timer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeReport:
    """Something that a state invoked; `kind` is call, effect, gate, child, timeout, or nursery.

    Until it is `started` it may have no id.
    """

    id: str | None
    state: str | None
    index: int | None
    kind: str
    kwargs: object
    attempt: int | None
    started: bool
    sent: bool
    terminated: bool
    cancelled: bool
    due_ms: int | None
    key: str | None
    events: tuple[object, ...]
    meta: object

    @property
    def outstanding(self) -> bool:
        """Whether it has neither ended nor been cancelled."""
        return not (self.sent or self.terminated or self.cancelled)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedEvent:
    """An event that was accepted and has not run, in the chart at the path `node`."""

    node: str
    event: str | None
    internal: bool
    send_id: str | None
    args: object
    kwargs: object
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerReport:
    """An event that is due at `due_ms`; `left_ms` is negative once it is overdue."""

    id: str
    node: str
    event: str | None
    send_id: str | None
    due_ms: int
    left_ms: int
    policy: str
    invoke: str | None
    args: object
    kwargs: object


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectReport:
    """One call to the outside world.

    Status "unknown" is in doubt: a crash or a fault hid the outcome of its call.
    """

    id: str
    node: str
    invoke: str | None
    kind: str
    key: str | None
    status: str
    attempt: int
    idempotent: bool
    at_ms: int | None
    tail: object
    error: object


@dataclass(frozen=True, slots=True, kw_only=True)
class MailReport:
    """One thing that another process handed in for a run; without an `outcome` it waits."""

    entry: int
    kind: str
    created_ms: int
    outcome: str | None
    settled_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionReport:
    """One entry of the trail: a macrostep that led the chart at `node` from states to states."""

    at_ms: int
    node: str
    event: str | None
    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One chart of a run: the root, or a child at `path` ("<invoke id>/<invoke id>").

    `shaped` says whether `states` is the whole chart as its stored shape nests it, or only a flat
    list of the active states. Values (`context` and the like) are raw JSON, tagged values included.
    """

    path: str
    name: str
    engine: str | None
    status: str
    started: bool
    configuration: tuple[str, ...]
    shaped: bool
    states: tuple[StateReport, ...]
    history: Mapping[str, tuple[str, ...]]
    model: str | None
    context: object
    attributes: object
    output: object
    error: object
    invokes: tuple[InvokeReport, ...]
    queue: tuple[QueuedEvent, ...]
    children: tuple[NodeReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReport:
    """One thing without which a live run goes no further.

    `state` is the state that invoked it, `status` an effect's status or "starting" for an invoke
    that is marked and not started, `key` a gate's address or an effect's idempotency key, `events`
    what a gate accepts or a timer sends, `due_ms` and `left_ms` a timer's due time.
    """

    kind: WaitKind
    node: str
    id: str | None
    state: str | None = None
    status: str | None = None
    key: str | None = None
    events: tuple[object, ...] = ()
    meta: object = None
    due_ms: int | None = None
    left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run as its row tells it: `effects` in doubt first, `timers` the nearest first.

    `children` are the charts below the root, flat, in the order of the tree. `waits` is empty for a
    run that is not live. `now_ms` is the time that `left_ms` counts from. `ledgers` are the others
    by name (admissions, epochs, notices, picks, pushes), each raw JSON by its own keys.
    `mail` is the newest first.
    """

    header: RunHeader
    now_ms: int
    step: int | None
    input: object
    error: object
    turn: tuple[str, ...]
    root: NodeReport
    waits: tuple[WaitReport, ...]
    effects: tuple[EffectReport, ...]
    timers: tuple[TimerReport, ...]
    queue: tuple[QueuedEvent, ...]
    children: tuple[NodeReport, ...]
    trail: tuple[TransitionReport, ...]
    deliveries: tuple[str, ...]
    mail: tuple[MailReport, ...]
    ledgers: Mapping[str, Mapping[str, object]]
