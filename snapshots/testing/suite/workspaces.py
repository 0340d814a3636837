"""What a workspace does with artifacts, and which types of them it lets be created."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.storage.workspaces import ArtifactType, Workspace, Workspaces
from snapshots.testing.suite.acting import race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

CONTENT: Final[dict[str, Any]] = {
    "title": "Ünïcode \U00010000",
    "none": None,
    "pair": (1, 2.5),
    "bytes": bytes(range(256)),
    "nested": {"list": [1, {"deep": None}], "keys": {1: "one"}},
}


def workspace_of(backend: Backend, scope: Scope, *types: ArtifactType | str) -> Workspace:
    """Return a handle on the workspace of a scope; any type is allowed if none is given."""
    workspaces = Workspaces(backend.workspaces, types=types or None)
    return workspaces.open(scope.workspace, tenant=scope.tenant)


class ArtifactBehaviours:
    """Behaviours of artifacts, and of the types that may be created."""

    def test_a_workspace_is_empty_before_it_is_written_to(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Whatever is asked for is not there, and asking leaves nothing behind."""
        workspace = workspace_of(backend, scope)
        for _ in range(2):
            assert workspace.artifact("a") is None
            assert workspace.artifacts() == []
            assert workspace.proposal("a") is None
            assert workspace.proposals() == []
            assert workspace.thread("a") is None
            assert workspace.threads() == []
            assert workspace.runs("a") == []
            assert workspace.claimed("a") is None
            assert workspace.history("a") == []
            assert workspace.cursor("a") == 0
            assert (workspace.seq(), workspace.read(), workspace.read(last=3)) == (0, [], [])
            with workspace.transaction() as changes:
                assert (changes.artifact("a"), changes.seq) == (None, 0)

    def test_an_artifact_comes_back_value_for_value(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """At revision 1 of the version it was created under, with the time of its creation."""
        workspace = workspace_of(backend, scope)
        made = workspace.create("note", CONTENT, artifact="a", version=3)
        assert (made.revision, made.version, made.type) == (1, 3, "note")
        assert (made.created_ms, made.updated_ms) == (clock.now_ms(), clock.now_ms())
        found = workspace.artifact("a")
        assert found == made
        assert found.content == CONTENT
        assert type(found.content["pair"]) is tuple

    def test_what_is_stored_shares_nothing_with_its_author(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Neither the content that was given nor the one that came back reaches what is stored."""
        workspace = workspace_of(backend, scope)
        content: dict[str, Any] = {"lines": [1]}
        made = workspace.create("note", content, artifact="a")
        content["lines"].append(2)
        made.content["lines"].append(3)
        found = workspace.artifact("a")
        assert found is not None
        assert found.content == {"lines": [1]}
        patch: dict[str, Any] = {"more": {"lines": [1]}}
        changed = workspace.change("a", patch, expected_revision=1)
        patch["more"]["lines"].append(2)
        changed.content["more"]["lines"].append(3)
        found = workspace.artifact("a")
        assert found is not None
        assert found.content == {"lines": [1], "more": {"lines": [1]}}

    def test_what_no_id_could_be_is_not_asked_for(self, backend: Backend, scope: Scope) -> None:
        """To begin a page behind it, or as a filter: half a character, a NUL, one too many."""
        workspace = workspace_of(backend, scope)
        for wrong in ("\ud800", "a\x00", "a" * (limits.KEY_CHARS_MAX + 1)):
            questions: list[Callable[[], object]] = [
                partial(workspace.artifacts, after=wrong),
                partial(workspace.artifacts, type=wrong),
                partial(workspace.proposals, after=wrong),
                partial(workspace.threads, after=wrong),
                partial(workspace.runs, "t", after=wrong),
                partial(workspace.history, "t", run=wrong),
                partial(workspace.read, thread=wrong),
            ]
            for ask in questions:
                with refused("InvalidKeyError"):
                    ask()

    def test_ids_are_given_where_none_is_chosen(self, backend: Backend, scope: Scope) -> None:
        """Each artifact, proposal and thread has one of its own."""
        workspace = workspace_of(backend, scope)
        artifacts = {workspace.create("note", {}).artifact for _ in range(3)}
        proposals = {workspace.propose_creation("note", {}).proposal for _ in range(3)}
        threads = {workspace.open_thread().thread for _ in range(3)}
        assert len(artifacts | proposals | threads) == 9

    def test_an_id_is_used_once(self, backend: Backend, scope: Scope) -> None:
        """A second creation is refused, and the first artifact is untouched."""
        workspace = workspace_of(backend, scope)
        made = workspace.create("note", {"n": 1}, artifact="a")
        with refused("EntityExistsError") as refusal:
            workspace.create("note", {"n": 2}, artifact="a")
        assert (refusal.field("what"), refusal.field("key")) == ("artifact", "a")
        assert (workspace.artifact("a"), workspace.seq()) == (made, 1)

    def test_a_patch_changes_what_it_names(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Members are replaced, merged or taken away; the revision grows by one each time."""
        workspace = workspace_of(backend, scope)
        made = workspace.create(
            "note", {"keep": 1, "drop": 2, "in": {"a": 1, "b": 2}}, artifact="a"
        )
        clock.advance(5)
        patch = {"drop": None, "new": [1], "in": {"b": None, "c": 3}, "absent": None}
        changed = workspace.change("a", patch, expected_revision=1)
        expected = {"keep": 1, "new": [1], "in": {"a": 1, "c": 3}}
        assert changed == replace(
            made, revision=2, content=expected, updated_ms=made.created_ms + 5
        )
        assert workspace.artifact("a") == changed
        again = workspace.change("a", {}, expected_revision=2)
        assert (again.revision, again.content) == (3, expected)

    def test_the_log_tells_what_was_changed(self, backend: Backend, scope: Scope) -> None:
        """A creation with its content, a change with its patch: who follows needs no other read."""
        workspace = workspace_of(backend, scope)
        workspace.open_thread("t")
        workspace.create("note", {"n": 1}, artifact="a", thread="t")
        workspace.change("a", {"n": None, "m": 2}, expected_revision=1)
        told = [(entry.kind, entry.subject, entry.thread) for entry in workspace.read(1)]
        assert told == [("artifact.created", "a", "t"), ("artifact.changed", "a", None)]
        head = {"type": "note", "version": 1}
        assert [entry.data for entry in workspace.read(1)] == [
            {**head, "revision": 1, "content": {"n": 1}},
            {**head, "revision": 2, "patch": {"n": None, "m": 2}},
        ]

    def test_a_change_over_another_revision_is_refused(
        self, backend: Backend, scope: Scope
    ) -> None:
        """It says what it expected and what is there; nothing is changed or told."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"n": 1}, artifact="a")
        changed = workspace.change("a", {"n": 2}, expected_revision=1)
        for expected in (0, 1, 3):
            with refused("RevisionConflictError") as refusal:
                workspace.change("a", {"n": 3}, expected_revision=expected)
            assert (refusal.field("expected"), refusal.field("actual")) == (expected, 2)
        assert (workspace.artifact("a"), workspace.seq()) == (changed, 2)

    def test_what_is_not_there_is_not_changed(self, backend: Backend, scope: Scope) -> None:
        """Nor does anything come from a thread that was never opened."""
        workspace = workspace_of(backend, scope)
        with refused("EntityNotFoundError") as refusal:
            workspace.change("a", {}, expected_revision=0)
        assert (refusal.field("what"), refusal.field("code")) == ("artifact", "not_found")
        with refused("EntityNotFoundError"):
            workspace.propose_change("a", {}, expected_revision=1)
        with refused("EntityNotFoundError"):
            workspace.create("note", {}, thread="never opened")
        assert workspace.seq() == 0

    def test_the_version_of_a_type_goes_forward_only(self, backend: Backend, scope: Scope) -> None:
        """A change keeps it or raises it; an older application does not write over a newer one."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {}, artifact="a", version=2)
        assert workspace.change("a", {}, expected_revision=1).version == 2
        assert workspace.change("a", {}, expected_revision=2, version=4).version == 4
        with refused("RevisionConflictError") as refusal:
            workspace.change("a", {}, expected_revision=3, version=3)
        assert (refusal.field("expected"), refusal.field("actual")) == (3, 4)
        assert workspace.seq() == 3

    def test_a_list_is_in_the_order_of_ids(self, backend: Backend, scope: Scope) -> None:
        """By code point, of one type or of all, from behind an id and up to a limit."""
        workspace = workspace_of(backend, scope)
        ids = ["B", "a", "a%", "ab", "é", "\uffff", "\U00010000"]
        with workspace.transaction() as changes:
            for number, artifact in enumerate(reversed(ids)):
                changes.create("even" if number % 2 else "odd", {}, artifact=artifact)
        assert [each.artifact for each in workspace.artifacts()] == ids
        assert [each.artifact for each in workspace.artifacts(type="even")] == ids[1::2]
        assert [each.artifact for each in workspace.artifacts(after="a", limit=2)] == ids[2:4]
        assert workspace.artifacts(type="other") == []
        assert workspace.artifacts(limit=0) == []
        with refused("LimitError"):
            workspace.artifacts(limit=limits.LIST_ROWS_MAX + 1)

    def test_one_of_many_changes_over_a_revision(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Sixteen threads change revision 1 at once: one succeeds, and the log tells of one."""
        workspace_of(backend, scope).create("note", {}, artifact="a")

        def contend(mine: Backend, number: int) -> bool:
            try:
                workspace_of(mine, scope).change("a", {"by": number}, expected_revision=1)
            except Exception as error:
                if type(error).__name__ != "RevisionConflictError":
                    raise
                return False
            return True

        answers = race(another, contend)
        workspace = workspace_of(backend, scope)
        found = workspace.artifact("a")
        assert found is not None
        assert [found.content["by"]] == [number for number, won in enumerate(answers) if won]
        assert (found.revision, workspace.seq()) == (2, 2)

    def test_a_revision_is_a_number(self, backend: Backend, scope: Scope) -> None:
        """What is none is told apart from another revision, which it may look like."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"n": 1}, artifact="a")
        wrong: Any = ("1", None, 1.0, True)
        for expected in wrong:
            with refused("TypeError") as refusal:
                workspace.change("a", {"n": 2}, expected_revision=expected)
            assert repr(expected) in str(refusal.error)
        assert workspace.seq() == 1

    def test_workspaces_lie_in_a_part_of_a_storage(self, backend: Backend) -> None:
        """The storage as a whole is refused, and the part is named."""
        whole: Any = backend
        with refused("TypeError") as refusal:
            Workspaces(whole)
        assert "`workspaces` of an open storage" in str(refusal.error)

    def test_what_would_not_come_back_is_refused(self, backend: Backend, scope: Scope) -> None:
        """By its path, before anything is written; and a content is a document with text keys."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"n": 1}, artifact="a")
        stray: Any = object()
        with refused("EncodeError") as refusal:
            workspace.create("note", {"deep": [stray]})
        assert refusal.field("path") == "content.deep[0]"
        with refused("EncodeError"):
            workspace.change("a", {"n": stray}, expected_revision=1)
        no_documents: list[Any] = [[], "text", None, {1: "one"}]
        for wrong in no_documents:
            with refused("TypeError"):
                workspace.create("note", wrong)
            with refused("TypeError"):
                workspace.change("a", wrong, expected_revision=1)
        assert workspace.seq() == 1

    def test_an_artifact_may_be_as_large_as_the_bound(self, backend: Backend, scope: Scope) -> None:
        """One byte more is refused, as a content or as what patches have grown to."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"text": ""}, artifact="empty")
        (told,) = backend.workspaces.log(workspace.scope, after_seq=0, limit=1)
        room = limits.WORKSPACE_VALUE_BYTES_MAX - len(told.data)
        with refused("LimitError"):
            workspace.create("note", {"text": "x" * (room + 1)}, artifact="a")
        made = workspace.create("note", {"text": "x" * room}, artifact="a")
        assert workspace.artifact("a") == made
        with refused("LimitError"):
            workspace.change("a", {"more": "x" * 100}, expected_revision=1)
        assert (workspace.artifact("a"), workspace.seq()) == (made, 2)

    def test_a_type_outside_the_list_is_not_found(self, backend: Backend, scope: Scope) -> None:
        """Whether it is to be created or proposed; what others created can be read and changed."""
        open_to_all = workspace_of(backend, scope)
        theirs = open_to_all.create("plan", {"n": 1}, artifact="theirs")
        workspace = workspace_of(backend, scope, "note", ArtifactType(name="task", version=2))
        for act in (workspace.create, workspace.propose_creation):
            with refused("EntityNotFoundError") as refusal:
                act("plan", {})
            found = [refusal.field(name) for name in ("what", "key", "code")]
            assert found == ["artifact type", "plan", "not_found"]
            with refused("EntityNotFoundError"):
                act("task", {}, version=1)
        assert open_to_all.seq() == 1
        assert workspace.create("task", {}).version == 2
        assert workspace.create("note", {}, version=1).version == 1
        assert workspace.artifact("theirs") == theirs
        assert workspace.change("theirs", {"n": 2}, expected_revision=1).content == {"n": 2}

    def test_a_proposal_of_a_type_outside_the_list_is_not_accepted(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Accepting it would create it: it stays open for an application that uses the type."""
        proposal = workspace_of(backend, scope).propose_creation("plan", {}, artifact="a").proposal
        workspace = workspace_of(backend, scope, "note")
        with refused("EntityNotFoundError"):
            workspace.accept(proposal)
        found = workspace.proposal(proposal)
        assert found is not None
        assert (found.status, workspace.artifact("a"), workspace.seq()) == ("open", None, 1)
        assert workspace_of(backend, scope, "plan").accept(proposal).artifact == "a"

    def test_a_types_own_check_decides(self, backend: Backend, scope: Scope) -> None:
        """What it raises keeps a content out, created, patched or proposed; other types pass."""

        def check(content: dict[str, Any]) -> None:
            if "n" not in content:
                raise KeyError
            content["n"] = "what a check does to its copy is nothing"

        workspace = workspace_of(backend, scope, ArtifactType(name="note", check=check), "task")
        made = workspace.create("note", {"n": 1}, artifact="a")
        with refused("KeyError"):
            workspace.create("note", {})
        with refused("KeyError"):
            workspace.propose_creation("note", {})
        with refused("KeyError"):
            workspace.change("a", {"n": None}, expected_revision=1)
        with refused("KeyError"):
            workspace.propose_change("a", {"n": None}, expected_revision=1)
        assert (workspace.artifact("a"), workspace.seq()) == (made, 1)
        assert workspace.create("task", {}).type == "task"
