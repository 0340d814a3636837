"""All ledgers of a run on a real file, against a plain model: any operations, a crash anywhere."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statemachine import State, StateChart

from machines import Machine
from machines.books import Books, Owner
from machines.opening import InlineWorker
from machines.run.run import Run
from machines.run.writing import Pen
from snapshots import open_store
from snapshots.codec import Codec, load
from snapshots.errors import (
    InvalidKeyError,
    LimitError,
    RevisionConflictError,
    StorageReadOnlyError,
)
from snapshots.layout import unfold_blob
from snapshots.ledgers.effects import EffectRow
from snapshots.store.sqlite import SqliteSnapshotStore
from snapshots.testing import START_MS, ManualClock

Row = dict[str, Any]
Rows = dict[str, Row]

# So small that a short list of operations passes every one of them.
BOUNDS = {
    "snapshots.ledgers.admissions.ADMISSIONS_OPEN_MAX": 3,
    "snapshots.ledgers.admissions.ADMISSIONS_SETTLED_MAX": 2,
    "snapshots.ledgers.epochs.CONVERSATIONS_MAX": 2,
    "snapshots.ledgers.notices.NOTICES_OPEN_MAX": 3,
    "snapshots.ledgers.notices.NOTICES_DELIVERED_MAX": 2,
    "snapshots.ledgers.picks.PICKS_MAX": 3,
    "snapshots.ledgers.pushes.PUSH_SLOTS_MAX": 2,
    "snapshots.ledgers.deliveries.DELIVERIES_MAX": 3,
    "snapshots.ledgers.trail.TRAIL_ENTRIES_MAX": 3,
    "snapshots.layout.rows.CHUNK_ROWS": 3,
    "snapshots.ledgers.effects.CHUNK_ROWS": 3,
}
OPEN_ADMISSIONS, SETTLED_ADMISSIONS, CONVERSATIONS = 3, 2, 2
OPEN_NOTICES, DELIVERED_NOTICES, OUTSTANDING, SLOTS, NEWEST, CHUNK = 3, 2, 3, 2, 3, 3


class Quiet(StateChart):
    """A chart that does nothing: its run's ledgers are the subject."""

    waiting = State(initial=True)
    over = State(final=True)
    end = waiting.to(over)


class RefusedError(Exception):
    """The model does not do it, so the ledgers must not either."""


def require(holds: object) -> None:
    """Refuse what may not be."""
    if not holds:
        raise RefusedError


