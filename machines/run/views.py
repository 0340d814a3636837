"""How a run is, for who asks the host: the same from memory and from a row."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.gates import OpenGate
from machines.names import path_below
from snapshots.codec import load
from snapshots.errors import DecodeError
from snapshots.layout import unfold_blob
from snapshots.ledgers.effects import whole

if TYPE_CHECKING:
    from machines.run.run import Run
    from snapshots.codec import Codec
    from snapshots.records import RunHeader, Status, StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run as it was when it was read.

    `configuration` are the names of the root chart's active states, `context` its model's fields,
    `effects` the rows of the effect ledger. Values are copies, type for type; of a machine that is
    not known here, or whose classes are not, they are plain JSON, tagged where the codec tags them.
    `gates` have no parameters here: those come from the code, and `Host.gates` has them. `reason`
    says why a host set the status.
    """

    run_id: str
    machine: str
    status: Status
    reason: str | None
    revision: int
    configuration: tuple[str, ...]
    context: dict[str, Any]
    effects: tuple[dict[str, Any], ...]
    gates: tuple[OpenGate, ...]
    output: Any


def view_of_run(run: Run) -> RunView:
    """Return a resident run as it was saved last."""
    assert run.header is not None
    return view_of_row(run.as_stored(), run.machine.codec)


def view_of_row(stored: StoredRun, codec: Codec | None = None) -> RunView:
    """Return a stored run, its values as a codec gives them; DecodeError if it cannot be read."""
    run_id = stored.header.run_id
    try:
        return _view(stored.header, _value(stored.blob, codec))
    except DecodeError as error:
        raise DecodeError(run_id, error.reason, error.version) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"its blob is no snapshot of a run ({type(error).__name__}: {error})"
        raise DecodeError(run_id, reason) from error


def _value(blob: bytes, codec: Codec | None) -> Any:
    if codec is not None:
        with suppress(DecodeError):
            return unfold_blob(codec.decode_blob(blob), None)
    return unfold_blob(load(blob), None)


def _view(header: RunHeader, value: Any) -> RunView:
    root = value["root"]
    return RunView(
        run_id=header.run_id,
        machine=header.machine,
        status=header.status,
        reason=header.reason,
        revision=header.revision,
        configuration=tuple(root.get("configuration", ())),
        context=dict(root.get("context", {})),
        effects=tuple(map(whole, value.get("effects", ()))),
        gates=tuple(_gates("", root)) if header.status == "live" else (),
        output=root.get("output"),
    )


def _gates(path: str, node: dict[str, Any]) -> list[OpenGate]:
    opened = {
        i["key"]: OpenGate(i["key"], path, i["state"], tuple(i["events"]), i.get("meta"))
        for i in node.get("invokes", ())
        if i.get("kind") == "gate" and not (i.get("sent") or i.get("cancelled"))
    }
    found = list(opened.values())
    for key, below in node.get("children", {}).items():
        found += _gates(path_below(path, key), below)
    return found
