"""Lets a bench run once as a plain test, and heads each timed result with its machine."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

import apsw
import pytest

MOUNTS = Path("/proc/self/mounts")


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`, or "unknown" if nothing tells."""
    if not MOUNTS.is_file():
        return "unknown"
    found = (Path("/"), "unknown")
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        mounted = Path(point)
        # Of two mounts on one point the later one is seen.
        if folder.is_relative_to(mounted) and len(mounted.parts) >= len(found[0].parts):
            found = (mounted, kind)
    return found[1]


def page_bytes() -> int:
    """Return the page size in bytes that SQLite gives a new file."""
    connection = apsw.Connection(":memory:")
    try:
        (row,) = connection.execute("pragma page_size")
    finally:
        connection.close()
    return int(str(row[0]))


def measured_on() -> dict[str, str]:
    """Return what a number means nothing without: one name and one value for each fact."""
    folder = Path(tempfile.gettempdir()).resolve()
    return {
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": apsw.sqlite_lib_version(),
        "file system": f"{file_system(folder)} ({folder})",
        "page size": f"{page_bytes()} bytes",
        "processors": str(os.cpu_count()),
    }


def pytest_configure(config: pytest.Config) -> None:
    """Switch timing off unless it was asked for: then each bench runs once, as a test.

    pytest-benchmark reads its options when it configures itself, before this file if the folder is
    found only while collecting (`pytest .`); its session is told then.
    """
    if config.getoption("benchmark_only", default=False):
        return
    config.option.benchmark_disable = True
    session = getattr(config, "_benchmarksession", None)
    if session is not None:
        session.disabled = True


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Head a timed run with the machine."""
    if not config.getoption("benchmark_only", default=False):
        return []
    facts = ", ".join(f"{name} {value}" for name, value in measured_on().items())
    return [f"measured on: {facts}"]


def pytest_benchmark_update_machine_info(machine_info: dict[str, object]) -> None:
    """Keep the same facts in a result that is saved with `--benchmark-json`."""
    machine_info.update(measured_on())
