"""Effects: calls to the outside world whose intent is on disk before they leave.

    paying = State(invoke=effect(charge_card, retries=3, retry_on=(ConnectionRefusedError,)))

The chart gets `done.invoke.<state>` with the result, or `error.execution` with the error. When a
crash, a timeout or an error hid the outcome of an effect that is not idempotent, it is in doubt:
it is not called again until a probe, the chart (`error.indoubt.<state>`) or a person decides.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal

from machines.arguments import bind, is_async
from machines.errors import DefinitionError
from machines.limits import RETRY_BACKOFF_S, RETRY_BACKOFF_S_MAX

if TYPE_CHECKING:
    from machines.engine.invocations import Context

Errors = tuple[type[BaseException], ...]
Verdict = Literal["failed", "retry", "unknown"]


class CallTimeoutError(TimeoutError):
    """An effect's call took longer than its `timeout`: what became of it is not known."""


@dataclass(frozen=True, slots=True)
class Done:
    """A probe's answer: the call happened, and this is its result."""

    outcome: Any = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """A probe's answer: the call did not happen, it may be made."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A probe's answer: it cannot tell; the effect stays in doubt."""


Probe = Callable[..., "Done | NotDone | Unknown | Awaitable[Done | NotDone | Unknown]"]
Backoff = Callable[[int], float]


def exponential(attempt: int) -> float:
    """Return how long to wait, in seconds, after the n-th attempt: doubling, to a bound."""
    return float(min(RETRY_BACKOFF_S * 2 ** (attempt - 1), RETRY_BACKOFF_S_MAX))


@dataclass(frozen=True, slots=True)
class Effect:
    """What `effect` returns: a handler for `State(invoke=…)`."""

    fn: Callable[..., Any] | str
    kind: str
    key: str | Callable[..., str] | None = None
    idempotent: bool = False
    probe: Probe | str | None = None
    retries: int = 0
    retry_on: Errors = ()
    failed_on: Errors = ()
    backoff: Backoff = exponential
    timeout: float | None = None
    sync: bool = False
    durable_kind: str = field(default="effect", init=False)

    def run(self, ctx: Any) -> Any:
        """Make the call under the library's own engine, where nothing is kept."""
        return self.bind(ctx)[0]()

    def shape(self) -> str:
        """Return what of the effect belongs to the shape of its chart."""
        return "effect"

    def bind(self, context: Context, fn: Any = None) -> tuple[Callable[[], Any], bool]:
        """Return the call with its arguments, and whether it gives a coroutine."""
        function = self._resolve(fn if fn is not None else self.fn, context)

        def call() -> Any:
            # The key is known only when the call is about to leave.
            return bind(function, offered(context))()

        return call, is_async(function)

    def ready(self, context: Context) -> Callable[[], Any]:
        """Return the call with its arguments; TypeError if it needs one that is not offered."""
        function = self._resolve(self.fn, context)
        given = offered(context)
        for name, parameter in signature(function).parameters.items():
            is_needed = parameter.default is Parameter.empty
            if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
                continue
            if is_needed and name not in given:
                message = f"effect {self.kind!r} needs {name!r}, and no event gave it"
                raise TypeError(message)
        return bind(function, given)

    def key_for(self, context: Context, default: str) -> str:
        """Return the idempotency key of one call; DefinitionError if its function gives no text."""
        if self.key is None:
            return default
        key = self.key if isinstance(self.key, str) else bind(self.key, offered(context))()
        if not isinstance(key, str) or not key:
            chart, hint = type(context.machine).__name__, "give a text that is one order's alone"
            raise DefinitionError(chart, f"the key of effect {self.kind!r} is {key!r}", hint)
        return key

    @staticmethod
    def _resolve(fn: Any, context: Context) -> Callable[..., Any]:
        found: Any = fn
        if isinstance(fn, str):
            machine = context.machine
            found = getattr(machine, fn, None) or getattr(machine.model, fn, None)
        if not callable(found):
            raise DefinitionError(
                type(context.machine).__name__,
                f"effect {fn!r} is not a method of the chart or of its model",
                "give a callable, or the name of one",
            )
        function: Callable[..., Any] = found
        return function

    def judge(self, error: BaseException, attempt: int) -> Verdict:
        """Say what an error of the n-th attempt means for the outcome.

        `failed`: it proves that nothing happened, or that the other side refused. `retry`: call
        again after the backoff. `unknown`: it may have happened. What ends a call from this side,
        its timeout or a cancellation, proves nothing, whatever errors are named.
        """
        hidden = isinstance(error, CallTimeoutError | CancelledError)
        if not hidden and isinstance(error, self.failed_on):
            return "failed"
        repeatable = self.idempotent or (not hidden and isinstance(error, self.retry_on))
        if repeatable and attempt <= self.retries:
            return "retry"
        return "failed" if repeatable else "unknown"


def offered(context: Context) -> dict[str, Any]:
    """Return what an effect's function may name."""
    machine = context.machine
    return {
        **context.kwargs,
        "ctx": context,
        "machine": machine,
        "model": machine.model,
        "key": context.key,
    }


def effect(
    fn: Callable[..., Any] | str,
    *,
    kind: str | None = None,
    key: str | Callable[..., str] | None = None,
    idempotent: bool = False,
    probe: Probe | str | None = None,
    retries: int = 0,
    retry_on: type[BaseException] | Errors = (),
    failed_on: type[BaseException] | Errors = (),
    backoff: Backoff = exponential,
    timeout: float | None = None,
    sync: bool = False,
) -> Effect:
    """Return what a state invokes to call the outside world, at most once unless told otherwise.

    `fn` is a function, a coroutine function, or the name of a method of the chart or its model;
    it gets the parameters it names out of `ctx`, `machine`, `model`, `key` and the data of the
    event that entered the state. `key` is the idempotency key (default: the effect's own id).
    `idempotent` says that a repeat with the same key does nothing more. `probe` is asked what
    became of a call in doubt and answers Done, NotDone or Unknown. `retries` after errors in
    `retry_on` (any error if idempotent), with `backoff(attempt)` seconds between. Errors in
    `failed_on` prove that nothing happened. `timeout` in seconds. `sync` makes the save before
    the call survive a power loss.

    Raises DefinitionError for retries that could repeat a call, and for senseless numbers.
    """
    name = fn if isinstance(fn, str) else getattr(fn, "__name__", type(fn).__name__)
    again, proof = _errors(retry_on), _errors(failed_on)
    if retries < 0 or (timeout is not None and timeout <= 0):
        raise DefinitionError(
            name, f"retries={retries}, timeout={timeout}", "give positive numbers"
        )
    if retries and not idempotent and not again:
        raise DefinitionError(
            name,
            f"an effect with retries={retries} that is not idempotent could happen twice",
            "declare idempotent=True, or name in retry_on the errors that prove nothing happened",
        )
    return Effect(
        fn, kind or name, key, idempotent, probe, retries, again, proof, backoff, timeout, sync
    )


def _errors(given: type[BaseException] | Errors) -> Errors:
    return (given,) if isinstance(given, type) else tuple(given)
