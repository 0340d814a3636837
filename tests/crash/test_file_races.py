"""One file and several processes: who makes it, who owns it, who reads it, who hands in."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from snapshots import SqliteSnapshotStore, limits, open_storage, open_store
from snapshots.storage.state import StateStore
from tests.crash.arena import LOOK_S, PATIENCE_S, Arena, Contender, arena, runs_of, schema_of
from tests.crash.contenders import SCOPE

ENTRANCES = ("store", "storage", "run", "host")
PROCESSES = 4
PAGES_PER_SAVE = 8


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Arena]:
    """Where contenders meet."""
    with arena(tmp_path) as made:
        yield made


@pytest.fixture
def reference(tmp_path: Path) -> list[object]:
    """What a file is that one process has made undisturbed."""
    path = tmp_path / "reference.db"
    with open_store(path):
        pass
    with open_storage(str(path)):
        pass
    return list(schema_of(path))


def is_there(file: Path, entrance: str, name: str) -> bool:
    """Whether what a contender was told is stored is stored."""
    if entrance == "storage":
        with open_storage(str(file)) as backend:
            return bool(StateStore(backend.keyed, backend.leases, SCOPE).get(name) == name)
    return name in runs_of(file)


def until(ring: Arena, holds: Callable[[], bool]) -> None:
    """Wait for something that the contenders do; all of them are heard meanwhile."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not come about"
        time.sleep(LOOK_S)
        ring.hear()


# -- making it ------------------------------------------------------------------------------------


def test_processes_that_make_one_file_at_once_through_every_entrance_all_have_it(
    ring: Arena, tmp_path: Path, reference: list[object]
) -> None:
    """Store, storage, run and host at the same moment: one schema, nothing told is missing.

    Only a run without a host may be refused, by the lock of the host.
    """
    contenders = ring.contenders(PROCESSES)
    for number in range(12):
        file = tmp_path / f"{number}.db"
        turns = [ENTRANCES[(at + number) % PROCESSES] for at in range(PROCESSES)]
        for contender, entrance in zip(contenders, turns, strict=True):
            contender.say(entrance, file, f"{entrance}-{number}")
        answers = [contender.answer() for contender in contenders]
        assert schema_of(file) == reference
        for entrance, answer in zip(turns, answers, strict=True):
            if answer["at"] == "refused":
                assert (entrance, answer["error"]) == ("run", "HostLockedError"), answer
            else:
                assert is_there(file, entrance, f"{entrance}-{number}"), (entrance, number)


def test_a_process_that_is_killed_while_several_make_a_file_leaves_the_others_a_good_one(
    ring: Arena, tmp_path: Path, reference: list[object]
) -> None:
    """Whatever it was doing: the others are told that it is done, and it is."""
    dice, contenders = random.Random(8), ring.contenders(PROCESSES)
    for number in range(5):
        file, victim = tmp_path / f"{number}.db", number % PROCESSES
        turns = dice.sample(("store", "storage", "store", "host"), PROCESSES)
        for contender, entrance in zip(contenders, turns, strict=True):
            contender.say(entrance, file, f"{entrance}-{contender.process.pid}")
        time.sleep(dice.uniform(0.0, 0.02))
        contenders[victim].kill()
        for at, contender in enumerate(contenders):
            if at != victim:
                answer = contender.answer()
                assert answer["at"] == "done", answer
        assert schema_of(file) == reference
        for at, entrance in enumerate(turns):
            if at != victim or contenders[at].answers:
                assert is_there(file, entrance, f"{entrance}-{contenders[at].process.pid}")
        contenders[victim] = ring.contender(number)


