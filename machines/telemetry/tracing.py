"""What takes time in a host's runs as spans of the tracer that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from machines.errors import HostOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from machines.telemetry.kinds import Occurrence

SPANS: Final = {
    "machine.step": "a macrostep, from its begin to its save, which is a span within it; it is "
    "made when the macrostep is over, within the span of who sent the event; one that raised and "
    "was put back is in error",
    "snapshot.save": "a save, encoding included",
    "effect.call": "the call of an effect, from where it leaves to where it is back; it is the "
    "current span of the effect's function",
}
_NS_PER_MS: Final = 1_000_000
_TRACER: Final = "tracer"
_ERROR_TYPE: Final = "error.type"


class CallEndedError(Exception):
    """How a span is told that its work failed: what is stored of the error, and no more."""


class Spans:
    """Traces by an OpenTelemetry tracer, or by anything that looks like one."""

    def __init__(self, tracer: Any) -> None:
        """Keep the tracer; HostOptionError for what makes no spans."""
        if not all(hasattr(tracer, name) for name in ("start_span", "start_as_current_span")):
            expected = "a tracer, as opentelemetry's TracerProvider.get_tracer(…) returns"
            raise HostOptionError(_TRACER, tracer, expected)
        self._tracer = tracer

    def saved(self, step: Occurrence | None, save: Occurrence) -> None:
        """Make the spans of a macrostep and of its save, or of a save alone, that end now."""
        if step is None:
            self._done(save)
            return
        end_ns = step.at_ms * _NS_PER_MS
        current = self._tracer.start_as_current_span(
            step.kind,
            start_time=end_ns - _ns(step),
            attributes=_attributes(step),
            end_on_exit=False,
        )
        with current as span:
            self._done(save)
        span.end(end_ns)

    def raised(self, step: Occurrence, error: Mapping[str, str]) -> None:
        """Make the span of a macrostep that raised: it ends now, in error, and saved nothing."""
        end_ns = step.at_ms * _NS_PER_MS
        current = self._tracer.start_as_current_span(
            step.kind,
            start_time=end_ns - _ns(step),
            attributes={**_attributes(step), _ERROR_TYPE: error["type"]},
            end_on_exit=False,
        )
        span = current.__enter__()
        current.__exit__(CallEndedError, CallEndedError(error["message"]), None)
        span.end(end_ns)

    def _done(self, told: Occurrence) -> None:
        end_ns = told.at_ms * _NS_PER_MS
        span = self._tracer.start_span(
            told.kind, start_time=end_ns - _ns(told), attributes=_attributes(told)
        )
        span.end(end_ns)

    def call(self, told: Occurrence) -> CallSpan:
        """Begin the span of a call, and have it be the current one until it ends."""
        return CallSpan(self._tracer.start_as_current_span(told.kind, attributes=_attributes(told)))


class CallSpan:
    """The span of a call that is under way."""

    def __init__(self, current: AbstractContextManager[Any]) -> None:
        self._current = current
        self._span = current.__enter__()

    def end(self, verdict: str, error: Mapping[str, str] | None) -> None:
        """End it: with what the end of the call means, and what is stored of its error."""
        if verdict:
            self._span.set_attribute("verdict", verdict)
        if error is None:
            self._current.__exit__(None, None, None)
            return
        self._span.set_attribute(_ERROR_TYPE, error["type"])
        said = CallEndedError(error["message"])
        self._current.__exit__(CallEndedError, said, None)


def _ns(told: Occurrence) -> int:
    return int(told.data["ms"] * _NS_PER_MS)


def _attributes(told: Occurrence) -> dict[str, Any]:
    """Return the fields of an occurrence as a span has them; its length says how long it took."""
    said = {name: value for name, value in told.data.items() if name != "ms" and value is not None}
    return {"run": told.run, "machine": told.machine, "state": list(told.state), **said}
