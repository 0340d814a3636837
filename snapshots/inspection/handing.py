"""What may be handed in for a run, judged by its row before it is put into the mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from snapshots.clock import SystemClock
from snapshots.errors import SnapshotsError
from snapshots.inspection.reports.reading import read_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.inspection.queries.files import FoundRun
    from snapshots.inspection.reports.records import EffectReport, RunReport

# What no host can bring back: such a run has come to an end of its own, or somebody ended it.
_OVER: Final = ("done", "failed", "cancelled")
# An effect of any other status cannot come to be in doubt with the same attempt.
_MAY_BE_IN_DOUBT: Final = ("unknown", "calling")


class OrderRefusedError(SnapshotsError):
    """What is asked for cannot be, and nothing was handed in. Fields: `run_id`; `reason`."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(reason)


def judged(kind: str, content: Mapping[str, Any], found: FoundRun) -> dict[str, Any]:
    """Return what the mailbox is to hold for a run that was found.

    `kind` and `content` are as `snapshots.mailbox` describes them; the effect of a `resolve` may
    be named by its part behind the run's id, and gets the attempt that was seen. The host decides
    anew when it takes it. Raises `OrderRefusedError` for what the row rules out, `DecodeError` for
    a row that cannot be read.
    """
    _require_status(kind, found)
    if kind != "resolve":
        return dict(content)
    effect = _effect(found, content["effect"])
    return {**content, "effect": effect.id, "attempt": effect.attempt}


def report_of(found: FoundRun) -> RunReport:
    """Return what a run says of itself now. Raises `DecodeError`."""
    return read_report(found.header, found.blob, found.shape, now_ms=SystemClock().now_ms())


def _require_status(kind: str, found: FoundRun) -> None:
    run_id, status = found.header.run_id, found.header.status
    if kind != "revive" and status != "live":
        hint = "" if status in _OVER else "; `snapshots revive` makes it live again"
        raise OrderRefusedError(run_id, f"run {run_id!r} is {status}, expected a live run{hint}")
    if kind == "revive" and status == "live":
        raise OrderRefusedError(run_id, f"run {run_id!r} is live: there is nothing to revive")
    if kind == "revive" and status in _OVER:
        hint = "only a lost, a drifted or a broken run can be revived"
        raise OrderRefusedError(run_id, f"run {run_id!r} is {status}: {hint}")


def _effect(found: FoundRun, name: str) -> EffectReport:
    run_id = found.header.run_id
    effects = {effect.id: effect for effect in report_of(found).effects}
    effect = effects.get(name) or effects.get(f"{run_id}/{name}")
    if effect is None:
        listed = ", ".join(map(repr, effects)) or "none"
        raise OrderRefusedError(run_id, f"run {run_id!r} has no effect {name!r} (it has {listed})")
    if effect.status not in _MAY_BE_IN_DOUBT:
        hint = "only an effect in doubt can be settled by hand"
        raise OrderRefusedError(run_id, f"effect {effect.id!r} is {effect.status}: {hint}")
    return effect
