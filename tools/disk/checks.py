"""Opens an image with our own code, and compares what is there with what must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from snapshots import open_store
from snapshots.errors import SnapshotsError
from snapshots.layout import unfold_blob
from tools.disk.history import TABLES, picture_of

if TYPE_CHECKING:
    from pathlib import Path

    from machines import Machine
    from snapshots import SnapshotStore
    from snapshots.testing import ManualClock
    from tools.disk.history import History, Picture
    from tools.disk.images import Image

_SAYS_OK: Final = [("ok",)]
WHOLE: Final = "it is whole"
OPENS: Final = "our own code opens it and writes to it"
PREFIX: Final = "it is an exact prefix of the saves"
LASTS: Final = "nothing that must last is lost"
HAPPENED: Final = "nothing comes from the future"
SAME: Final = "a run is what it was after that save"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is wrong with one image."""

    claim: str
    """Which promise is broken, in a few words."""
    detail: str
    image: Image

    def __str__(self) -> str:
        return f"{self.claim}: {self.detail} (behind {self.image.at} operations; {self.image.told})"


class _WrongError(Exception):
    """A promise that an image does not keep."""

    def __init__(self, claim: str, detail: str) -> None:
        self.claim = claim
        self.detail = detail
        super().__init__(f"{claim}: {detail}")


class Checker:
    """Checks the images of one history."""

    def __init__(self, history: History, machines: tuple[Machine, ...], clock: ManualClock) -> None:
        self.history = history
        self.clock = clock
        self._machines = {machine.name: machine for machine in machines}
        self._places: dict[Picture, list[int]] = {}
        for index, moment in enumerate(history.moments):
            self._places.setdefault(moment.picture, []).append(index)
        self._right: set[tuple[str, int, bytes]] = set()
        """Blobs that were compared before and were right."""

    def check(self, image: Image, path: Path) -> tuple[int | None, Failure | None]:
        """Say which commit an image is, which was written to `path`, or what is wrong with it."""
        try:
            with open_store(path, clock=self.clock) as store:
                return self._look(image, store), None
        except _WrongError as error:
            return None, Failure(claim=error.claim, detail=error.detail, image=image)
        except apsw.Error as error:
            detail = f"{type(error).__name__}: {error}"
            return None, Failure(claim=WHOLE, detail=detail, image=image)
        except SnapshotsError as error:
            detail = f"{type(error).__name__}: {error}"
            return None, Failure(claim=OPENS, detail=detail, image=image)

    def _look(self, image: Image, store: SnapshotStore) -> int:
        connection: apsw.Connection = store.database.connection  # type: ignore[attr-defined]  # the one implementation
        said = connection.execute("pragma integrity_check").fetchall()
        if said != _SAYS_OK:
            raise _WrongError(WHOLE, str(said[:3]))
        index = self._place(image, picture_of(connection))
        for run in self.history.moments[index].picture[0]:
            self._compare(store, run[1], run[6])
        store.take_over("whoever comes after the loss")
        for header in store.headers("live"):
            store.save(header, store.load(header.run_id).blob, sync=True)
            break
        return index

    def _place(self, image: Image, found: Picture) -> int:
        """Return the commit after which the file held what it holds."""
        first, last, why = self.history.bounds(image.at)
        places = self._places.get(found)
        if places is None:
            raise _WrongError(PREFIX, self._nearest(found, last))
        inside = [index for index in places if first <= index <= last]
        if inside:
            return inside[-1]
        detail = f"commit {places[-1]}, expected {first} to {last}"
        if places[-1] < first:
            raise _WrongError(LASTS, detail + f", as {why}")
        raise _WrongError(HAPPENED, detail)

    def _nearest(self, found: Picture, last: int) -> str:
        """Say in which tables the file differs from the commit that it is most like."""
        moments = self.history.moments[: last + 1]
        best = max(moments, key=lambda moment: sum(map(_same, moment.picture, found)))
        names = [
            name
            for name, there, here in zip(TABLES, best.picture, found, strict=True)
            if there != here
        ]
        return f"it differs from each commit, from the most alike one in {', '.join(names)}"

    def _compare(self, store: SnapshotStore, run_id: str, revision: int) -> None:
        """Compare a run, its charts and each of its ledgers, with what it was in memory."""
        blob = bytes(store.load(run_id).blob)
        if (run_id, revision, blob) in self._right:
            return
        header = store.load(run_id).header
        value = self._machines[header.machine].codec.decode_blob(blob)
        found: dict[str, Any] = unfold_blob(value, run_id)
        expected: dict[str, Any] = self.history.truth[run_id, revision]
        wrong = [
            name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)
        ]
        if wrong:
            detail = f"run {run_id!r} at revision {revision} differs in {', '.join(wrong)}"
            raise _WrongError(SAME, detail)
        self._right.add((run_id, revision, blob))


def _same(one: object, other: object) -> bool:
    return one == other
