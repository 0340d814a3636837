"""Sentinels: what a schedule's occurrences hand on, and that one of them is live at a time.

```python
NIGHTLY = sentinel_state("nightly", 2, validate=Watch, migrations={1: add_level})

class Nightly(StateChart):
    loading = State(initial=True, invoke=NIGHTLY.load())
    looking = State(invoke=effect(look))
    saving = State(invoke=NIGHTLY.save(what_was_seen, expected_revision=revision_found))
```

Each occurrence is a run of its own, which loads, works and saves. The first load claims the
schedule for its run; in any other run that comes while this one is live it fails with
LiveOccurrenceError. `start` looks before it starts.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from machines.carry import Carry, StorageEffect, storage_effect
from machines.limits import ASKED_S_MAX
from machines.state import run_of, storage_of
from snapshots.errors import RunNotFoundError
from snapshots.identifiers import check_run_id, new_run_id
from snapshots.storage import Scope
from snapshots.storage.contracts import Contract, Judge, Migrate
from snapshots.storage.refusals import LiveOccurrenceError
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.definition import Chart
    from machines.engine.invocations import Context
    from machines.host import Host
    from snapshots.codec import Codec
    from snapshots.storage import Backend
    from snapshots.storage.carry import Carried
    from snapshots.store import SnapshotStore

SENTINELS: Final = Scope(workflow="sentinel")
"""Where schedules are kept unless told otherwise: their ids are unique there."""


def sentinel_state(
    schedule_id: str,
    version: int = 1,
    *,
    validate: Judge | type | None = None,
    migrations: Mapping[int, Migrate] | None = None,
    scope: Scope = SENTINELS,
    codec: Codec | None = None,
) -> Sentinel:
    """Return the state that the occurrences of a schedule carry.

    Its contract is `<schedule>.state`, of this `version`, its key `sentinel:<schedule>`; what is
    given besides is as for a `Contract` and a `Carry`.
    """
    contract = Contract(
        f"{schedule_id}.state", version, validate=validate, migrations=migrations or {}
    )
    return Sentinel(schedule_id, Carry(contract, scope=scope, codec=codec), scope)


class Sentinel:
    """One schedule; `sentinel_state` makes it."""

    def __init__(self, schedule_id: str, carry: Carry, scope: Scope) -> None:
        self.schedule_id = schedule_id
        self.key = f"sentinel:{schedule_id}"
        self.carry = carry
        self._scope = scope

    def __repr__(self) -> str:
        return f"<Sentinel {self.schedule_id!r}>"

    @property
    def contract(self) -> Contract:
        """The contract of what is carried."""
        return self.carry.contract

    # -- what states invoke -----------------------------------------------------------------------

    def load(self, *, id: str | None = None) -> StorageEffect:  # noqa: A002 - its id in the ledger
        """Return an effect that claims the schedule for its run, and loads as `Carry.load`.

        It fails with LiveOccurrenceError while another live run has the schedule.
        """

        def load(ctx: Context) -> Carried | None:
            run = run_of(ctx.machine)
            runs = _Runs(run.store, run.tree.thread, post=run.post)
            claim(self, storage_of(ctx.machine), run.run_id, runs)
            return self.carry.of(ctx).load(self.key)

        kind = id or f"{self.contract.id}.load"
        return storage_effect(load, kind=kind, result_types=self.carry.result_types)

    def save(
        self,
        value: Callable[..., Any],
        *,
        expected_revision: int | Callable[..., int],
        id: str | None = None,  # noqa: A002 - its id in the ledger
    ) -> StorageEffect:
        """Return an effect that saves, as `Carry.save`."""
        return self.carry.save(self.key, value, expected_revision=expected_revision, id=id)

    def clear(self, *, id: str | None = None) -> StorageEffect:  # noqa: A002 - its id in the ledger
        """Return an effect that removes what is carried, as `Carry.clear`."""
        return self.carry.clear(self.key, id=id)

    def release(self, *, id: str | None = None) -> StorageEffect:  # noqa: A002 - its id in the ledger
        """Return an effect that gives the schedule back before its run ends.

        A run that ended has given it back, for the hosts of its own file; those of other files,
        which cannot see that, wait for this.
        """

        def release(ctx: Context) -> None:
            run = run_of(ctx.machine)
            state = self._state(storage_of(ctx.machine))
            claims = state.part("claim")
            with state.transaction():
                found = claims.get(self.schedule_id)
                if found is not None and found["run"] == run.run_id:
                    claims.delete(self.schedule_id)

        return storage_effect(release, kind=id or f"{self.contract.id}.release")

    # -- occurrences ------------------------------------------------------------------------------

    async def start(
        self,
        host: Host,
        machine: Chart | str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the host's word for it
        *,
        run_id: str | None = None,
    ) -> str:
        """Start an occurrence, as `Host.start`, unless one is live.

        Raises LiveOccurrenceError, and what `Host.start` raises.
        """
        chosen = new_run_id(host.clock) if run_id is None else check_run_id(run_id)
        post = asyncio.get_running_loop().call_soon_threadsafe
        runs = _Runs(host.store, threading.get_ident(), known=host.is_live, post=post)
        await host.with_storage(lambda: claim(self, host.storage, chosen, runs))
        return await host.start(machine, input, run_id=chosen)

    def _state(self, backend: Backend) -> StateStore:
        return StateStore(backend.keyed, backend.leases, self._scope)


class _Runs:
    """Which runs of a file are live, for who asks on whatever thread."""

    def __init__(
        self,
        store: SnapshotStore,
        thread: int | None,
        *,
        known: Callable[[str], bool] = lambda _: False,
        post: Callable[[Callable[[], object]], object],
    ) -> None:
        """Ask `known` first; `post` has a function called on the `thread` of the store."""
        self._store = store
        self._thread = thread
        self._known = known
        self._post = post
        self.path = store.path
        self.identity = store.identity

    def is_live(self, run_id: str) -> bool:
        if threading.get_ident() == self._thread:
            return self._look(run_id)
        answer: Future[bool] = Future()

        def look() -> None:
            try:
                answer.set_result(self._look(run_id))
            except Exception as error:  # noqa: BLE001 - who asked is on another thread, and gets it there
                answer.set_exception(error)

        # Only there is it known which runs are about to begin, and whose a store in memory is.
        self._post(look)
        return answer.result(ASKED_S_MAX)

    def _look(self, run_id: str) -> bool:
        if self._known(run_id):
            return True
        try:
            return self._store.load(run_id).header.status == "live"
        except RunNotFoundError:
            return False


def claim(sentinel: Sentinel, backend: Backend, run_id: str, runs: _Runs) -> None:
    """Have a schedule for one run, or raise LiveOccurrenceError."""
    state = sentinel._state(backend)  # noqa: SLF001 - of this module
    claims, schedule = state.part("claim"), sentinel.schedule_id
    # A file that lies elsewhere tomorrow still knows its own runs.
    file = "" if backend.path == runs.path else runs.identity
    with state.transaction():
        found = claims.get(schedule) or {"run": run_id}
        is_own = found["run"] == run_id
        is_elsewhere = not is_own and found["file"] != file
        if is_elsewhere or (not is_own and runs.is_live(found["run"])):
            where = found["file"] or backend.path
            raise LiveOccurrenceError(schedule, found["run"], where, is_elsewhere=is_elsewhere)
        claims.put(schedule, {"run": run_id, "file": file})
