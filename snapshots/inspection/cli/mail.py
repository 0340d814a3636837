"""The commands that hand something in for a run: on disk first, then a host's answer is awaited."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from snapshots.codec import dump, load
from snapshots.database import patiently
from snapshots.errors import DecodeError, StorageError
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    Run,
    opened,
    place_of,
)
from snapshots.inspection.handing import OrderRefusedError, judged, report_of
from snapshots.inspection.limits import OUTCOME_POLL_MS, WAIT_S_DEFAULT, WAIT_S_MAX
from snapshots.inspection.printable import visible
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import tell, write
from snapshots.mailbox import TAKEN_BEFORE, Mailbox, reason_of
from snapshots.opening import open_store_for_mail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from snapshots.inspection.queries.files import FoundRun

Event = Annotated[str, typer.Argument(metavar="EVENT", help="Name of the event.")]
Data = Annotated[
    str | None, typer.Option("--data", metavar="JSON", help="Its data: an object of values.")
]
Delivery = Annotated[
    str | None,
    typer.Option("--delivery", metavar="ID", help="Your id for it: a repeat is not run again."),
]
_EXAMPLE: Final = '{"amount": 12}'
Wait = Annotated[
    float,
    typer.Option(
        "--wait", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="How long to wait for a host."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What became of an entry: `entry` is None where nothing had to be handed in."""

    run_id: str
    entry: int | None
    outcome: str
    """`taken`, `taken before`, `refused` or `waiting`."""
    reason: str | None = None


