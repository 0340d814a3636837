"""One operation, one fault, one number: what came of it."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from machines.errors import MachinesError
from snapshots import limits, open_store
from snapshots.errors import SnapshotsError, StorageError
from snapshots.layout import unfold_blob
from tools.disk.failing import FailingDisk, Fault, busy_at_times, surviving_closings
from tools.disk.history import NOTHING, TABLES, History, Picture
from tools.disk.life import looking_often
from tools.disk.scene import PATIENCE_S, BrokenError, Scene
from tools.disk.telling import told
from tools.disk.watching import watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from snapshots.records import RunHeader
    from tools.disk.operations import Operation

LASTING_S: Final = 0.1
"""How long a fault lasts that does not pass by itself, unless the operation is over before."""
_QUICK: Final = {
    "SAVE_RETRY_MS": 1,
    "SAVE_RETRY_MS_MAX": 4,
    "BUSY_TIMEOUT_MS": 4,
    "OPEN_PATIENCE_MS": 30,
}
_SHORT: Final = {
    "CHECKPOINT_PAGES": 6,
    "CHECKPOINT_REST_PAGES": 2,
    "WAL_RESTART_BYTES": 8 * limits.PAGE_BYTES,
    "WAL_RESTART_COMMITS": 0,
    "WAL_BYTES_MAX": 32 * limits.PAGE_BYTES,
}


@dataclass(slots=True)
class Trial:
    """What was seen of one."""

    hits: int = 0
    """How often the disk failed: never is a clean pass."""
    raised: str = ""
    wrong: list[str] = field(default_factory=list)


@contextmanager
def quickly(*, often: bool) -> Iterator[None]:
    """Have what is tried again be tried again soon, and the log copied at once if `often`."""
    bounds = _QUICK | ({name: _SHORT[name] for name in _SHORT} if often else {})
    changed: list[tuple[dict[str, Any], str, Any]] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(("machines", "snapshots")):
            continue
        here = vars(module)
        for bound in bounds.keys() & here.keys():
            changed.append((here, bound, here[bound]))
            here[bound] = bounds[bound]
    try:
        yield
    finally:
        for here, bound, before in changed:
            here[bound] = before


def attempt(operation: Operation, fault: Fault, number: int, folder: Path) -> Trial:
    """Disturb an operation at the `number`-th thing of the fault's kind."""
    with surviving_closings():
        return asyncio.run(_Attempt(operation, fault, folder).go(number))


