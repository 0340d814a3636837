"""Imports point down, and each foreign library has one door."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT
from tools.check import LINT_IMPORTS, steps

CONTRACT = re.compile(r"^(?P<name>\S.*) (?P<verdict>KEPT|BROKEN)(?: \(.*\))?$", re.MULTILINE)

# One module for each way to break a contract; the name is the contract that has to notice.
TRESPASSERS = {
    "snapshots/newcomer.py": ("", "Within snapshots, imports point down"),
    "snapshots/records.py": ("import snapshots.store", "Within snapshots, imports point down"),
    "snapshots/store.py": ("import apsw", "Only the database imports apsw"),
    "snapshots/mailbox.py": ("import asyncio", "snapshots is synchronous, its console apart"),
    "snapshots/schema.py": ("import statemachine", "snapshots knows no chart"),
    "snapshots/layout/rows.py": ("import orjson", "Only the codec imports orjson"),
    "snapshots/opening.py": ("import psycopg", "Only the PostgreSQL backend imports psycopg"),
    "snapshots/ledgers/picks.py": ("import snapshots.ledgers.pushes", "No ledger imports another"),
    "snapshots/ledgers/pushes.py": ("", "No ledger imports another"),
    "snapshots/storage/protocols.py": (
        "import snapshots.storage.backends.sqlite",
        "Within storage, imports point down",
    ),
    "snapshots/storage/newcomer.py": ("", "Within storage, imports point down"),
    "snapshots/storage/backends/memory.py": (
        "import snapshots.storage.backends.sqlite",
        "No backend imports another",
    ),
    "snapshots/storage/backends/sqlite.py": ("", "No backend imports another"),
    "snapshots/inspection/queries.py": (
        "import snapshots.inspection.text",
        "Within inspection, imports point down",
    ),
    "snapshots/inspection/text.py": ("", "Within inspection, imports point down"),
    "snapshots/inspection/newcomer.py": ("", "Within inspection, imports point down"),
    "machines/lock.py": ("", "Within machines, imports point down"),
    "machines/recovery.py": ("", "Within machines, imports point down"),
    "machines/commands.py": ("", "Within machines, imports point down"),
    "machines/migrations.py": ("", "Within machines, imports point down"),
    "machines/run.py": ("", "Within machines, imports point down"),
    "machines/telemetry.py": (
        "import opentelemetry",
        "Nothing imports OpenTelemetry: a meter and a tracer are handed in",
    ),
    "machines/newcomer.py": ("", "Within machines, imports point down"),
    "machines/definition.py": ("import machines.host.host", "Within machines, imports point down"),
    "machines/host.py": (
        "import statemachine",
        "Host, run and recovery never import statemachine",
    ),
}


def verdicts(folder: Path) -> dict[str, str]:
    """Run import-linter in `folder` with the contracts there; return each contract's verdict."""
    finished = subprocess.run(
        (sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {match["name"]: match["verdict"] for match in CONTRACT.finditer(finished.stdout)}
    assert found, f"import-linter checked nothing:\n{finished.stdout}\n{finished.stderr}"
    return found


def test_the_checkout_keeps_every_contract() -> None:
    """No module of the checkout breaks an import contract."""
    assert {name for name, verdict in verdicts(ROOT).items() if verdict != "KEPT"} == set()


def test_every_contract_notices_who_breaks_it(tmp_path: Path) -> None:
    """Each contract is broken by a tree made to break it, so none is kept for want of a look."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for name, (text, _) in TRESPASSERS.items():
        module = tmp_path / name
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(text + "\n", encoding="utf-8")
        for folder in module.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
    found = verdicts(tmp_path)
    assert found == dict.fromkeys({contract for _, contract in TRESPASSERS.values()}, "BROKEN")


def test_the_gate_checks_the_imports() -> None:
    """The contracts are a step of the gate."""
    assert any(LINT_IMPORTS in step.command for step in steps())
