"""Effects that a test scripts: every call is recorded, and gets the answer that it was promised."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from machines.effects import Effect
    from machines.testing.hands import Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCall:
    """A call that reached the outside: whose it is, its key and attempt, and its arguments."""

    run: str
    key: str
    attempt: int
    arguments: Mapping[str, Any]


class Fake:
    """Stands in for the function of all effects of one kind; it outlives hosts.

        charge = lab.fake("charge").raises(ConnectionResetError()).returns("receipt-7")

    Each of these says what one further call gets; behind the script a call returns `otherwise`.
    What an error means is for the effect to say, as ever.
    """

    def __init__(self, kind: str, waits: Waits, die: Callable[[str], None], otherwise: Any) -> None:
        self.kind = kind
        self.calls: list[FakeCall] = []
        """The calls that reached the outside, oldest first."""
        self._script: deque[Callable[[FakeCall], Awaitable[Any]]] = deque()
        self._waits = waits
        self._die = die
        self._otherwise = otherwise

    def __repr__(self) -> str:
        return f"Fake({self.kind!r}, {len(self.calls)} calls, {len(self._script)} scripted)"

    def returns(self, value: Any) -> Self:
        """Have a call return a value."""

        async def answer(call: FakeCall) -> Any:
            self.calls.append(call)
            return value

        return self._then(answer)

    def raises(self, error: Exception) -> Self:
        """Have a call reach the outside, and raise an error; TypeError for what is none."""
        if not isinstance(error, Exception):
            message = f"a call raises an exception, such as OSError('down'), and not {error!r}"
            raise TypeError(message)

        async def answer(call: FakeCall) -> Any:
            self.calls.append(call)
            raise error

        return self._then(answer)

    def hangs(self) -> Self:
        """Have a call reach the outside, and never be answered: its timeout ends it, or a crash."""

        async def answer(call: FakeCall) -> Any:
            self.calls.append(call)
            with self._waits.idling():
                await asyncio.Event().wait()

        return self._then(answer)

    def crashes_before(self) -> Self:
        """Have the host die when a call has left and before it reaches the outside."""

        async def answer(call: FakeCall) -> Any:
            del call
            self._die("before call")

        return self._then(answer)

    def crashes_after(self) -> Self:
        """Have the host die when a call has reached the outside and before it is back."""

        async def answer(call: FakeCall) -> Any:
            self.calls.append(call)
            self._die("after call")

        return self._then(answer)

    def _then(self, answer: Callable[[FakeCall], Awaitable[Any]]) -> Self:
        self._script.append(answer)
        return self

    def stand_in(self, effect: Effect) -> Effect:
        """Return an effect that is like one in everything but its function, which is this."""

        async def called(*given: Any, **named: Any) -> Any:
            del given
            context = named["ctx"]
            shown = named if takes_context else {k: v for k, v in named.items() if k != "ctx"}
            call = FakeCall(
                run=context.run_id,
                key=context.key,
                attempt=context.attempt,
                arguments=MappingProxyType(shown),
            )
            if self._script:
                return await self._script.popleft()(call)
            self.calls.append(call)
            return self._otherwise

        parameters = _parameters(effect.fn)
        takes_context = "ctx" in parameters
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY)
        all_of_them = {"ctx": context, **parameters}
        ordered = sorted(all_of_them.values(), key=lambda parameter: parameter.kind)
        vars(called)["__signature__"] = inspect.Signature(ordered)
        return replace(effect, fn=called)


def _parameters(fn: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, without defaults in an order that no signature has.

    Of a method that is only named, nothing is known: its stand-in takes all that is offered.
    """
    if isinstance(fn, str):
        return {"offered": inspect.Parameter("offered", inspect.Parameter.VAR_KEYWORD)}
    found = dict(inspect.signature(fn).parameters)
    keyword = inspect.Parameter.KEYWORD_ONLY
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {
        name: parameter if parameter.kind in variable else parameter.replace(kind=keyword)
        for name, parameter in found.items()
    }