class _Attempt:
    def __init__(self, operation: Operation, fault: Fault, folder: Path) -> None:
        self.operation, self.fault, self.folder = operation, fault, folder
        self.scene = Scene(folder / "state.db")
        self.disk = FailingDisk(folder)
        self.history = History(self.disk)
        self.trial = Trial()

    async def go(self, number: int) -> Trial:
        """Do it all."""
        asyncio.get_running_loop().set_exception_handler(self._unheard)
        with ExitStack() as seams:
            vfs = seams.enter_context(watched(self.disk))
            seams.enter_context(told(self.history, vfs))
            seams.enter_context(busy_at_times(self.disk, vfs.base))
            seams.enter_context(looking_often())
            seams.enter_context(quickly(often=self.operation.name == "checkpoint"))
            self.scene.vfs = vfs.base
            try:
                await self._disturb(number)
                await self._look_again()
            except BrokenError as error:
                self._wrong(str(error))
            except (SnapshotsError, MachinesError, AssertionError) as error:
                self._wrong(f"afterwards: {error!r}")
            self.disk.mend()
            try:
                await self.scene.close()
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
                self._wrong(f"it does not close: {error!r}")
        return self.trial

    def _unheard(self, _loop: object, context: dict[str, Any]) -> None:
        self._wrong(f"nobody heard: {context.get('exception') or context['message']!r}")

    def _wrong(self, what: str) -> None:
        self.trial.wrong.append(what)

    async def _disturb(self, number: int) -> None:
        scene, operation = self.scene, self.operation
        if not operation.opens:
            await scene.open()
        if operation.arrange is not None:
            await operation.arrange(scene)
        if scene.has_host and operation.rests:
            await scene.at_rest()
        before = self.history.moments[-1].picture
        self.disk.arm(self.fault, number)
        error = await self._act()
        self.trial.hits = self.disk.hits
        if error is not None:
            self._judge(error, before)
        self._compare("after it")
        self._kill()
        if error is not None and not operation.is_kept:
            await self._act_again()

    async def _act_again(self) -> None:
        if self.scene.has_host and self.operation.rests:
            await self.scene.at_rest()
        error = await self._act()
        if error is not None and self._is_late(error):
            error = await self._act()
        if error is not None:
            self._wrong(f"done again, it raises {error!r}")

    async def _act(self) -> BaseException | None:
        """Act, and mend the disk when it is over, or after a while."""
        task = asyncio.ensure_future(self.operation.act(self.scene))
        if self.fault.lasts:
            await asyncio.wait({task}, timeout=LASTING_S)
        else:
            await asyncio.wait({task}, timeout=PATIENCE_S)
        self.disk.mend()
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            message = "stuck: it never ends"
            raise BrokenError(message)
        return task.exception()

    def _is_late(self, error: BaseException) -> bool:
        """Whether a checkpoint has failed, which is told at the next save or at the closing."""
        is_told = isinstance(error, self.fault.expected) and error.operation == "checkpoint"
        return is_told and bool(self.disk.hits)

    async def _close(self) -> None:
        try:
            await self.scene.close()
        except StorageError as error:
            if not self._is_late(error):
                raise

    def _judge(self, error: BaseException, before: Picture) -> None:
        self.trial.raised = type(error).__name__
        if not isinstance(error, self.fault.expected):
            self._wrong(f"expected {self.fault.expected.__name__}, it raises {error!r}")
        if not self.trial.hits:
            self._wrong(f"nothing failed, it raises {error!r}")
        if self.operation.is_one_write and (changed := self._changed(before)):
            self._wrong(f"it raises, and {changed} is not as it was")

    def _changed(self, before: Picture) -> str:
        """Say what differs from before, but for a run that was saved again as it was."""
        now, truth = self.history.moments[-1].picture, self.history.truth
        pairs = zip(TABLES, before, now, strict=True)
        tables = [name for name, one, two in pairs if one != two and name != "runs"]
        old, new = (_runs_of(picture, truth) for picture in (before, now))
        runs = [f"run {name!r}" for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(tables + runs)

    def _compare(self, when: str) -> None:
        """Compare the file with the last commit, and each run in memory with its row."""
        last = self.history.moments[-1].picture
        if last == NOTHING:
            return
        if self.scene.picture() != last:
            self._wrong(f"{when}, the file is not what the last commit wrote")

    def _kill(self) -> None:
        """Look at the file as a kill would leave it: whole, and each run as it was at its save."""
        place = self.folder / "killed"
        place.mkdir()
        for name in ("state.db", "state.db-wal"):
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, place / name)
        if not (place / "state.db").exists():
            return
        with open_store(place / "state.db", clock=self.scene.clock) as store:
            said = self.scene.sound(place / "state.db")
            if said != "ok":
                self._wrong(f"after a kill: {said}")
            for header in store.headers():
                self._compare_killed(header, bytes(store.load(header.run_id).blob))

    def _compare_killed(self, header: RunHeader, blob: bytes) -> None:
        """Compare a run with its last save; one that was refused as it was synced may be there."""
        expected = self.history.truth.get((header.run_id, header.revision))
        if expected is None:
            expected = self.history.truth.get((header.run_id, header.revision - 1))
            is_next = expected is not None or header.revision == limits.REVISION_FIRST
            if not is_next or self.fault.kind != "sync":
                self._wrong(f"after a kill, run {header.run_id!r} is what was never saved")
            return
        machine = self.scene.machines[header.machine]
        if unfold_blob(machine.codec.decode_blob(blob), header.run_id) != expected:
            self._wrong(f"after a kill, run {header.run_id!r} is not what was saved last")

    async def _look_again(self) -> None:
        """See that all came about, now and in another host."""
        scene = self.scene
        if not scene.has_host:
            await scene.open()
        for when in ("in the end", "in another host"):
            await scene.at_rest()
            if not await self.operation.holds(scene):
                self._wrong(f"{when}, it has not come about")
            self._compare(when)
            self._compare_runs(when)
            await self._close()
            if when == "in the end":
                await scene.open()
                strays = {**scene.host.report.unresumed, **scene.host.report.lost}
                if strays:
                    self._wrong(f"not resumed: {strays}")
        if (said := scene.sound(scene.path)) != "ok":
            self._wrong(f"in the end: {said}")
        calls = Counter(kind for kind, _ in scene.outside.calls)
        if calls != Counter(self.operation.calls):
            self._wrong(f"called {dict(calls)}, expected {self.operation.calls}")

    def _compare_runs(self, when: str) -> None:
        """Compare what each run is in memory, and what its row holds, with its last save."""
        store = self.scene.host.store
        for run_id, run in self.scene.host._resident.items():  # noqa: SLF001 - looked into
            assert run.header is not None
            expected = self.history.truth[run_id, run.header.revision]
            value = run.machine.codec.decode_blob(bytes(store.load(run_id).blob))
            if unfold_blob(value, run_id) != expected:
                self._wrong(f"{when}, the row of run {run_id!r} is not what was saved last")
            if _without_tails(run.as_value()) != _without_tails(expected):
                self._wrong(f"{when}, run {run_id!r} in memory is not what was saved last")


def _runs_of(picture: Picture, truth: dict[tuple[str, int], Any]) -> dict[str, Any]:
    """Return status and value of each run, without the numbers that refused events were given."""
    return {row[1]: (row[4], {**truth[row[1], row[6]], "clock": None}) for row in picture[0]}


def _without_tails(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a run what goes with the next save: results that its chart has reacted to."""
    rows = [
        {name: held for name, held in row.items() if name != "tail"}
        for row in value.get("effects", ())
    ]
    return {**value, "effects": rows}
