"""The verbs of a workspace, each as an act on rows that lie ready."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle
from typing import Any, Final

from bench.payloads import blobs, records
from bench.verbs import LONG_MS, ROWS, VALUE_BYTES, Act
from snapshots.storage import ArtifactType, Backend, Fact, Scope, Workspaces

THREAD: Final = "thread"
RUN: Final = "run"


class InWorkspace:
    """A workspace with 100 artifacts of 60 values, and a thread of 100 facts with their history."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        opened = Workspaces(backend.workspaces, types=[ArtifactType(name="note")])
        self._space = opened.open(scope.workspace, tenant=scope.tenant)
        self._numbers = count()
        self._contents: Iterator[dict[str, Any]] = records()
        self._blobs = blobs(VALUE_BYTES)
        with self._space.transaction() as changes:
            for number in range(ROWS):
                changes.create("note", next(self._contents), artifact=f"note-{number}")
            changes.open_thread(THREAD)
        self._artifacts = cycle([f"note-{number}" for number in range(ROWS)])
        claim = self._space.claim_thread(THREAD, RUN, ttl_ms=LONG_MS)
        assert claim is not None
        with self._space.transaction() as changes:
            for _ in range(ROWS):
                changes.record(self._fact(), history=next(self._blobs))

    def _fact(self) -> Fact:
        return Fact(thread=THREAD, run=RUN, name="said", data=next(self._contents))

    def _change(self) -> tuple[str, dict[str, Any], int]:
        """Return an artifact, a patch of one value in three, and the revision that is expected."""
        key = next(self._artifacts)
        found = self._space.artifact(key)
        assert found is not None
        content = next(self._contents)
        patch = {name: content[name] for name in content if sum(name.encode()) % 3 == 0}
        return key, patch, found.revision

    def artifact(self) -> Act[str, Any]:
        """Read an artifact."""
        return Act(
            self._space.artifact,
            lambda: next(self._artifacts),
            lambda key, found: found.artifact == key and len(found.content) > ROWS // 3,
        )

    def artifacts_100(self) -> Act[None, list[Any]]:
        """Read 100 artifacts of a type."""
        return Act(
            lambda _: self._space.artifacts(type="note"),
            lambda: None,
            lambda _, found: len(found) == ROWS,
        )

    def create(self) -> Act[dict[str, Any], Any]:
        """Create an artifact."""
        return Act(
            lambda content: self._space.create("note", content),
            lambda: next(self._contents),
            lambda content, made: self._space.artifact(made.artifact).content == content,  # type: ignore[union-attr] # None has no content, and fails
        )

    def create_10_at_once(self) -> Act[list[dict[str, Any]], int]:
        """Create 10 artifacts in one transaction."""

        def act(contents: list[dict[str, Any]]) -> int:
            with self._space.transaction() as changes:
                for content in contents:
                    changes.create("note", content)
                return changes.seq

        return Act(
            act,
            lambda: [next(self._contents) for _ in range(10)],
            lambda _, seq: self._space.seq() == seq,
        )

    def change(self) -> Act[tuple[str, dict[str, Any], int], Any]:
        """Change an artifact."""
        return Act(
            lambda change: self._space.change(change[0], change[1], expected_revision=change[2]),
            self._change,
            lambda change, made: self._space.artifact(change[0]) == made,
        )

    def propose_creation(self) -> Act[dict[str, Any], Any]:
        """Propose an artifact."""
        return Act(
            lambda content: self._space.propose_creation("note", content, thread=THREAD),
            lambda: next(self._contents),
            lambda content, made: made.patch == content,
        )

    def propose_change(self) -> Act[tuple[str, dict[str, Any], int], Any]:
        """Propose a change to an artifact."""
        return Act(
            lambda change: self._space.propose_change(
                change[0], change[1], expected_revision=change[2]
            ),
            self._change,
            lambda _, made: self._space.proposal(made.proposal) == made,
        )

    def accept(self) -> Act[str, Any]:
        """Accept a change that was proposed."""

        def given() -> str:
            key, patch, revision = self._change()
            return self._space.propose_change(key, patch, expected_revision=revision).proposal

        return Act(
            self._space.accept,
            given,
            lambda _, made: self._space.artifact(made.artifact) == made,
        )

    def reject(self) -> Act[str, Any]:
        """Reject what was proposed."""
        return Act(
            self._space.reject,
            lambda: self._space.propose_creation("note", next(self._contents)).proposal,
            lambda key, _: self._space.proposal(key).status == "rejected",  # type: ignore[union-attr] # None has no status, and fails
        )

    def open_thread(self) -> Act[str, Any]:
        """Open a thread."""
        return Act(
            self._space.open_thread,
            lambda: f"thread-{next(self._numbers)}",
            lambda key, opened: self._space.thread(key) == opened,
        )

    def claim_thread(self) -> Act[str, Any]:
        """Claim a thread that no run has had."""
        return Act(
            lambda key: self._space.claim_thread(key, RUN),
            lambda: self._space.open_thread(f"thread-{next(self._numbers)}").thread,
            lambda key, claim: self._space.claimed(key).token == claim.token,  # type: ignore[union-attr] # None has no token, and fails
        )

    def record(self) -> Act[tuple[Fact, bytes], Any]:
        """Record a fact with the history of 1 KB that it ends."""
        return Act(
            lambda pair: self._space.record(pair[0], history=pair[1]),
            lambda: (self._fact(), next(self._blobs)),
            lambda pair, entry: (
                [each.payload for each in self._space.history(THREAD, after_seq=entry.seq - 1)]
                == [pair[1]]
            ),
        )

    def move_cursor(self) -> Act[int, bool]:
        """Move a cursor to the end of the log."""

        def given() -> int:
            self._space.open_thread()
            return self._space.seq()

        return Act(
            lambda seq: self._space.move_cursor("reader", seq),
            given,
            lambda seq, answer: answer and self._space.cursor("reader") == seq,
        )

    def cursor(self) -> Act[None, int]:
        """Ask where a cursor stands."""
        assert self._space.move_cursor("reader", ROWS)
        return Act(lambda _: self._space.cursor("reader"), lambda: None, lambda _, seq: seq == ROWS)

    def read_100(self) -> Act[int, list[Any]]:
        """Read 100 entries of the log."""
        starts = cycle(range(ROWS))
        return Act(
            self._space.read,
            lambda: next(starts),
            lambda seq, found: [entry.seq for entry in found] == list(range(seq + 1, seq + 101)),
        )

    def history_100(self) -> Act[None, list[Any]]:
        """Read 100 segments of history."""
        return Act(
            lambda _: self._space.history(THREAD), lambda: None, lambda _, found: len(found) == ROWS
        )
