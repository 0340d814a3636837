"""The port of a pool: what its source is asked, and what its answers mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from reprlib import repr as short
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from machines.arguments import bind, is_async
from machines.errors import DefinitionError, MachinesError

if TYPE_CHECKING:
    from machines.engine.invocations import Context

Source = Callable[..., Any]
"""A function, or a coroutine function, that is asked for the next item."""
OFFERED: Final = frozenset({"active", "outcomes", "model", "machine", "ctx"})
"""What a source may name."""
_VARIADIC: Final = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)


class ItemRefusedError(MachinesError):
    """A source gave something that no worker can work."""

    def __init__(self, item: str, reason: str) -> None:
        super().__init__(
            f"the pool's source gave {item}, which is no item: {reason}; give a mapping with an "
            "'id', a text or a whole number that is its own id, None, or (None, how many are open)",
            item=item,
            reason=reason,
        )


def check_source(name: str, source: Source) -> None:
    """Raise DefinitionError for what is no function, or needs what no pool offers."""
    try:
        named = signature(source).parameters.items()
    except (TypeError, ValueError) as error:
        reason = f"its source {source!r} is no function whose parameters are known"
        raise DefinitionError(name, reason, "give a function or a coroutine function") from error
    needed = {key for key, p in named if p.default is Parameter.empty and p.kind not in _VARIADIC}
    if unknown := sorted(needed - OFFERED):
        reason = f"its source needs {unknown!r}, which no pool offers"
        raise DefinitionError(name, reason, f"name some of {sorted(OFFERED)!r}")


class Question:
    """What a state invokes to ask a source that is a function: it is called in a thread.

    A handler and no function, so that the chart is the same whether its source waits or blocks.
    What the source is given does not change under it: the pool replaces it, and never changes it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def run(self, ctx: Context) -> Any:
        """Ask."""
        return self.ready(ctx)()

    def ready(self, ctx: Context) -> Callable[[], Any]:
        """Return the call, with what the source names."""
        machine: Any = ctx.machine
        model = machine.model
        active = tuple(model.active)  # before the outcomes: one that ends between is in both
        told = {"active": active, "outcomes": MappingProxyType(model.outcomes)}
        return bind(self.source, {"ctx": ctx, "machine": machine, "model": model, **told})


class AwaitedQuestion(Question):
    """What a state invokes to ask a source that is a coroutine function."""

    async def run(self, ctx: Context) -> Any:
        """Ask, and wait for the answer."""
        return await self.ready(ctx)()


def question_for(source: Source) -> Question:
    """Return what asks a source, as a state invokes it."""
    return AwaitedQuestion(source) if is_async(source) else Question(source)


def read_answer(answer: Any) -> str | int:
    """Return the id of the item in an answer, or how many are open if there is none.

    Raises ItemRefusedError for what is neither.
    """
    if answer is None:
        return 0
    if isinstance(answer, tuple):
        return _read_open(answer)
    named = answer.get("id") if isinstance(answer, Mapping) else answer
    if isinstance(named, bool) or not isinstance(named, str | int):
        whose = "its id" if isinstance(answer, Mapping) else "it"
        raise ItemRefusedError(shown(answer), f"{whose} is {type(named).__name__}")
    try:
        return str(named)
    except ValueError as error:  # more digits than Python writes
        raise ItemRefusedError(shown(answer), "its id has too many digits") from error


def _read_open(answer: tuple[Any, ...]) -> int:
    match answer:
        case (None, int(count)) if count >= 0 and not isinstance(count, bool):
            return count
    raise ItemRefusedError(shown(answer), "of a pair, the first is None and the second a number")


def shown(answer: Any) -> str:
    """Return what an answer looks like, cut, whatever it is."""
    try:
        return short(answer)
    except ValueError:  # more digits than Python writes
        return f"a {type(answer).__name__} that is too long to show"
