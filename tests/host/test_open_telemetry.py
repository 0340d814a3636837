"""Metrics and spans by the real OpenTelemetry: what a meter and a tracer are given."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from machines import HostOptionError
from machines.telemetry.metering import COUNTERS, HISTOGRAMS
from machines.telemetry.tracing import SPANS
from tests.host.charts import Door, Strict, checkout
from tests.host.letterbox import Letterbox
from tests.host.listening import lines
from tests.host.world import Outside, World, ended, statuses, until


class Observatory:
    """A meter and a tracer whose readings stay in memory."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.meter = self.meters.get_meter("test")
        self.exporter = InMemorySpanExporter()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.traces.get_tracer("test")

    def close(self) -> None:
        """Give its threads back."""
        self.meters.shutdown()
        self.traces.shutdown()

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name that have ended, in that order."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, Any]:
        """Return the instruments that have readings, by their names."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def counted(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """Return what was counted under a name, by its attributes."""
        points = self.metrics()[name].data.data_points
        return {
            tuple(sorted(point.attributes.items())): getattr(point, "value", None) or point.count
            for point in points
        }


@pytest.fixture
def seen() -> Any:
    """Return an observatory that is closed behind the test."""
    made = Observatory()
    yield made
    made.close()


async def test_a_run_is_counted(world: World, outside: Outside, seen: Observatory) -> None:
    """Each instrument has its unit, and attributes of the machine, never of the run."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart, meter=seen.meter) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await ended(host, run)
    machine = ("machine", "Checkout")
    assert seen.counted("machines.steps") == {(machine,): 3}
    assert seen.counted("snapshots.saves") == {(machine,): 5}
    assert seen.counted("machines.runs.started") == {(machine,): 1}
    assert seen.counted("machines.runs.ended") == {(machine, ("status", "done")): 1}
    call = ("call", "charge")
    assert seen.counted("machines.effects.calls") == {(call, machine): 1}
    assert seen.counted("machines.effects.outcomes") == {(call, machine, ("status", "done")): 1}
    assert seen.counted("machines.effect.duration") == {(call, machine, ("verdict", "done")): 1}
    assert seen.counted("snapshots.save.size") == {(machine,): 5}
    for name, metric in seen.metrics().items():
        known = COUNTERS.get(name) or HISTOGRAMS.get(name)
        assert known is not None
        assert (metric.unit, metric.description) == known[:2]
    assert run not in str(seen.metrics())


async def test_a_save_is_measured_in_bytes(world: World, seen: Observatory) -> None:
    """The histogram's sum is what the blobs weigh."""
    async with world.host(Door, meter=seen.meter) as host:
        run = await host.start(Door)
        sizes = [len(world.stored(run).blob)]
        await host.send(run, "push")
        sizes.append(len(world.stored(run).blob))
    [point] = seen.metrics()["snapshots.save.size"].data.data_points
    assert (point.count, point.sum) == (2, sum(sizes))


async def test_every_instrument_gets_a_reading(
    world: World, outside: Outside, seen: Observatory
) -> None:
    """None of the documented names is dead."""
    chart = checkout(outside.service("charge"))

    class Careless(Door):
        def on_pull(self) -> None:
            message = "dropped"
            raise ValueError(message)

    with Letterbox(world) as mails:
        async with world.host(chart, Strict, Careless, meter=seen.meter) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
            careless = await host.start(Careless)
            await host.send(careless, "push")
            await host.send(careless, "pull")
            strict = await host.start(Strict)
            with pytest.raises(ValueError, match="smashed"):
                await host.send(strict, "smash")
            entry = mails.send(careless, "remove")
            await until(lambda: mails.outcome(entry))
            await host.sweep()
            host.told.of_run("run.stalled", host._resident[strict], reason="said by the test")
    assert seen.metrics().keys() == COUNTERS.keys() | HISTOGRAMS.keys()


async def test_a_macrostep_is_a_span_with_its_save_within(world: World, seen: Observatory) -> None:
    """They carry run, machine, state, and their own fields; the save is the step's child."""
    async with world.host(Door, tracer=seen.tracer) as host:
        run = await host.start(Door)
        await host.send(run, "push")
    step, save = seen.spans("machine.step")[-1], seen.spans("snapshot.save")[-1]
    assert step.attributes is not None
    assert save.attributes is not None
    assert step.attributes["run"] == run
    assert step.attributes["machine"] == "Door"
    assert step.attributes["state"] == ("ajar",)
    assert step.attributes["event"] == "push"
    assert save.attributes["bytes"] == len(world.stored(run).blob)
    assert save.parent is not None
    assert step.context is not None
    assert save.parent.span_id == step.context.span_id
    assert step.start_time is not None
    assert save.start_time is not None
    assert step.start_time <= save.start_time < (save.end_time or 0) == step.end_time