def test_processes_that_come_and_go_lose_nothing(ring: Arena, tmp_path: Path) -> None:
    """The last one to close a file removes its log while the next one opens it: again and again."""
    contenders, file = ring.contenders(PROCESSES), tmp_path / "state.db"
    expected = set()
    for number in range(40):
        for at, contender in enumerate(contenders):
            contender.say("store", file, f"{at}-{number}")
            expected.add(f"{at}-{number}")
    for contender in contenders:
        answers = [contender.answer() for _ in range(40)]
        assert [answer for answer in answers if answer["at"] != "done"] == []
    assert set(runs_of(file)) == expected


# -- owning it ------------------------------------------------------------------------------------


def owners(contenders: list[Contender], file: Path) -> tuple[list[Contender], list[str]]:
    """Let all of them try to own a file at once; return who does, and what the others are told."""
    for number, contender in enumerate(contenders):
        contender.say("own", file, str(number))
    answers = [(contender, contender.answer()) for contender in contenders]
    for _, answer in answers:
        assert answer["at"] == "done" or answer["error"] == "HostLockedError", answer
    had = [contender for contender, answer in answers if answer["at"] == "done"]
    return had, [answer["text"] for _, answer in answers if answer["at"] == "refused"]


def test_of_hosts_that_start_at_once_one_owns_the_file_and_the_others_are_told_which(
    ring: Arena, tmp_path: Path
) -> None:
    """On a new file, after a host that left, and after one that was killed."""
    contenders, file = ring.contenders(PROCESSES), tmp_path / "state.db"
    for number in range(3):
        (owner,), refusals = owners(contenders, file)
        assert len(refusals) == PROCESSES - 1
        assert all(f"process {owner.process.pid} " in text for text in refusals), refusals
        if number == 1:
            owner.kill()
            contenders[contenders.index(owner)] = ring.contender(number)
        else:
            assert owner.asked("leave", file)["at"] == "done"
        assert owner.started
        assert set(owner.started) <= set(runs_of(file))


def test_of_hosts_that_wait_for_a_file_one_gets_it_when_its_owner_dies(
    ring: Arena, tmp_path: Path
) -> None:
    """Killed while they are patient: one of them owns it, the others are told that one's name."""
    first, *waiting = ring.contenders(PROCESSES)
    file = tmp_path / "state.db"
    assert first.asked("own", file, "first")["term"] == 1
    for contender in waiting:
        contender.say("queue", file, "next")
    until(ring, lambda: all(contender.waits for contender in waiting))
    first.kill()
    answers = [contender.answer() for contender in waiting]
    (owner,) = [answer for answer in answers if answer["at"] == "done"]
    assert owner["term"] == 2
    refused = [answer for answer in answers if answer["at"] == "refused"]
    assert all(f"process {owner['pid']} " in answer["text"] for answer in refused), refused
    assert set(first.started) <= set(runs_of(file))


def test_of_hosts_that_take_over_at_once_the_last_one_owns_the_file_and_no_write_is_late(
    ring: Arena, tmp_path: Path
) -> None:
    """No row of a former term comes behind one of a later term, and what was told is there."""
    contenders, file = ring.contenders(PROCESSES), tmp_path / "state.db"
    assert contenders[0].asked("own", file, "owner")["at"] == "done"
    terms = [1]
    for number in range(3):
        for at, contender in enumerate(contenders):
            if number or at:
                contender.say("leave", file)
                contender.say("take", file, f"{number}-{at}")
        for at, contender in enumerate(contenders):
            if number or at:
                contender.answer()
                answer = contender.answer()
                assert answer["at"] == "done" or answer["error"] == "FencedError", answer
                terms += [answer["term"]] if answer["at"] == "done" else []
        begun = f"{max(terms):04}-"
        until(ring, lambda begun=begun: any(run.startswith(begun) for run in runs_of(file)))
    for contender in contenders:
        contender.say("leave", file)
        contender.answer()
    rows = runs_of(file)
    written = [int(run.split("-")[0]) for run in rows]
    assert written == sorted(written)
    assert len(set(terms)) == len(terms)
    assert max(terms) == written[-1]
    for contender in contenders:
        assert set(contender.started) <= set(rows)
    assert len(rows) == len(set(rows))
    fenced = [error for contender in contenders for error in contender.ended]
    assert set(fenced) <= {"FencedError", "HostStoppedError"}
    assert fenced


