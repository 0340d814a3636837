"""What an application holds: its workspaces, and one of them with its scope bound."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from snapshots import limits
from snapshots.clock import SystemClock
from snapshots.codec import Codec
from snapshots.identifiers import new_run_id
from snapshots.storage.scopes import Scope, check_text
from snapshots.storage.workspaces import rules
from snapshots.storage.workspaces.changes import Changes
from snapshots.storage.workspaces.claims import Claims, ThreadClaim
from snapshots.storage.workspaces.forms import Forms
from snapshots.storage.workspaces.views import WorkspaceView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from snapshots.storage.rows import Lease
    from snapshots.storage.workspaces.protocols import Storage
    from snapshots.storage.workspaces.records import ArtifactType

Given = ParamSpec("Given")
Result = TypeVar("Result")


def uuid_by_the_clock() -> str:
    """Return a new id, a UUID of version 7."""
    return new_run_id(SystemClock())


def alone(
    change: Callable[Concatenate[Changes, Given], Result],
) -> Callable[Concatenate[Workspace, Given], Result]:
    """Return a method that makes one change in a transaction of its own, as `Changes` does."""

    @wraps(change)
    def changed(self: Workspace, /, *given: Given.args, **named: Given.kwargs) -> Result:
        with self.transaction() as changes:
            return change(changes, *given, **named)

    changed.__qualname__ = f"Workspace.{change.__name__}"
    changed.__module__ = __name__
    return changed


class Workspaces:
    """The workspaces of an application, on one storage.

    `types` is the list of artifact types that may be created here, each an `ArtifactType` or a
    name, which is one at version 1; None allows every name. Creating another one, or proposing
    to, is an `EntityNotFoundError`. `codec` knows the values that contents and facts hold.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        types: Iterable[ArtifactType | str] | None = None,
        codec: Codec | None = None,
        new_id: Callable[[], str] = uuid_by_the_clock,
    ) -> None:
        self._types = None if types is None else rules.allow(types)
        rules.require_storage(storage)
        self._storage = storage
        self._forms = Forms(codec or Codec())
        self._new_id = new_id

    def open(self, workspace: str = "default", *, tenant: str = "local") -> Workspace:
        """Return a handle on a workspace, which is empty until somebody writes to it."""
        scope = Scope(tenant=tenant, workspace=workspace)
        return Workspace(self._storage, scope, self._forms, self._types, self._new_id)


class Workspace(WorkspaceView):
    """One workspace: its artifacts, proposals and threads, its log, and who goes on with what.

    Each change of its own is one transaction; `transaction()` makes one of several. What they
    raise is said at `Changes`. A fact is recorded through the handle that has claimed its thread.
    """

    def __init__(
        self,
        storage: Storage,
        scope: Scope,
        forms: Forms,
        types: Mapping[str, ArtifactType] | None,
        new_id: Callable[[], str],
    ) -> None:
        """Bind a scope to a storage; `Workspaces.open` does."""
        super().__init__(storage, scope, forms)
        self._types = types
        self._new_id = new_id
        self._claims = Claims(storage, scope)

    def __repr__(self) -> str:
        return f"<Workspace {self.scope.workspace!r} of tenant {self.scope.tenant!r}>"

    @contextmanager
    def transaction(self) -> Iterator[Changes]:
        """Have the workspace alone from here to the end of the block, for several changes.

        They are stored together, or not at all if the block raises. Others wait meanwhile, so
        nothing that waits belongs inside. Transactions do not nest.
        """
        with self._storage.transaction(self.scope) as transaction:
            yield Changes(
                transaction,
                self._forms,
                self._types,
                new_id=self._new_id,
                lease_of=self._claims.lease_of,
            )

    def claim_thread(
        self, thread: str, run: str, *, ttl_ms: int = limits.CLAIM_TTL_MS, holder: str = ""
    ) -> ThreadClaim | None:
        """Claim a thread for a run, None while it is claimed: one run is active at a time.

        A run's own former claim counts too: `holder`, the run's id by default, is shown by
        `claimed` and in errors, and takes nothing over.
        A claim lapses `ttl_ms` after the last renewal. Raises `EntityNotFoundError` if there is no
        such thread, `InvalidTtlError`.
        """
        check_text(run, "a run's id")
        rules.require_there("thread", thread, self.thread(thread))
        return self._claims.claim(thread, run, ttl_ms=ttl_ms, holder=holder)

    def claimed(self, thread: str) -> Lease | None:
        """Return the lease of the run that has a thread now, None if no run has it."""
        return self._claims.holder(check_text(thread, "a thread's id"))

    create = alone(Changes.create)
    change = alone(Changes.change)
    propose_creation = alone(Changes.propose_creation)
    propose_change = alone(Changes.propose_change)
    accept = alone(Changes.accept)
    reject = alone(Changes.reject)
    open_thread = alone(Changes.open_thread)
    record = alone(Changes.record)
    move_cursor = alone(Changes.move_cursor)
