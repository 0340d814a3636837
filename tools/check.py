"""The one gate: runs every check of the house, prints a line for each, exits 0 if all passed.

`python tools/check.py` before each commit; `--fast` leaves the test suite out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README_TEST = "tests/house/test_readme.py"
LINT_IMPORTS = (
    "import sys; sys.path.insert(0, '');"
    " from importlinter.cli import lint_imports_command; lint_imports_command()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One check: its name in the output and the command that fails if the check does."""

    name: str
    command: tuple[str, ...]
    slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step came to: its exit code, all that it printed, and its duration in milliseconds."""

    step: Step
    exit_code: int
    output: str
    duration_ms: int


def steps() -> tuple[Step, ...]:
    """Return the steps of the gate in the order in which they run, quick ones first."""
    python = sys.executable
    return (
        Step(name="ruff", command=(python, "-m", "ruff", "check", ".")),
        Step(name="format", command=(python, "-m", "ruff", "format", "--check", ".")),
        Step(
            name="bandit",
            # What is installed; it knows some rules that ruff's S does not.
            command=(
                *(python, "-m", "bandit", "--quiet", "--configfile", "pyproject.toml"),
                *("--recursive", "snapshots", "machines"),
            ),
        ),
        Step(name="imports", command=(python, "-c", LINT_IMPORTS, "--no-cache", "--no-logo")),
        Step(name="tidy", command=(python, "-m", "tools.tidy")),
        Step(name="mypy", command=(python, "-m", "mypy")),
        Step(name="readme", command=(python, "-m", "pytest", "-q", README_TEST)),
        Step(
            name="pytest",
            # The README has had its own step.
            command=(python, "-m", "pytest", "-q", f"--ignore={README_TEST}"),
            slow=True,
        ),
    )


def choose(*, fast: bool) -> tuple[Step, ...]:
    """Return the steps that run: all of them, or all but the slow ones."""
    return tuple(step for step in steps() if not (fast and step.slow))


def run_step(step: Step) -> Outcome:
    """Run one step from the root of the checkout, without a shell and without standard input."""
    start_ns = time.monotonic_ns()
    finished = subprocess.run(
        step.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Outcome(
        step=step,
        exit_code=finished.returncode,
        output=finished.stdout,
        duration_ms=(time.monotonic_ns() - start_ns) // 1_000_000,
    )


def describe(outcome: Outcome) -> str:
    """Return the line of one step; a failed step's line is followed by what it printed."""
    word = "ok" if outcome.exit_code == 0 else f"FAILED with exit code {outcome.exit_code}"
    line = f"{outcome.step.name:<8} {outcome.duration_ms / 1000:7.1f} s  {word}"
    if outcome.exit_code == 0:
        return line
    shown = outcome.output.rstrip() or "(it printed nothing)"
    return f"{line}\n  $ {' '.join(outcome.step.command)}\n{shown}\n"


def summarise(outcomes: list[Outcome]) -> str:
    """Return the closing line: how many steps ran, how long they took and which of them failed."""
    failed = [outcome.step.name for outcome in outcomes if outcome.exit_code != 0]
    total_s = sum(outcome.duration_ms for outcome in outcomes) / 1000
    verdict = f"{len(failed)} failed: {', '.join(failed)}" if failed else "all passed"
    return f"gate: {len(outcomes)} steps in {total_s:.1f} s, {verdict}"


def run_gate(chosen: tuple[Step, ...]) -> int:
    """Run the steps to the end, whatever fails on the way; return the exit code, 0 or 1."""
    outcomes: list[Outcome] = []
    for step in chosen:
        outcome = run_step(step)
        outcomes.append(outcome)
        print(describe(outcome), flush=True)
    print(summarise(outcomes), flush=True)
    return 1 if any(outcome.exit_code != 0 for outcome in outcomes) else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the gate as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/check.py", description="Run the project's gate.")
    parser.add_argument("--fast", action="store_true", help="leave the test suite out")
    options = parser.parse_args(arguments)
    return run_gate(choose(fast=options.fast))


if __name__ == "__main__":
    raise SystemExit(main())
