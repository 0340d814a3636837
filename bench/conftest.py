"""Lets a bench run once as a plain test, and heads each timed result with its machine."""

from __future__ import annotations

import pytest

from bench.machine import header, measured_on


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
    return [header()]


def pytest_benchmark_update_machine_info(machine_info: dict[str, object]) -> None:
    """Keep the same facts in a result that is saved with `--benchmark-json`."""
    machine_info.update(measured_on())
