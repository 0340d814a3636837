"""Who is about while the host works: readers, backups, people with commands, and who measures."""

from __future__ import annotations

import random
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from machines.demo.processes import Errand, Process
from machines.demo.scenario import Bystanders, Field
from snapshots.codec import dump
from snapshots.errors import SnapshotsError
from snapshots.inspection.queries.files import open_run_file
from tools.soaking.samples import (
    PINNED_AFTER_S,
    Sample,
    Samples,
    open_files,
    resident_bytes,
    size_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path

READER: Final = "tools.soaking.reader"
READERS: Final = 2
"""The first one only looks, the others pin the log now and then."""
PIN_S_MAX: Final = 4.0
SAMPLE_S: Final = 1.0
BACKUP_S: Final = 17.0
CALL_S: Final = 1.0
"""From one note by a command to the next."""
CALLED_FROM: Final = 1_000_000
"""Notes by commands have numbers of their own."""
READER_KILL_SHARE: Final = 0.25
"""The share of pins in which the reader is killed."""
TAKEN: Final = (b"taken", b"taken before")
WORDS_CHARS_MAX: Final = 300


@dataclass
class Calls:
    """Notes that people send by the command `snapshots send`, and how far they are."""

    under_way: dict[tuple[str, int], Errand] = field(default_factory=dict)
    again: list[tuple[str, int]] = field(default_factory=list)
    """Those of which nobody knows whether they were accepted: said again, with their delivery."""
    taken: list[tuple[str, int]] = field(default_factory=list)

    def concern(self, run: str) -> bool:
        """Whether a note to this run is not settled yet."""
        return any(run == about for about, _ in (*self.under_way, *self.again))


class Surroundings(Bystanders):
    """All of them, and what was found wrong about each."""

    def __init__(self, field: Field, folder: Path, seed: int, measured: Samples) -> None:
        super().__init__(field)
        self.measured = measured
        self.calls = Calls()
        self.host: Process | None = None
        """The host that has the file open, None while none has."""
        self.life = 0
        self.callable_runs: list[str] = []
        """Logbooks that may be told something by a command now."""
        self.wrong: dict[str, None] = {}
        """What went wrong with readers and backups."""
        self.looks = self.pins = self.killed = self.backups = self.own_backups = self.commands = 0
        self._folder = folder
        self._seed = seed
        self._errors = folder / "readers.log"
        self._dice = random.Random(f"surroundings {seed}")
        self._began_s = self._sampled_s = self._backed_up_s = self._called_s = time.monotonic()
        self._opened_s = 0.0
        self._rows: tuple[int | None, int | None] = (None, None)
        self._readers: dict[int, Process] = {}
        self._pinned: set[int] = set()
        self._pinned_until_s = 0.0
        self._doomed: dict[int, float] = {}
        self._backup: tuple[Errand, Path] | None = None
        self._numbers = iter(range(CALLED_FROM, 2 * CALLED_FROM))
        self._is_ending = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self.calls.under_way and not self.calls.again

    def begin(self) -> None:
        """Take note that a host has the file open; the first time, let everybody come."""
        self._opened_s = time.monotonic()
        while len(self._readers) < READERS:
            self._seat(len(self._readers))

    def end(self) -> None:
        """Begin nothing new."""
        self._is_ending = True

    def act(self) -> None:
        """Do what is due, and hear what is said."""
        now_s = time.monotonic()
        if now_s - self._sampled_s >= SAMPLE_S:
            self._sampled_s = now_s
            self._sample(now_s)
        self._hear_readers(now_s)
        self._look_after_backups(now_s)
        self._look_after_calls(now_s)

    def close(self) -> None:
        """End everybody."""
        for reader in self._readers.values():
            reader.close()
        for errand in self.calls.under_way.values():
            errand.close()
        if self._backup is not None:
            self._backup[0].close()

    # -- who measures ---------------------------------------------------------------------------

    def at_s(self, now_s: float) -> float:
        """Return a time as it is told in samples."""
        return now_s - self._began_s

    def _sample(self, now_s: float) -> None:
        file, host = self.field.file, self.host
        live, ended = self._rows
        self.measured.samples.append(
            Sample(
                at_s=self.at_s(now_s),
                life=self.life,
                age_s=now_s - self._opened_s,
                host_bytes=None if host is None else resident_bytes(host.pid),
                host_files=None if host is None else open_files(host.pid),
                file_bytes=size_bytes(file),
                log_bytes=size_bytes(file.with_name(f"{file.name}-wal")),
                live=live,
                ended=ended,
                is_pinned=bool(self._pinned) or now_s < self._pinned_until_s or self._is_copied,
            )
        )

    # -- who reads ------------------------------------------------------------------------------

    def _seat(self, number: int) -> None:
        pin_s = str(PIN_S_MAX) if number else "0"
        arguments = (str(self.field.file), f"{self._seed} {number} {self.killed}", pin_s)
        self._readers[number] = Process(f"reader {number}", READER, arguments, self._errors)

    def _hear_readers(self, now_s: float) -> None:
        if not self._readers:
            return
        ready, _, _ = select.select([*self._readers.values()], [], [], 0)
        for number, reader in list(self._readers.items()):
            if reader in ready:
                for line in reader.hear():
                    self._take(number, line, now_s)
            if self._doomed.get(number, now_s + 1) <= now_s:
                del self._doomed[number]
                self._unseat(number, now_s)
                self.killed += 1
                self._seat(number)
            elif reader.has_ended:
                self.wrong[f"reader {number} ended by itself, see {self._errors.name}"] = None
                self._unseat(number, now_s)
                self._seat(number)

    def _unseat(self, number: int, now_s: float) -> None:
        self._readers.pop(number).close()
        self._release(number, now_s)

    def _release(self, number: int, now_s: float) -> None:
        if number in self._pinned:
            self._pinned.discard(number)
            self._pinned_until_s = now_s + PINNED_AFTER_S

    def _take(self, number: int, line: dict[str, Any], now_s: float) -> None:
        match line["at"]:
            case "look":
                self.looks += 1
                self._rows = (line["live"], line["ended"])
            case "failed look":
                self.wrong[f"a look: {line['error']}"] = None
            case "pinned":
                self.pins += 1
                self._pinned.add(number)
                if self._dice.random() < READER_KILL_SHARE:
                    self._doomed[number] = now_s + self._dice.uniform(0.0, PIN_S_MAX / 8)
            case "released":
                self._release(number, now_s)

    # -- who makes copies -----------------------------------------------------------------------

    @property
    def _is_copied(self) -> bool:
        """Whether a backup reads the file: that pins the log too."""
        return self._backup is not None

    def take_own_backup(self, line: dict[str, Any]) -> None:
        """Take what the host says of a backup of its own."""
        self.own_backups += 1
        if line["error"]:
            self.wrong[f"a backup by the host: {line['error']}"] = None

    def _look_after_backups(self, now_s: float) -> None:
        if self._backup is None:
            if now_s - self._backed_up_s >= BACKUP_S and not self._is_ending and self._readers:
                self._backed_up_s = now_s
                target = self._folder / "copy.db"
                target.unlink(missing_ok=True)
                errand = Errand(["backup", str(target), str(self.field.file)])
                self._backup = (errand, target)
            return
        errand, target = self._backup
        if (code := errand.poll()) is None:
            return
        _, complaint = errand.said()
        errand.close()
        self._backup = None
        self._pinned_until_s = max(self._pinned_until_s, now_s + PINNED_AFTER_S)
        if code != 0:
            self.wrong[f"a backup ended with {code}: {_words(complaint)}"] = None
            return
        self.backups += 1
        try:
            with open_run_file(target) as copy:
                copy.counts()
        except SnapshotsError as error:
            self.wrong[f"a backup cannot be read: {error}"] = None

    # -- who gives commands ---------------------------------------------------------------------

    def _look_after_calls(self, now_s: float) -> None:
        calls = self.calls
        for note, errand in list(calls.under_way.items()):
            if (code := errand.poll()) is not None:
                output, complaint = errand.said()
                errand.close()
                del calls.under_way[note]
                self._settle(note, code, output, complaint)
        if calls.under_way or self.host is None:
            return
        if calls.again:
            self._call(calls.again.pop(0))
        elif now_s - self._called_s >= CALL_S and self.callable_runs and not self._is_ending:
            self._called_s = now_s
            self._call((self._dice.choice(self.callable_runs), next(self._numbers)))

    def _call(self, note: tuple[str, int]) -> None:
        run, number = note
        data = dump({"number": number, "text": "by a command"}).decode()
        options = ("--data", data, "--delivery", f"{run}-note-{number}", "--wait", "10")
        self.calls.under_way[note] = Errand(["send", run, "note", str(self.field.file), *options])
        self.commands += 1

    def _settle(self, note: tuple[str, int], code: int, output: bytes, complaint: bytes) -> None:
        if code == 0 and output.strip() in TAKEN:
            self.calls.taken.append(note)
        elif code == 0:
            # Accepted, and no host took it while it was waited for: a repeat asks again.
            self.calls.again.append(note)
        else:
            self.field.outsiders.refused.append(
                f"note {note[1]} to {note[0]} by a command: code {code}, {_words(complaint)}"
            )


def _words(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip()[-WORDS_CHARS_MAX:]
