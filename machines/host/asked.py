"""What an entry of the mailbox asks for: read without trusting it, refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.engine.turns import INITIAL
from machines.errors import EventRefusedError
from snapshots.codec import load
from snapshots.errors import DecodeError
from snapshots.limits import MAILBOX_DATA_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.codec import Codec
    from snapshots.records import MailboxEntry

HINT = "hand it in as the command `snapshots` does"


@dataclass(frozen=True, slots=True)
class Asked:
    """One entry with its content; see `snapshots.mailbox` for the form of each kind.

    What is not of that form raises EventRefusedError.
    """

    entry: MailboxEntry
    content: Mapping[str, Any]

    @classmethod
    def of(cls, entry: MailboxEntry) -> Asked:
        """Return what an entry asks for."""
        if len(entry.data) > MAILBOX_DATA_BYTES_MAX:
            raise _refused(entry, f"it has more than {MAILBOX_DATA_BYTES_MAX} bytes")
        try:
            content = load(entry.data)
        except DecodeError as error:
            raise _refused(entry, error.reason) from error
        if not isinstance(content, dict):
            raise _refused(entry, "it is no object")
        return cls(entry, content)

    @property
    def run_id(self) -> str:
        """The run that it is for."""
        return self.entry.run_id

    def refused(self, reason: str, hint: str = HINT) -> EventRefusedError:
        """Return the error that says why it cannot be done."""
        event = self.content.get("event")
        name = event if isinstance(event, str) and event else self.entry.kind
        return EventRefusedError(self.run_id, name, reason, hint)

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.content.get(name)
        if not isinstance(value, str) or not value:
            reason = f"its {name} is no text"
            raise self.refused(reason)
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a text that may be missing."""
        return None if self.content.get(name) is None else self.text(name)

    def event(self) -> str:
        """Return the event's name; the one that enters a chart is the library's alone."""
        event = self.text("event")
        if event == INITIAL:
            reason = "it is python-statemachine's own"
            raise self.refused(reason, hint="send an event of the chart")
        return event

    def data(self, codec: Codec) -> dict[str, Any]:
        """Return the event's data, by name."""
        data = self._value(codec, "data") if "data" in self.content else {}
        if type(data) is not dict or not all(type(name) is str for name in data):
            reason = "its data is no object"
            raise self.refused(reason, hint="give values by name: --data '{…}'")
        return data

    def attempt(self) -> int | None:
        """Return the number of the call that it is about, None if it does not say."""
        attempt = self.content.get("attempt")
        if attempt is not None and type(attempt) is not int:
            reason = "its attempt is no number"
            raise self.refused(reason)
        return attempt

    def decision(self, codec: Codec) -> dict[str, Any]:
        """Return what is decided about an effect, as `Desk.resolve` takes it."""
        return {
            "done": self._value(codec, "done") if "done" in self.content else ...,
            "failed": self.text_or_none("failed"),
            "again": self.content.get("again") is True,
        }

    def _value(self, codec: Codec, name: str) -> Any:
        try:
            return codec.from_plain(self.content[name], root=name)
        except DecodeError as error:
            reason = f"its {name} cannot be read: {error.reason}"
            hint = "give JSON, with a tag where a value is of another type"
            raise self.refused(reason, hint) from error


def _refused(entry: MailboxEntry, reason: str) -> EventRefusedError:
    told = f"its content cannot be read: {reason}"
    return EventRefusedError(entry.run_id, entry.kind, told, HINT)
