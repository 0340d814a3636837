"""Carry state as what states invoke: each load, save and clear is an effect, with its value kept.

```python
CURSOR = Carry(Contract("cursor", 2, validate=Cursor, migrations={1: add_region}))

class Crawl(StateChart):
    loading = State(initial=True, invoke=CURSOR.load("crawl"))
    working = State(invoke=effect(work))
    saving = State(invoke=CURSOR.save("crawl", next_cursor, expected_revision=revision_found))
```

The chart gets what was loaded as `done.invoke` data (`Carried`, or None), and the new revision
after a save; a contract that is not met, or another revision, comes as `error.execution`. What
came is in the run's row: after a restart the store is not read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.arguments import bind
from machines.effects import Effect, Verdict, exponential, offered
from machines.limits import CARRY_RETRIES
from machines.state import run_of, scope_of, storage_of
from snapshots.codec import Codec
from snapshots.errors import StorageError
from snapshots.storage.carry import Carried, CarryState

if TYPE_CHECKING:
    from machines.engine.invocations import Context
    from snapshots.storage import Scope
    from snapshots.storage.contracts import Contract

Named = str | Callable[..., str]
"""A text, or a function of what it names out of `machine`, `model`, `ctx` and event data."""


@dataclass(frozen=True, slots=True)
class StorageEffect(Effect):
    """An effect on the storage beside the runs: it may be repeated, and runs where that lives."""

    result_types: tuple[type, ...] = ()
    """Classes of what it results in: the machine's codec knows them."""

    def bind(self, context: Context, fn: Any = None) -> tuple[Callable[[], Any], bool]:
        """Return the call with its arguments, and whether it gives a coroutine."""
        call, _ = Effect.bind(self, context, fn)
        return (_on_loop(call), True) if _is_at_home(context) else (call, False)

    def ready(self, context: Context) -> Callable[[], Any]:
        """Return the call with its arguments; TypeError if it needs one that is not offered."""
        call = Effect.ready(self, context)
        return _on_loop(call) if _is_at_home(context) else call

    def judge(self, error: BaseException, attempt: int) -> Verdict:
        """Say what an error means: only a storage that cannot be reached is asked again."""
        if isinstance(error, StorageError) and error.retryable and attempt <= self.retries:
            return "retry"
        return "failed"


def _is_at_home(context: Context) -> bool:
    """Whether a host's own loop is where the storage is used from."""
    run = run_of(context.machine)
    return bool(run.worker.has_loop and run.worker.storage.is_local)


def _on_loop(call: Callable[[], Any]) -> Callable[[], Any]:
    async def called() -> Any:
        return call()

    return called


def storage_effect(
    fn: Callable[..., Any], *, kind: str, result_types: tuple[type, ...] = ()
) -> StorageEffect:
    """Return what a state invokes to use the storage, with a plain function that may be repeated.

    `fn` is given what it names, as an effect's is: `state_of(machine)` is its way to the storage.
    `kind` names the effect in the ledger, `result_types` are the classes of what it returns.
    It is called on the loop of a host whose storage is its file or memory, else in a thread; and
    again, with growing pauses, while the storage cannot be reached.
    """
    return StorageEffect(
        fn,
        kind,
        idempotent=True,
        retries=CARRY_RETRIES,
        backoff=exponential,
        result_types=result_types,
    )


class Carry:
    """Carry state under one contract, for charts; the host of their runs has the storage.

    `scope` is the workflow of the run's machine unless one is given. `codec` knows the classes
    inside the values, beside the contract's own.
    """

    def __init__(
        self, contract: Contract, *, scope: Scope | None = None, codec: Codec | None = None
    ) -> None:
        self.contract = contract
        self._scope = scope
        self._codec = codec or Codec()

    def __repr__(self) -> str:
        return f"<Carry {self.contract.id!r} version={self.contract.version}>"

    def of(self, ctx: Context) -> CarryState:
        """Return the carry state as the run of some invoked work has it."""
        carry, scope = storage_of(ctx.machine).carry, self._scope or scope_of(ctx.machine)
        return CarryState(carry, scope, contract=self.contract, codec=self._codec)

    def load(self, key: Named, *, id: str | None = None) -> StorageEffect:  # noqa: A002 - its id in the ledger
        """Return an effect that loads: `Carried`, or None if nothing was saved.

        `id` names it in the ledger, `<contract>.load` by default.
        """

        def load(ctx: Context) -> Carried | None:
            return self.of(ctx).load(named(key, ctx))

        kind = id or f"{self.contract.id}.load"
        return storage_effect(load, kind=kind, result_types=self.result_types)

    def save(
        self,
        key: Named,
        value: Callable[..., Any],
        *,
        expected_revision: int | Callable[..., int],
        id: str | None = None,  # noqa: A002 - its id in the ledger
    ) -> StorageEffect:
        """Return an effect that saves what `value` gives, and results in the new revision.

        `value` and `expected_revision` are functions of what they name, as effects' are. Repeated
        after a crash it finds its own write. `id` names it in the ledger, `<contract>.save` by
        default.
        """

        def save(ctx: Context) -> int:
            made, expected = bind(value, offered(ctx))(), expected_revision
            revision: int = bind(expected, offered(ctx))() if callable(expected) else expected
            return self.of(ctx).save(named(key, ctx), made, expected_revision=revision)

        return storage_effect(save, kind=id or f"{self.contract.id}.save")

    def clear(self, key: Named, *, id: str | None = None) -> StorageEffect:  # noqa: A002 - its id in the ledger
        """Return an effect that removes what was saved; `id` is `<contract>.clear` by default."""

        def clear(ctx: Context) -> None:
            self.of(ctx).clear(named(key, ctx))

        return storage_effect(clear, kind=id or f"{self.contract.id}.clear")

    @property
    def result_types(self) -> tuple[type, ...]:
        """The classes of what `load` gives."""
        validate = self.contract.validate
        return (Carried, validate) if isinstance(validate, type) else (Carried,)


def named(name: Named, ctx: Context) -> str:
    """Return a key, or the one that a function gives for this run."""
    return bind(name, offered(ctx))() if callable(name) else name
