"""Let real processes race for keys, locks, decisions and revisions, and count who won.

    python tools/race.py --rounds 2000 --processes 8 --seed 1 [--backend sqlite|postgres|both]

The rounds are shared out among four kinds of race, on one file of SQLite and on one database of
PostgreSQL. In each round all processes start together; each says whether it won, and what is
stored afterwards says so too. Beside them, holders of locks are stopped beyond their time, and
killed. Exit code 1 if any round has not exactly one winner, or anything else does not hold.
`--control` races with a look before a write, as if that were safe: then the exit code is 1 if no
round shows that it is not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from snapshots.errors import LeaseLostError, StorageBusyError
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.state import StateStore
from tools.races import CONTROL, LONG_MS, PATIENCE_S, RACES, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from multiprocessing.synchronize import Barrier

    from snapshots.storage import Backend
    from snapshots.storage.rows import Lease
    from tools.races import Race

BACKENDS = ("sqlite", "postgres")
# Long enough that all holders are stopped before their time, on a busy machine too.
HELD_MS = 2_000
STAGGER_S = 0.001
ROUNDS_PER_HOLDER = 250
HOLDERS_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the processes are told: to race in all rounds of a kind."""

    place: str
    race: type[Race]
    scope: Scope
    rounds: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many rounds of a kind there were on a backend, and how many went as they must."""

    backend: str
    kind: str
    rounds: int
    good: int
    claim: str = "with one winner"

    def __str__(self) -> str:
        return f"{self.backend} {self.kind}: {self.rounds} rounds, {self.good} {self.claim}"


def patiently(attempt: Callable[[], bool]) -> bool:
    """Attempt again while the storage is busy: then nothing was changed."""
    while True:
        try:
            return attempt()
        except StorageBusyError:
            continue


def racing(me: int, told: Connection, start: Barrier) -> None:
    """Be a process of the races: take tasks until there are none, and say which rounds it won."""
    places: dict[str, Backend] = {}
    try:
        with ExitStack() as opened:
            for task in iter(told.recv, None):
                if task.place not in places:
                    places[task.place] = opened.enter_context(open_storage(task.place))
                told.send(rounds_won(task, places[task.place], me, start))
    except Exception:  # noqa: BLE001 - the parent says it, and ends
        start.abort()
        told.send(traceback.format_exc())


def rounds_won(task: Task, backend: Backend, me: int, start: Barrier) -> list[bool]:
    """Race in every round, and return in which this process won."""
    race, rng = task.race(backend, task.scope), random.Random(task.seed * 1_000 + me)
    won = []
    for number in range(task.rounds):
        start.wait(PATIENCE_S)
        # In half of the rounds they come one close behind the other.
        if number % 2:
            time.sleep(rng.random() * STAGGER_S)
        won.append(patiently(lambda number=number: race.attempt(number, me)))  # type: ignore[misc]  # a default binds it
    return won


def holding(me: int, told: Connection, place: str, scope: Scope) -> None:
    """Be a holder: claim a lock, and use it when told, as one who was stalled in between would."""
    with open_storage(place) as backend:
        state, name = StateStore(backend.keyed, backend.leases, scope), f"held-{me}"
        told.send(None)
        told.recv()
        lock = state.claim(name, HELD_MS, holder=str(me))
        assert lock is not None, "the name is new"
        told.send(lock.lease)
        told.recv()
        refused = []
        try:
            with lock.guard():
                state.put(name, "stalled")
        except LeaseLostError:
            refused.append("write")
        try:
            lock.renew(HELD_MS)
        except LeaseLostError:
            refused.append("renew")
        told.send(refused)


class Field:
    """The processes that race, which last from kind to kind; `with` ends them."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        # A process that starts looks for what its semaphores are called: they must still be there.
        self.start = context.Barrier(processes)
        self.told: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for me in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=racing, args=(me, theirs, self.start), daemon=True)
            process.start()
            theirs.close()
            self.told.append(ours)
            self.processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for told, process in zip(self.told, self.processes, strict=True):
            ended(process, told)

    def race(self, task: Task) -> list[list[int]]:
        """Return the winners of each round, as they said themselves."""
        for told in self.told:
            told.send(task)
        said = [answer(told) for told in self.told]
        return [[me for me, won in enumerate(said) if won[number]] for number in range(task.rounds)]


def answer(told: Connection) -> Any:
    """Return what a process says; a RuntimeError with its trace if it failed."""
    said = told.recv()
    if isinstance(said, str):
        raise RuntimeError(said)  # noqa: TRY004 - the type is the protocol, not a mistake
    return said


def ended(process: BaseProcess, told: Connection) -> None:
    """End a process that was started here: it ends by itself once nothing more can come."""
    try:
        if process.is_alive():
            told.send(None)
    except OSError:  # it has ended just now
        pass
    told.close()
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()


def counted(kind: str, name: str, task: Task, field: Field) -> Count:
    """Race, and count the rounds that exactly one process won, the one that is stored."""
    with open_storage(task.place) as backend:
        race = task.race(backend, task.scope)
        race.prepare(task.rounds)
        winners = field.race(task)
        good = sum(won == [race.kept(number)] for number, won in enumerate(winners))
    return Count(backend=name, kind=kind, rounds=task.rounds, good=good)


