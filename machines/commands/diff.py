"""The command `snapshots diff`: two runs beside each other, or a run's shape beside the code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group
from rich.text import Text

from machines.commands.check import load_machines
from machines.errors import UnknownMachineError
from machines.migrations import chain, route
from machines.recovery.decision import drifted
from snapshots.clock import SystemClock
from snapshots.inspection.cli.completing import complete_run
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    Run,
    opened,
    require_run,
)
from snapshots.inspection.limits import REASON_CHARS_MAX
from snapshots.inspection.printable import visible
from snapshots.inspection.reports.differences import differences
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.text.differences import differences_document, differences_text
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import rendered, screen_of, write
from snapshots.records import StoredRun

if TYPE_CHECKING:
    from snapshots.inspection.queries.files import FoundRun
    from snapshots.inspection.reports.records import RunReport

_MACHINES: Final = "--machines"


def diff(
    run: Run,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help=f"Another run of the same file; left out with {_MACHINES}.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    file: File = None,
    machines: Annotated[
        str | None,
        typer.Option(
            _MACHINES,
            metavar="MODULE:NAME",
            help="Compare the shape that wrote the run with this code instead.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Say how two runs differ: states, values by their paths, ledgers; or how a run has drifted.

    Exit code 0 says that they are equal, 1 that they differ. Ids, times and how often a run was
    saved are no differences. As JSON: first, second, equal, differences; with --machines: run,
    machine, stored, today, equal, changes, migration.
    """
    require_run(run)
    if other is not None:
        require_run(other)
    if machines is not None:
        if file is not None:
            message = f"{_MACHINES} compares one run with code: give RUN, and FILE behind it"
            raise typer.BadParameter(message)
        return _with_code(run, None if other is None else Path(other), machines, as_json=as_json)
    if other is None:
        message = f"give a second RUN, or {_MACHINES} to compare the run with code"
        raise typer.BadParameter(message)
    return _with_run(run, other, file, as_json=as_json)


def _with_run(run: str, other: str, file: Path | None, *, as_json: bool) -> int:
    with opened(file) as stored:
        first, second = (_report(stored.find(prefix)) for prefix in (run, other))
    found = differences(first, second)
    names = first.header.run_id, second.header.run_id
    screen = screen_of(sys.stdout, os.environ)
    if as_json:
        write(written(differences_document(*names, found)), sys.stdout)
    elif found:
        write(rendered(differences_text(*names, found, screen=screen), screen), sys.stdout)
    else:
        write("no difference\n", sys.stdout)
    return EXIT_NO if found else EXIT_OK


def _report(found: FoundRun) -> RunReport:
    return read_report(found.header, found.blob, found.shape, now_ms=SystemClock().now_ms())


def _with_code(run: str, file: Path | None, place: str, *, as_json: bool) -> int:
    known = load_machines(place)
    with opened(file) as stored:
        found = stored.find(run)
    header = found.header
    machine = known.get(header.machine)
    if machine is None:
        raise UnknownMachineError(header.machine, tuple(known), header.run_id)
    is_equal = header.digest == machine.digest
    words: tuple[str, ...] = ()
    if not is_equal:
        error = drifted(StoredRun(header=header, blob=found.blob), machine, found.shape)
        words = error.fields["changes"]
    steps = chain(machine.migrations, header.digest, machine.digest)
    way = route(steps, machine.digest) if steps and not is_equal else None
    if as_json:
        digests = {"stored": header.digest, "today": machine.digest, "equal": is_equal}
        told = {"run": header.run_id, "machine": header.machine, **digests}
        write(written({**told, "changes": list(words), "migration": way}), sys.stdout)
    elif is_equal:
        write(f"no difference: {visible(header.machine)} has shape {machine.digest}\n", sys.stdout)
    else:
        screen = screen_of(sys.stdout, os.environ)
        text = Group(
            Text(f"{visible(header.machine)}: {visible(header.digest)} -> {machine.digest}\n"),
            *(Text(visible(word, chars_max=REASON_CHARS_MAX)) for word in words),
            Text(f"\nmigration: {way or 'none, so a boot sets the run aside as drifted'}"),
        )
        write(rendered(text, screen), sys.stdout)
    return EXIT_OK if is_equal else EXIT_NO
