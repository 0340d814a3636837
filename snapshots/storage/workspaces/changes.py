"""What may be done in one transaction of a workspace, by the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from snapshots.errors import LimitError
from snapshots.storage.scopes import check_text
from snapshots.storage.workspaces import rules
from snapshots.storage.workspaces.records import Artifact, Content, Fact, LogEntry, Proposal, Thread
from snapshots.storage.workspaces.rows import Batch
from snapshots.storage.workspaces.steps import Step, Steps, segment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from snapshots.storage.rows import Lease
    from snapshots.storage.workspaces.forms import Forms
    from snapshots.storage.workspaces.protocols import Transaction
    from snapshots.storage.workspaces.records import ArtifactType
    from snapshots.storage.workspaces.rows import EntityKind

Record = TypeVar("Record")


class Changes:
    """One transaction of a workspace: reads that stay true until its end, and changes.

    All of it is stored when the block ends normally, and nothing if it raises. A change that
    raises has done nothing, and those before it stand, for whoever catches it inside the block.
    """

    def __init__(
        self,
        transaction: Transaction,
        forms: Forms,
        types: Mapping[str, ArtifactType] | None,
        *,
        new_id: Callable[[], str],
        lease_of: Callable[[str, str], Lease],
    ) -> None:
        """Work in `transaction`; `lease_of(thread, run)` is the lease that a run has."""
        self._transaction = transaction
        self._forms = forms
        self._types = types
        self._steps = Steps(forms, types)
        self._new_id = new_id
        self._lease_of = lease_of

    @property
    def now_ms(self) -> int:
        """The time of this transaction, which all that it stores carries."""
        return self._transaction.now_ms

    @property
    def seq(self) -> int:
        """The newest seq of the log, what was changed here included."""
        return self._transaction.seq

    def artifact(self, artifact: str) -> Artifact | None:
        """Return an artifact as it is now, None if there is none."""
        row = self._transaction.entity("artifact", check_text(artifact, "an artifact's id"))
        return None if row is None else self._forms.artifact(row)

    def proposal(self, proposal: str) -> Proposal | None:
        """Return a proposal as it is now, None if there is none."""
        row = self._transaction.entity("proposal", check_text(proposal, "a proposal's id"))
        return None if row is None else self._forms.proposal(row)

    def thread(self, thread: str) -> Thread | None:
        """Return a thread, None if there is none."""
        row = self._transaction.entity("thread", check_text(thread, "a thread's id"))
        return None if row is None else self._forms.thread(row)

    def cursor(self, name: str) -> int:
        """Return where a cursor stands, 0 for one that was never moved."""
        check_text(name, "a cursor's name")
        return self._forms.cursor(self._transaction.entity("cursor", name))

    def create(
        self,
        type: str,  # noqa: A002 - the word that the record has for it
        content: Content,
        *,
        artifact: str | None = None,
        version: int | None = None,
        thread: str | None = None,
    ) -> Artifact:
        """Create an artifact at revision 1, under an id of its own unless one is given.

        `thread` is where it comes from. Raises `EntityNotFoundError` for a type that is not
        allowed or a thread that is not there, `EntityExistsError`, `LimitError`, `EncodeError`,
        and what the type's check raises.
        """
        number = rules.require_type(self._types, type, version)
        key = self._new_key("artifact", artifact)
        self._require_thread(thread)
        copy = self._copy(content, "content")
        made = self._steps.creation(key, type, number, copy, self.now_ms)
        return self._write(self._steps.artifact(made, copy, thread))

    def change(
        self,
        artifact: str,
        patch: Content,
        *,
        expected_revision: int,
        version: int | None = None,
        thread: str | None = None,
    ) -> Artifact:
        """Change an artifact by a merge patch (RFC 7386), if it is at the expected revision.

        `version` is that of the type under which the result is written, the artifact's own by
        default; it never goes back. Raises `EntityNotFoundError`, `RevisionConflictError`,
        `LimitError`, `EncodeError`, and what the type's check raises.
        """
        before = self._require_artifact(artifact, expected_revision)
        self._require_thread(thread)
        number = self._version_after(before, version)
        copy = self._copy(patch, "patch")
        changed = self._steps.patched(before, copy, number, self.now_ms)
        return self._write(self._steps.artifact(changed, copy, thread))

    def propose_creation(
        self,
        type: str,  # noqa: A002 - the word that the record has for it
        content: Content,
        *,
        artifact: str | None = None,
        version: int | None = None,
        thread: str | None = None,
        proposal: str | None = None,
    ) -> Proposal:
        """Propose an artifact; its id is taken only when the proposal is accepted.

        Raises as `create` does.
        """
        number = rules.require_type(self._types, type, version)
        key = self._new_key("artifact", artifact)
        copy = self._copy(content, "content")
        self._steps.check(type, number, copy)
        return self._propose(proposal, key, type, number, copy, revision=0, thread=thread)

    def propose_change(
        self,
        artifact: str,
        patch: Content,
        *,
        expected_revision: int,
        version: int | None = None,
        thread: str | None = None,
        proposal: str | None = None,
    ) -> Proposal:
        """Propose a merge patch to an artifact that is at the expected revision now.

        Raises as `change` does.
        """
        before = self._require_artifact(artifact, expected_revision)
        number = self._version_after(before, version)
        copy = self._copy(patch, "patch")
        self._steps.patched(before, copy, number, self.now_ms)
        return self._propose(
            proposal, artifact, before.type, number, copy, revision=before.revision, thread=thread
        )

    def accept(
        self, proposal: str, *, expected_revision: int | None = None, reason: str = ""
    ) -> Artifact:
        """Accept an open proposal: the artifact is created or changed with it.

        A change needs the artifact at the revision for which it was proposed, or at the
        `expected_revision` of whoever has looked at it since. Raises `EntityNotFoundError`,
        `ProposalSettledError`, and what `create` and `change` raise; the proposal then is open
        as before.
        """
        found = self._require_proposal(proposal)
        settled = self._steps.settled(found, "accepted", reason, self.now_ms)
        if found.creates:
            rules.require_type(self._types, found.type, found.version)
            self._new_key("artifact", found.artifact)
            made = self._steps.creation(
                found.artifact, found.type, found.version, found.patch, self.now_ms
            )
        else:
            expected = found.expected_revision if expected_revision is None else expected_revision
            before = self._require_artifact(found.artifact, expected)
            number = max(before.version, found.version)
            made = self._steps.patched(before, found.patch, number, self.now_ms)
        step = self._steps.artifact(made, found.patch, found.thread)
        return self._write(step, behind=settled)

    def reject(self, proposal: str, *, reason: str = "") -> Proposal:
        """Reject an open proposal; raises `EntityNotFoundError`, `ProposalSettledError`."""
        found = self._require_proposal(proposal)
        return self._write(self._steps.settled(found, "rejected", reason, self.now_ms))

    def open_thread(self, thread: str | None = None, *, title: str = "") -> Thread:
        """Open a thread, under an id of its own unless one is given: `EntityExistsError`."""
        key = self._new_key("thread", thread)
        opened = Thread(thread=key, title=title, created_ms=self.now_ms)
        return self._write(self._steps.opened(opened))

    def record(self, fact: Fact, *, history: bytes | None = None) -> LogEntry:
        """Record a fact of the run that has claimed its thread, and return its line of the log.

        A fact with `history` ends a segment of its run: the bytes are stored with it or not at
        all. Raises `LeaseLostError` unless the claim is held, by its token; `LimitError`,
        `EncodeError`.
        """
        check_text(fact.name, "the name of a fact")
        lease = self._lease_of(fact.thread, fact.run)
        self._transaction.require(lease)
        before = self._transaction.entity("run", rules.run_key(fact.thread, fact.run))
        step = self._steps.recorded(
            fact,
            before,
            ends_segment=history is not None,
            token=lease.token,
            seq=self.seq + 1,
            now_ms=self.now_ms,
        )
        batch = self._steps.batch(step, seq=self.seq, now_ms=self.now_ms)
        if history is not None:
            batch = replace(batch, history=(segment(step.record, history, self.now_ms),))
        self._transaction.stage(batch)
        return self._forms.entry(batch.log[0])

    def move_cursor(self, name: str, seq: int) -> bool:
        """Move a cursor forward to `seq`: False, and no move, if it stands there or further.

        Raises `LimitError` for a place that the log has not reached.
        """
        check_text(name, "a cursor's name")
        if seq > self.seq:
            what = f"the place of the cursor {name!r}"
            raise LimitError(what, self.seq, seq)
        before = self._transaction.entity("cursor", name)
        if seq <= self._forms.cursor(before):
            return False
        row = self._forms.cursor_row(name, seq, before, self.now_ms)
        self._transaction.stage(Batch(entities=(row,)))
        return True

    def _propose(
        self,
        proposal: str | None,
        artifact: str,
        type_name: str,
        version: int,
        patch: Content,
        *,
        revision: int,
        thread: str | None,
    ) -> Proposal:
        self._require_thread(thread)
        made = Proposal(
            proposal=self._new_key("proposal", proposal),
            artifact=artifact,
            type=type_name,
            version=version,
            patch=patch,
            expected_revision=revision,
            status="open",
            thread=thread,
            reason="",
            created_ms=self.now_ms,
            settled_ms=None,
        )
        return self._write(self._steps.made(made))

    def _write(self, step: Step[Record], *, behind: Step[Any] | None = None) -> Record:
        """Stage a step, together with the one before it, and return its record."""
        steps = (step,) if behind is None else (behind, step)
        self._transaction.stage(self._steps.batch(*steps, seq=self.seq, now_ms=self.now_ms))
        return step.record

    def _copy(self, document: Content, root: str) -> Content:
        rules.require_content(document, f"the {root} of an artifact")
        copy: Content = self._forms.copy(document, root)
        return copy

    def _version_after(self, before: Artifact, version: int | None) -> int:
        """Return the version under which an artifact may be written next."""
        if version is None:
            return before.version
        number = rules.require_type(self._types, before.type, version)
        rules.require_forward(before, number)
        return number

    def _new_key(self, kind: EntityKind, key: str | None) -> str:
        """Return an id that nothing of its kind has yet."""
        new = self._new_id() if key is None else check_text(key, f"the id of a new {kind}")
        rules.require_new(kind, new, self._transaction.entity(kind, new))
        return new

    def _require_artifact(self, artifact: str, expected_revision: int) -> Artifact:
        found = rules.require_there("artifact", artifact, self.artifact(artifact))
        rules.require_revision(found, expected_revision)
        return found

    def _require_proposal(self, proposal: str) -> Proposal:
        return rules.require_there("proposal", proposal, self.proposal(proposal))

    def _require_thread(self, thread: str | None) -> None:
        if thread is not None:
            rules.require_there("thread", thread, self.thread(thread))
