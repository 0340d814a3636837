"""A chromium, a shop with a host that is alive, and consoles of its file: each its own process.

The browser is Debian's `chromium`, or the program that `$CHROMIUM` names; without one these tests
fail. Pictures of the pages are left in `$SNAPSHOTS_SCREENSHOTS`, or in a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import shop
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, ROOT, environment
from tests.unit.snapshots.inspection.console.consoles import TOKEN

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
SCREENSHOTS: Final = "SNAPSHOTS_SCREENSHOTS"
PATIENCE_MS: Final = 20_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none is run without being asked for."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


class World:
    """A shop's file with a host that is alive, and consoles of it, started when asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.file = folder / "shop.db"
        self._stack = stack
        said = start(stack, sys.executable, "-m", shop.__name__, str(self.file))
        assert said == "ready"

    @cached_property
    def looking(self) -> str:
        """Where the console answers that only looks."""
        return self._console()

    @cached_property
    def answering(self) -> str:
        """Where the console answers that takes the token."""
        return self._console("--token", TOKEN)

    def _console(self, *options: str) -> str:
        serve = (*COMMAND, "console", str(self.file), "--port", "0", *options)
        return start(self._stack, *serve).rstrip("/")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the chromium of this machine, or fail."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(f"no browser is found: install {NAMES[0]}, or name one in $CHROMIUM")
    # Root, as in a container, has no sandbox; nothing but our own pages is opened.
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-extensions"]
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where pictures of the pages are left."""
    named = os.environ.get(SCREENSHOTS)
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep(page: Page, picture: Path) -> None:
    """Leave a picture of a whole page; given a path, playwright would write it in threads."""
    picture.write_bytes(page.screenshot(full_page=True, animations="disabled"))


def start(stack: ExitStack, *command: str) -> str:
    """Start a program that ends with the stack, and return the first line that it says."""
    process = stack.enter_context(
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    )
    stack.callback(process.send_signal, signal.SIGTERM)
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture(scope="session")
def quiet_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A shop in which nothing happens, for the tests that only look."""
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("quiet"), stack)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A shop of the test's own."""
    with ExitStack() as stack:
        yield World(tmp_path, stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A page of a browser, and all that went wrong in it or was asked for by it."""

    page: Page
    faults: list[str]
    asked: list[str]


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Return what opens a tab of a context of its own; none may have had a fault."""
    with ExitStack() as stack:
        tabs: list[Tab] = []

        def opened(**options: Any) -> Tab:
            usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
            context = browser.new_context(**(usual | options))
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE_MS)
            found = Tab(page=context.new_page(), faults=[], asked=[])
            context.on("request", lambda request: found.asked.append(request.url))
            context.on("console", lambda said: found.faults.append(f"{said.type}: {said.text}"))
            context.on("weberror", lambda error: found.faults.append(str(error.error)))
            tabs.append(found)
            return found

        yield opened
        assert [fault for each in tabs for fault in each.faults] == []