def send(
    run: Run,
    event: Event,
    file: File = None,
    *,
    data: Data = None,
    delivery: Delivery = None,
    wait: Wait = WAIT_S_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """Send an event to a live run.

    Exit code 0 says that the run has taken it, or that it is accepted and waits for a host; 1
    that it was refused.
    """
    content = {"event": _given("EVENT", event), "data": _object("--data", data)}
    order = _Order(
        kind="send", content=content, file=file, wait_s=wait, as_json=as_json, delivery=delivery
    )
    return _hand_in(order, run)


def answer(
    run: Run,
    gate: Annotated[str, typer.Argument(metavar="GATE", help="Key of an open gate of the run.")],
    event: Event,
    file: File = None,
    *,
    data: Data = None,
    delivery: Delivery = None,
    wait: Wait = WAIT_S_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """Answer an open gate of a live run with one of the events that it accepts.

    Exit codes as for `send`; of two answers to one gate one is taken, the other refused.
    """
    named = {"gate": _given("GATE", gate), "event": _given("EVENT", event)}
    content = {**named, "data": _object("--data", data)}
    order = _Order(
        kind="answer",
        content=content,
        file=file,
        wait_s=wait,
        as_json=as_json,
        delivery=delivery,
    )
    return _hand_in(order, run)


def resolve(
    run: Run,
    effect: Annotated[
        str, typer.Argument(metavar="EFFECT", help="Id of an effect, or its part behind the run's.")
    ],
    file: File = None,
    *,
    done: Annotated[
        str | None, typer.Option("--done", metavar="JSON", help="It was done, with this result.")
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="TEXT", help="It failed, and why.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Have it called again.")] = False,
    wait: Wait = WAIT_S_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """Settle an effect in doubt: --done with its result, --failed with a reason, or --again.

    Exit codes as for `send`. It is refused if the effect was called again since it was looked at.
    """
    if (done is not None) + (failed is not None) + again != 1:
        message = "give exactly one of --done, --failed and --again"
        raise typer.BadParameter(message)
    content: dict[str, Any] = {"effect": _given("EFFECT", effect)}
    if done is not None:
        content["done"] = _json("--done", done, '"a text"')
    elif failed is not None:
        content["failed"] = _given("--failed", failed)
    else:
        content["again"] = True
    order = _Order(kind="resolve", content=content, file=file, wait_s=wait, as_json=as_json)
    return _hand_in(order, run)


def cancel(
    run: Run,
    file: File = None,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept with the run.")
    ] = None,
    wait: Wait = WAIT_S_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """End a live run. Exit codes as for `send`."""
    content = {"reason": None if reason is None else _given("--reason", reason)}
    order = _Order(kind="cancel", content=content, file=file, wait_s=wait, as_json=as_json)
    return _hand_in(order, run)


def revive(
    run: Run, file: File = None, *, wait: Wait = WAIT_S_DEFAULT, as_json: AsJson = False
) -> int:
    """Make a run live again that is lost, drifted, or died of an error.

    Exit codes as for `send`.
    """
    order = _Order(kind="revive", content={}, file=file, wait_s=wait, as_json=as_json)
    return _hand_in(order, run)


COMMANDS: Final = (send, answer, resolve, cancel, revive)


# -- what is handed in ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """One call of a command: what it hands in, where, and how long it waits."""

    kind: str
    content: Mapping[str, Any]
    file: Path | None
    wait_s: float
    as_json: bool
    delivery: str | None = None


def _hand_in(order: _Order, run: str) -> int:
    try:
        told = _order(order, _given("RUN", run))
    except OrderRefusedError as error:
        told = _Told(run_id=error.run_id, entry=None, outcome="refused", reason=error.reason)
    return _tell(told, as_json=order.as_json)


def _order(order: _Order, run: str) -> _Told:
    # Read first, since opening to write would create a file that is missing.
    with opened(order.file) as stored:
        found = stored.find(run)
    run_id = found.header.run_id
    if _was_taken(order, found):
        return _Told(run_id=run_id, entry=None, outcome=TAKEN_BEFORE)
    content = judged(order.kind, order.content, found)
    with open_store_for_mail(place_of(order.file)) as store:
        mailbox, data = Mailbox(store), dump(content)
        entry = patiently(lambda: mailbox.put(run_id, order.kind, data, order.delivery))
        with _saying_that_it_stays(entry):
            outcome = _await(mailbox, entry, order.wait_s)
    if outcome is None:
        return _Told(run_id=run_id, entry=entry, outcome="waiting")
    reason = reason_of(outcome)
    if reason is not None:
        outcome = "refused"
    return _Told(run_id=run_id, entry=entry, outcome=outcome, reason=reason)


def _was_taken(order: _Order, found: FoundRun) -> bool:
    """Whether a run that has ended had this delivery: a live one is asked by its host."""
    if order.delivery is None or found.header.status == "live":
        return False
    return order.delivery in report_of(found).deliveries


def _await(mailbox: Mailbox, entry: int, wait_s: float) -> str | None:
    """Return the outcome of an entry, None if it has none in time."""
    end_s = time.monotonic() + wait_s
    while True:
        found = mailbox.entry(entry)
        if found is None or found.outcome is not None:
            return None if found is None else found.outcome
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(left_s, OUTCOME_POLL_MS / 1000))


@contextmanager
def _saying_that_it_stays(entry: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        tell(f"accepted as {entry}; it stays so, whoever waits for it")
        raise
    except StorageError as error:
        hint = f"accepted as {entry} before, and it stays so; {error.hint}"
        raise StorageError(error.operation, error.path, hint, detail=error.detail) from error


# -- what is said of it -----------------------------------------------------------------------


def _tell(told: _Told, *, as_json: bool) -> int:
    if as_json:
        fields = {"run": told.run_id, "entry": told.entry}
        outcome = {"outcome": told.outcome, "reason": told.reason}
        write(written(fields | outcome), sys.stdout)
    elif told.outcome == "waiting":
        write(f"accepted as {told.entry}; it waits for a host\n", sys.stdout)
    elif told.reason is None:
        write(f"{visible(told.outcome)}\n", sys.stdout)
    if told.reason is None:
        return EXIT_OK
    tell(f"refused: {told.reason}")
    return EXIT_NO


# -- what is given ----------------------------------------------------------------------------


def _given(name: str, text: str) -> str:
    if not text:
        message = f"{name} is empty"
        raise typer.BadParameter(message)
    return text


def _json(name: str, text: str, example: str) -> Any:
    try:
        return load(text.encode())
    except (DecodeError, UnicodeEncodeError) as error:
        why = error.reason if isinstance(error, DecodeError) else str(error)
        message = f"{name} is {why}; write it as in '{example}'"
        raise typer.BadParameter(message) from error


def _object(name: str, text: str | None) -> dict[str, Any]:
    value = {} if text is None else _json(name, text, _EXAMPLE)
    if not isinstance(value, dict):
        message = f"{name} is no object; give values by name, as in '{_EXAMPLE}'"
        raise typer.BadParameter(message)
    return value
