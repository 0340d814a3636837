"""Gives a callable the parameters that it names, as python-statemachine's callbacks get theirs."""

from __future__ import annotations

from inspect import Parameter, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def bind(function: Callable[..., Any], offered: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a call of the function with what it names out of `offered`.

    A parameter that is not offered keeps its default; without one, calling raises TypeError.
    A `**kwargs` takes everything that no other parameter took.
    """
    taken: dict[str, Any] = {}
    rest = dict(offered)
    positional: list[Any] = []
    for name, parameter in signature(function).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            taken.update(rest)
        elif parameter.kind is Parameter.POSITIONAL_ONLY and name in rest:
            positional.append(rest.pop(name))
        elif parameter.kind is not Parameter.VAR_POSITIONAL and name in rest:
            taken[name] = rest.pop(name)
    return lambda: function(*positional, **taken)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function gives a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - to look at it, not to test for it
    return iscoroutinefunction(function) or iscoroutinefunction(call)
