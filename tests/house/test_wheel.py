"""What a user installs: both packages whole, and nothing else."""

from __future__ import annotations

import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.house.sources import PACKAGES, ROOT, configuration, modules

DIST_INFO = "machine_snapshots-0.1.0.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Build the wheel with the build backend itself, without a network; return its file names."""
    target = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(target), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        return frozenset(archive.namelist())


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: frozenset[str]) -> None:
    """Tests, tools and benches stay at home."""
    assert {name.partition("/")[0] for name in wheel} == {*PACKAGES, DIST_INFO}


def test_the_wheel_holds_every_module(wheel: frozenset[str]) -> None:
    """No module is left out by a pattern that was meant for something else."""
    assert {str(module) for module in modules(*PACKAGES)} <= wheel


def test_the_wheel_holds_what_the_console_serves(wheel: frozenset[str]) -> None:
    """Templates, style sheet and script are no modules, and are installed all the same."""
    folder = ROOT / "snapshots" / "inspection" / "console"
    served = [*folder.glob("templates/*"), *folder.glob("static/*")]
    assert len(served) > 5
    assert {path.relative_to(ROOT).as_posix() for path in served} <= wheel


def test_the_wheel_tells_type_checkers_that_it_is_typed(wheel: frozenset[str]) -> None:
    """Both packages carry the marker of PEP 561."""
    assert {f"{package}/py.typed" for package in PACKAGES} <= wheel


def test_the_wheel_carries_its_license(wheel: frozenset[str]) -> None:
    """The text of the license goes where the code goes."""
    assert f"{DIST_INFO}/licenses/LICENSE" in wheel


def entry_points() -> list[EntryPoint]:
    """Return the console script and the commands that the distribution adds to it."""
    project = configuration()["project"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return [
        EntryPoint(name=name, value=value, group=group)
        for group, points in groups.items()
        for name, value in points.items()
    ]


@pytest.mark.parametrize("point", entry_points(), ids=lambda point: f"{point.group}:{point.name}")
def test_an_entry_point_leads_somewhere(point: EntryPoint) -> None:
    """What the wheel promises by name can be loaded and called."""
    assert callable(point.load())


def test_the_wheel_is_built_from_the_folder_under_test() -> None:
    """The names above are those of this checkout's configuration."""
    project = configuration()["project"]
    assert f"{project['name'].replace('-', '_')}-{project['version']}.dist-info" == DIST_INFO
    assert Path(ROOT / "pyproject.toml").is_file()