class Model:
    """What all ledgers together must be: plain lists and dicts, in the order of the blob."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.admissions: Rows = {}
        self.epochs: dict[str, int] = {}
        self.notices: Rows = {}
        self.holds: list[Row] = []
        self.pushes: dict[str, list[Row]] = {}
        self.effects: list[Row] = []
        self.closed = 0
        self.deliveries: list[str] = []
        self.trail: list[list[Any]] = [[START_MS, "", "", [], ["waiting"]]]
        self.taken: dict[str, str] = {}
        """What is in memory only."""

    def as_value(self) -> dict[str, Any]:
        """Return the ledgers as a blob holds them, empty ones left out."""
        values = {
            "effects": self.effects,
            "admissions": self.admissions,
            "epochs": self.epochs,
            "notices": self.notices,
            "picks": [
                {key: part for key, part in hold.items() if part != []} for hold in self.holds
            ],
            "pushes": self.pushes,
            "deliveries": self.deliveries,
            "trail": self.trail,
        }
        return {name: value for name, value in values.items() if value}

    # -- admissions, epochs, notices ------------------------------------------------------------

    def record(self, by: str, key: str, handle: Any, options: dict[str, Any]) -> Any:
        offset = options["offset"]
        known = self.admissions.get(key)
        still = known if known is not None and "settled" not in known else None
        if still is not None and still["handle"] == handle:
            still["offset"] = max(still["offset"], offset)
        else:
            require(still is None or options["replace"])
            others = [k for k, row in self.admissions.items() if "settled" not in row and k != key]
            require(len(others) < OPEN_ADMISSIONS)
            self.admissions.pop(key, None)
            self.admissions[key] = {"handle": handle, "offset": offset, "at": START_MS}
        if options["carrying"]:
            self.deliver(by, key)
        return self.admission(key)

    def admission(self, key: str) -> Any:
        row = self.admissions[key]
        return (key, row["handle"], row["offset"], "settled" in row)

    def advance(self, key: str, offset: int) -> Any:
        row = self.admissions.get(key)
        require(row is not None and "settled" not in row and offset >= row["offset"])
        self.admissions[key]["offset"] = offset
        return self.admission(key)

    def settle(self, key: str) -> Any:
        require(key in self.admissions)
        if "settled" not in self.admissions[key]:
            row = self.admissions.pop(key)
            self.admissions[key] = {
                "handle": row["handle"],
                "offset": row["offset"],
                "settled": True,
                "at": row["at"],
            }
        told = self.admission(key)
        settled = [k for k, row in self.admissions.items() if "settled" in row]
        for old in settled[:-SETTLED_ADMISSIONS]:
            del self.admissions[old]
        return told

    def bump(self, conversation: str) -> int:
        require(conversation in self.epochs or len(self.epochs) < CONVERSATIONS)
        self.epochs[conversation] = self.epochs.get(conversation, 0) + 1
        return self.epochs[conversation]

    def add(self, source: str, text: Any, scope: str) -> bool:
        if source in self.notices:
            return False
        require(sum("text" in row for row in self.notices.values()) < OPEN_NOTICES)
        row = {"text": text, "scope": scope, "at": START_MS}
        self.notices[source] = {
            key: part for key, part in row.items() if (key, part) != ("scope", "")
        }
        return True

    def take(self, by: str, scope: str) -> list[str]:
        found = []
        for source, row in self.notices.items():
            is_news = "text" in row and row.get("scope", "") in ("", scope)
            if is_news and self.taken.get(source, by) == by:
                self.taken[source] = by
                found.append(source)
        return found

    def release(self, by: str) -> None:
        self.taken = {source: who for source, who in self.taken.items() if who != by}

    def deliver(self, by: str, admission: str) -> None:
        for source in [s for s in self.notices if self.taken.get(s) == by]:
            row = self.notices.pop(source)
            scope = {"scope": row["scope"]} if "scope" in row else {}
            self.notices[source] = {**scope, "delivered": admission, "at": row["at"]}
        self.release(by)
        delivered = [s for s, row in self.notices.items() if "delivered" in row]
        for source in delivered[:-DELIVERED_NOTICES]:
            del self.notices[source]

    # -- picks, pushes --------------------------------------------------------------------------

    def pick(self, pick: str, chain: str, offer: Any) -> None:
        outstanding = [row["id"] for hold in self.holds for row in hold["picks"]]
        require(pick not in outstanding and len(outstanding) < OUTSTANDING)
        hold = next((hold for hold in self.holds if hold["chain"] == chain), None)
        if hold is None:
            hold = {"chain": chain, "picks": [], "replies": []}
            self.holds.append(hold)
        since = len(hold["replies"])
        hold["picks"].append({"id": pick, "offer": offer, "at": START_MS, "since": since})

    def reply(self, chain: str, value: Any) -> bool:
        for hold in self.holds:
            if hold["chain"] == chain:
                hold["replies"].append(value)
                return True
        return False

    def answer(self, pick: str) -> tuple[Any, ...]:
        for hold in self.holds:
            for row in hold["picks"]:
                if row["id"] == pick:
                    told = tuple(hold["replies"][row["since"] :])
                    hold["picks"].remove(row)
                    self.shorten(hold)
                    return told
        raise RefusedError

    def shorten(self, hold: Row) -> None:
        if not hold["picks"]:
            self.holds.remove(hold)
            return
        first = min(row["since"] for row in hold["picks"])
        for row in hold["picks"]:
            row["since"] -= first
        del hold["replies"][:first]

    def push(self, slot: str, squashed: Any, bundle: bytes | None) -> None:
        require(slot in self.pushes or len(self.pushes) < SLOTS)
        rows = self.pushes.get(slot, [])
        for row in rows:
            row.pop("bundle", None)
        name = f"push-{len(rows)}"
        row = {"id": name, "commit": "c", "source": "s", "squashed": squashed, "at": START_MS}
        self.pushes[slot] = [*rows, row if bundle is None else {**row, "bundle": bundle}]

    def finish(self, slot: str, number: int, answer: Any) -> None:
        for index, row in enumerate(self.pushes.get(slot, [])):
            if row["id"] == f"push-{number}" and "finished" not in row:
                kept = {key: row[key] for key in ("id", "commit", "source", "squashed")}
                end = {"answer": answer, "finished": True, "at": row["at"]}
                self.pushes[slot][index] = {**kept, **end}
                return
        raise RefusedError

    def pairs(self, slot: str) -> list[Any]:
        return [(row["id"], row.get("answer")) for row in self.pushes.get(slot, [])]

    # -- effects, deliveries, trail -------------------------------------------------------------

    def intend(self) -> None:
        name = f"{self.run_id}/paying.{len(self.effects)}"
        while True:
            still = self.effects[self.closed :]
            final = [r for r in still if r["status"] in ("done", "failed") and "tail" not in r]
            if len(final) < CHUNK:
                break
            closing = final[:CHUNK]
            still = [row for row in still if row not in closing]
            self.effects[self.closed :] = [*closing, *still]
            self.closed += CHUNK
        row = {"id": name, "kind": "k", "status": "intent", "attempt": 0, "at": START_MS}
        self.effects.append(row)

    def become(self, age: int, status: str, tail: Any) -> None:
        row = self.effect(age)
        require(row and row["status"] not in ("done", "failed"))
        row["status"] = status
        if status == "done" and tail is not None:
            row["tail"] = tail

    def react(self, age: int) -> None:
        self.effect(age).pop("tail", None)

    def effect(self, age: int) -> Row:
        name = f"{self.run_id}/paying.{len(self.effects) - 1 - age}"
        return next((row for row in self.effects if row["id"] == name), {})

    def deliver_event(self, delivery: str) -> None:
        if delivery not in self.deliveries:
            self.deliveries = [*self.deliveries, delivery][-NEWEST:]

    def move(self, event: str) -> None:
        self.trail = [*self.trail, [START_MS, "", event, ["a"], ["b"]]][-NEWEST:]


class Unsaved:
    """Changes a ledger in memory; the process dies before the save."""

    def __init__(self, pen: Pen) -> None:
        self._pen = pen
        self.now_ms, self.own = pen.now_ms, pen.own

    def change(self, keep: Callable[[], Callable[[], None]], change: Callable[[], Any]) -> Any:
        keep()
        return change()


class Real:
    """A run on a file, and what happens to both."""

    def __init__(self, store: SqliteSnapshotStore, other: SqliteSnapshotStore, run_id: str) -> None:
        self.store, self.other, self.run_id = store, other, run_id
        self.clock = ManualClock()
        self.machine = Machine(Quiet)
        self.run = self.make()
        self.run.begin()
        self.run.wake()

    def make(self) -> Run:
        worker = InlineWorker()
        return Run(self.store, self.machine, self.run_id, {}, worker, clock=self.clock, verify=True)

    def books(self, owner: str, write: Any = None) -> Books:
        return Books(self.run.ledgers, Owner(path="", invoke=owner), write or Pen(self.run))

    def act(self, operation: Operation, write: Any = None) -> Any:
        name, arguments = operation
        act: Callable[..., Any] = getattr(self, name)
        return act(*copy.deepcopy(arguments), write=write or Pen(self.run))

    def crash(self) -> None:
        """Let go of every object of the run, and make it again from its row."""
        stored = self.other.load(self.run_id)
        self.run = self.make()
        value = unfold_blob(self.machine.codec.decode(stored.blob), self.run_id)
        self.run.restore(stored.header, value, restarted=True)
        held = in_order(load(stored.blob))
        assert in_order(load(self.run.as_stored().blob)) == held
        self.run.write()
        again = in_order(load(self.other.load(self.run_id).blob))
        assert again == held, "restore, then save: another blob"

    def ledgers(self) -> dict[str, Any]:
        """Return the ledgers as they are in memory, as values."""
        ledgers, codec = self.run.ledgers, self.machine.codec
        fields = ledgers.cold(codec).copy()
        ledgers.add_hot(fields, codec)
        assert fields == ledgers.in_full(codec), "a ledger changed and was not encoded again"
        value = {name: codec.decode(part) for name, part in fields.items()}
        return whole(value)

    def on_disk(self) -> dict[str, Any]:
        """Return the ledgers as the row holds them, in the order of the bytes."""
        value = self.machine.codec.decode(self.other.load(self.run_id).blob)
        return {k: part for k, part in whole(value).items() if k in self.ledgers()}

    @contextmanager
    def refusing_disk(self) -> Iterator[None]:
        """Have SQLite itself refuse to write."""
        connection = self.store.database.connection
        connection.pragma("query_only", True)
        try:
            yield
        finally:
            connection.pragma("query_only", False)

    def somebody_else_saves(self) -> None:
        """Save the run from another connection, as it is."""
        stored = self.other.load(self.run_id)
        self.other.save(stored.header, stored.blob)

    # -- the operations, as the model has them --------------------------------------------------

    def record(self, by: str, key: str, handle: Any, options: dict[str, Any], write: Any) -> Any:
        row = self.books(by, write).admissions.record(handle, key=key, **options)
        return (row.key, row.handle, row.offset, row.settled)

    def advance(self, key: str, offset: int, write: Any) -> Any:
        row = self.books("a", write).admissions.advance(offset, key)
        return (row.key, row.handle, row.offset, row.settled)

    def settle(self, key: str, write: Any) -> Any:
        row = self.books("a", write).admissions.settle(key)
        return (row.key, row.handle, row.offset, row.settled)

    def bump(self, conversation: str, write: Any) -> int:
        return self.books("a", write).epochs.bump(conversation)

    def add(self, source: str, text: Any, scope: str, write: Any) -> bool:
        return self.books("a", write).notices.add(source, text, scope)

    def take(self, by: str, scope: str, write: Any) -> list[str]:
        return [notice.source for notice in self.books(by, write).notices.take(scope)]

    def release(self, by: str, write: Any) -> None:
        self.books(by, write).notices.release()

    def pick(self, pick: str, chain: str, offer: Any, write: Any) -> None:
        self.books("a", write).picks.pick(pick, chain, offer)

    def reply(self, chain: str, value: Any, write: Any) -> bool:
        return self.books("a", write).picks.reply(chain, value)

    def answer(self, pick: str, write: Any) -> tuple[Any, ...]:
        return self.books("a", write).picks.answer(pick)

    def push(self, slot: str, squashed: Any, bundle: bytes | None, write: Any) -> None:
        book = self.books("a", write).pushes
        name = f"push-{len(book.pairs(slot))}"
        book.record(slot, commit="c", source="s", squashed=squashed, bundle=bundle, id=name)

    def finish(self, slot: str, number: int, answer: Any, write: Any) -> None:
        self.books("a", write).pushes.finish(slot, answer, f"push-{number}")

    def pairs(self, slot: str, write: Any) -> list[Any]:
        return [(row.id, row.answer) for row in self.books("a", write).pushes.pairs(slot)]

    def intend(self, write: Any) -> None:
        effects = self.run.ledgers.effects
        invoke = f"paying.{len(effects)}"
        name = f"{self.run_id}/{invoke}"
        row = EffectRow(name, "", invoke, "k", name, False, START_MS)
        intended: list[Callable[[], None]] = []

        def undo() -> None:
            intended.pop()()

        write.change(lambda: undo, lambda: intended.append(effects.intend(row)))

    def effect(self, age: int) -> EffectRow | None:
        effects = self.run.ledgers.effects
        return effects.get(f"{self.run_id}/paying.{len(effects) - 1 - age}")

    def become(self, age: int, status: Any, tail: Any, write: Any) -> None:
        row = self.effect(age)
        if row is None or row.status in ("done", "failed"):
            raise InvalidKeyError(str(age), "it is settled, or not there")
        was = row.status, row.tail

        def undo() -> None:
            row.status, row.tail = was
            self.run.ledgers.effects._rows.forget(row.id)

        def change() -> None:
            row.status, row.tail = status, tail if status == "done" else None

        write.change(lambda: undo, change)

    def react(self, age: int, write: Any) -> None:
        row = self.effect(age)
        tail = None if row is None else row.tail
        if row is not None and tail is not None:

            def undo() -> None:
                row.tail = tail
                self.run.ledgers.effects._rows.forget(row.id)

            write.change(lambda: undo, lambda: setattr(row, "tail", None))

    def deliver_event(self, delivery: str, write: Any) -> None:
        deliveries = self.run.ledgers.deliveries
        if delivery in deliveries:
            return
        was = deliveries.as_value()

        def undo() -> None:
            self.run.ledgers.deliveries = type(deliveries)(was)

        write.change(lambda: undo, lambda: deliveries.take(delivery))

    def move(self, event: str, write: Any) -> None:
        added: list[Callable[[], None]] = []

        def undo() -> None:
            added.pop()()

        def change() -> None:
            added.append(self.run.ledgers.trail.add(START_MS, "", event, ["a"], ["b"]))

        write.change(lambda: undo, change)


Operation = tuple[str, tuple[Any, ...]]


def named(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    """Return an operation with arguments that are drawn."""
    return st.tuples(st.just(name), st.tuples(*arguments))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from(["$", "a", '"']), inner, max_size=2)
        | st.frozensets(st.integers(0, 9), max_size=3)
    ),
    max_leaves=5,
)
# So few names that operations meet on them.
WHO, KEYS = st.sampled_from(["a", "b"]), st.sampled_from(["k1", "k2", "k3", "k4", 'é/"'])
SCOPES, CHAINS = st.sampled_from(["", "s"]), st.sampled_from(["c1", "c2"])
SLOT_NAMES = st.sampled_from(["x", "x", "x", 'y"', "z"])
FLAGS, OFFSETS, NUMBERS = st.booleans(), st.integers(0, 3), st.integers(0, 9)
AGES = st.sampled_from([0, 0, 0, 1, 1, 2, 4, 7])
OPTIONS = st.fixed_dictionaries({"offset": OFFSETS, "replace": FLAGS, "carrying": FLAGS})
RECORD = named("record", WHO, KEYS, st.sampled_from(["h1", "h2", ("h", 3)]), OPTIONS)
SETTLED = st.sampled_from(["done", "done", "done", "failed", "calling", "unknown"])

LEDGERS: list[st.SearchStrategy[Operation]] = [
    st.one_of(RECORD, named("advance", KEYS, OFFSETS), named("settle", KEYS)),
    named("bump", KEYS),
    st.one_of(
        named("add", KEYS, VALUES, SCOPES),
        named("take", WHO, SCOPES),
        named("take", WHO, SCOPES),
        RECORD,
        RECORD,
        named("release", WHO),
    ),
    st.one_of(
        named("pick", KEYS, CHAINS, VALUES),
        named("reply", CHAINS, VALUES),
        named("answer", KEYS),
    ),
    st.one_of(
        named("push", SLOT_NAMES, VALUES, st.none() | st.binary()),
        named("finish", SLOT_NAMES, NUMBERS, VALUES),
        named("pairs", SLOT_NAMES),
    ),
    st.one_of(
        named("intend"),
        named("intend"),
        named("become", AGES, SETTLED, st.none() | st.just(["tail"])),
        named("become", AGES, SETTLED, st.none()),
        named("react", AGES),
    ),
    st.one_of(named("deliver_event", NUMBERS.map(str)), named("move", KEYS)),
]
FATES = st.sampled_from(
    ["fine"] * 9
    + ["disk refuses", "disk refuses", "somebody else saved", "dies before", "dies after"]
)


def scripts() -> st.SearchStrategy[list[tuple[Operation, str]]]:
    """Return any operations with their fates: so many of one ledger that it is at its bounds."""
    bursts = [
        st.lists(st.tuples(ledger, FATES), min_size=10, max_size=30)
        for ledger in (*LEDGERS, st.one_of(LEDGERS))
    ]
    return st.lists(st.one_of(bursts), min_size=1, max_size=4).map(
        lambda found: [step for burst in found for step in burst]
    )


def expected(model: Model, operation: Operation) -> tuple[Model, Any]:
    """Return the model after an operation, and what it returns; the given one is untouched."""
    name, arguments = copy.deepcopy(operation)
    after = copy.deepcopy(model)
    return after, getattr(after, name)(*arguments)


def saves(model: Model, after: Model, operation: Operation) -> bool:
    """Whether an operation reaches the disk at all: taking, say, is in memory only."""
    name = operation[0]
    if name in ("take", "release", "pairs"):
        return False
    if name in ("react", "deliver_event", "add", "reply"):
        return model.as_value() != after.as_value()
    return True


def step(real: Real, model: Model, operation: Operation, fate: str) -> Model:
    """Do one operation on both, as fate has it, and return the model that must hold then."""
    try:
        after, told = expected(model, operation)
    except RefusedError:
        with pytest.raises((InvalidKeyError, LimitError)):
            real.act(operation)
        return model
    if not saves(model, after, operation):
        fate = (
            "fine" if fate == "disk refuses" else fate.replace("somebody else saved", "dies after")
        )
    if fate == "fine":
        assert real.act(operation) == told
        return after
    if fate == "disk refuses":
        with real.refusing_disk(), pytest.raises(StorageReadOnlyError):
            real.act(operation)
        return model
    if fate == "somebody else saved":
        real.somebody_else_saves()
        with pytest.raises(RevisionConflictError):
            real.act(operation)
        assert real.ledgers() == model.as_value()
    elif fate == "dies before":
        real.act(operation, Unsaved(Pen(real.run)))
    else:
        assert real.act(operation) == told
        model = after
    real.crash()
    model = copy.deepcopy(model)
    model.taken.clear()
    return model


def whole(value: dict[str, Any]) -> dict[str, Any]:
    """Return ledgers with all effects as rows, and each row's names in their own order."""
    value = unfold_blob(value, None)
    if "effects" in value:
        value["effects"] = [EffectRow.of(row).as_value() for row in value["effects"]]
    return {name: part for name, part in value.items() if part}


def in_order(value: Any) -> bytes:
    """Return ledgers as text that tells the order of keys too, and types from each other.

    In which order the ledgers themselves lie in a blob means nothing.
    """
    return Codec().encode(dict(sorted(value.items())))


def follow(real: Real, model: Model, script: list[tuple[Operation, str]]) -> None:
    """Do what a script says, and compare memory after each step and the disk after the last."""
    for operation, fate in script:
        model = step(real, model, operation, fate)
        assert in_order(real.ledgers()) == in_order(model.as_value())
        assert real.run.ledgers.notices._taken == model.taken
    real.crash()
    assert in_order(real.on_disk()) == in_order(model.as_value())


@pytest.mark.timeout(400)  # a failing script takes its time to be made short
def test_ledgers_are_a_plain_models_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any operations and crashes memory and disk equal the model, order included."""
    for name, bound in BOUNDS.items():
        monkeypatch.setattr(name, bound)
    path, numbers = tmp_path / "state.db", itertools.count()
    with open_store(path) as store, open_store(path) as other:

        @settings(max_examples=200)
        @given(scripts())
        def check(script: list[tuple[Operation, str]]) -> None:
            run_id = f"run-{next(numbers)}"
            follow(Real(store, other, run_id), Model(run_id), script)

        check()