# -- reading it -----------------------------------------------------------------------------------


def blob(number: int) -> bytes:
    """Content that differs in every page: what does not change is not logged."""
    return random.Random(number).randbytes(PAGES_PER_SAVE * limits.PAGE_BYTES)


class Writer:
    """Saves one run again and again."""

    def __init__(self, store: SqliteSnapshotStore) -> None:
        self.store = store
        self.header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=blob(0))
        self.saves = 0

    @property
    def log_bytes(self) -> int:
        """How long the log is."""
        return Path(f"{self.store.path}-wal").stat().st_size

    def save(self, times: int) -> int:
        """Save so often; return how long the log was at most."""
        longest = 0
        for _ in range(times):
            self.saves += 1
            self.header = self.store.save(self.header, blob(self.saves % 97))
            longest = max(longest, self.log_bytes)
        return longest

    def save_until_short(self) -> None:
        """Save until the log was started anew, which it must be before long."""
        until_s = time.monotonic() + PATIENCE_S
        while self.log_bytes > limits.WAL_BYTES_MAX:
            assert time.monotonic() < until_s, f"the log stays at {self.log_bytes} bytes"
            self.save(50)


@pytest.mark.parametrize("how", ["leaves", "is killed"])
def test_a_log_that_another_process_pinned_is_started_anew_once_it_is_gone(
    ring: Arena, tmp_path: Path, how: str
) -> None:
    """Saves go on meanwhile, however long the log becomes; then it is within its cap for good."""
    reader, file = ring.contender(), tmp_path / "state.db"
    with open_store(file) as store:
        writer = Writer(store)
        assert reader.asked("pin", file)["at"] == "done"
        pinned = writer.save(800)
        assert pinned > limits.WAL_BYTES_MAX
        if how == "leaves":
            assert reader.asked("release", file)["at"] == "done"
        else:
            reader.kill()
        writer.save_until_short()
        assert writer.save(1_500) < 2 * limits.WAL_BYTES_MAX
        assert store.load("a").header == writer.header
    assert store.path == str(file)
    assert sorted(path.name for path in tmp_path.glob("state.db*")) == ["state.db"]


def test_readers_that_relieve_each_other_keep_the_log_and_stop_no_save(
    ring: Arena, tmp_path: Path
) -> None:
    """While there always is one, the log cannot be started anew; when none is left, it is."""
    readers, file = ring.contenders(2), tmp_path / "state.db"
    with open_store(file) as store:
        writer = Writer(store)
        assert readers[0].asked("pin", file)["at"] == "done"
        for number in range(6):
            writer.save(120)
            assert readers[(number + 1) % 2].asked("pin", file)["at"] == "done"
            assert readers[number % 2].asked("release", file)["at"] == "done"
        assert writer.log_bytes > limits.WAL_BYTES_MAX
        assert readers[0].asked("release", file)["at"] == "done"
        writer.save_until_short()
        assert store.load("a").header == writer.header


def test_a_file_that_a_killed_reader_held_opens_and_closes_as_any_other(
    ring: Arena, tmp_path: Path
) -> None:
    """It leaves no lock and nothing to recover: the next owner finds all of it."""
    file = tmp_path / "state.db"
    reader = ring.contender()
    with open_store(file) as store:
        writer = Writer(store)
        writer.save(20)
        assert reader.asked("pin", file)["at"] == "done"
        writer.save(20)
    reader.kill()
    with closing(open_store(file)) as store:
        assert store.load("a").header == writer.header
        assert store.load("a").blob == blob(writer.saves % 97)
    assert sorted(path.name for path in tmp_path.glob("state.db*")) == ["state.db"]
