"""The command `snapshots demo`: kill a process again and again, and show that nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from machines.demo.display import progress_table, result_table, verdict, where_it_lies
from machines.demo.killer import FILE, LOG, Progress, Siege
from machines.demo.limits import KILLS_DEFAULT, KILLS_MAX, RUNS_MAX
from machines.demo.results import Result
from machines.demo.scenarios import SCENARIOS
from snapshots.inspection.text.screen import rendered, screen_of, write

SEED_DEFAULT = 1
EXIT_OK = 0
EXIT_BROKEN = 1


class Story(StrEnum):
    """The scenarios, as the command line takes them."""

    CHECKOUT = "checkout"
    POOL = "pool"
    REATTACH = "reattach"
    APPROVAL = "approval"
    INCIDENT = "incident"
    TRIAGE = "triage"
    ETL = "etl"
    POLL = "poll"
    SENTINEL = "sentinel"


def demo(
    scenario: Annotated[
        Story, typer.Option("--scenario", help="What happens meanwhile.")
    ] = Story.CHECKOUT,
    kills: Annotated[
        int, typer.Option("--kills", min=0, max=KILLS_MAX, help="How often to kill.")
    ] = KILLS_DEFAULT,
    seed: Annotated[
        int, typer.Option("--seed", help="Draws the moments, and the manners outside.")
    ] = SEED_DEFAULT,
    runs: Annotated[
        int | None,
        typer.Option("--runs", min=1, max=RUNS_MAX, help="How many runs.", show_default=False),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", file_okay=False, help="Leave the files there."),
    ] = None,
) -> int:
    """Run charts, kill their process with SIGKILL again and again, and count what is lost.

    Exit code 1 says that something was: a transition that had been acknowledged, an effect that
    happened twice, a run that does not go on.
    """
    chosen = SCENARIOS[scenario.value]
    with ExitStack() as stack:
        stack.enter_context(_ended_in_order())
        folder = _folder(keep)
        show = stack.enter_context(_shown(kills))
        is_kept = keep is not None
        try:
            siege = Siege(
                scenario=chosen,
                folder=folder,
                kills=kills,
                runs=runs or chosen.runs_default,
                seed=seed,
                observe=show,
            )
            result = siege.lay()
            # What went wrong can be looked at.
            is_kept = is_kept or not result.is_good
        finally:
            if not is_kept:
                _remove(folder)
    _report(result, kept=is_kept)
    return EXIT_OK if result.is_good else EXIT_BROKEN


def _folder(keep: Path | None) -> Path:
    """Return the folder for the files; typer.BadParameter if another demo's are there."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="snapshots-demo-"))
    for name in (FILE, LOG):
        if (keep / name).exists():
            message = f"{str(keep)!r} already holds {name!r}: name a folder that is new, or empty"
            raise typer.BadParameter(message, param_hint="'--keep'")
    keep.mkdir(parents=True, exist_ok=True)
    return keep


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn the signals that end a program into its ordinary end, so that nothing is left behind."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _shown(kills: int) -> Iterator[Callable[[Progress], object]]:
    """Give what shows progress: a live picture on a terminal, plain lines elsewhere."""
    if not screen_of(sys.stdout, os.environ).is_colored:
        yield lambda progress: write(f"{progress.text}\n", sys.stdout)
        return
    with Live(console=Console(markup=False, highlight=False), transient=True) as live:

        def show(progress: Progress) -> None:
            if progress.text.startswith("kill "):
                live.console.print(progress.text)
            live.update(progress_table(progress, kills))

        yield show


def _report(result: Result, *, kept: bool) -> None:
    screen = screen_of(sys.stdout, os.environ)
    where = where_it_lies(result, kept=kept)
    parts = (result_table(result), "", verdict(result), "", where)
    write("\n" + "".join(rendered(part, screen) for part in parts), sys.stdout)
