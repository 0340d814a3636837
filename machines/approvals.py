"""Gates that are found by a key of the outside's: an approval by correlation key.

reviewing = State(invoke=approval("approve", "reject", correlation=ticket_key))

Its host looks after approvals (`Host(approvals=…)`), and the key leads any process to the gate:
`Approvals.decide(key, "approve")`. Without a host, in `open_run`, it is a gate like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from machines.arguments import bind
from machines.errors import DefinitionError
from machines.gates import Gate, OpenGate, gate
from machines.invoked import is_chart, sources
from machines.names import every_state, path_below
from snapshots.codec import load
from snapshots.errors import InvalidKeyError
from snapshots.storage.approvals import Approval
from snapshots.storage.scopes import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine import StateChart

    from machines.engine.invocations import Invoke
    from machines.engine.nodes import Node
    from machines.parameters import Model

Correlation = str | Callable[..., str]

MARK: Final = b'"approval":'
"""What the bytes of a chart with such an open gate hold, and few others."""


@dataclass(frozen=True, slots=True)
class ApprovalGate(Gate):
    """What `approval` returns: a gate whose description has its correlation key."""

    correlation: Correlation = ""

    def describe(self, node: Node, invoke: Invoke) -> dict[str, Any]:
        """Return what a snapshot holds of the open gate."""
        chart, given = node.chart, self.correlation
        offered = {"machine": chart, "model": chart.model}
        key = bind(given, offered)() if callable(given) else given
        _checked(key, type(chart).__name__)
        return {**Gate.describe(self, node, invoke), "approval": key}


def approval(
    *events: str,
    correlation: Correlation,
    key: str | None = None,
    meta: Any = None,
    model: Model | Mapping[str, Model] | None = None,
) -> ApprovalGate:
    """Return what a state invokes to wait for a decision under a correlation key.

    `correlation` is the key, or a function of the `model` or the `machine` that gives it as the
    gate opens; it stands in the run's row from then on. The rest is as for `gate`. Raises
    DefinitionError as that does, and for a correlation that is neither.
    """
    if not callable(correlation):
        _checked(correlation, "approval")
    plain = gate(*events, key=key, meta=meta, model=model)
    given = {one.name: getattr(plain, one.name) for one in fields(plain) if one.init}
    return ApprovalGate(**given, correlation=correlation)


def _checked(key: str, machine: str) -> None:
    try:
        check_text(key, "a correlation key")
    except InvalidKeyError as error:
        hint = "give a text that tells this run from others, or a function of the model"
        raise DefinitionError(machine, str(error), hint) from error


def opens_approvals(chart: type[StateChart[Any]]) -> bool:
    """Whether a chart, or one that it may invoke, has a state that waits for an approval."""
    waiting, seen = [chart], {chart}
    while waiting:
        for state in every_state(list(waiting.pop().states)):
            for source in sources(state):
                if isinstance(source, ApprovalGate):
                    return True
                below: Any = source if is_chart(source) else getattr(source, "chart", None)
                if is_chart(below) and below not in seen:
                    seen.add(below)
                    waiting.append(below)
    return False


def approvals_in(run_id: str, file: str, root: bytes) -> tuple[Approval, ...]:
    """Return the approvals that the saved root chart of a run holds open."""
    return tuple(_open(run_id, file, "", load(root))) if MARK in root else ()


def _open(run_id: str, file: str, path: str, node: dict[str, Any]) -> Iterator[Approval]:
    gates: set[str] = set()
    for invoke in node.get("invokes", ()):
        ended = invoke.get("sent") or invoke.get("terminated") or invoke.get("cancelled")
        # A state that was entered again without being left has its gate once.
        if "approval" not in invoke or ended or invoke["key"] in gates:
            continue
        gates.add(invoke["key"])
        events, meta = tuple(invoke["events"]), invoke.get("meta")
        yield Approval(
            key=invoke["approval"],
            token=f"{run_id}/{path_below(path, invoke['id'])}",
            file=file,
            events=events,
            run_id=run_id,
            gate=OpenGate(invoke["key"], path, invoke["state"], events, meta).address,
            meta=meta,
        )
    for key, below in node.get("children", {}).items():
        yield from _open(run_id, file, path_below(path, key), below)
