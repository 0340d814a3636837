"""What a workspace should do, told by plain dicts and lists, and calls in any sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from snapshots import ConflictError, LimitError, NotFoundError
from snapshots.storage import Backend, Scope
from snapshots.storage.workspaces import Changes, Fact, ThreadClaim, Workspace, Workspaces
from snapshots.testing import ManualClock
from tests.behaviour.models import Step

TTL_MS = 10
Act = Callable[[Changes], object]

# What is met again and again comes first, and often.
_ids = st.sampled_from(["a", "a", "a", "a/b", "\U00010000"])
_types = st.sampled_from(["note", "note", "task", "never allowed"])
_documents = st.recursive(
    st.dictionaries(st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 3)), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
# How far a guess is from the truth: mostly not at all.
_off = st.sampled_from([0, 0, 0, 1, -1])
_change = st.one_of(
    st.tuples(st.just("create"), _ids, _types, _documents),
    st.tuples(st.just("change"), _ids, _documents, _off),
    st.tuples(st.just("propose_creation"), _ids, _types, _documents),
    st.tuples(st.just("propose_change"), _ids, _documents, _off),
    # Which of the proposals that were ever made, counted from the newest.
    st.tuples(st.just("accept"), st.integers(0, 2)),
    st.tuples(st.just("accept_now"), st.integers(0, 2)),
    st.tuples(st.just("reject"), st.integers(0, 2)),
    st.tuples(st.just("open_thread"), _ids),
    st.tuples(st.just("record"), _ids, st.sampled_from("rrs"), st.none() | st.binary(max_size=3)),
    st.tuples(st.just("record"), st.just("a"), st.just("r"), st.binary(max_size=3)),
    st.tuples(st.just("move_cursor"), st.sampled_from("cd"), st.integers(0, 9)),
)
workspace_steps = st.lists(
    st.one_of(
        _change,
        _change,
        st.tuples(st.just("together"), st.lists(_change, max_size=4), st.booleans()),
        st.tuples(st.just("claim"), _ids, st.sampled_from("rrs")),
        st.tuples(st.just("release"), _ids),
        st.tuples(st.just("wait"), st.integers(0, TTL_MS)),
    ),
    min_size=12,
    max_size=30,
)


class RefusedError(Exception):
    """The model does not do it, so the workspace must not either."""


class UndoneError(Exception):
    """Ends a block that is to leave nothing."""


def require(holds: object) -> None:
    """Refuse what may not be."""
    if not holds:
        raise RefusedError


def undo(is_undone: bool) -> None:
    """End a block that is to leave nothing."""
    if is_undone:
        raise UndoneError


def merged(target: Any, patch: Any) -> Any:
    """A merge patch, by the words of RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        target[name] = merged(target.get(name), value)
    return {name: value for name, value in target.items() if patch.get(name, 0) is not None}


@dataclass(kw_only=True)
class Claim:
    """The newest claim of a thread, its run, and when it lapses."""

    claim: ThreadClaim
    run: str
    until_ms: int


@dataclass(kw_only=True)
class State:
    """All that a workspace holds."""

    artifacts: dict[str, tuple[str, int, Any]] = field(default_factory=dict)
    proposals: dict[str, list[Any]] = field(default_factory=dict)
    threads: list[str] = field(default_factory=list)
    log: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    history: list[tuple[str, str, int, int, bytes]] = field(default_factory=list)
    cursors: dict[str, int] = field(default_factory=dict)

    def copy(self) -> State:
        """A state of its own; contents and proposals are replaced, never changed."""
        return State(
            artifacts=dict(self.artifacts),
            proposals={key: list(value) for key, value in self.proposals.items()},
            threads=list(self.threads),
            log=list(self.log),
            history=list(self.history),
            cursors=dict(self.cursors),
        )


