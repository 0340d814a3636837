"""A release that needs the word of several offices: as many gates, all open at once in one run.

What each chart shows:

- `Consent` waits at a gate for an office's word, from whoever speaks for it first; the gate is
  addressed by the office, as `collecting.@legal/waiting`. A second answer finds it closed, and is
  told so. The office's signature must not be put twice, so its effect has a probe.
- `Release` spawns one `Consent` for each office that it is started with, goes on when the last of
  them has agreed, and ends the others as soon as one refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from statemachine import State, StateChart

from machines import Done, NotDone, children, effect, gate, spawn
from machines.charts.service import RETRIES, find, post, shortly


@dataclass
class Paper:
    """What one office is asked about, and who answered for it."""

    number: str
    office: str
    service: str
    by: str | None = None


@dataclass
class Proposal:
    """What is to go out, which offices are asked, and who answered for each of them."""

    number: str
    offices: list[str]
    service: str
    signed: dict[str, str] = field(default_factory=dict)


def sign(model: Paper, key: str) -> str:
    """Put the office's signature under the paper; asked twice, it is there twice."""
    subject = f"{model.number}-{model.office}"
    return post(model.service, "sign", key=key, subject=subject, by=model.by)


def find_signature(model: Paper, key: str) -> Done | NotDone:
    """Ask whether this signature is there already."""
    reference = find(model.service, "sign", key=key)
    return NotDone() if reference is None else Done(reference)


def publish(model: Proposal, key: str) -> str:
    """Let it go out; the service does so once per key."""
    return post(model.service, "publish", key=key, subject=model.number)


class Consent(StateChart[Paper]):
    """The word of one office."""

    waiting = State(
        initial=True, invoke=gate("approve", "reject", meta={"asks": "may this go out?"})
    )
    signing = State(invoke=effect(sign, probe=find_signature))
    agreed = State(final=True, donedata="who")
    refused = State(final=True, donedata="who")

    approve = waiting.to(signing, on="keep_name")
    reject = waiting.to(refused, on="keep_name")
    done_invoke_signing = signing.to(agreed)
    error_execution = signing.to(signing)

    def keep_name(self, by: str) -> None:
        """Note who spoke for the office."""
        self.model.by = by

    def who(self) -> str | None:
        """Return who spoke for the office, for the chart that waits for its word."""
        return self.model.by


class Release(StateChart[Proposal]):
    """A proposal on its way past every office."""

    collecting = State(initial=True, invoke=children(Consent))
    publishing = State(invoke=effect(publish, idempotent=True, retries=RETRIES, backoff=shortly))
    published = State(final=True)
    withdrawn = State(final=True)

    done_invoke_collecting = (
        collecting.to(withdrawn, cond="is_refusal", on="keep_word")
        | collecting.to(publishing, cond="is_last", on="keep_word")
        | collecting.to(None, on="keep_word")
    )
    done_invoke_publishing = publishing.to(published)
    error_execution = publishing.to(publishing)

    def on_enter_collecting(self) -> None:
        """Ask every office."""
        proposal = self.model
        for office in proposal.offices:
            given = {"number": proposal.number, "office": office, "service": proposal.service}
            spawn(self, office, given)

    def is_refusal(self, ended: list[str]) -> bool:
        """Whether an office refused."""
        return "refused" in ended

    def is_last(self) -> bool:
        """Whether every other office has agreed."""
        return len(self.model.signed) == len(self.model.offices) - 1

    def keep_word(self, child: str, data: str) -> None:
        """Note who spoke for an office."""
        self.model.signed[child] = data
