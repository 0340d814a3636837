"""A support desk: an answer is drafted, a person approves it by the ticket's number, it goes out.

What each part shows:

- `take_mail` is what a mailbox's poller calls, for each mail as often as it likes: the run is named
  after the mail, and the mail is noted as seen once its run is on disk.
- `reviewing` waits under a correlation key. Whoever decides needs the storage and that key:
  neither the run's id nor the process that keeps it, which may be down meanwhile.
- Two runs about one ticket: the gate of the second cannot have the key, and its chart is told so.
- `asking` requests a verdict on work that is finished. "good" is recorded; "bad" begins a run of
  another machine, once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart

from machines import effect
from machines.approvals import approval
from machines.carry import storage_effect
from machines.charts.service import RETRIES, post, shortly
from machines.state import approvals_of
from snapshots.errors import RunExistsError
from snapshots.storage import Scope
from snapshots.storage.approvals import Continuation
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from machines import Context, Host
    from machines.definition import Chart

SCOPE: Final = Scope(workflow="tickets")
"""Of the mails that were seen, and of the approvals: `Host(approvals=SCOPE)`."""
SEEN_TTL_MS: Final = 90 * 24 * 60 * 60 * 1000


@dataclass
class Ticket:
    """What was asked, what is to be answered, and who approved it."""

    number: str
    text: str
    service: str
    draft: str | None = None
    by: str | None = None


@dataclass
class Complaint:
    """A ticket whose answer was found bad, and who says so."""

    number: str
    service: str
    decision: dict[str, Any] = field(default_factory=dict)


def answer_key(model: Ticket) -> str:
    """Return the key of the ticket's one answer, whichever attempt it is."""
    return f"answer-{model.number}"


def draft(model: Ticket, key: str) -> str:
    """Have an answer drafted."""
    return post(model.service, "draft", key=key, subject=model.number, text=model.text)


def send_answer(model: Ticket, key: str) -> str:
    """Send the answer; the service sends one per key."""
    return post(
        model.service, "answer", key=key, subject=model.number, draft=model.draft, by=model.by
    )


def ticket_key(model: Ticket) -> str:
    """Return the key that an approver knows."""
    return f"ticket-{model.number}"


def ask_for_verdict(ctx: Context, model: Ticket) -> None:
    """Ask what the answer was worth; the work is finished whatever is said."""
    given = {"number": model.number, "service": model.service}
    approvals_of(ctx.machine).request(
        f"verdict-{model.number}",
        ("good", "bad"),
        token=ctx.run_id,
        on_decision={"bad": Continuation(machine="followup", input=given)},
    )


class Triage(StateChart[Ticket]):
    """One ticket from its mail to its answer."""

    drafting = State(
        initial=True, invoke=effect(draft, idempotent=True, retries=RETRIES, backoff=shortly)
    )
    reviewing = State(
        invoke=approval(
            "approve", "reject", correlation=ticket_key, meta={"asks": "may this answer go out?"}
        )
    )
    sending = State(
        invoke=effect(
            send_answer,
            kind="answer",
            key=answer_key,
            idempotent=True,
            retries=RETRIES,
            backoff=shortly,
        )
    )
    asking = State(invoke=storage_effect(ask_for_verdict, kind="verdict.ask"))
    answered = State(final=True)
    rejected = State(final=True)
    duplicate = State(final=True)

    done_invoke_drafting = drafting.to(reviewing, on="keep_draft")
    approve = reviewing.to(sending, on="keep_name")
    reject = reviewing.to(rejected, on="keep_name")
    error_approval_reviewing = reviewing.to(duplicate)
    done_invoke_sending = sending.to(asking)
    done_invoke_asking = asking.to(answered)
    error_execution = drafting.to(drafting) | sending.to(sending) | asking.to(asking)

    def keep_draft(self, data: str) -> None:
        """Note the draft."""
        self.model.draft = data

    def keep_name(self, by: str) -> None:
        """Note who decided."""
        self.model.by = by


def escalate(model: Complaint, key: str) -> str:
    """Tell a person that an answer was bad."""
    return post(model.service, "escalate", key=key, subject=model.number, by=model.decision["by"])


class Followup(StateChart[Complaint]):
    """What a bad verdict leads to."""

    escalating = State(
        initial=True, invoke=effect(escalate, idempotent=True, retries=RETRIES, backoff=shortly)
    )
    escalated = State(final=True)
    done_invoke_escalating = escalating.to(escalated)
    error_execution = escalating.to(escalating)


async def take_mail(
    host: Host, mail: dict[str, Any], *, machine: Chart | str = "triage"
) -> str | None:
    """Take a mail (`id`, `number`, `text`, `service`); return its run, None if it was seen."""
    state = StateStore(host.storage.keyed, host.storage.leases, SCOPE)
    if await host.with_storage(lambda: state.was_seen(mail["id"])):
        return None
    run = f"mail-{mail['id']}"
    given = {key: mail[key] for key in ("number", "text", "service")}
    # If it is on disk already, the process died before the mail could be noted as seen.
    with suppress(RunExistsError):
        await host.start(machine, given, run_id=run)
    await host.with_storage(lambda: state.seen(mail["id"], SEEN_TTL_MS))
    return run
