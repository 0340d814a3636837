"""The command `snapshots check`: what a boot with other code would do with each live run."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from machines.commands.forecast import Forecast, Outlook, forecasts
from machines.definition import Machine
from machines.errors import UnknownMachineError
from machines.host.host import by_name
from snapshots.clock import SystemClock
from snapshots.codec import Plain
from snapshots.inspection.cli.options import EXIT_NO, EXIT_OK, AsJson, File, opened
from snapshots.inspection.limits import REASON_CHARS_MAX, RUNS_ALIKE_SHOWN_MAX
from snapshots.inspection.printable import visible
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import Screen, rendered, screen_of, write
from snapshots.inspection.text.typeset import Cell, ledger

_OPTION: Final = "'--machines'"
_WORDS: Final[Mapping[Outlook, tuple[str, str]]] = {
    "resume": ("resume", "green"),
    "migrate": ("migrate", "green"),
    "drift": ("drift", "yellow"),
    "unresumed": ("cannot resume", "bold red"),
    "unknown": ("unknown machine", "bold red"),
}
"""What is said of each outlook, and in which color."""


def check(
    machines: Annotated[
        str,
        typer.Option(
            "--machines",
            metavar="MODULE:NAME",
            help="Charts or Machines about to be deployed: a list of them in a module.",
        ),
    ],
    file: File = None,
    as_json: AsJson = False,
) -> int:
    """Say what a boot with this code would do with each live run; change nothing.

    Charts are built and begin nothing, and no outside world is asked for. Exit code 1 says that a
    run would not go on: it would be set aside, or stay live and not be resumed. Runs that drifted
    before are listed with what a revival would do. A machine that is not there is listed once, and
    of runs alike the oldest 200; --json has all.
    """
    known = load_machines(machines)
    with opened(file) as stored:
        found = list(forecasts(stored, known))
        aside = list(forecasts(stored, known, "drifted"))
    if as_json:
        write(written(_document(found, aside, known)), sys.stdout)
        return EXIT_OK if all(forecast.goes_on for forecast in found) else EXIT_NO
    screen = screen_of(sys.stdout, os.environ)
    if found:
        write(rendered(_text(found, known, "BOOT", "live run", screen), screen), sys.stdout)
    else:
        write("no live runs\n", sys.stdout)
    if aside:
        told = _text(aside, known, "REVIVAL", "drifted run", screen)
        write("\n" + rendered(told, screen), sys.stdout)
    return EXIT_OK if all(forecast.goes_on for forecast in found) else EXIT_NO


def load_machines(place: str) -> dict[str, Machine]:
    """Return the machines that `MODULE:NAME` names, by name.

    Modules of the current directory can be named. Raises typer.BadParameter for what is not
    there or no list of charts, and DefinitionError for a chart that cannot be kept alive.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        message = f"{place!r} names nothing; expected MODULE:NAME, like shop.machines:MACHINES"
        raise typer.BadParameter(message, param_hint=_OPTION)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        message = f"{module!r} cannot be imported ({type(error).__name__}: {error})"
        raise typer.BadParameter(message, param_hint=_OPTION) from error
    for part in name.split("."):
        if not hasattr(found, part):
            message = f"{module!r} has no {name!r}"
            raise typer.BadParameter(message, param_hint=_OPTION)
        found = getattr(found, part)
    if isinstance(found, type | Machine):
        return by_name([found])
    if not isinstance(found, Iterable):
        message = f"{place!r} is a {type(found).__name__}, expected a list of charts or Machines"
        raise typer.BadParameter(message, param_hint=_OPTION)
    return by_name(found)


def _text(
    found: Sequence[Forecast], known: Mapping[str, Machine], what: str, runs: str, screen: Screen
) -> RenderableType:
    counts = Counter(forecast.outlook for forecast in found)
    told = [f"{counts[outlook]} {word}" for outlook, (word, _) in _WORDS.items() if counts[outlook]]
    count = f"1 {runs}" if len(found) == 1 else f"{len(found)} {runs}s"
    return Group(
        ledger(["RUN", "MACHINE", what, "WHY"], _rows(found, known), screen),
        Text(f"\n{count}: {', '.join(told)}"),
    )


def _rows(found: Sequence[Forecast], known: Mapping[str, Machine]) -> list[list[Cell]]:
    """Return a row for each run, in their order, but for those that would say the same."""
    alike = Counter((forecast.header.machine, forecast.outlook) for forecast in found)
    shown: Counter[tuple[str, Outlook]] = Counter()
    rows: list[list[Cell]] = []
    for forecast in found:
        run_id, machine, outlook = forecast.header.run_id, forecast.header.machine, forecast.outlook
        shown[machine, outlook] += 1
        number, count = shown[machine, outlook], alike[machine, outlook]
        if outlook == "unknown" and count > 1:
            if number == 1:
                reason = str(UnknownMachineError(machine, tuple(known)))
                rows.append(_row(f"{run_id} and {count - 1} more", machine, outlook, reason))
        elif number <= RUNS_ALIKE_SHOWN_MAX:
            rows.append(_row(run_id, machine, outlook, forecast.reason))
        elif number == count:
            left = count - RUNS_ALIKE_SHOWN_MAX
            rows.append(_row(f"and {left} more", machine, outlook, "--json lists them"))
    return rows


def _row(run: str, machine: str, outlook: Outlook, reason: str) -> list[Cell]:
    word, style = _WORDS[outlook]
    why = visible(reason, chars_max=REASON_CHARS_MAX)
    return [visible(run), visible(machine), Text(word, style=style), why]


def _document(
    found: Sequence[Forecast], aside: Sequence[Forecast], machines: Mapping[str, Machine]
) -> Plain:
    """Return `{"now_ms", "ok", "machines": {name: digest}, "runs": [...], "drifted": [...]}`.

    A run's `boot` is "resume", "migrate", "drift", "unresumed" or "unknown"; for one that drifted
    before, it is what a revival would do.
    """
    return {
        "now_ms": SystemClock().now_ms(),
        "ok": all(forecast.goes_on for forecast in found),
        "machines": {name: machine.digest for name, machine in machines.items()},
        "runs": [_told(forecast) for forecast in found],
        "drifted": [_told(forecast) for forecast in aside],
    }


def _told(forecast: Forecast) -> dict[str, Plain]:
    return {
        "run": forecast.header.run_id,
        "machine": forecast.header.machine,
        "digest": forecast.header.digest,
        "boot": forecast.outlook,
        "reason": forecast.reason or None,
    }
