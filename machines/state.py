"""The storage beside the runs, as callbacks and invoked work of a chart reach it.

```python
async def note(ctx, model):                        # on a host: a coroutine, which runs on its loop
    incident = state_of(ctx.machine).incidents.open(model.fingerprint, {"run": ctx.run_id})
```

What is written here is on disk when the call returns: it is no part of the run's snapshot, and
stays if the macrostep raises. Use what can be done again: `write_once`, `put_if_absent`, `once`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from machines.errors import DefinitionError
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.backends.sqlite import SqliteBackend
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from statemachine import StateChart

    from snapshots.codec import Codec
    from snapshots.storage import Backend
    from snapshots.storage.approvals import Approvals


def run_of(machine: StateChart[Any]) -> Any:
    """Return the run that a chart belongs to. Raises DefinitionError for a chart of no run."""
    node = getattr(machine._engine, "node", None)  # noqa: SLF001 - pinned
    run: Any = node.tree.keeper if node is not None else None
    if not hasattr(run, "books"):
        reason, hint = "it has no run, and so no storage", "run it with a Host or open_run"
        raise DefinitionError(type(machine).__name__, reason, hint)
    return run


def storage_of(machine: StateChart[Any]) -> Backend:
    """Return the storage of the run that a chart belongs to: its host's, or the runs' own file.

    Raises DefinitionError for a chart of no run, and in a thread where the storage belongs to the
    thread of the host's loop: let such work be a coroutine, which runs there.
    """
    run = run_of(machine)
    backend: Backend = getattr(run.worker, "storage", None) or open_storage(
        run.store, clock=run.clock
    )
    if isinstance(backend, SqliteBackend) and threading.get_ident() != run.tree.thread:
        reason = "work in a thread asks for the storage in the runs' own file"
        hint = "write that work as a coroutine: it then runs on the thread that has the file open"
        raise DefinitionError(type(machine).__name__, reason, hint)
    return backend


def state_of(machine: StateChart[Any], scope: Scope | None = None) -> StateStore:
    """Return the state store of a chart's run: of its machine's own workflow, or of `scope`.

    Its values may be of the classes that the machine knows. Raises as `storage_of`.
    """
    backend = storage_of(machine)
    codec: Codec = run_of(machine).machine.codec
    return StateStore(backend.keyed, backend.leases, scope or scope_of(machine), codec=codec)


def scope_of(machine: StateChart[Any]) -> Scope:
    """Return the scope of a chart's run: the workflow is called as its machine."""
    return Scope(workflow=run_of(machine).machine.name)


def approvals_of(machine: StateChart[Any]) -> Approvals:
    """Return the approvals that the host of a chart's run looks after.

    Raises DefinitionError if it looks after none, and as `storage_of`.
    """
    storage_of(machine)
    found: Approvals | None = getattr(run_of(machine).worker, "approvals", None)
    if found is None:
        reason, hint = "its host takes no decisions", "give the host approvals=Scope(…)"
        raise DefinitionError(type(machine).__name__, reason, hint)
    return found
