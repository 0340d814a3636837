"""One change of a workspace, whole before any of it is staged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from snapshots import limits
from snapshots.storage.workspaces import rules
from snapshots.storage.workspaces.records import (
    Artifact,
    Content,
    EntryKind,
    Fact,
    Proposal,
    ProposalStatus,
    Thread,
    ThreadRun,
)
from snapshots.storage.workspaces.rows import Batch, EntityRow, HistoryRow, LogRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.storage.workspaces.forms import Forms
    from snapshots.storage.workspaces.records import ArtifactType

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line of the log will tell, before it has its place there."""

    kind: EntryKind
    subject: str
    data: Any
    thread: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[Record]):
    """What a change makes of one thing: the record, its row, and the line that tells of it."""

    record: Record
    row: EntityRow
    line: Line


class Steps:
    """Makes the steps of one application, by its forms and the checks of its types."""

    def __init__(self, forms: Forms, types: Mapping[str, ArtifactType] | None) -> None:
        self._forms = forms
        self._types = types

    def batch(self, *steps: Step[Any], seq: int, now_ms: int) -> Batch:
        """Return what is to be staged for steps in this order, on a log that ends at `seq`."""
        lines = enumerate((step.line for step in steps), start=seq + 1)
        log = tuple(self._log_row(number, line, now_ms) for number, line in lines)
        return Batch(entities=tuple(step.row for step in steps), log=log)

    def creation(
        self, artifact: str, type_name: str, version: int, content: Content, now_ms: int
    ) -> Artifact:
        """Return a new artifact, once its type's check has let it pass."""
        self.check(type_name, version, content)
        return Artifact(
            artifact=artifact,
            type=type_name,
            version=version,
            revision=1,
            content=content,
            created_ms=now_ms,
            updated_ms=now_ms,
        )

    def patched(self, before: Artifact, patch: Content, version: int, now_ms: int) -> Artifact:
        """Return an artifact after a patch, once its type's check has let it pass."""
        content = rules.merge_patch(before.content, patch)
        self.check(before.type, version, content)
        return replace(
            before,
            version=version,
            revision=before.revision + 1,
            content=content,
            updated_ms=now_ms,
        )

    def artifact(self, artifact: Artifact, change: Content, thread: str | None) -> Step[Artifact]:
        """Store an artifact whose content, or whose patch since it was stored, is `change`."""
        is_new = artifact.revision == 1
        data = {
            "type": artifact.type,
            "version": artifact.version,
            "revision": artifact.revision,
            "content" if is_new else "patch": change,
        }
        kind: EntryKind = "artifact.created" if is_new else "artifact.changed"
        line = Line(kind=kind, subject=artifact.artifact, data=data, thread=thread)
        return Step(record=artifact, row=self._forms.artifact_row(artifact), line=line)

    def made(self, proposal: Proposal) -> Step[Proposal]:
        """Store a new proposal."""
        data = {
            "artifact": proposal.artifact,
            "type": proposal.type,
            "version": proposal.version,
            "expected_revision": proposal.expected_revision,
            "content" if proposal.creates else "patch": proposal.patch,
        }
        line = Line(
            kind="proposal.made", subject=proposal.proposal, data=data, thread=proposal.thread
        )
        return Step(record=proposal, row=self._forms.proposal_row(proposal), line=line)

    def settled(
        self, proposal: Proposal, status: ProposalStatus, reason: str, now_ms: int
    ) -> Step[Proposal]:
        """Store the decision about an open proposal."""
        rules.require_open(proposal)
        decided = replace(proposal, status=status, reason=reason, settled_ms=now_ms)
        kind: EntryKind = "proposal.accepted" if status == "accepted" else "proposal.rejected"
        data = {"artifact": proposal.artifact, "reason": reason}
        line = Line(kind=kind, subject=proposal.proposal, data=data, thread=proposal.thread)
        return Step(record=decided, row=self._forms.proposal_row(decided), line=line)

    def opened(self, thread: Thread) -> Step[Thread]:
        """Store a new thread."""
        data = {"title": thread.title}
        line = Line(kind="thread.opened", subject=thread.thread, data=data, thread=thread.thread)
        return Step(record=thread, row=self._forms.thread_row(thread), line=line)

    def recorded(
        self,
        fact: Fact,
        before: EntityRow | None,
        *,
        ends_segment: bool,
        token: int,
        seq: int,
        now_ms: int,
    ) -> Step[ThreadRun]:
        """Store a fact at its place in the log, and what its run then amounts to."""
        known = None if before is None else self._forms.run(before)
        run = ThreadRun(
            thread=fact.thread,
            run=fact.run,
            facts=1 if known is None else known.facts + 1,
            segments=(0 if known is None else known.segments) + ends_segment,
            seq=seq,
            token=token,
        )
        line = Line(
            kind="fact", subject=fact.name, data=fact.data, thread=fact.thread, run=fact.run
        )
        return Step(record=run, row=self._forms.run_row(run, before, now_ms), line=line)

    def check(self, type_name: str, version: int, content: Content) -> None:
        """Have a type's own check look at a content of its version, if it has one."""
        found = None if self._types is None else self._types.get(type_name)
        if found is not None and found.check is not None and found.version == version:
            found.check(self._forms.copy(content, "content"))

    def _log_row(self, seq: int, line: Line, now_ms: int) -> LogRow:
        what = f"what the log tells of {line.subject!r}"
        return LogRow(
            seq=seq,
            kind=line.kind,
            subject=line.subject,
            thread=line.thread,
            run=line.run,
            at_ms=now_ms,
            data=self._forms.encode(line.data, what, "data"),
        )


def segment(run: ThreadRun, payload: bytes, now_ms: int) -> HistoryRow:
    """Return the row of a segment of history that a run's newest fact has ended."""
    what = f"the size of the history of run {run.run!r} in bytes"
    rules.require_size(what, len(payload), limits.HISTORY_BYTES_MAX)
    return HistoryRow(
        thread=run.thread,
        run=run.run,
        segment=run.segments,
        seq=run.seq,
        at_ms=now_ms,
        payload=bytes(payload),
    )
