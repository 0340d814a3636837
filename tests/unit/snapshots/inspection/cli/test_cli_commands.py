"""Commands that other packages add to `snapshots`, the good ones and the broken ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from snapshots.inspection.cli.app import app
from snapshots.inspection.cli.entry_points import GROUP
from tests.house.sources import configuration
from tests.unit.snapshots.inspection.cli.command_line import command

PLUGIN = """
import sys, typer
from other.errors import OtherError
print("imported", file=sys.stderr)

app = typer.Typer()
helped = typer.Typer(no_args_is_help=True)

@helped.command()
@app.command()
def one(name: str) -> None:
    "Say a name."
    typer.echo(f"one {name}")

@helped.command()
@app.command()
def two() -> None:
    typer.echo("two")

single = typer.Typer()

@single.command()
def anything(times: int = 1) -> None:
    typer.echo("single " * times)

def plain(count: int, loud: bool = False) -> int:
    "A plain function."
    typer.echo(f"plain {count} {loud}")
    return count

def refuses() -> None:
    raise OtherError("the door is closed:\\nopen it")

def fails() -> None:
    {}["x"]

def stops() -> None:
    raise KeyboardInterrupt

def runs() -> None:
    typer.echo("not the list of runs")

odd = 7

def untyped(value: "Nowhere") -> None: ...
"""
ENTRIES = """
[snapshots.commands]
group = other.plugin:app
helped = other.plugin:helped
single = other.plugin:single
plain = other.plugin:plain
refuses = other.plugin:refuses
fails = other.plugin:fails
stops = other.plugin:stops
runs = other.plugin:runs
odd = other.plugin:odd
untyped = other.plugin:untyped
absent = other.plugin:absent
gone = other.gone:gone
broken = other.broken:broken
leaves = other.leaves:leaves
"""
GOOD = ("group", "helped", "single", "plain", "refuses", "fails", "stops")
BROKEN = ("odd", "untyped", "absent", "gone", "broken", "leaves")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a distribution of another author into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "other"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "errors.py").write_text("class OtherError(Exception): ...\n")
    (package / "plugin.py").write_text(PLUGIN)
    (package / "broken.py").write_text("this is not Python\n")
    (package / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    described = folder / "other-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(ENTRIES)
    return folder


def call(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where the other distribution is installed."""
    return command(*arguments, PYTHONPATH=str(site))


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of stderr that the program itself wrote."""
    (line,) = [line for line in done.stderr.splitlines() if line != "imported"]
    assert line.startswith("snapshots: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("group", "one", "x"), "one x\n", 0),
        (("group", "two"), "two\n", 0),
        (("single", "--times", "2"), "single single \n", 0),
        (("plain", "0", "--loud"), "plain 0 True\n", 0),
        (("plain", "1"), "plain 1 False\n", 1),
    ],
)
def test_an_entry_is_an_app_or_a_plain_function(
    site: Path, arguments: tuple[str, ...], said: str, code: int
) -> None:
    """A group, a single command, a function; a number that is returned is the exit code."""
    done = call(site, *arguments)
    assert (done.stdout, done.returncode) == (said, code)


def test_entries_are_loaded_when_they_are_called(site: Path, tmp_path: Path) -> None:
    """A command of our own imports nobody else's code, and nobody takes its name."""
    done = call(site, "runs", str(tmp_path / "none.db"))
    assert "imported" not in done.stderr
    assert "no such file" in last_line(done)


def test_the_help_lists_every_entry(site: Path) -> None:
    """Broken ones as well: the list says what is there, a call says what is wrong."""
    done = call(site, "--help")
    assert done.returncode == 0
    told = done.stdout.partition("Commands:")[2].partition("Exit codes")[0]
    listed = {line.split()[0] for line in told.splitlines() if re.match("  [^ ]", line)}
    own = {*get_command(app).commands, *GOOD, *BROKEN}  # type: ignore[attr-defined]  # a group
    assert own <= listed
    # Where the project itself is installed, its own entries are listed too.
    assert listed - own <= set(configuration()["project"]["entry-points"][GROUP])


def test_no_sentence_of_the_list_of_commands_is_cut(site: Path) -> None:
    """Each command has its whole first sentence there, on as many lines as that takes."""
    told = command("--help", COLUMNS="60", PYTHONPATH=str(site)).stdout.partition("Commands:")[2]
    assert "..." not in told
    words = " ".join(told.split())
    assert "Run charts, kill their process with SIGKILL again and again, and count" in words
    assert "Show one run: its charts, what it waits for, its ledgers, the way it went." in words


def test_a_value_that_none_may_be_is_told_in_our_words(site: Path) -> None:
    """What the library that checks values calls the fault is left out."""
    line = last_line(call(site, "runs", "--status", "bad"))
    assert "Invalid value for '--status': 'bad' is not one of 'live', 'done'" in line


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_says_so_when_it_is_called(site: Path, name: str) -> None:
    """Missing, not Python, no command, leaving at import: one line, and code 2."""
    for arguments in ((name,), (name, "--help"), (name, "x", "--y")):
        done = call(site, *arguments)
        assert (done.stdout, done.returncode) == ("", 2)
        line = last_line(done)
        assert repr(name) in line
        assert "cannot be loaded" in line


def test_an_error_of_the_commands_own_package_is_its_message(site: Path) -> None:
    """What a package raises on purpose is written for the reader, and stays one line."""
    done = call(site, "refuses")
    assert done.returncode == 2
    assert last_line(done) == r"snapshots: the door is closed:\nopen it"


def test_any_other_error_names_itself_and_the_way_to_a_traceback(site: Path) -> None:
    """A bug is one line too, unless the variable asks for more."""
    done = call(site, "fails")
    assert done.returncode == 2
    assert "KeyError: 'x'" in last_line(done)
    assert "SNAPSHOTS_TRACEBACK" in last_line(done)
    more = command("fails", PYTHONPATH=str(site), SNAPSHOTS_TRACEBACK="1")
    assert "Traceback" in more.stderr
    assert more.returncode == 2


def test_an_interrupt_ends_quietly(site: Path) -> None:
    """Ctrl-C is no error to explain; the code is the shell's own for it."""
    done = call(site, "stops")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "imported\n"


def test_bad_usage_of_another_packages_command_is_one_line(site: Path) -> None:
    """Its arguments are held to the same rules."""
    for arguments in (("plain",), ("plain", "x"), ("group",), ("group", "three")):
        done = call(site, *arguments)
        assert done.returncode == 2
        assert f"snapshots {arguments[0]} --help" in last_line(done)


def test_a_group_that_helps_when_it_is_called_alone_writes_no_page_to_stderr(site: Path) -> None:
    """It goes to stdout; releases of typer differ in whether that is an error."""
    done = call(site, "helped")
    assert "Usage: snapshots helped" in done.stdout
    if done.returncode != 0:
        assert done.returncode == 2
        assert "a command is missing; see snapshots helped --help" in last_line(done)
