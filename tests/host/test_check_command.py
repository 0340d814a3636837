"""The command `snapshots check`: what a boot would do with each live run, and no change."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from machines import Machine, Migration
from snapshots.inspection import RunFile
from snapshots.inspection.cli import run
from tests.host.generations import NEW, OLD, RENAMED, digest, named
from tests.host.world import World
from tests.unit.snapshots.inspection.cli.command_line import command, on_terminal, without_styles

APP = """
from pathlib import Path

from statemachine import State, StateChart

from machines import Machine, Migration, effect
from tests.host.generations import NEW, OLD, RENAMED, digest, named

HERE = Path(__file__).parent


def said(word):
    with (HERE / "said").open("a") as file:
        file.write(word + "\\n")


def look(key):
    said("looked")


class Loud(StateChart):
    begun = State(initial=True, invoke=effect(look))
    over = State(final=True)
    done_invoke_begun = begun.to(over)

    def __init__(self, *args, **kwargs):
        said("built")
        super().__init__(*args, **kwargs)

    def on_enter_over(self):
        said("entered")


def reconcile(restored):
    said("reconciled")
    return False


def function(draft):
    said("migrated")
    if draft.context.get("bad"):
        raise LookupError("no such document")


MOVED = Machine(
    NEW, reconcile=reconcile, migrations=[Migration(digest(OLD), function, states=RENAMED)]
)
MACHINES = [MOVED, Machine(named("other"), name="Drifts"), Machine(named("same"), name="Stays")]
CALM = [MOVED, Machine(named("same"), name="Stays")]
LOUD = [Machine(Loud, name="Review", migrations=[
    Migration(digest(OLD), states={"review": "begun", "writing": "begun"})
])]
ONE = MOVED
NUMBER = 7
WRONG = [int]
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return a folder with the module of an application, which a command can be called in."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "shop.py").write_text(APP)
    return folder


Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(
    world: World, app: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Return what calls the command in the application's folder: code, printed, told."""

    def call(*arguments: str, machines: str = "shop:MACHINES") -> tuple[int, str, str]:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(app)
            patch.setattr(sys, "path", list(sys.path))
            known = set(sys.modules)
            code = run(["check", "--machines", machines, *arguments, str(world.path)])
            for name in set(sys.modules) - known:
                if name.partition(".")[0] in ("shop", "deep"):
                    del sys.modules[name]
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


async def leave(world: World, *runs: str) -> None:
    """Leave runs of all kinds behind, of the older generation."""
    machines = [
        Machine(OLD),
        Machine(named("same"), name="Stays"),
        Machine(named("drifts"), name="Drifts"),
        Machine(named("gone"), name="Gone"),
    ]
    begun = {
        "moves": ("Review", {"title": "a"}),
        "fails": ("Review", {"bad": True}),
        "stays": ("Stays", {}),
        "drifts": ("Drifts", {}),
        "unknown": ("Gone", {}),
        "over": ("Stays", {}),
    }
    async with world.host(*machines) as host:
        for run in runs or begun:
            machine, given = begun[run]
            await host.start(machine, given, run_id=run)
            if machine == "Review":
                await host.send(run, "submit")
        if not runs:
            await host.cancel("over")


def files(world: World) -> tuple[bytes, bytes]:
    """Return the bytes of a file of runs and of its log."""
    log = Path(f"{world.path}-wal")
    return world.path.read_bytes(), log.read_bytes() if log.exists() else b""


async def test_every_live_run_is_told_what_a_boot_would_do(world: World, check: Check) -> None:
    """Resumed, migrated, refused with the reason, drifted with the difference, unknown."""
    await leave(world)
    code, out, err = check()
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].split() == ["RUN", "MACHINE", "BOOT", "WHY"]
    told = {line.split()[0]: line for line in lines[1:6]}
    assert list(told) == ["moves", "fails", "stays", "drifts", "unknown"]
    assert told["stays"].split() == ["stays", "Stays", "resume"]
    assert told["moves"].split() == ["moves", "Review", "migrate", digest(OLD), "→", digest(NEW)]
    assert "cannot resume" in told["fails"]
    assert "LookupError: no such document" in told["fails"]
    assert "drift" in told["drifts"].split()
    assert "state 'drifts' is gone" in told["drifts"]
    assert "unknown machine" in told["unknown"]
    assert lines[-1] == (
        "5 live runs: 1 resume, 1 migrate, 1 drift, 1 cannot resume, 1 unknown machine"
    )


