"""How what a workspace holds becomes rows, and rows become it again: the only use of the codec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from snapshots import limits
from snapshots.errors import DecodeError
from snapshots.storage.workspaces.records import (
    Artifact,
    EntryKind,
    HistorySegment,
    LogEntry,
    Proposal,
    ProposalStatus,
    Thread,
    ThreadRun,
)
from snapshots.storage.workspaces.rows import EntityRow
from snapshots.storage.workspaces.rules import require_size, run_key

if TYPE_CHECKING:
    from snapshots.codec import Codec
    from snapshots.storage.workspaces.rows import EntityKind, HistoryRow, LogRow


class Forms:
    """Rows and records of one application, by the codec that knows its values."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def encode(self, value: Any, what: str, root: str) -> bytes:
        """Return the bytes of a value; `LimitError` beyond `WORKSPACE_VALUE_BYTES_MAX`.

        What the codec does not know is an `EncodeError` whose path starts with `root`.
        """
        data = self._codec.encode(value, root=root)
        require_size(f"the size of {what} in bytes", len(data), limits.WORKSPACE_VALUE_BYTES_MAX)
        return data

    def copy(self, value: Any, root: str) -> Any:
        """Return a value as it will be read again, which shares nothing with the one given."""
        return self._codec.decode(self._codec.encode(value, root=root), root=root)

    def artifact(self, row: EntityRow) -> Artifact:
        """Return an artifact as it is stored."""
        data = self._document(row, {"version": int, "content": dict})
        return Artifact(
            artifact=row.key,
            type=row.label,
            version=data["version"],
            revision=row.revision,
            content=data["content"],
            created_ms=row.created_ms,
            updated_ms=row.updated_ms,
        )

    def artifact_row(self, artifact: Artifact) -> EntityRow:
        """Return the row of an artifact."""
        data = {"version": artifact.version, "content": artifact.content}
        return EntityRow(
            kind="artifact",
            key=artifact.artifact,
            label=artifact.type,
            revision=artifact.revision,
            created_ms=artifact.created_ms,
            updated_ms=artifact.updated_ms,
            data=self.encode(data, f"artifact {artifact.artifact!r}", "artifact"),
        )

    def proposal(self, row: EntityRow) -> Proposal:
        """Return a proposal as it is stored."""
        required: dict[str, type] = {
            "artifact": str,
            "type": str,
            "version": int,
            "patch": dict,
            "reason": str,
        }
        data = self._document(row, required | {"expected_revision": int})
        return Proposal(
            proposal=row.key,
            artifact=data["artifact"],
            type=data["type"],
            version=data["version"],
            patch=data["patch"],
            expected_revision=data["expected_revision"],
            status=cast("ProposalStatus", row.label),
            thread=data.get("thread"),
            reason=data["reason"],
            created_ms=row.created_ms,
            settled_ms=None if row.label == "open" else row.updated_ms,
        )

    def proposal_row(self, proposal: Proposal) -> EntityRow:
        """Return the row of a proposal, which is written when it is made and when it is decided."""
        data = {
            "artifact": proposal.artifact,
            "type": proposal.type,
            "version": proposal.version,
            "patch": proposal.patch,
            "expected_revision": proposal.expected_revision,
            "thread": proposal.thread,
            "reason": proposal.reason,
        }
        settled = proposal.settled_ms
        return EntityRow(
            kind="proposal",
            key=proposal.proposal,
            label=proposal.status,
            revision=1 if settled is None else 2,
            created_ms=proposal.created_ms,
            updated_ms=proposal.created_ms if settled is None else settled,
            data=self.encode(data, f"proposal {proposal.proposal!r}", "proposal"),
        )

    def thread(self, row: EntityRow) -> Thread:
        """Return a thread as it is stored."""
        data = self._document(row, {"title": str})
        return Thread(thread=row.key, title=data["title"], created_ms=row.created_ms)

    def thread_row(self, thread: Thread) -> EntityRow:
        """Return the row of a thread, which is written once."""
        return EntityRow(
            kind="thread",
            key=thread.thread,
            label="",
            revision=1,
            created_ms=thread.created_ms,
            updated_ms=thread.created_ms,
            data=self.encode({"title": thread.title}, f"thread {thread.thread!r}", "thread"),
        )

    def run(self, row: EntityRow) -> ThreadRun:
        """Return a run of a thread as it is stored."""
        required: dict[str, type] = dict.fromkeys(("facts", "segments", "seq", "token"), int)
        data = self._document(row, required | {"thread": str, "run": str})
        return ThreadRun(
            thread=data["thread"],
            run=data["run"],
            facts=data["facts"],
            segments=data["segments"],
            seq=data["seq"],
            token=data["token"],
        )

    def run_row(self, run: ThreadRun, before: EntityRow | None, now_ms: int) -> EntityRow:
        """Return the row of a run, over the one it has."""
        data = {
            "thread": run.thread,
            "run": run.run,
            "facts": run.facts,
            "segments": run.segments,
            "seq": run.seq,
            "token": run.token,
        }
        encoded = self.encode(data, f"run {run.run!r}", "run")
        key = run_key(run.thread, run.run)
        return _next_row("run", key, before, label=run.thread, data=encoded, now_ms=now_ms)

    def cursor(self, row: EntityRow | None) -> int:
        """Return where a cursor stands, 0 for one that was never moved."""
        if row is None:
            return 0
        seq: int = self._document(row, {"seq": int})["seq"]
        return seq

    def cursor_row(self, name: str, seq: int, before: EntityRow | None, now_ms: int) -> EntityRow:
        """Return the row of a cursor, over the one it has."""
        encoded = self.encode({"seq": seq}, f"cursor {name!r}", "cursor")
        return _next_row("cursor", name, before, label="", data=encoded, now_ms=now_ms)

    def entry(self, row: LogRow) -> LogEntry:
        """Return a line of the log as it is stored."""
        return LogEntry(
            seq=row.seq,
            kind=cast("EntryKind", row.kind),
            subject=row.subject,
            thread=row.thread,
            run=row.run,
            data=self._codec.decode(row.data, root=f"log[{row.seq}]"),
            at_ms=row.at_ms,
        )

    def segment(self, row: HistoryRow) -> HistorySegment:
        """Return a segment of history as it is stored."""
        return HistorySegment(
            thread=row.thread,
            run=row.run,
            segment=row.segment,
            seq=row.seq,
            payload=row.payload,
            at_ms=row.at_ms,
        )

    def _document(self, row: EntityRow, required: dict[str, type]) -> dict[str, Any]:
        """Return what a row holds, or raise `DecodeError` if it is not what was written there."""
        found = self._codec.decode(row.data, root=row.kind)
        if type(found) is not dict:
            raise DecodeError(None, f"{row.kind} {row.key!r} is no document")
        for name, kind in required.items():
            if type(found.get(name)) is not kind:
                reason = f"{row.kind} {row.key!r} has no {name} that is a {kind.__name__}"
                raise DecodeError(None, reason)
        return found


def _next_row(
    kind: EntityKind,
    key: str,
    before: EntityRow | None,
    *,
    label: str,
    data: bytes,
    now_ms: int,
) -> EntityRow:
    """Return the row that an entity has next, its first one if there is none before."""
    return EntityRow(
        kind=kind,
        key=key,
        label=label,
        revision=1 if before is None else before.revision + 1,
        created_ms=now_ms if before is None else before.created_ms,
        updated_ms=now_ms,
        data=data,
    )
