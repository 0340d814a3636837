"""What generated charts invoke: callables, coroutine functions, handlers, groups and timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine.contrib.timeout import timeout
from statemachine.invoke import invoke_group

from tools.charts.acts import ChartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.charts.spec import InvokeSpec


def outcome(spec: InvokeSpec, invokeid: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What work gives: which invocation it was and the data that its state was entered with.

    The id in it makes every wrong number of an invocation visible in a trace. Work changes no
    model: outside a macrostep nothing is saved, and a restart would rightly lose it.

    Raises ChartError if the specification says so.
    """
    if spec.fails:
        raise ChartError(spec.label)
    return {"work": spec.label, "id": invokeid, "n": kwargs.get("n")}


class Work:
    """A handler with ``run`` and ``on_cancel``, used as an instance and, subclassed, as a class."""

    def __init__(self, spec: InvokeSpec) -> None:
        self.spec = spec
        self.cancelled = False

    def run(self, ctx: Any) -> dict[str, Any]:
        """Do the work."""
        return outcome(self.spec, ctx.invokeid, ctx.kwargs)

    def on_cancel(self) -> None:
        """Note that nobody waits for it."""
        self.cancelled = True


class AwaitedWork:
    """A handler whose ``run`` is a coroutine function."""

    def __init__(self, spec: InvokeSpec) -> None:
        self.spec = spec

    async def run(self, ctx: Any) -> dict[str, Any]:
        """Do the work."""
        return outcome(self.spec, ctx.invokeid, ctx.kwargs)


def _call(spec: InvokeSpec) -> Callable[..., Any]:
    def work(ctx: Any, n: Any = None) -> dict[str, Any]:
        return outcome(spec, ctx.invokeid, {"n": n})

    return work


def _coroutine(spec: InvokeSpec) -> Callable[..., Any]:
    async def work_awaited(ctx: Any, n: Any = None) -> dict[str, Any]:
        return outcome(spec, ctx.invokeid, {"n": n})

    return work_awaited


def _class(spec: InvokeSpec) -> type[Work]:
    class OwnWork(Work):
        def __init__(self) -> None:
            super().__init__(spec)

    return OwnWork


def _group(spec: InvokeSpec) -> Any:
    def second() -> str:
        if spec.fails:
            raise ChartError(spec.label)
        return f"{spec.label} b"

    return invoke_group(lambda: f"{spec.label} a", second)


def _timeout(spec: InvokeSpec) -> Any:
    return timeout(spec.duration_ms / 1000, on=spec.on)


_MAKERS: dict[str, Callable[[InvokeSpec], Any]] = {
    "call": _call,
    "coroutine": _coroutine,
    "class": _class,
    "instance": Work,
    "async-instance": AwaitedWork,
    "group": _group,
    "timeout": _timeout,
}


def invoked(spec: InvokeSpec, child: Callable[[Any], type]) -> Any:
    """What a state's ``invoke`` takes for this specification; ``child`` makes chart classes."""
    if spec.kind == "child":
        assert spec.child is not None, "a child needs a chart"
        return child(spec.child)
    return _MAKERS[spec.kind](spec)