async def test_a_macrostep_is_within_the_span_of_who_sent_it(
    world: World, seen: Observatory
) -> None:
    """A web request that sends an event sees in its trace what that cost."""

    class Waiting(Door):
        async def on_pull(self) -> None:
            """Be a chart of coroutines."""

    async with world.host(Door, Waiting, tracer=seen.tracer) as host:
        for chart in (Door, Waiting):
            run = await host.start(chart)
            with seen.tracer.start_as_current_span("request") as request:
                await host.send(run, "push")
            step = seen.spans("machine.step")[-1]
            assert step.parent is not None
            assert step.parent.span_id == request.get_span_context().span_id


async def test_a_call_is_the_current_span_of_what_it_calls(world: World, seen: Observatory) -> None:
    """What the effect's function traces lies within `effect.call`, in a thread as on the loop."""
    within: list[Any] = []

    async def on_the_loop() -> str:
        within.append(trace.get_current_span())
        return "ok"

    def in_a_thread() -> str:
        within.append(trace.get_current_span())
        return "ok"

    for number, fn in enumerate((on_the_loop, in_a_thread)):
        chart = checkout(fn)
        async with world.host(chart, tracer=seen.tracer) as host:
            run = await host.start(chart, run_id=f"o-{number}")
            await host.send(run, "pay")
            await ended(host, run)
        span = seen.spans("effect.call")[-1]
        assert within[-1].get_span_context() == span.get_span_context()
        assert span.attributes is not None
        assert dict(span.attributes) == {
            "run": run,
            "machine": "Checkout",
            "state": ("paying",),
            "effect": f"{run}/paying.1",
            "call": "charge",
            "attempt": 1,
            "verdict": "done",
        }
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_call_that_fails_is_a_span_in_error(
    world: World, outside: Outside, seen: Observatory
) -> None:
    """It says what its end means, and of the error what is stored of it, cut to the bound."""
    chart = checkout(outside.service("charge"))
    outside.answers("charge", ConnectionResetError("x" * 5_000))
    async with world.host(chart, tracer=seen.tracer) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: statuses(host, run) == ["unknown"])
    [span] = seen.spans("effect.call")
    assert span.attributes is not None
    assert span.attributes["verdict"] == "unknown"
    assert span.attributes["error.type"] == "ConnectionResetError"
    assert span.status.status_code is StatusCode.ERROR
    assert len(str(span.status.description)) < 1_200


async def test_each_attempt_is_a_span(world: World, outside: Outside, seen: Observatory) -> None:
    """A call that is made again is another one."""
    chart = checkout(outside.service("charge"), idempotent=True, retries=2, backoff=lambda _: 0.0)
    outside.answers("charge", OSError("one"), OSError("two"))
    async with world.host(chart, tracer=seen.tracer) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await ended(host, run)
    found = [dict(span.attributes or {}) for span in seen.spans("effect.call")]
    assert [(one["attempt"], one["verdict"]) for one in found] == [
        (1, "retry"), (2, "retry"), (3, "done"),
    ]  # fmt: skip
    assert {span.name for span in seen.exporter.get_finished_spans()} == SPANS.keys()


async def test_a_macrostep_that_raises_is_a_span_in_error(world: World, seen: Observatory) -> None:
    """Nothing of it is saved; the span says what the sender was told, within the sender's own."""
    async with world.host(Strict, tracer=seen.tracer) as host:
        run = await host.start(Strict)
        seen.exporter.clear()
        within = seen.tracer.start_as_current_span("request")
        with within as request, pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
    [step] = seen.spans("machine.step")
    assert seen.spans("snapshot.save") == []
    assert step.status.status_code is StatusCode.ERROR
    assert step.attributes is not None
    assert step.attributes["event"] == "smash"
    assert step.attributes["error.type"] == "ValueError"
    assert step.attributes["run"] == run
    assert step.parent is not None
    assert step.parent.span_id == request.get_span_context().span_id
    assert step.start_time is not None
    assert step.end_time is not None
    assert step.start_time <= step.end_time
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_a_meter_and_a_tracer_that_raise_hurt_no_run(
    world: World, outside: Outside, error: type[BaseException]
) -> None:
    """What observes a run is not a part of it."""

    class Broken:
        """Makes instruments and spans that raise."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("create_"):
                return lambda *_, **__: self
            raise error(name)

    class Spanless:
        """Raises where a span is asked for."""

        def start_span(self, *_: Any, **__: Any) -> Any:
            raise error

        start_as_current_span = start_span

    chart = checkout(outside.service("charge"))
    with lines() as log:
        async with world.host(chart, meter=Broken(), tracer=Spanless()) as host:
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
    assert world.status(run) == "done"
    assert log.of("listener.raised")


async def test_what_is_no_meter_and_no_tracer_is_refused(world: World) -> None:
    """Before anything is opened, by name."""
    for option in ("meter", "tracer"):
        with pytest.raises(HostOptionError, match=option):
            world.host(Door, **{option: object()})
    assert not world.path.exists()


def test_open_telemetry_is_never_imported_by_us() -> None:
    """A process that imports all of the package and opens a host has not loaded it."""
    code = """
import asyncio, sys, tempfile
from machines import Host
async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with Host(folder + "/state.db"):
            pass
asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