async def test_the_file_is_not_changed_and_nothing_begins(
    world: World, app: Path, check: Check
) -> None:
    """Charts are built, an effect that a migration begins is not called, nobody is reconciled."""
    await leave(world, "moves")
    before, header = files(world), world.stored("moves").header
    for machines in ("shop:LOUD", "shop:CALM"):
        code, out, _ = check(machines=machines)
        assert (code, "1 migrate" in out) == (0, True), out
    assert files(world) == before
    assert world.stored("moves").header == header
    assert set((app / "said").read_text().split()) == {"built", "migrated"}


async def test_all_is_well_if_every_run_would_go_on(world: World, check: Check) -> None:
    """Exit code 0 for runs that resume or migrate, also for none, also for one machine alone."""
    await leave(world, "moves", "stays")
    code, out, _ = check(machines="shop:CALM")
    assert (code, out.splitlines()[-1]) == (0, "2 live runs: 1 resume, 1 migrate")
    assert check(machines="shop:ONE")[0] == 1
    async with world.host(Machine(OLD), Machine(named("same"), name="Stays")) as host:
        await host.cancel("moves")
        await host.cancel("stays")
    assert check(machines="shop:ONE") == (0, "no live runs\n", "")


async def test_a_boot_does_what_was_told(world: World, check: Check) -> None:
    """The report of a host with the same machines has the same runs under the same words."""
    await leave(world)
    _, out, _ = check("--json")
    told = json.loads(out)

    def function(draft: Any) -> None:
        if draft.context.get("bad"):
            message = "no such document"
            raise LookupError(message)

    machines = [
        Machine(NEW, migrations=[Migration(digest(OLD), function, states=RENAMED)]),
        Machine(named("other"), name="Drifts"),
        Machine(named("same"), name="Stays"),
    ]
    async with world.host(*machines) as host:
        report = host.report
    for entry in told["runs"]:
        run, reason = entry["run"], entry["reason"]
        if entry["boot"] == "resume":
            assert run in report.resumed
        elif entry["boot"] == "migrate":
            assert report.migrated[run] == reason
        elif entry["boot"] == "drift":
            assert report.drifted[run] == reason
        elif entry["boot"] == "unresumed":
            assert report.unresumed[run] == reason
        else:
            assert entry["boot"] == "unknown"
            assert run in report.unresumed
    assert len(told["runs"]) == 5


async def test_the_document_has_all_that_is_told(world: World, check: Check) -> None:
    """One JSON document: machines with digests, each run with what would become of it."""
    await leave(world, "moves", "stays")
    code, out, err = check("--json", machines="shop:CALM")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {"now_ms", "ok", "machines", "runs", "drifted"}
    assert document["ok"] is True
    assert document["machines"] == {"Review": digest(NEW), "Stays": digest(named("same"))}
    assert document["runs"] == [
        {
            "run": "moves",
            "machine": "Review",
            "digest": digest(OLD),
            "boot": "migrate",
            "reason": f"{digest(OLD)} → {digest(NEW)}",
        },
        {
            "run": "stays",
            "machine": "Stays",
            "digest": digest(named("same")),
            "boot": "resume",
            "reason": None,
        },
    ]


