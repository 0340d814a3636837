"""What must hold after every step: the file, each time it changes, beside what really happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from snapshots.codec import load
from snapshots.heads import unpack_head
from snapshots.layout import unfold_blob
from snapshots.ledgers.effects import whole
from snapshots.limits import NO_TIMER_MS
from snapshots.mailbox import TAKEN
from tools.simulation import promises

if TYPE_CHECKING:
    import apsw

    from machines import Host
    from tools.simulation.clients import Op
    from tools.simulation.outside import Account
    from tools.simulation.world import World

ROWS = """
select run_id, machine, status, head, blob from runs"""
LIVE = "select run_id from runs where status = 'live'"
TERM = "select term from owner"
SETTLED = "select id, outcome from mailbox where outcome is not null and id >= ?"
ROW = "select blob from runs where run_id = ?"
OUTSTANDING = ("intent", "calling", "unknown")


class Broken(NamedTuple):
    """A rule that did not hold."""

    rule: str
    what: str


@dataclass(slots=True)
class Known:
    """What the file said of a run last."""

    revision: int = 0
    status: str = "live"
    seen: list[str] = field(default_factory=list)
    queued: set[str] = field(default_factory=set)
    """Tokens of events that the file has accepted and that did not run yet."""
    effects: dict[str, dict[str, Any]] = field(default_factory=dict)
    value: dict[str, Any] = field(default_factory=dict)


class Rules:
    """Reads each row that a commit has changed, and compares it with what it knows."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken: list[Broken] = []
        self.runs: dict[str, Known] = {}
        self.ops: dict[str, Op] = {}
        """Every event of a client, by its token."""
        self.mailed: dict[int, Op] = {}
        """Events in the mailbox that are not settled, by their entries."""
        self.started: set[str] = set()
        self.floors: dict[tuple[str, str, str], Any] = {}
        """What a write of a ledger said that it has saved: run, ledger, key."""
        self.vanished: set[str] = set()
        """Tokens that were queued, and are gone without having run."""
        self.damaged: dict[str, bytes] = {}
        """Rows that were overwritten from outside, with what they held."""
        self.looks = 0

    def broke(self, rule: str, what: str) -> None:
        """Note that a rule did not hold; the world ends with the callback that is running."""
        self.broken.append(Broken(rule, what))
        self.world.note(f"BROKEN {rule}: {what}")

    def require(self, rule: str, what: str, *, holds: bool) -> None:
        """Note it if a rule does not hold."""
        if not holds:
            self.broke(rule, what)

    # -- the file ---------------------------------------------------------------------------------

    def committed(self, raw: apsw.Connection) -> None:
        """Look at what a commit has changed."""
        term = raw.execute(TERM).fetchone()
        self.world.term = term[0] if term else 0
        for row in raw.execute(ROWS):
            known = self.runs.setdefault(row[0], Known())
            if unpack_head(row[3])[0] != known.revision and row[0] not in self.damaged:
                self._look(known, row)
        if self.mailed:
            self._look_at_mail(raw)

    def _look_at_mail(self, raw: apsw.Connection) -> None:
        """Look whether what is settled as taken is held by the file in this very commit."""
        for number, outcome in raw.execute(SETTLED, (min(self.mailed),)):
            op = self.mailed.pop(number, None)
            if op is not None and op.is_sure and outcome == TAKEN:
                self.taken_before(op)

    def _look(self, known: Known, row: tuple[Any, ...]) -> None:
        run_id, machine, status, head, blob = row
        revision, _, due_ms, parked = unpack_head(head)
        self.looks += 1
        value: Any = unfold_blob(load(blob), run_id)
        root = value["root"]
        self.world.note(f"saved {run_id} {revision - 2**33} {status} {root['configuration']}")
        if known.revision:
            self.require("terminal", f"{run_id} was {known.status}", holds=known.status == "live")
            step = revision - known.revision
            self.require("revision", f"{run_id} went {step:+}", holds=step == 1)
        known.revision, known.status, known.value = revision, status, value
        self.world.disk.traits = promises.traits(value)
        self._look_at_tokens(run_id, known, promises.tokens(root))
        self._look_at_effects(run_id, known, value)
        timers = [timer["due"] for timer in value.get("timers", ())]
        nearest = min(timers, default=NO_TIMER_MS) if status == "live" else NO_TIMER_MS
        self.require("due", f"{run_id}: {due_ms}, {nearest} in its blob", holds=due_ms == nearest)
        if parked:
            busy = [e["id"] for e in value.get("effects", ()) if e["status"] in OUTSTANDING]
            waits = busy or value.get("arrivals") or promises.queued(root)
            self.require("parked", f"{run_id} is parked, with {waits}", holds=not waits)
        self._look_at_floors(run_id, value)
        for rule, what in promises.of(machine, root.get("context", {}), self.world):
            self.broke(rule, f"{run_id}: {what}")

    def _look_at_tokens(self, run_id: str, known: Known, seen: list[str]) -> None:
        kept = known.seen == seen[: len(known.seen)] or set(known.seen) <= set(seen)
        self.require("lost event", f"{run_id} had {known.seen}, has {seen}", holds=kept)
        self.require("event twice", f"{run_id}: {seen}", holds=len(set(seen)) == len(seen))
        for token in set(seen) - set(known.seen):
            op = self.ops[token]
            what = f"{token} was refused ({op.said}), and {run_id} ran it"
            self.require("refused event", what, holds=op.status != "refused")
        queued = promises.queued_tokens(known.value)
        self.vanished |= known.queued - queued - set(seen)
        known.seen, known.queued = seen, queued

    def _look_at_effects(self, run_id: str, known: Known, value: dict[str, Any]) -> None:
        now = {row["id"]: row for row in map(whole, value.get("effects", ()))}
        gone = known.effects.keys() - now.keys()
        self.require("lost effect", f"{run_id} lost {sorted(gone)}", holds=not gone)
        for effect, row in now.items():
            before = known.effects.get(effect)
            if before != row:
                self._look_at_effect(before, row)
        known.effects = now

    def _look_at_effect(self, before: dict[str, Any] | None, row: dict[str, Any]) -> None:
        effect, status = row["id"], row["status"]
        if before is None:
            # A first save may say at once that the call leaves.
            self.require("intent", f"{effect} began as {status}", holds=status in OUTSTANDING[:2])
        else:
            was = before["status"]
            settled = was not in OUTSTANDING
            what = f"{effect}: {was} → {status}"
            self.require("settled", what, holds=not settled or was == status)
            less = row["attempt"] < before["attempt"]
            self.require("attempt", f"{effect} went back to {row['attempt']}", holds=not less)
        happened = self.world.outside.has_happened(row["key"])
        if status == "done":
            self.require("done", f"{effect} is done, and never happened", holds=happened)
        if status == "failed" and not row.get("idempotent"):
            self.require("failed", f"{effect} is failed, and happened", holds=not happened)

    def _look_at_floors(self, run_id: str, value: dict[str, Any]) -> None:
        for (run, ledger, key), least in self.floors.items():
            if run == run_id:
                found = promises.entry(value, ledger, key)
                what = f"{run_id} {ledger} {key}: {found}, {least!r} was written"
                self.require("ledger", what, holds=found is not None and found >= least)

    # -- what others were told --------------------------------------------------------------------

    def acknowledged(self, op: Op) -> None:
        """Look whether an event that its sender was told has run is in the file."""
        seen = self.runs[op.run_id].seen if op.run_id in self.runs else []
        deep = op.is_for_child  # its chart's tokens come up when it ends
        what = f"{op.token} was acknowledged, {op.run_id} has {seen}"
        self.require("acknowledged", what, holds=deep or op.token in seen)

    def taken_before(self, op: Op) -> None:
        """Look whether an event that is always taken, and was, has run or is queued in the file."""
        known = self.runs.get(op.run_id, Known())
        there = op.token in known.seen or op.token in known.queued or known.status != "live"
        self.require("acknowledged", f"{op} was taken, and is nowhere", holds=there)

    def ran_nothing(self, op: Op) -> None:
        """Look whether an event that its sender was told did not run has not."""
        seen = self.runs[op.run_id].seen if op.run_id in self.runs else []
        what = f"{op.token} was refused ({op.said}), and {op.run_id} ran it"
        self.require("refused event", what, holds=op.token not in seen)

    def wrote(self, run_id: str, ledger: str, key: str, least: Any) -> None:
        """Look whether what a ledger said to be saved is, and remember it."""
        self.floors[run_id, ledger, key] = least
        if run_id not in self.damaged and run_id in self.runs:
            self._look_at_floors(run_id, self.runs[run_id].value)

    def called(self, key: str, account: Account, ctx: Any, *, blocking: bool) -> None:
        """Look whether the file says that a call leaves which has just arrived."""
        known = self.runs.get(ctx.run_id, Known())
        row = next((row for row in known.effects.values() if row["key"] == key), None)
        if row is None:
            self.broke("intent before call", f"{key} was called, and no row says so")
            return
        state = row["status"], row["attempt"]
        allowed = ("calling", "unknown") if blocking else ("calling",)
        right = state[0] in allowed and (blocking or state[1] == ctx.attempt)
        what = f"{key} was called ({ctx.attempt}), its row says {state}"
        self.require("intent before call", what, holds=right)
        if not account.idempotent:
            what = f"{key} was called {account.calls} times, {account.permitted} could be"
            self.require("called twice", what, holds=account.calls <= account.permitted)

    # -- hosts ------------------------------------------------------------------------------------

    def booted(self, host: Host, live: set[str], missing: set[str]) -> None:
        """Look whether the report of a boot names each run that was live, once."""
        report = host.report
        names = [*report.resumed, *report.unresumed, *report.lost, *report.drifted]
        twice = {name for name in names if names.count(name) > 1}
        self.require("report", f"it names {sorted(twice)} twice", holds=not twice)
        unnamed = live - set(names)
        self.require("report", f"it does not name {sorted(unnamed)}", holds=not unnamed)
        for run_id in sorted(live):
            there = run_id in host._resident or run_id in host.waiting  # noqa: SLF001 - what it has in memory
            ended = self.runs[run_id].status != "live"
            said = run_id in report.unresumed
            self.require("report", f"{run_id} is nowhere", holds=there or said or ended)
            if run_id in missing:
                self.require("report", f"{run_id} cannot be resumed", holds=said or ended)

    def restores(self, host: Host, run_id: str) -> None:
        """Look whether a row, built anew, is what the host has in memory."""
        run = host._resident.get(run_id)  # noqa: SLF001 - as above
        if run is None or run.header is None or run.tree.running is not None or not run.goes_on:
            return
        stored = host.store.load(run_id)
        if stored.header.revision != run.header.revision or run.tree.moved or run.trouble:
            return
        value = run.machine.codec.decode(stored.blob)
        made = host.build(stored.header, run.machine, unfold_blob(value, run_id), restarted=False)
        rebuilt, memory = (
            promises.lasting(unfold_blob(load(one.as_stored().blob), run_id)) for one in (made, run)
        )
        differs = [name for name in memory if rebuilt.get(name) != memory[name]]
        self.require("restore", f"{run_id}: its row differs in {differs}", holds=not differs)
        found, kept = promises.shown(made), promises.shown(run)
        self.require("restore", f"{run_id}: {found} is built of {kept}", holds=found == kept)
