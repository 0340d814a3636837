"""The rules of workspaces by themselves: patches, delivery, types, staging, errors."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from snapshots import limits, schema
from snapshots.codec import Codec
from snapshots.errors import DecodeError, LimitError, SnapshotsError, StorageClosedError
from snapshots.storage import Lease
from snapshots.storage.backends.postgres import schema as postgres_schema
from snapshots.storage.workspaces import (
    ArtifactType,
    EntityExistsError,
    EntityNotFoundError,
    ProposalSettledError,
    Workspaces,
    delivered_to,
    merge_patch,
    rules,
)
from snapshots.storage.workspaces import errors as workspace_errors
from snapshots.storage.workspaces.forms import Forms
from snapshots.storage.workspaces.hints import Hints
from snapshots.storage.workspaces.rows import Batch, EntityKind, EntityRow, HistoryRow, LogRow
from snapshots.storage.workspaces.rules import allow, require_content, require_type, run_key
from snapshots.storage.workspaces.staging import Staging

# The examples of RFC 7386, appendix A, whose target and patch are written as Python has them.
EXAMPLES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), EXAMPLES)
def test_a_patch_is_that_of_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    """Every example of its appendix, and neither argument is changed by it."""
    before = pickle.dumps((target, patch))
    assert merge_patch(target, patch) == expected
    assert pickle.dumps((target, patch)) == before


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": {1: "x", 2: "y"}}, {"a": {1: None}}, {"a": {1: None}}),
        ({"a": {"x": 1}}, {"a": {1: "x"}}, {"a": {1: "x"}}),
        ({"a": {1: "x"}}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": (1, 2)}, {"a": (3,)}, {"a": (3,)}),
    ],
)
def test_what_json_has_no_object_for_is_replaced_whole(
    target: Any, patch: Any, expected: Any
) -> None:
    """A dict with keys that are no texts is a value, in a patch and in what is patched."""
    assert merge_patch(target, patch) == expected


def line(kind: str, seq: int = 1, thread: str | None = None) -> LogRow:
    """Return a line of a log."""
    return LogRow(seq=seq, kind=kind, subject="s", thread=thread, run=None, at_ms=1, data=b"null")


@pytest.mark.parametrize("kind", ["thread.opened", "fact"])
def test_what_is_a_threads_own_is_for_it_alone(kind: str) -> None:
    """And for who follows all of them."""
    assert delivered_to(line(kind, thread="t"), "t")
    assert delivered_to(line(kind, thread="t"), None)
    assert not delivered_to(line(kind, thread="t"), "s")
    assert not delivered_to(line(kind, thread="t"), "")


@pytest.mark.parametrize(
    "kind",
    [
        *("artifact.created", "artifact.changed"),
        *("proposal.made", "proposal.accepted", "proposal.rejected"),
    ],
)
@pytest.mark.parametrize("thread", [None, "t", "s"])
def test_what_is_shared_is_for_every_thread(kind: str, thread: str | None) -> None:
    """Whatever thread it came from."""
    assert delivered_to(line(kind, thread="s"), thread)
    assert delivered_to(line(kind), thread)


def test_without_a_list_every_name_is_a_type() -> None:
    """At version 1 unless another is asked for."""
    assert require_type(None, "anything", None) == 1
    assert require_type(None, "anything", 7) == 7
    for version in (0, -1, True, 1.0, "1"):
        wrong: Any = version
        with pytest.raises(ValueError, match="from 1"):
            require_type(None, "anything", wrong)


def test_a_list_decides_on_name_and_version() -> None:
    """An empty one allows nothing."""
    allowed = allow([ArtifactType(name="note"), ArtifactType(name="task", version=3)])
    assert [require_type(allowed, name, None) for name in ("note", "task")] == [1, 3]
    assert require_type(allowed, "task", 3) == 3
    for name, version in (("task", 2), ("task", 4), ("plan", None)):
        with pytest.raises(EntityNotFoundError) as caught:
            require_type(allowed, name, version)
        assert (caught.value.what, caught.value.key) == ("artifact type", name)
    with pytest.raises(EntityNotFoundError, match="uses none"):
        require_type(allow([]), "note", None)


@pytest.mark.parametrize(
    "types",
    [
        [ArtifactType(name="note"), ArtifactType(name="note", version=2)],
        [ArtifactType(name="note", version=0)],
        ["note", "note"],
    ],
)
def test_a_list_that_contradicts_itself_is_refused(types: list[Any]) -> None:
    """When it is given, not when it is used."""
    storage: Any = None
    with pytest.raises(ValueError, match="artifact type"):
        Workspaces(storage, types=types)


@pytest.mark.parametrize("types", ["note", [3], [ArtifactType]])
def test_what_is_no_list_of_types_is_refused(types: Any) -> None:
    """A text is not taken letter by letter: that would forbid what it names."""
    storage: Any = None
    with pytest.raises(TypeError, match="ArtifactType"):
        Workspaces(storage, types=types)


@pytest.mark.parametrize(("value", "found"), [([1], "list"), ({1: 2}, "key of type int")])
def test_a_content_that_is_no_document_is_named(value: Any, found: str) -> None:
    """A dict is not told that it is one: it hears which key is no text."""
    with pytest.raises(TypeError, match=found):
        require_content(value, "the content of an artifact")


def test_keys_of_runs_are_told_apart() -> None:
    """However the ids run together."""
    pairs = [("a", "b/c"), ("a/b", "c"), ("1:a", "b"), ("a", "1:a/b")]
    assert len({run_key(*pair) for pair in pairs}) == len(pairs)


ERRORS: list[SnapshotsError] = [
    EntityNotFoundError("artifact", "a", "create it"),
    EntityExistsError("thread", "t"),
    ProposalSettledError("p", "rejected"),
]


def test_every_error_of_workspaces_is_looked_at() -> None:
    """A class that is added is put to the test below, and drawn at the top of its module."""
    drawn = {name for name in vars(workspace_errors) if name in (workspace_errors.__doc__ or "")}
    known = {"ConflictError", "NotFoundError"}
    assert {type(error).__name__ for error in ERRORS} | known == drawn


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_with_its_fields(error: SnapshotsError) -> None:
    """It is of its class, and every field can be read in its message."""
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, the claim itself
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
    assert all(value in str(error) for value in vars(error).values())
    assert "\n" not in str(error)


class Ground:
    """What a transaction stands on: entities in a dict, and how often each was read."""

    def __init__(self, *rows: EntityRow) -> None:
        self.rows = {(row.kind, row.key): row for row in rows}
        self.reads: list[tuple[EntityKind, str]] = []

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        self.reads.append((kind, key))
        return self.rows.get((kind, key))

    def require(self, lease: Lease) -> None:
        raise NotImplementedError


def entity(key: str = "a", revision: int = 1, data: bytes = b"{}") -> EntityRow:
    """Return the row of an artifact."""
    return EntityRow(
        kind="artifact",
        key=key,
        label="note",
        revision=revision,
        created_ms=1,
        updated_ms=1,
        data=data,
    )


def staging(ground: Ground, seq: int = 5) -> Staging:
    """Return a transaction on a log that ends at `seq`."""
    return Staging(ground, seq=seq, now_ms=9, path="memory:")


def test_what_is_staged_is_seen_and_the_rest_is_read_once() -> None:
    """Nobody else can write meanwhile, so that an answer stays true."""
    ground = Ground(entity())
    transaction = staging(ground)
    for _ in range(2):
        assert transaction.entity("artifact", "a") == entity()
        assert transaction.entity("artifact", "b") is None
    assert ground.reads == [("artifact", "a"), ("artifact", "b")]
    transaction.stage(Batch(entities=(entity(revision=2), entity("b")), log=(line("fact", 6),)))
    assert transaction.entity("artifact", "a") == entity(revision=2)
    assert transaction.entity("artifact", "b") == entity("b")
    assert (transaction.seq, transaction.now_ms) == (6, 9)
    assert ground.rows["artifact", "a"].revision == 1


def test_what_is_staged_is_handed_over_once() -> None:
    """An entity that was written twice as it is in the end, the log in its order."""
    transaction = staging(Ground())
    transaction.stage(Batch(entities=(entity(),), log=(line("fact", 6),)))
    segment = HistoryRow(thread="t", run="r", segment=1, seq=7, at_ms=1, payload=b"")
    transaction.stage(
        Batch(entities=(entity(revision=2),), log=(line("fact", 7),), history=(segment,))
    )
    assert transaction.finish() == Batch(
        entities=(entity(revision=2),), log=(line("fact", 6), line("fact", 7)), history=(segment,)
    )
    for use in (transaction.finish, lambda: transaction.stage(Batch())):
        with pytest.raises(StorageClosedError):
            use()
    assert not staging(Ground()).finish()


@pytest.mark.parametrize(
    "batch",
    [
        Batch(entities=(entity(revision=2),)),
        Batch(entities=(entity("there", revision=1),)),
        Batch(log=(line("fact", 7),)),
        Batch(log=(line("fact", 5),)),
        Batch(log=(line("fact", 6), line("fact", 6))),
        Batch(history=(HistoryRow(thread="t", run="r", segment=1, seq=5, at_ms=1, payload=b""),)),
    ],
)
def test_what_does_not_go_on_where_it_stands_is_a_bug(batch: Batch) -> None:
    """A revision that is left out, a place in the log that is, history without its fact."""
    transaction = staging(Ground(entity("there")))
    with pytest.raises(AssertionError):
        transaction.stage(batch)
    assert not transaction.finish()


def test_a_batch_that_is_too_much_is_staged_in_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its entities nor its lines, whichever of them was one too many."""
    monkeypatch.setattr(limits, "TRANSACTION_ENTRIES_MAX", 2)
    transaction = staging(Ground(), seq=0)
    transaction.stage(Batch(entities=(entity("a"),), log=(line("fact", 1),)))
    for more in (
        Batch(entities=(entity("b"), entity("c")), log=(line("fact", 2),)),
        Batch(entities=(entity("b"),), log=(line("fact", 2), line("fact", 3))),
    ):
        with pytest.raises(LimitError):
            transaction.stage(more)
    transaction.stage(Batch(entities=(entity("b"),), log=(line("fact", 2),)))
    assert (len(transaction.finish().entities), transaction.seq) == (2, 2)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"null", b"7", b"[]", b"{}"),
        *(b'{"version":1}', b'{"version":null,"content":{}}', b'{"version":true,"content":{}}'),
        *(b'{"version":1,"content":[]}', b'{"version":1,"content":{"$":"new kind"}}'),
    ],
)
def test_a_damaged_row_is_told_from_one_that_is_not_there(data: bytes) -> None:
    """Whatever was done to its bytes, it is a DecodeError."""
    with pytest.raises(DecodeError):
        Forms(Codec()).artifact(entity(data=data))


def test_a_hint_reaches_those_who_watch_the_place() -> None:
    """All of them, until each has closed its watch; closing twice is as once."""
    hints, heard = Hints(), []
    watches = [
        hints.watch("here", lambda: heard.append(1)),
        hints.watch("here", lambda: heard.append(2)),
        hints.watch("there", lambda: heard.append(3)),
    ]
    hints.ring("here")
    hints.ring("nowhere")
    assert heard == [1, 2]
    watches[0].close()
    watches[0].close()
    hints.ring_all()
    assert heard == [1, 2, 2, 3]
    for watch in watches:
        watch.close()
    hints.ring_all()
    assert (len(heard), len(hints)) == (4, 0)


@pytest.mark.parametrize("steps", [schema.STEPS[4], postgres_schema.STEPS[2]])
def test_the_schemas_know_which_lines_are_for_everybody(steps: tuple[str, ...]) -> None:
    """What a database finds by its index is what the rule delivers: the same kinds, no others."""
    assert set(re.findall(r"'(\w+\.\w+)'", " ".join(steps))) == rules.SHARED
