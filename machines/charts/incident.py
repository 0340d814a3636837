"""An incident responder: an alert opens one incident, whose message a person acknowledges.

What each part shows:

- `take_alert` is what a webhook calls. An alert that repeats finds its incident open, and begins
  nothing; one that says "resolved" finds the run by the fingerprint, also after a restart.
- The incident is opened before its run is started, and names it. Killed between the two, the next
  repeat of the alert starts that run: an id begins one run.
- `noting` keeps with the incident which chat message it has, for whoever else looks it up.
- An alert may be resolved while its message is still being posted: `is_resolved` remembers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart

from machines import effect, gate
from machines.carry import storage_effect
from machines.charts.service import RETRIES, post, shortly
from machines.errors import RunFinishedError
from machines.state import state_of
from snapshots.errors import RunNotFoundError
from snapshots.identifiers import new_run_id
from snapshots.storage import Scope
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines import Context, Host
    from machines.definition import Chart
    from snapshots.clock import Clock

SCOPE: Final = Scope(workflow="incidents")
MESSAGE_TTL_MS: Final = 30 * 24 * 60 * 60 * 1000
"""How long an incident that nobody resolves stays open."""


@dataclass
class Alert:
    """What an incident is about, and which message says so; `opening` is its run's id."""

    opening: str
    fingerprint: str
    summary: str
    service: str
    message: str | None = None
    by: str | None = None
    resolved: bool = False


def message_key(model: Alert) -> str:
    """Return the key of the incident's one message, whichever attempt it is."""
    return f"message {model.opening}"


def resolved_key(model: Alert) -> str:
    """Return the key of the news that it is over."""
    return f"resolved {model.opening}"


def post_message(model: Alert, key: str) -> str:
    """Tell the people on call; the chat posts one message per key."""
    return post(model.service, "message", key=key, subject=model.fingerprint, summary=model.summary)


def mark_resolved(model: Alert, key: str) -> str:
    """Tell them that it is over, under the message that they know."""
    return post(
        model.service, "resolved", key=key, subject=model.fingerprint, message=model.message
    )


def note_message(ctx: Context, model: Alert) -> None:
    """Keep with the open incident where its message is."""
    value = {"run": model.opening, "message": model.message}
    state_of(ctx.machine, SCOPE).incidents.update(model.fingerprint, value)


def close_incident(ctx: Context, model: Alert) -> None:
    """Close it, unless it is another run's by now."""
    incidents = state_of(ctx.machine, SCOPE).incidents
    found = incidents.find(model.fingerprint)
    if found is not None and found.value["run"] == model.opening:
        incidents.close(model.fingerprint)


class Incident(StateChart[Alert]):
    """One incident from its first alert to its end."""

    posting = State(
        initial=True,
        invoke=effect(
            post_message,
            kind="message",
            key=message_key,
            idempotent=True,
            retries=RETRIES,
            backoff=shortly,
        ),
    )
    noting = State(invoke=storage_effect(note_message, kind="incident.note"))
    firing = State(invoke=gate("acknowledge", key="incident"))
    acknowledged = State()
    closing = State(invoke=storage_effect(close_incident, kind="incident.close"))
    telling = State(
        invoke=effect(
            mark_resolved,
            kind="resolved",
            key=resolved_key,
            idempotent=True,
            retries=RETRIES,
            backoff=shortly,
        )
    )
    over = State(final=True)

    done_invoke_posting = posting.to(noting, on="keep_message")
    done_invoke_noting = noting.to(closing, cond="is_resolved") | noting.to(firing)
    acknowledge = firing.to(acknowledged, on="keep_name")
    resolve = (
        posting.to(None, on="remember")
        | noting.to(None, on="remember")
        | firing.to(closing)
        | acknowledged.to(closing)
    )
    done_invoke_closing = closing.to(telling)
    done_invoke_telling = telling.to(over)
    error_execution = (
        posting.to(posting) | noting.to(noting) | closing.to(closing) | telling.to(telling)
    )

    def keep_message(self, data: str) -> None:
        """Note where the message is."""
        self.model.message = data

    def keep_name(self, by: str) -> None:
        """Note who looks after it."""
        self.model.by = by

    def remember(self) -> None:
        """Note that it is over already."""
        self.model.resolved = True

    def is_resolved(self) -> bool:
        """Whether it was over before its message was there."""
        return self.model.resolved


def state_on(host: Host) -> StateStore:
    """Return the state of incidents as a host's storage has it."""
    return StateStore(host.storage.keyed, host.storage.leases, SCOPE)


async def take_alert(
    host: Host,
    alert: dict[str, Any],
    *,
    machine: Chart | str = "incident",
    name: Callable[[Clock], str] = new_run_id,
) -> str | None:
    """Take an alert: `fingerprint`, `status` ("firing" or "resolved"), `summary`, `service`.

    `name` gives the id of a run that is to be opened, a new one each time that it is asked.
    Returns the run of its incident; None for a "resolved" that finds none open.
    """
    if alert["status"] == "resolved":
        return await _resolve(host, alert["fingerprint"])
    given = {key: alert[key] for key in ("fingerprint", "summary", "service")}
    incidents = state_on(host).incidents
    fingerprint = alert["fingerprint"]
    while True:
        fresh = {"run": name(host.clock)}
        found = await host.with_storage(
            partial(incidents.open, fingerprint, fresh, ttl_ms=MESSAGE_TTL_MS)
        )
        run: str = found.value["run"]
        if host.is_live(run):
            return run
        if await _has_ended(host, run):
            await host.with_storage(lambda: incidents.close(fingerprint))
            continue  # its run was cancelled, say, and left it open
        return await host.start(machine, {**given, "opening": run}, run_id=run)


async def _resolve(host: Host, fingerprint: str) -> str | None:
    found = await host.with_storage(lambda: state_on(host).incidents.find(fingerprint))
    if found is None:
        return None
    run: str = found.value["run"]
    try:
        await host.send(run, "resolve", delivery=f"resolved {run}")
    except (RunFinishedError, RunNotFoundError):
        await host.with_storage(lambda: state_on(host).incidents.close(fingerprint))
        return None
    return run


async def _has_ended(host: Host, run: str) -> bool:
    try:
        return (await host.read(run)).status != "live"
    except RunNotFoundError:
        return False