class Holder:
    """A process that holds a lock, as its parent sees it."""

    def __init__(self, me: int, place: str, scope: Scope) -> None:
        context = multiprocessing.get_context("spawn")
        self.told, theirs = context.Pipe()
        arguments = (me, theirs, place, scope)
        self.process = context.Process(target=holding, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_stopped:
            self.go_on()
        ended(self.process, self.told)

    def claim(self) -> Lease:
        """Have it claim its lock."""
        self.told.send("claim")
        lease: Lease = answer(self.told)
        return lease

    def stop(self) -> None:
        """Have it stand still, wherever it is."""
        assert self.process.pid is not None, "it was started"
        os.kill(self.process.pid, signal.SIGSTOP)
        self.is_stopped = True
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let it go on, knowing nothing of the time that has passed."""
        assert self.process.pid is not None, "it was started"
        os.kill(self.process.pid, signal.SIGCONT)
        self.is_stopped = False

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()


def stalls(place: str, name: str, scope: Scope, holders: int) -> list[Count]:
    """Stop holders of locks beyond their time, and kill as many others."""
    with open_storage(place) as backend, ExitStack() as started:
        made = [Holder(me, place, scope) for me in range(2 * holders)]
        for holder in made:
            started.enter_context(holder)
        for holder in made:
            answer(holder.told)
        stopped, killed = made[:holders], made[holders:]
        leases = [holder.claim() for holder in made]
        for holder in stopped:
            holder.stop()
        for holder in killed:
            holder.kill()
        freed = [is_free_in_time(lease) for lease in successions(backend, leases)]
        for holder in stopped:
            holder.told.send("go on")
            holder.go_on()
        refused = [answer(holder.told) for holder in stopped]
        state = StateStore(backend.keyed, backend.leases, scope)
        idle = [
            is_free and said == ["write", "renew"] and not state.exists(lease.name)
            for is_free, said, lease in zip(freed, refused, leases, strict=False)
        ]
    stops, kills = ("stopped_holder", "refused"), ("killed_holder", "free at their expiry")
    return [
        Count(backend=name, kind=kind, rounds=holders, good=sum(good), claim=claim)
        for (kind, claim), good in ((stops, idle), (kills, freed[holders:]))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A lease that its holder does not give up, and the next claim of its name."""

    lease: Lease
    following: Lease
    refusals: int


def successions(backend: Backend, leases: list[Lease]) -> list[Succession]:
    """Try to claim each name until it is free, and return what came of it in their order."""
    refusals: Counter[str] = Counter()
    claims: dict[str, Lease] = {}

    def claimed_all() -> bool:
        for lease in leases:
            if lease.name in claims:
                continue
            claim = backend.leases.acquire(lease.scope, lease.name, ttl_ms=LONG_MS)
            if claim is None:
                refusals[lease.name] += 1
            else:
                claims[lease.name] = claim
        return len(claims) == len(leases)

    eventually(claimed_all)
    return [
        Succession(lease=one, following=claims[one.name], refusals=refusals[one.name])
        for one in leases
    ]


def is_free_in_time(found: Succession) -> bool:
    """Whether a name was held until its expiry, by the storage's own clock, and then free."""
    claimed_ms = found.following.expires_ms - LONG_MS
    is_next = found.following.token == found.lease.token + 1
    return found.refusals > 0 and claimed_ms >= found.lease.expires_ms and is_next


@contextmanager
def place_of(backend: str) -> Iterator[str]:
    """Give a place for one backend, as `open_storage` takes it."""
    if backend == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "race.db")
        return
    from tests.behaviour import servers  # noqa: PLC0415 - SQLite alone needs no server

    with servers.running() as server, servers.prepared(server) as prepared:
        yield prepared.user


def run(options: argparse.Namespace) -> Iterator[Count]:
    """Race as the command line says, and yield each count."""
    names = BACKENDS if options.backend == "both" else (options.backend,)
    races = CONTROL if options.control else RACES
    scope = Scope(tenant=f"race-{uuid.uuid4().hex[:12]}")
    with Field(options.processes) as field:
        for name in names:
            with place_of(name) as place:
                for at, (kind, race) in enumerate(races.items()):
                    rounds = (options.rounds + at) // len(races)
                    own = Scope(tenant=scope.tenant, workflow=kind)
                    task = Task(place=place, race=race, scope=own, rounds=rounds, seed=options.seed)
                    yield counted(kind, name, task, field)
                if not options.control:
                    holders = min(HOLDERS_MAX, 1 + options.rounds // ROUNDS_PER_HOLDER)
                    yield from stalls(place, name, scope, holders)


def judge(counts: Sequence[Count], *, control: bool) -> int:
    """Return the exit code."""
    is_good = [count.good == count.rounds for count in counts]
    if control:
        return 1 if any(is_good) else 0
    return 0 if all(is_good) else 1


def main(arguments: list[str] | None = None) -> int:
    """Race as the command line says, and print a line for each kind and backend."""
    parser = argparse.ArgumentParser(prog="tools/race.py", description="Count who won.")
    parser.add_argument("--rounds", type=int, default=2000, help="of each backend, all kinds")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=[*BACKENDS, "both"], default="both")
    parser.add_argument("--control", action="store_true", help="see a wrong one found")
    options = parser.parse_args(arguments)
    if options.rounds < len(RACES) or options.processes < 2:
        parser.error(f"a race needs 2 processes, and {len(RACES)} rounds for all its kinds")
    counts = []
    for count in run(options):
        print(count, flush=True)
        counts.append(count)
    return judge(counts, control=options.control)


if __name__ == "__main__":
    raise SystemExit(main())