async def test_a_machine_that_is_not_there_is_told_once(
    world: World, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many runs need it, in a line of its own; the document has each; no blob is read."""
    async with world.host(Machine(named("gone"), name="Gone")) as host:
        for number in range(5):
            await host.start("Gone", run_id=f"gone-{number}")
    monkeypatch.setattr(RunFile, "find", pytest.fail)
    code, out, _ = check()
    assert code == 1
    (line,) = [line for line in out.splitlines() if "gone-" in line]
    told_once = "gone-0 and 4 more Gone unknown machine machine 'Gone', which this host was not"
    assert " ".join(line.split()).startswith(told_once)
    assert out.splitlines()[-1] == "5 live runs: 5 unknown machine"
    told = json.loads(check("--json")[1])["runs"]
    assert [entry["run"] for entry in told] == [f"gone-{number}" for number in range(5)]
    assert "run 'gone-4' needs machine 'Gone'" in told[4]["reason"]


async def test_of_runs_alike_so_many_are_listed(
    world: World, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of them, and how many there are beyond; exactly as many as fit are all there."""
    monkeypatch.setattr("machines.commands.check.RUNS_ALIKE_SHOWN_MAX", 3)
    async with world.host(Machine(named("same"), name="Stays")) as host:
        for number in range(3):
            await host.start("Stays", run_id=f"same-{number}")
        assert "more" not in check()[1]
        await host.start("Stays", run_id="same-3")
        await host.start("Stays", run_id="same-4")
    lines = check()[1].splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["same-0", "same-1", "same-2"]
    assert " ".join(lines[4].split()) == "and 2 more Stays resume --json lists them"
    assert lines[-1] == "5 live runs: 5 resume"


async def test_a_run_that_drifted_before_is_told_what_a_revival_would_do(
    world: World, check: Check
) -> None:
    """A later deploy may have its migration, and it has a week: it is not forgotten."""
    await leave(world, "moves", "stays")
    async with world.host(Machine(NEW), Machine(named("same"), name="Stays")) as host:
        assert list(host.report.drifted) == ["moves"]
    code, out, _ = check(machines="shop:CALM")
    assert code == 0
    assert "1 live run: 1 resume" in out
    assert out.splitlines()[-1] == "1 drifted run: 1 migrate"
    _, out, _ = check("--json", machines="shop:CALM")
    (entry,) = json.loads(out)["drifted"]
    assert (entry["run"], entry["boot"]) == ("moves", "migrate")


async def test_a_live_file_can_be_checked(world: World, app: Path) -> None:
    """While its host runs it, from another process in the application's folder."""
    async with world.host(Machine(named("same"), name="Stays")) as host:
        run = await host.start("Stays")
        done = command("check", "--machines", "shop:CALM", world.path, cwd=app)
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 live run: 1 resume" in done.stdout
        await host.answer(run, "same", "go")


async def test_a_parked_run_with_a_bad_blob_is_found(world: World, check: Check) -> None:
    """A boot would leave it waiting and fail at its first event: that is told before."""
    await leave(world, "stays", "moves")
    world.overwrite("stays", b"{")
    code, out, _ = check(machines="shop:CALM")
    assert code == 1
    assert "1 cannot resume" in out.splitlines()[-1]
    blob = world.stored("moves").blob.replace(b'"review"', b'"nowhere"')
    world.overwrite("moves", blob)
    assert "'nowhere'" in check(machines="shop:CALM")[1]


async def test_what_a_terminal_is_shown_is_colored_and_wrapped(
    world: World, app: Path, check: Check
) -> None:
    """On a narrow terminal reasons stand below; what is printed to a pipe has no escapes."""
    await leave(world, "drifts", "stays")
    shown = on_terminal(
        "check", "--machines", "shop:MACHINES", world.path, columns=60, PYTHONPATH=str(app)
    )
    assert "\x1b[" in shown
    assert max(map(len, without_styles(shown).splitlines())) <= 60
    assert "\x1b" not in check()[1]


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ("shop", "MODULE:NAME"),
        (":MACHINES", "MODULE:NAME"),
        ("nowhere:MACHINES", "cannot be imported (ModuleNotFoundError"),
        ("shop:NOTHING", "has no 'NOTHING'"),
        ("shop:MOVED.chart.no", "has no 'MOVED.chart.no'"),
        ("shop:NUMBER", "is a int, expected a list"),
        ("shop:WRONG", "is not a StateChart class"),
    ],
)
async def test_machines_that_are_not_there_are_bad_input(
    world: World, check: Check, machines: str, said: str
) -> None:
    """Exit code 2, one line that says what to do, nothing printed."""
    await leave(world, "stays")
    code, out, err = check(machines=machines)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_bad_input(world: World, check: Check) -> None:
    """Exit code 2, as for the commands that look at a file."""
    code, out, err = check()
    assert (code, out) == (2, "")
    assert "there is no such file" in err


def test_machines_must_be_named(world: World, app: Path) -> None:
    """The command without its option says which one is missing."""
    done = command("check", world.path, cwd=app)
    assert done.returncode == 2
    assert "--machines" in done.stderr


async def test_machines_of_this_generation_are_found_by_dotted_names(
    world: World, app: Path, check: Check
) -> None:
    """A module of a package, and an attribute of an attribute."""
    (app / "deep").mkdir()
    (app / "deep" / "__init__.py").touch()
    (app / "deep" / "place.py").write_text("import shop\nclass App:\n    ALL = shop.CALM\n")
    await leave(world, "stays")
    assert check(machines="deep.place:App.ALL")[0] == 0
