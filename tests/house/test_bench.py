"""A bench cannot rot: it runs once with the tests, and is timed only on request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BENCH = """
from pathlib import Path

def test_counts_its_rounds(benchmark):
    def work():
        with Path("rounds").open("a") as rounds:
            rounds.write("x")
    benchmark(work)
"""


@pytest.fixture
def bench_folder(tmp_path: Path) -> Path:
    """Return a folder that holds the real conftest of the benches, what it needs, and one bench."""
    folder = tmp_path / "bench"
    folder.mkdir()
    for name in ("__init__.py", "conftest.py", "machine.py"):
        (folder / name).write_bytes((ROOT / "bench" / name).read_bytes())
    (folder / "test_rounds.py").write_text(BENCH, encoding="utf-8")
    return tmp_path


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in `folder`; return how often the bench did its work, and what was printed."""
    finished = subprocess.run(
        (sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return len((folder / "rounds").read_text(encoding="utf-8")), finished.stdout


@pytest.mark.parametrize("target", ["bench", "bench/test_rounds.py", "."])
def test_a_bench_runs_once_as_a_plain_test(bench_folder: Path, target: str) -> None:
    """Without `--benchmark-only` the work is done once, however the bench was found."""
    assert run_pytest(bench_folder, target)[0] == 1


def test_a_bench_is_timed_on_request_and_says_where(bench_folder: Path) -> None:
    """With `--benchmark-only` the work is repeated, under a header that names the machine."""
    rounds, output = run_pytest(
        bench_folder, "bench", "--benchmark-only", "--benchmark-min-rounds=5"
    )
    assert rounds >= 5
    header = next(line for line in output.splitlines() if line.startswith("measured on:"))
    for fact in ("interpreter", "SQLite", "file system", "page size", "processors", "kernel"):
        assert fact in header
