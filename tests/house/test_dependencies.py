"""What is imported is declared, so that the commands of the README work on a fresh machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from bench.peers.folder import PEERS
from tests.house.sources import PACKAGES, ROOT, configuration, modules, parse

OURS = frozenset({*PACKAGES, "tests", "tools", "bench"})
# Extras that hold what one part of a package needs beyond the plain installation.
EXTRAS_OF = {
    "snapshots/inspection/console": ("cli", "console"),
    "snapshots/inspection": ("cli",),
    "snapshots/storage/backends/postgres": ("postgres",),
    "machines/commands": ("cli",),
    "machines/demo": ("cli",),
    "tests": ("test",),
    "tests/browser": ("test", "browser"),
    "tools": ("test",),
    "tools/soaking/drawing": ("test", "bench"),
    "bench": ("test",),
    "bench/growth": ("test", "bench"),
}
MEASURED = Path("bench/peers")
"""Programs in here run in an environment of their own, which they are installed into."""


def distribution_name(name: str) -> str:
    """Return a distribution's name in the normal form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    """Return the distributions of the plain installation together with those of the extras."""
    project = configuration()["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][name] for name in extras)]
    requirements = [requirement for each in lists for requirement in each]
    return {distribution_name(re.split(r"[\[<>=!~; ]", text)[0]) for text in requirements}


def foreign_imports(tree: ast.Module) -> set[str]:
    """Return the top-level names of a module's imports from neither Python nor this project."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - OURS


def extras_for(module: Path) -> tuple[str, ...]:
    """Return the extras that a module may lean on: those of the nearest folder that names some."""
    for folder in (module.with_suffix(""), *module.parents):
        if folder.as_posix() in EXTRAS_OF:
            return EXTRAS_OF[folder.as_posix()]
    return ()


@pytest.mark.parametrize("module", modules(*sorted(OURS)), ids=str)
def test_a_module_imports_only_what_is_declared_for_it(module: Path) -> None:
    """Each foreign import belongs to a distribution that the module's own installation brings."""
    known = packages_distributions()
    allowed = declared(*extras_for(module))
    if module.is_relative_to(MEASURED):
        allowed |= {
            distribution_name(each) for peer in PEERS for each in (peer.module, *peer.distributions)
        }
    undeclared = {
        name
        for name in foreign_imports(parse(module))
        if not {distribution_name(each) for each in known.get(name, [name])} & allowed
    }
    assert undeclared == set()


def test_an_import_inside_a_function_counts() -> None:
    """An import that waits for its function to be called is found as well."""
    tree = ast.parse(
        "def f():\n    import numpy.random\n    from yaml import load\n    import os\n"
    )
    assert foreign_imports(tree) == {"numpy", "yaml"}


def test_the_tests_are_given_what_the_cli_needs() -> None:
    """`pip install -e ".[test]"` alone brings all that commands and console under test import."""
    assert declared("cli", "console") <= declared("test")


WITHOUT_A_BROWSER = """
import sys
sys.modules["playwright"] = None  # as where it is not installed
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def collected_without_a_browser(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Have pytest collect a small test and the browser's folder where no playwright is."""
    folders = [each for each in (ROOT / "tests").iterdir() if each.is_dir()]
    others = [f"--ignore={each}" for each in folders if each.name != "browser"]
    command = [sys.executable, "-c", WITHOUT_A_BROWSER, "--collect-only", "-q", "tests", "bench"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *others, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tests_are_collected_without_the_extra_of_the_browser() -> None:
    """`pip install -e ".[test]"` alone is enough for a plain `pytest`: no folder breaks it."""
    collected = collected_without_a_browser()
    assert collected.returncode == 0, collected.stdout


def test_who_asks_for_the_tests_of_the_browser_is_told_what_they_need() -> None:
    """`pytest -m browser` fails where its extra is missing, instead of finding nothing to do."""
    collected = collected_without_a_browser("-m", "browser")
    assert collected.returncode == pytest.ExitCode.INTERRUPTED
    assert "playwright" in collected.stdout
