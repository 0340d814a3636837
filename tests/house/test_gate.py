"""The gate fails if any of its checks does, and says which."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tools.check import Step, choose, describe, run_gate, run_step, steps
from tools.tidy import (
    deferred_work,
    find_debris,
    printing,
    ragged_text,
    unexplained_exceptions,
)

PASSING = Step(name="passes", command=(sys.executable, "-c", "print('fine')"))
FAILING = Step(name="fails", command=(sys.executable, "-c", "print('broken'); raise SystemExit(3)"))


def test_a_step_that_fails_fails_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """One failing step among others makes the exit code 1, and the last line names it."""
    assert run_gate((PASSING, FAILING, PASSING)) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("1 failed: fails")


def test_steps_that_pass_pass_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """With every step passing the exit code is 0, with one line per step and a closing one."""
    assert run_gate((PASSING, PASSING)) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_failed_step_shows_its_output_and_a_passed_one_does_not() -> None:
    """A reader sees what a failed step printed, and how to run it alone."""
    assert "fine" not in describe(run_step(PASSING)).replace(PASSING.command[-1], "")
    shown = describe(run_step(FAILING))
    assert "\nbroken\n" in shown
    assert "exit code 3" in shown


def test_the_fast_gate_leaves_only_the_suite_out() -> None:
    """`--fast` runs every step but the one that runs the tests; without it, all run."""
    names = [step.name for step in choose(fast=False)]
    assert names == [step.name for step in steps()]
    assert [step.name for step in choose(fast=True)] == [n for n in names if n != "pytest"]


def test_no_step_needs_a_shell() -> None:
    """Each step is started from a list, by this interpreter."""
    assert all(step.command[0] == sys.executable for step in steps())


@pytest.mark.parametrize(
    ("rule", "text", "lines"),
    [
        (deferred_work, "a = 1  # T\x4fDO: later\n", [1]),
        (deferred_work, "todos = []\n", []),
        (ragged_text, "a \nb\n", [1]),
        (ragged_text, "a\n<<<<<<< ours\n", [2]),
        (ragged_text, "a\nb", [2]),
        (ragged_text, "", []),
        (unexplained_exceptions, "a = 1  # noqa: S101\n", [1]),
        (unexplained_exceptions, "a = 1  # type: ignore[misc]\n", [1]),
        (unexplained_exceptions, "a = 1  # noqa: S101, B008 - the reason\n", []),
        (unexplained_exceptions, "a = 1  # type: ignore[misc]  # the reason\n", []),
        (printing, "def f():\n    print(1)\n", [2]),
        (printing, "console.print(1)\n", []),
    ],
)
def test_debris_is_found_on_its_line(rule: object, text: str, lines: list[int]) -> None:
    """Each rule names the lines that break it, and no others."""
    assert callable(rule)
    assert [number for number, _ in rule(text)] == lines


def test_debris_is_found_in_a_tree(tmp_path: Path) -> None:
    """Empty folders, folders of leftovers and debris in text are found; tools' products are not."""
    (tmp_path / "snapshots" / "gone" / "__pycache__").mkdir(parents=True)
    (tmp_path / "snapshots" / "loud.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "loud.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / ".mypy_cache" / "empty").mkdir(parents=True)
    (tmp_path / "tests" / "data").mkdir(parents=True)
    (tmp_path / "tests" / "data" / "kept.md").write_text("kept ", encoding="utf-8")
    (tmp_path / "tests" / "test_it.py").write_text("print(1)\n", encoding="utf-8")
    assert list(find_debris(tmp_path)) == [
        "snapshots/gone/: empty folder",
        "snapshots/loud.py:1: print in a package",
    ]


def test_the_ci_script_is_sound_and_executable() -> None:
    """The script that CI calls parses, stops at the first failure and may be started by name."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
    assert subprocess.run(("bash", "-n", script), check=False).returncode == 0  # noqa: S607 - any bash
