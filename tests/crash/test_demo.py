"""The demo does its job: it kills, it restarts, it counts, and it leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from machines.demo.scenarios import SCENARIOS
from tests.crash.demo_runs import PROCESSES, begin_demo, install, outlive, processes_with
from tests.unit.snapshots.inspection.cli.command_line import command, environment, on_terminal

ONCE = {"charge", "print_label", "hand_over"}
ROW = re.compile(
    r"^(?P<head>(?P<run>\w+-\d+) +(?P<machine>\w+) +(?P<status>\w+) +(?P<kills>\d+) +|  +)"
    r"(?P<kind>[a-z_]+)(?:, \w+)? +(?P<left>\d+) +(?P<seen>\d+)(?: .*)?$"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the command `demo` known."""
    return install(tmp_path_factory.mktemp("site"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A demo that was run, and where it left its files."""

    folder: Path
    done: subprocess.CompletedProcess[str]

    @property
    def rows(self) -> list[re.Match[str]]:
        """The rows of the table."""
        return [row for line in self.done.stdout.splitlines() if (row := ROW.match(line))]

    @property
    def log(self) -> list[dict[str, str]]:
        """What the receiver wrote down."""
        text = (self.folder / "requests.log").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def shown(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run the demo once, with 3 kills of 4 runs."""
    folder = tmp_path_factory.mktemp("kept") / "demo"
    options = ("--kills", "3", "--runs", "4", "--seed", "5", "--keep", str(folder))
    return Shown(folder=folder, done=command("demo", *options, PYTHONPATH=str(site)))


def test_every_claim_holds_after_three_kills(shown: Shown) -> None:
    """The demo kills as often as it is told to, and nothing is lost, repeated or stuck."""
    assert (shown.done.returncode, shown.done.stderr) == (0, "")
    assert "kill 3 of 3: " in shown.done.stdout
    assert "kill 4" not in shown.done.stdout
    for claim in (
        "0 acknowledged transitions lost",
        "0 non-idempotent effects repeated",
        "0 runs stuck",
    ):
        assert f"holds  {claim}\n" in shown.done.stdout
    assert "BROKEN" not in shown.done.stdout


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "checkout"])
def test_every_scenario_is_shown(site: Path, tmp_path: Path, scenario: str) -> None:
    """Each is killed as often as it is told to, names its claims, and each of them holds."""
    options = ("--scenario", scenario, "--kills", "2", "--runs", "2", "--keep", str(tmp_path))
    done = command("demo", *options, PYTHONPATH=str(site))
    assert (done.returncode, done.stderr) == (0, "")
    assert "kill 2 of 2: " in done.stdout
    shown = [line for line in done.stdout.splitlines() if line.startswith(("holds", "BROKEN"))]
    assert shown == [f"holds  0 {claim.text}" for claim in SCENARIOS[scenario].claims]
    assert f"the {SCENARIOS[scenario].outside_name}'s log beside them" in done.stdout
    assert processes_with(str(tmp_path)) == set()


def test_the_table_names_every_run_with_its_kills(shown: Shown) -> None:
    """Both charts are there, each run is done, and no run outlived more kills than there were."""
    heads = [row for row in shown.rows if row["run"]]
    assert {row["run"] for row in heads} == {
        "checkout-1",
        "fulfilment-2",
        "checkout-3",
        "fulfilment-4",
    }
    assert {row["machine"] for row in heads} == {"checkout", "fulfilment"}
    assert {row["status"] for row in heads} == {"done"}
    assert all(0 <= int(row["kills"]) <= 3 for row in heads)
    assert any(int(row["kills"]) > 0 for row in heads)


def test_the_table_counts_what_the_receiver_wrote_down(shown: Shown) -> None:
    """What was seen is what the log says, and nothing was seen more often than it left."""
    seen: Counter[str] = Counter()
    for row in shown.rows:
        seen[row["kind"]] += int(row["seen"])
        assert int(row["seen"]) <= int(row["left"])
    assert seen == Counter(entry["what"] for entry in shown.log)


def test_what_may_happen_once_happened_once(shown: Shown) -> None:
    """Two charges, four labels and four couriers, by the receiver's own log."""
    happened = Counter((e["what"], e["subject"]) for e in shown.log if e["what"] in ONCE)
    assert set(happened.values()) == {1}
    assert Counter(what for what, _ in happened) == {"charge": 2, "print_label": 4, "hand_over": 4}


def test_the_file_can_be_looked_at_as_it_says(shown: Shown) -> None:
    """The commands that the last sentence names work on the file that it names."""
    sentence = shown.done.stdout.splitlines()[-1]
    assert sentence.startswith(f"The runs are in {shown.folder / 'state.db'}")
    commands = re.findall(r"`snapshots ([^`]+)`", sentence)
    assert [words.split()[0] for words in commands] == ["runs", "show"]
    for words in commands:
        looked = command(*words.split())
        assert (looked.returncode, looked.stderr) == (0, "")
        assert "checkout-1" in looked.stdout


def test_no_process_is_left(shown: Shown) -> None:
    """The receiver and every orchestrator are gone when the demo is."""
    assert processes_with(str(shown.folder)) == set()


def test_a_folder_that_is_used_is_refused(shown: Shown, site: Path) -> None:
    """The files of an earlier demo are neither mixed with new ones nor overwritten."""
    before = (shown.folder / "state.db").read_bytes()
    done = command("demo", "--keep", str(shown.folder), PYTHONPATH=str(site))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "already holds 'state.db'" in line
    assert (shown.folder / "state.db").read_bytes() == before


def test_without_keep_the_files_are_removed(site: Path, tmp_path: Path) -> None:
    """On a terminal, where the table follows a moving picture: the folder is gone afterwards."""
    text = on_terminal(
        "demo",
        *("--kills", "1", "--runs", "1"),
        columns=100,
        PYTHONPATH=str(site),
        TMPDIR=str(tmp_path),
    )
    assert "1 of 1 kills" in text
    assert "0 acknowledged transitions lost" in text
    assert "which is removed now" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not PROCESSES.is_dir(), reason="the system does not list its processes")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_the_processes_end_with_the_demo_however_it_ends(
    site: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Ctrl-C, an order to end or a kill: no process stays, and no file where it could be helped."""
    with begin_demo(site, "--kills", "500", "--runs", "4", TMPDIR=str(tmp_path)) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("kill 2 "):
                break
        assert processes_with(str(tmp_path))
        demo.send_signal(number)
        demo.communicate()
    assert demo.returncode == code
    # One that was just being started finds its standard input closed once its imports are done.
    while started := processes_with(str(tmp_path)):
        assert outlive(started) == set()
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def test_a_restart_imports_only_what_a_host_needs() -> None:
    """What paints tables and serves requests is not loaded again by each orchestrator."""
    code = "import sys, machines.demo.orchestrator; print(*sys.modules)"
    done = subprocess.run(
        (sys.executable, "-c", code),
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=environment(),
    )
    loaded = set(done.stdout.split())
    assert "machines.host.host" in loaded
    assert loaded & {"typer", "rich", "http.server", "sqlite3", "argparse"} == set()
