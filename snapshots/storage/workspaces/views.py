"""What can be read of one workspace: what it holds, its log, its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots import limits
from snapshots.storage.scopes import check_fitting, check_text
from snapshots.storage.workspaces import rules
from snapshots.storage.workspaces.subscription import Follower, Subscription

if TYPE_CHECKING:
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.forms import Forms
    from snapshots.storage.workspaces.protocols import Storage
    from snapshots.storage.workspaces.records import (
        Artifact,
        HistorySegment,
        LogEntry,
        Proposal,
        ProposalStatus,
        Thread,
        ThreadRun,
    )
    from snapshots.storage.workspaces.rows import EntityKind, EntityRow


class WorkspaceView:
    """One workspace, to be read: each answer is true at a moment of its call."""

    def __init__(self, storage: Storage, scope: Scope, forms: Forms) -> None:
        """Bind a scope to a storage."""
        self.scope = scope
        self._storage = storage
        self._forms = forms

    def artifact(self, artifact: str) -> Artifact | None:
        """Return an artifact, None if there is none."""
        row = self._entity("artifact", artifact)
        return None if row is None else self._forms.artifact(row)

    def artifacts(
        self,
        *,
        type: str | None = None,  # noqa: A002 - the word that the record has for it
        after: str = "",
        limit: int = 100,
    ) -> list[Artifact]:
        """Return up to `limit` artifacts by id, from behind `after`; of one type if it is given."""
        label = None if type is None else check_fitting(type, "the name of an artifact type")
        return [self._forms.artifact(row) for row in self._listed("artifact", label, after, limit)]

    def proposal(self, proposal: str) -> Proposal | None:
        """Return a proposal, None if there is none."""
        row = self._entity("proposal", proposal)
        return None if row is None else self._forms.proposal(row)

    def proposals(
        self, *, status: ProposalStatus | None = None, after: str = "", limit: int = 100
    ) -> list[Proposal]:
        """Return up to `limit` proposals by id, from behind `after`; of one status if given."""
        label = None if status is None else check_fitting(status, "a status")
        return [self._forms.proposal(row) for row in self._listed("proposal", label, after, limit)]

    def thread(self, thread: str) -> Thread | None:
        """Return a thread, None if there is none."""
        row = self._entity("thread", thread)
        return None if row is None else self._forms.thread(row)

    def threads(self, *, after: str = "", limit: int = 100) -> list[Thread]:
        """Return up to `limit` threads by id, from behind `after`."""
        return [self._forms.thread(row) for row in self._listed("thread", None, after, limit)]

    def runs(self, thread: str, *, after: str = "", limit: int = 100) -> list[ThreadRun]:
        """Return up to `limit` runs that have recorded facts in a thread, from behind `after`."""
        check_text(thread, "a thread's id")
        key = rules.run_key(thread, check_fitting(after, "a run's id")) if after else ""
        return [self._forms.run(row) for row in self._rows("run", thread, key, limit)]

    def cursor(self, name: str) -> int:
        """Return where a cursor stands, 0 for one that was never moved."""
        return self._forms.cursor(self._entity("cursor", name))

    def seq(self) -> int:
        """Return the newest seq of the log, 0 for an empty one."""
        return self._storage.seq(self.scope)

    def read(
        self,
        after_seq: int = 0,
        limit: int = 100,
        *,
        thread: str | None = None,
        last: int | None = None,
    ) -> list[LogEntry]:
        """Return up to `limit` entries of the log in order, from the first behind `after_seq`.

        With `thread` only what is delivered to it, with `last` only so many, the newest ones,
        whatever `limit` says. Raises `LimitError` for more than `LOG_ROWS_MAX`, `InvalidKeyError`.
        """
        rules.require_seq("a place in the log", after_seq)
        count, newest = (limit, False) if last is None else (last, True)
        rules.require_count("the number of entries", count, limits.LOG_ROWS_MAX)
        if thread is not None:
            check_text(thread, "a thread's id")
            rows = self._storage.delivered(
                self.scope, thread, after_seq=after_seq, limit=count, newest=newest
            )
        else:
            # A log without holes is read backwards by counting.
            start = max(after_seq, self.seq() - count) if newest else after_seq
            rows = self._storage.log(self.scope, after_seq=start, limit=count)
        return [self._forms.entry(row) for row in rows]

    def subscribe(
        self, after_seq: int = 0, *, thread: str | None = None, poll_ms: int = limits.LOG_POLL_MS
    ) -> Subscription:
        """Return an iterator over the log from behind `after_seq` that goes on with what comes.

        With `thread` only what is delivered to it. Stop it, or use `with`.
        """
        rules.require_poll(poll_ms)
        return Subscription(self.follow(after_seq, thread=thread), poll_ms=poll_ms)

    def follow(self, after_seq: int = 0, *, thread: str | None = None) -> Follower:
        """Return a place in the log to read on from, for whoever waits in a way of their own."""
        rules.require_seq("a place in the log", after_seq)
        return Follower(self._storage, self.scope, self._forms, after_seq=after_seq, thread=thread)

    def history(
        self,
        thread: str,
        *,
        run: str | None = None,
        after_seq: int = 0,
        limit: int = limits.HISTORY_ROWS_MAX,
    ) -> list[HistorySegment]:
        """Return up to `limit` segments of a thread in order, from the first behind `after_seq`.

        With `run` only those of that run. Raises `LimitError` for more than `HISTORY_ROWS_MAX`.
        """
        check_text(thread, "a thread's id")
        if run is not None:
            check_fitting(run, "a run's id")
        rules.require_seq("a place in the log", after_seq)
        rules.require_count("the number of segments", limit, limits.HISTORY_ROWS_MAX)
        rows = self._storage.history(self.scope, thread, after_seq=after_seq, limit=limit, run=run)
        return [self._forms.segment(row) for row in rows]

    def _entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        return self._storage.entity(self.scope, kind, check_text(key, f"the key of a {kind}"))

    def _listed(
        self, kind: EntityKind, label: str | None, after: str, limit: int
    ) -> list[EntityRow]:
        return self._rows(kind, label, check_fitting(after, f"the key of a {kind}"), limit)

    def _rows(self, kind: EntityKind, label: str | None, after: str, limit: int) -> list[EntityRow]:
        rules.require_count(f"the number of {kind}s", limit, limits.LIST_ROWS_MAX)
        return self._storage.entities(self.scope, kind, label=label, after=after, limit=limit)
