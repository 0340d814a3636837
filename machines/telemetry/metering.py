"""What happens in a host's runs as counters and histograms of the meter that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from machines.errors import HostOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.telemetry.kinds import Occurrence

SECONDS: Final = (0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""Bounds of the histograms of durations: a save takes tens of microseconds, a call seconds."""
_METER: Final = "meter"
BYTES: Final = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216)
COUNTERS: Final = {
    "machines.steps": ("{step}", "macrosteps that were saved, by machine"),
    "machines.steps.raised": ("{step}", "macrosteps that raised and were put back, by machine"),
    "machines.errors.swallowed": ("{error}", "errors that no transition took, by machine"),
    "machines.runs.started": ("{run}", "runs whose first save is on disk, by machine"),
    "machines.runs.ended": ("{run}", "runs that are not live any more, by machine and status"),
    "machines.effects.calls": ("{call}", "calls that left, by machine and kind of effect"),
    "machines.effects.outcomes": (
        "{outcome}",
        "outcomes of effects, by machine, kind of effect and status (`unknown` is in doubt)",
    ),
    "machines.mail.settled": ("{entry}", "entries of the mailbox, by what was asked and outcome"),
    "snapshots.saves": ("{save}", "saves that are on disk, by machine"),
    "snapshots.saves.failed": ("{save}", "saves that failed and are tried again, by machine"),
    "snapshots.swept": ("{run}", "runs that were deleted a week after their end"),
}
HISTOGRAMS: Final = {
    "machines.step.duration": ("s", "a macrostep, from its begin to its save", SECONDS),
    "machines.effect.duration": ("s", "a call, from where it left to where it was back", SECONDS),
    "snapshots.save.duration": ("s", "a save, encoding included", SECONDS),
    "snapshots.save.size": ("By", "the blob that a save wrote", BYTES),
}


class Meters:
    """Counts by an OpenTelemetry meter, or by anything that looks like one.

    No attribute is a run's: there is a series for each machine, not for each run. Durations are in
    seconds, by the semantic conventions of OpenTelemetry.
    """

    def __init__(self, meter: Any) -> None:
        """Make the instruments; HostOptionError for what cannot make them."""
        if not all(hasattr(meter, name) for name in ("create_counter", "create_histogram")):
            expected = "a meter, as opentelemetry's MeterProvider.get_meter(…) returns"
            raise HostOptionError(_METER, meter, expected)
        self._counters: dict[str, Any] = {
            name: meter.create_counter(name, unit=unit, description=says)
            for name, (unit, says) in COUNTERS.items()
        }
        self._histograms: dict[str, Any] = {
            name: meter.create_histogram(
                name, unit=unit, description=says, explicit_bucket_boundaries_advisory=bounds
            )
            for name, (unit, says, bounds) in HISTOGRAMS.items()
        }
        self._by_kind: dict[str, Callable[[Occurrence, dict[str, Any]], None]] = {
            "machine.step": self._stepped,
            "machine.raised": self._counted("machines.steps.raised"),
            "machine.swallowed": self._counted("machines.errors.swallowed"),
            "run.started": self._counted("machines.runs.started"),
            "run.ended": self._counted("machines.runs.ended", "status"),
            "run.error": self._counted("machines.runs.ended", status="error"),
            "run.drifted": self._counted("machines.runs.ended", status="drifted"),
            "run.lost": self._counted("machines.runs.ended", status="lost"),
            "run.stalled": self._counted("snapshots.saves.failed"),
            "effect.call": self._counted("machines.effects.calls", "call"),
            "effect.outcome": self._counted("machines.effects.outcomes", "call", "status"),
            "mail.settled": self._mail,
            "snapshot.save": self._saved,
            "sweep": self._swept,
        }

    def take(self, told: Occurrence) -> None:
        """Count an occurrence."""
        counts = self._by_kind.get(told.kind)
        if counts is not None:
            counts(told, {"machine": told.machine} if told.machine else {})

    def called(self, machine: str, call: str, verdict: str, seconds: float) -> None:
        """Count how long a call took that is back."""
        attributes = {"machine": machine, "call": call, "verdict": verdict or "left"}
        self._histograms["machines.effect.duration"].record(seconds, attributes)

    def _counted(
        self, counter: str, *fields: str, **fixed: str
    ) -> Callable[[Occurrence, dict[str, Any]], None]:
        def count(told: Occurrence, attributes: dict[str, Any]) -> None:
            said = {name: told.data[name] for name in fields}
            self._counters[counter].add(1, {**attributes, **said, **fixed})

        return count

    def _stepped(self, told: Occurrence, attributes: dict[str, Any]) -> None:
        self._counters["machines.steps"].add(1, attributes)
        self._histograms["machines.step.duration"].record(told.data["ms"] / 1000, attributes)

    def _saved(self, told: Occurrence, attributes: dict[str, Any]) -> None:
        self._counters["snapshots.saves"].add(1, attributes)
        self._histograms["snapshots.save.duration"].record(told.data["ms"] / 1000, attributes)
        self._histograms["snapshots.save.size"].record(told.data["bytes"], attributes)

    def _mail(self, told: Occurrence, attributes: dict[str, Any]) -> None:
        outcome = told.data["outcome"].partition(":")[0]
        said = {"asked": told.data["asked"], "outcome": outcome}
        self._counters["machines.mail.settled"].add(1, {**attributes, **said})

    def _swept(self, told: Occurrence, attributes: dict[str, Any]) -> None:
        self._counters["snapshots.swept"].add(told.data["runs"], attributes)
