"""`doctor`, `export`, `fork` and `diff` under random words, files and blobs: typed errors only."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from snapshots import open_store
from snapshots.codec import dump
from snapshots.errors import DecodeError
from snapshots.inspection import FoundRun, read_report
from snapshots.inspection.cli.app import call
from snapshots.inspection.copies.disarming import HELD_MS, disarm
from snapshots.inspection.copies.exporting import export_document
from snapshots.inspection.reports.differences import differences
from snapshots.inspection.text.differences import differences_document
from snapshots.inspection.text.documents import written
from tests.unit.snapshots.inspection.cli.fuzzing import OBEYED, call_with_anything, damaged
from tests.unit.snapshots.inspection.cli.test_cli_fuzz import WORDS
from tests.unit.snapshots.inspection.stored_runs import DIGEST, MACHINE, SHAPE, encoded, run_value

OPTIONS = ["--json", "--deep", "--output", "--force", "--raw", "--as", "--machines", "--help", "-x"]
# How many words each command takes before the file.
COMMANDS = {"doctor": 0, "export": 1, "fork": 2, "diff": 2}
CALLS = 30
PARTS: tuple[Any, ...] = (
    *(None, 7, -1, 2**63, 1.5, True, "x", "\x1b]0;x\x07", [], {}, [None], {"$": "tuple", "v": 3}),
    *({"$": "object", "class": "os.system", "v": {}}, {"a": {"b": [{}]}}, "a/b/../c", "(root)"),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file with a run, in the current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "state.db"
    with open_store(path) as store:
        blob = encoded(run_value(run="run-1"))
        store.create(
            run_id="run-1", machine=MACHINE, digest=DIGEST, shape=encoded(SHAPE), blob=blob
        )
    return path


def words(path: Path, chance: random.Random, number: int) -> list[str]:
    """Return a command with anything behind it; what it writes, it writes to this folder."""
    name, count = chance.choice(list(COMMANDS.items()))
    given = [name]
    for place in range(count):
        word = f"new-{number}" if (name, place) == ("fork", 1) else "run-1"
        given.append(chance.choice([word, word, chance.choice(WORDS)]))
    choice = chance.random()
    if choice < 0.9:
        given.append(str(path) if choice < 0.5 else damaged(path, chance, number))
    else:
        given.append(chance.choice(WORDS))
    for _ in range(chance.choice((0, 0, 1, 3))):
        given.insert(chance.randrange(1, len(given) + 1), chance.choice(OPTIONS + WORDS))
    return given


@pytest.mark.parametrize("seed", range(2))
def test_any_words_and_any_file_come_to_an_exit_code_and_a_line(
    file: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    """No traceback, nothing that a terminal obeys, and the file of runs stays as it is."""
    before = file.read_bytes()
    call_with_anything(words, file, capfd, seed, calls=CALLS, is_raw=lambda given: "--raw" in given)
    assert file.read_bytes() == before


def broken(chance: random.Random) -> bytes:
    """Return a blob of which parts were replaced, or whose bytes were changed."""
    value = run_value(run="bad")
    for _ in range(chance.choice((1, 1, 2, 5))):
        at: Any = value
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = chance.choice(keys)
            if not isinstance(at[key], dict | list) or chance.random() < 0.25:
                at[key] = copy.deepcopy(chance.choice(PARTS))
                break
            at = at[key]
    data = bytearray(encoded(json.loads(json.dumps(value))))
    for _ in range(chance.choice((0, 0, 0, 1, 4))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def stored(path: Path, blob: bytes) -> Path:
    """Make a file with a run of this blob, and one that is well."""
    with open_store(path) as store:
        for run_id, data in (("bad", blob), ("good", encoded(run_value(run="good")))):
            store.create(
                run_id=run_id, machine=MACHINE, digest=DIGEST, shape=encoded(SHAPE), blob=data
            )
    return path


def test_any_blob_is_exported_forked_compared_and_judged_or_refused(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever it holds: a verdict, or one line that says why not, and the row is untouched."""
    chance, codes = random.Random(7), Counter[tuple[str, int]]()
    for number in range(14):
        blob = broken(chance)
        path = stored(file.with_name(f"blob-{number}.db"), blob)
        for given in (
            ["export", "bad", str(path)],
            ["fork", "bad", f"fork-{number}.db", str(path), "--json"],
            ["diff", "good", "bad", str(path)],
            ["doctor", str(path)],
        ):
            code = call(given)
            out, err = capfd.readouterr()
            assert "unexpected error" not in err, (given, err, blob)
            assert not OBEYED.search(out + err), given
            codes[given[0], code] += 1
        with open_store(path, read_only=True) as store:
            assert store.load("bad").blob == blob
    assert {("export", 0), ("export", 1), ("fork", 0), ("fork", 2)} <= codes.keys()
    assert {("diff", 1), ("diff", 2), ("doctor", 0), ("doctor", 1)} <= codes.keys()


def test_what_is_read_of_any_blob_can_be_disarmed_compared_and_written(file: Path) -> None:
    """Beneath the command line, where more of them can be tried: a DecodeError or a result."""
    chance, counts = random.Random(8), Counter[str]()
    with open_store(file, read_only=True) as store:
        header = store.load("run-1").header._replace(run_id="bad")
    good = read_report(
        header._replace(run_id="good"), encoded(run_value(run="good")), None, now_ms=0
    )
    for _ in range(1_500):
        blob = broken(chance)
        found = FoundRun(header=header, blob=blob, shape=None)
        document = export_document(found, now_ms=0)
        assert written(document).rstrip("\n").isprintable()
        try:
            report = read_report(header, blob, None, now_ms=0)
            written(differences_document("good", "bad", differences(good, report)))
            after, _ = disarm(document["blob"], "other")
            again = read_report(header._replace(run_id="other"), dump(after), None, now_ms=0)
        except DecodeError:
            counts["refused"] += 1
        else:
            counts["taken"] += 1
            assert again.queue == ()
            statuses = {effect.status for effect in again.effects}
            assert not statuses & {"intent", "calling"}
            assert all(timer.due_ms >= HELD_MS for timer in again.timers)
    assert min(counts["refused"], counts["taken"]) > 100, counts