class WorkspaceModel:
    """A workspace and what it should hold; each step is done on both, and then all is compared."""

    def __init__(self, backend: Backend, scope: Scope, clock: ManualClock) -> None:
        workspaces = Workspaces(backend.workspaces, types=["note", "task"])
        self.workspace: Workspace = workspaces.open(scope.workspace, tenant=scope.tenant)
        self.clock = clock
        self.state = State()
        self.claims: dict[str, Claim] = {}
        self.made = 0
        # Something of each kind is there from the start, so that most steps find what they need.
        content = {"x": 1, "y": {"x": 2}}
        self.step("create", "a", "note", content)
        self.step("propose_change", "a", {"x": None}, 0)
        self.step("propose_creation", "a/b", "task", content)
        self.step("open_thread", "a")
        self.step("claim", "a", "r")

    def step(self, verb: str, *values: Any) -> None:
        """Do one step of `workspace_steps`."""
        if verb in {"together", "claim", "release", "wait"}:
            getattr(self, verb)(*values)
        else:
            self.together([(verb, *values)], is_undone=False)
        self.compare()

    def together(self, steps: list[Step], is_undone: bool) -> None:
        """Do changes in one transaction, which is undone or not."""
        before = self.state.copy()
        try:
            with self.workspace.transaction() as changes:
                for step in steps:
                    self.both(changes, step)
                undo(is_undone)
        except UndoneError:
            self.state = before

    def both(self, changes: Changes, step: Step) -> None:
        """Do one change here and there: both do it, or neither."""
        verb, *values = step
        before = self.state.copy()
        steps: Iterator[Act] = getattr(self, str(verb))(*values)
        act = next(steps)
        is_refused = False
        try:
            next(steps, None)
        except RefusedError:
            self.state, is_refused = before, True
        try:
            act(changes)
        except (ConflictError, NotFoundError, LimitError):
            assert is_refused, step
        else:
            assert not is_refused, step
        assert changes.seq == len(self.state.log)

    def tell(
        self, kind: str, subject: str, thread: str | None = None, run: str | None = None
    ) -> None:
        """Add a line to the log."""
        self.state.log.append((kind, subject, thread, run))

    # Each of the following first yields what is to be done on the real one, then does it here.

    def create(self, key: str, kind: str, content: Any) -> Iterator[Act]:
        yield lambda changes: changes.create(kind, content, artifact=key)
        require(kind != "never allowed" and key not in self.state.artifacts)
        self.state.artifacts[key] = (kind, 1, content)
        self.tell("artifact.created", key)

    def change(self, key: str, patch: Any, off: int) -> Iterator[Act]:
        found = self.state.artifacts.get(key)
        expected = off + (1 if found is None else found[1])
        yield lambda changes: changes.change(key, patch, expected_revision=expected)
        self.patch(key, patch, expected)

    def patch(self, key: str, patch: Any, expected: int) -> None:
        require(key in self.state.artifacts)
        kind, revision, content = self.state.artifacts[key]
        require(revision == expected)
        self.state.artifacts[key] = (kind, revision + 1, merged(content, patch))
        self.tell("artifact.changed", key)

    def propose_creation(self, key: str, kind: str, content: Any) -> Iterator[Act]:
        name = self.new_proposal()
        yield lambda changes: changes.propose_creation(kind, content, artifact=key, proposal=name)
        require(kind != "never allowed" and key not in self.state.artifacts)
        self.state.proposals[name] = [key, kind, 0, content, "open"]
        self.tell("proposal.made", name)

    def propose_change(self, key: str, patch: Any, off: int) -> Iterator[Act]:
        name = self.new_proposal()
        found = self.state.artifacts.get(key)
        expected = off + (1 if found is None else found[1])
        yield lambda changes: changes.propose_change(
            key, patch, expected_revision=expected, proposal=name
        )
        require(found is not None and found[1] == expected)
        self.state.proposals[name] = [key, "", expected, patch, "open"]
        self.tell("proposal.made", name)

    def new_proposal(self) -> str:
        self.made += 1
        return f"p{self.made:04}"

    def proposal_at(self, back: int) -> str:
        """The proposal that was made so many before the newest, or one that never was."""
        return [*["never made"] * 3, *self.state.proposals][-back - 1]

    def accept(self, back: int) -> Iterator[Act]:
        name = self.proposal_at(back)
        yield lambda changes: changes.accept(name)
        self.do_accept(name, None)

    def accept_now(self, back: int) -> Iterator[Act]:
        name = self.proposal_at(back)
        proposal = self.state.proposals.get(name, [None])
        now = self.state.artifacts.get(proposal[0], ("", 1, None))[1]
        yield lambda changes: changes.accept(name, expected_revision=now)
        self.do_accept(name, now)

    def do_accept(self, name: str, now: int | None) -> None:
        require(name in self.state.proposals)
        key, kind, expected, patch, status = self.state.proposals[name]
        require(status == "open")
        self.state.proposals[name][4] = "accepted"
        self.tell("proposal.accepted", name)
        if expected == 0:
            require(key not in self.state.artifacts)
            self.state.artifacts[key] = (kind, 1, patch)
            self.tell("artifact.created", key)
        else:
            self.patch(key, patch, expected if now is None else now)

    def reject(self, back: int) -> Iterator[Act]:
        name = self.proposal_at(back)
        yield lambda changes: changes.reject(name)
        require(self.state.proposals.get(name, [""])[-1] == "open")
        self.state.proposals[name][4] = "rejected"
        self.tell("proposal.rejected", name)

    def open_thread(self, key: str) -> Iterator[Act]:
        yield lambda changes: changes.open_thread(key)
        require(key not in self.state.threads)
        self.state.threads.append(key)
        self.tell("thread.opened", key, key)

    def record(self, thread: str, run: str, history: bytes | None) -> Iterator[Act]:
        fact = Fact(thread=thread, run=run, name="said")
        yield lambda changes: changes.record(fact, history=history)
        require(self.holds(thread) and self.claims[thread].run == run)
        self.tell("fact", "said", thread, run)
        if history is not None:
            mine = [each for each in self.state.history if each[:2] == (thread, run)]
            seq = len(self.state.log)
            self.state.history.append((thread, run, len(mine) + 1, seq, history))

    def move_cursor(self, name: str, seq: int) -> Iterator[Act]:
        stands = self.state.cursors.get(name, 0)

        def act(changes: Changes) -> None:
            assert changes.move_cursor(name, seq) is (seq > stands)

        yield act
        require(seq <= len(self.state.log))
        self.state.cursors[name] = max(stands, seq)

    # These are no changes in a transaction.

    def holds(self, thread: str) -> bool:
        """Whether the newest claim of a thread has neither ended nor lapsed."""
        claim = self.claims.get(thread)
        return claim is not None and claim.until_ms > self.clock.now_ms()

    def claim(self, thread: str, run: str) -> None:
        try:
            claim = self.workspace.claim_thread(thread, run, ttl_ms=TTL_MS)
        except NotFoundError:
            assert thread not in self.state.threads
            return
        assert thread in self.state.threads
        assert (claim is None) is self.holds(thread)
        if claim is not None:
            before = self.claims[thread].claim.token if thread in self.claims else 0
            assert claim.token == before + 1
            until = self.clock.now_ms() + TTL_MS
            self.claims[thread] = Claim(claim=claim, run=run, until_ms=until)

    def release(self, thread: str) -> None:
        if thread in self.claims:
            assert self.claims[thread].claim.release() is self.holds(thread)
            self.claims[thread].until_ms = 0

    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    def compare(self) -> None:
        """See that the workspace holds what the model says, and nothing else."""
        workspace, state = self.workspace, self.state
        artifacts = {
            each.artifact: (each.type, each.revision, each.content)
            for each in workspace.artifacts()
        }
        assert artifacts == state.artifacts
        for kind in ("note", "task"):
            listed = [each.artifact for each in workspace.artifacts(type=kind)]
            assert listed == sorted(key for key, value in artifacts.items() if value[0] == kind)
        found = {each.proposal: each.status for each in workspace.proposals()}
        assert found == {name: proposal[4] for name, proposal in state.proposals.items()}
        assert [each.thread for each in workspace.threads()] == sorted(state.threads)
        entries = workspace.read()
        assert [entry.seq for entry in entries] == list(range(1, len(state.log) + 1))
        told = [(entry.kind, entry.subject, entry.thread, entry.run) for entry in entries]
        assert told == state.log
        assert workspace.read(last=3) == entries[-3:]
        for thread in state.threads:
            kept = [entry for entry in entries if entry.kind != "fact" or entry.thread == thread]
            kept = [entry for entry in kept if entry.thread in {None, thread}]
            assert workspace.read(thread=thread) == kept
            assert (workspace.claimed(thread) is not None) is self.holds(thread)
            segments = [
                (each.thread, each.run, each.segment, each.seq, each.payload)
                for each in workspace.history(thread)
            ]
            assert segments == [each for each in state.history if each[0] == thread]
        for name in "cd":
            assert workspace.cursor(name) == state.cursors.get(name, 0)
