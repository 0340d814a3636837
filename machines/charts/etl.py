"""A market ETL: prices are read page by page, and each is written once, under an overlap lock.

What each part shows:

- `claiming` takes the lock in the run's name: a run that is started while another one works ends
  as `overlapped`, and one that was restarted takes the lock over from its own former life, whose
  token is worth nothing from then on.
- `loading` writes a page, and moves the cursor behind it, in one transaction in which the lock is
  held. A process that was stalled past the lock's time writes nothing over its successor.
- A price is written once: a page that is read again, after a crash or because pages overlap, finds
  what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart

from machines.carry import storage_effect
from machines.charts.service import ask
from machines.state import state_of
from machines.timers import timeout
from snapshots.errors import LeaseLostError
from snapshots.storage import Lease, Scope

if TYPE_CHECKING:
    from machines import Context

SCOPE: Final = Scope(workflow="prices")
LOCK_TTL_MS: Final = 60_000
PAUSE_S: Final = 0.5
ATTEMPTS_MAX: Final = 20


@dataclass
class Load:
    """One load: from where, which lock it holds, and what it has read and written."""

    market: str
    service: str
    lease: Lease | None = None
    written: int = 0
    attempts: int = 0


def claim(ctx: Context, model: Load) -> Lease | None:
    """Take the lock, None if another run has it."""
    assert ctx.run_id is not None
    state = state_of(ctx.machine, SCOPE)
    lock = state.claim(model.market, LOCK_TTL_MS, holder=ctx.run_id)
    return None if lock is None else lock.lease


def find_position(ctx: Context, model: Load) -> int | None:
    """Return how far the market was read."""
    position: int | None = state_of(ctx.machine, SCOPE).poll_cursor(model.market).position()
    return position


def extract(model: Load, data: int | None) -> list[dict[str, Any]]:
    """Read the next page; reading changes nothing, so it is no effect."""
    after = -1 if data is None else data
    assert model.lease is not None
    reader = {"by": model.lease.holder, "token": model.lease.token}
    page = ask(model.service, "prices", market=model.market, after=after, **reader)["rows"]
    return list(page)


def write(ctx: Context, model: Load, data: list[dict[str, Any]]) -> int:
    """Write the page's prices that are new, and move the cursor; return how many were new."""
    state = state_of(ctx.machine, SCOPE)
    assert model.lease is not None
    written = 0
    with state.held(model.lease).guard():
        for row in data:
            key = f"{model.market} {row['at']}"
            written += state.put_if_absent(key, row["price"])
        state.poll_cursor(model.market).advance(data[-1]["at"])
    return written


def renew(ctx: Context, model: Load) -> Lease:
    """Hold the lock for longer."""
    assert model.lease is not None
    lock = state_of(ctx.machine, SCOPE).held(model.lease)
    lock.renew(LOCK_TTL_MS)
    return lock.lease


def release(ctx: Context, model: Load) -> None:
    """Give the lock back."""
    if model.lease is not None:
        state_of(ctx.machine, SCOPE).held(model.lease).release()


class Etl(StateChart[Load]):
    """One load of one market."""

    claiming = State(
        initial=True, invoke=storage_effect(claim, kind="lock.claim", result_types=(Lease, Scope))
    )
    finding = State(invoke=storage_effect(find_position, kind="cursor.read"))
    extracting = State(invoke=extract)
    loading = State(invoke=storage_effect(write, kind="prices.write"))
    renewing = State(invoke=storage_effect(renew, kind="lock.renew", result_types=(Lease, Scope)))
    releasing = State(invoke=storage_effect(release, kind="lock.release"))
    pausing = State(invoke=timeout(PAUSE_S))
    loaded = State(final=True)
    overlapped = State(final=True)
    broken = State(final=True)

    done_invoke_claiming = claiming.to(overlapped, cond="is_held") | claiming.to(
        finding, on="keep_lease"
    )
    done_invoke_finding = finding.to(extracting)
    done_invoke_extracting = extracting.to(releasing, cond="is_empty") | extracting.to(loading)
    done_invoke_loading = loading.to(renewing, on="count")
    done_invoke_renewing = renewing.to(finding, on="keep_lease")
    done_invoke_releasing = releasing.to(loaded)
    done_invoke_pausing = pausing.to(claiming)
    error_execution = (
        claiming.to(broken)
        | releasing.to(loaded)
        | extracting.to(broken, cond="has_tried_enough")
        | loading.to(claiming, cond="has_lost_lock")
        | renewing.to(claiming, cond="has_lost_lock")
        | extracting.to(pausing, on="count_attempt")
        | finding.to(broken)
        | loading.to(broken)
        | renewing.to(broken)
    )

    def is_held(self, data: Lease | None) -> bool:
        """Whether another run has the lock."""
        return data is None

    def is_empty(self, data: list[Any]) -> bool:
        """Whether there is no further page."""
        return not data

    def has_lost_lock(self, error: BaseException) -> bool:
        """Whether the lock has expired: what was to be written is read again under a new one."""
        # One that came out of a row has its name only.
        name = getattr(error, "type_name", "")
        return isinstance(error, LeaseLostError) or name.endswith(LeaseLostError.__name__)

    def has_tried_enough(self) -> bool:
        """Whether the market could not be read for too long."""
        return self.model.attempts >= ATTEMPTS_MAX

    def keep_lease(self, data: Lease) -> None:
        """Note the lock."""
        self.model.lease = data

    def count(self, data: int) -> None:
        """Note how many prices were new."""
        self.model.written += data
        self.model.attempts = 0

    def count_attempt(self) -> None:
        """Note that the market could not be read."""
        self.model.attempts += 1
