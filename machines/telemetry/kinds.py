"""Everything that is told of a host and its runs, by kind: how loud it is, and what it says."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One thing that happened; what it says of a run is on disk by the time that it is told.

    `at_ms` is Unix milliseconds by the host's clock. `run` and `machine` are empty where it is of
    no run. `state` holds the names of the root chart's active states, in the order in which they
    were entered (for `machine.step`: of the chart that took the step). `data` holds the fields
    that `KINDS[kind].fields` names, and cannot be changed.
    """

    kind: str
    at_ms: int
    run: str = ""
    machine: str = ""
    state: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of occurrence: the level and the logger of its line, and the fields of its data."""

    level: int
    fields: tuple[str, ...] = ()
    logger: str = "machines"
    says: str


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "machine.step": Kind(
            level=logging.DEBUG,
            fields=("event", "path", "step", "ms"),
            says="a chart of the run took a macrostep, and that is saved",
        ),
        "machine.raised": Kind(
            level=logging.INFO,
            fields=("event", "reason"),
            says="a macrostep raised, and the run was put back to its last save; who waited for "
            "the event got the exception",
        ),
        "machine.swallowed": Kind(
            level=logging.WARNING,
            fields=("path", "reason"),
            says="a callback raised, the chart was offered `error.execution`, and no transition "
            "took it",
        ),
        "snapshot.save": Kind(
            level=logging.DEBUG,
            fields=("revision", "status", "bytes", "ms"),
            logger="snapshots",
            says="a run was saved; `bytes` is the length of its blob",
        ),
        "effect.call": Kind(
            level=logging.DEBUG,
            fields=("effect", "call", "attempt"),
            says="the call of an effect leaves; its row says so on disk. `call` is the effect's "
            "kind",
        ),
        "effect.outcome": Kind(
            level=logging.INFO,
            fields=("effect", "call", "attempt", "status", "reason", "ms"),
            says="what became of an effect is saved: `done`, `failed`, or `unknown`, which is in "
            "doubt and a warning. `ms` is how long the last call took, None if this process made "
            "none",
        ),
        "run.started": Kind(
            level=logging.INFO,
            says="the first save of a new run is on disk",
        ),
        "run.ended": Kind(
            level=logging.INFO,
            fields=("status", "reason"),
            says="a run is `done`, `failed` or `cancelled`",
        ),
        "run.error": Kind(
            level=logging.ERROR,
            fields=("reason",),
            says="a run died of an exception that its chart does not handle",
        ),
        "run.drifted": Kind(
            level=logging.WARNING,
            fields=("reason",),
            says="a run was set aside: its machine has another shape now",
        ),
        "run.lost": Kind(
            level=logging.WARNING,
            fields=("reason",),
            says="a run was set aside: its outside world is gone",
        ),
        "run.unresumed": Kind(
            level=logging.WARNING,
            fields=("reason",),
            says="a live run could not be taken up; it stays as it is, and is tried again",
        ),
        "run.migrated": Kind(
            level=logging.INFO,
            fields=("route",),
            says="a run of an older shape was brought to today's",
        ),
        "run.revived": Kind(
            level=logging.INFO,
            says="a run that was set aside is live again",
        ),
        "run.stalled": Kind(
            level=logging.WARNING,
            fields=("reason",),
            says="a save failed; the run stands still until one succeeds",
        ),
        "host.started": Kind(
            level=logging.INFO,
            fields=("term", "resumed", "unresumed", "lost", "drifted", "ms"),
            says="the host is open, and has restored what is live",
        ),
        "host.stopped": Kind(
            level=logging.INFO,
            fields=("reason",),
            says="the host has closed; nothing is told behind it",
        ),
        "host.left": Kind(
            level=logging.WARNING,
            fields=("calls",),
            says="the host stops, and these calls, run and state, have not returned from their "
            "threads: they are cut off when the process ends",
        ),
        "host.fenced": Kind(
            level=logging.WARNING,
            fields=("reason",),
            says="another host owns the file; this one stops",
        ),
        "host.taken-over": Kind(
            level=logging.WARNING,
            fields=("term",),
            says="this host has taken the file over from one that still holds it",
        ),
        "host.broken": Kind(
            level=logging.ERROR,
            fields=("reason",),
            says="the host's own machinery raised; it stops, and `stop` raises that",
        ),
        "sweep": Kind(
            level=logging.INFO,
            fields=("runs", "ms"),
            logger="snapshots",
            says="the runs that ended more than a week ago were deleted",
        ),
        "mail.settled": Kind(
            level=logging.INFO,
            fields=("entry", "asked", "outcome"),
            says="what another process had put into the mailbox was taken, or refused with a "
            "reason",
        ),
        "listener.gap": Kind(
            level=logging.WARNING,
            fields=("lost",),
            says="a listener was too slow, and so many occurrences are lost to it; told to that "
            "listener alone, in their place",
        ),
        "listener.raised": Kind(
            level=logging.ERROR,
            fields=("reason",),
            says="a subscriber's callback, a log filter, the meter or the tracer raised; it goes "
            "on being called, and no run has noticed; a line alone tells of it",
        ),
    }
)

EACH: Final = frozenset({"machine.step", "snapshot.save"})
"""What there is one of for each macrostep and each save: measured only where somebody listens."""
