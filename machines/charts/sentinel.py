"""A sentinel: it wakes, compares what it sees with what it saw last, tells of changes, and ends.

What each part shows:

- Each wake is a run of its own, bounded and done; what one wake hands on to the next is carry
  state, under a contract with a version.
- `LEVELS_BEFORE` is the contract as it was, `LEVELS` as it is: the first wake after a deploy loads
  what the last one before it saved, migrated, and says so; its save ends it.
- `loading` fails in a wake that comes while another one is live, and if what is stored meets no
  contract: a wake never goes on with state that is not known to be good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart

from machines import effect
from machines.charts.service import RETRIES, ask, post, shortly
from machines.sentinel import sentinel_state

if TYPE_CHECKING:
    from machines.sentinel import Sentinel
    from snapshots.storage.carry import Carried

SCHEDULE: Final = "levels"


@dataclass
class Seen:
    """What is carried from wake to wake: the level per place, and how often it was looked."""

    levels: dict[str, int] = field(default_factory=dict)
    wakes: int = 0


@dataclass
class Wake:
    """What one wake knows: what was carried to it, and what it has seen."""

    service: str
    revision: int = 0
    migrated: tuple[int, int] | None = None
    levels: dict[str, int] = field(default_factory=dict)
    wakes: int = 0
    changed: list[str] = field(default_factory=list)


def count_wakes(before: dict[str, Any]) -> dict[str, Any]:
    """Bring version 1, which was a mapping of levels alone, to 2."""
    return {"levels": before, "wakes": 0}


LEVELS_BEFORE: Final = sentinel_state(SCHEDULE, 1)
LEVELS: Final = sentinel_state(SCHEDULE, 2, validate=Seen, migrations={1: count_wakes})


def look(model: Wake) -> dict[str, int]:
    """Ask for the levels; asking changes nothing, so it is no effect."""
    levels = ask(model.service, "levels")["levels"]
    return {str(place): int(level) for place, level in levels.items()}


def alert(model: Wake, key: str) -> str:
    """Tell of what has changed; the service tells it once per key."""
    return post(model.service, "alert", key=key, subject=",".join(model.changed))


def seen_before(model: Wake) -> dict[str, int]:
    """Return what version 1 carried."""
    return model.levels


def seen_now(model: Wake) -> Seen:
    """Return what version 2 carries."""
    return Seen(levels=model.levels, wakes=model.wakes)


def revision_found(model: Wake) -> int:
    """Return the revision that was loaded."""
    return model.revision


def watch(levels: Sentinel, seen: Any) -> type[StateChart[Wake]]:
    """Return the chart of a wake that carries `levels`, made by `seen`."""

    class Watch(StateChart[Wake]):
        """One wake."""

        loading = State(initial=True, invoke=levels.load())
        looking = State(invoke=look)
        alerting = State(invoke=effect(alert, idempotent=True, retries=RETRIES, backoff=shortly))
        saving = State(invoke=levels.save(seen, expected_revision=revision_found))
        slept = State(final=True)
        refused = State(final=True)

        done_invoke_loading = loading.to(looking, on="keep_carried")
        done_invoke_looking = looking.to(alerting, cond="has_changed", on="keep_levels") | (
            looking.to(saving, on="keep_levels")
        )
        done_invoke_alerting = alerting.to(saving)
        done_invoke_saving = saving.to(slept)
        error_execution = (
            loading.to(refused) | looking.to(refused) | alerting.to(alerting) | saving.to(refused)
        )

        def keep_carried(self, data: Carried | None) -> None:
            """Take what the wake before saved, in whichever version this chart carries."""
            if data is None:
                return
            carried = data.value
            self.model.revision, self.model.migrated = data.revision, data.migrated
            self.model.levels = carried.levels if isinstance(carried, Seen) else dict(carried)
            self.model.wakes = carried.wakes if isinstance(carried, Seen) else 0

        def has_changed(self, data: dict[str, int]) -> bool:
            """Whether a level is another than it was, if it was known."""
            before = self.model.levels
            return any(before.get(place, level) != level for place, level in data.items())

        def keep_levels(self, data: dict[str, int]) -> None:
            """Note what is to be told, and what is to be carried on."""
            before = self.model.levels
            changed = [place for place, level in data.items() if before.get(place, level) != level]
            self.model.changed, self.model.levels = sorted(changed), data
            self.model.wakes += 1

    return Watch


WatchBefore: Final = watch(LEVELS_BEFORE, seen_before)
Watch: Final = watch(LEVELS, seen_now)
