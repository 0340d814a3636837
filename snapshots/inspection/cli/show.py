"""The commands that show one run, and the chart that a shape is of: as text, JSON, pictures."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from snapshots.clock import SystemClock
from snapshots.codec import load
from snapshots.errors import DecodeError, EncodeError
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    Run,
    opened,
    place_of,
    require_run,
)
from snapshots.inspection.cli.pictures import (
    AsDot,
    AsMermaid,
    AsPng,
    AsSvg,
    Forced,
    draw_all,
    wishes_of,
)
from snapshots.inspection.diagram import picture_of, picture_of_shape
from snapshots.inspection.queries.browsing import newest_shape, shape_of
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.text.charts import charts_text
from snapshots.inspection.text.documents import run_document, unreadable_document, written
from snapshots.inspection.text.reports import run_text, unreadable_text
from snapshots.inspection.text.screen import rendered, screen_of, tell, write

if TYPE_CHECKING:
    from snapshots.inspection.queries.files import FoundRun
    from snapshots.inspection.reports.records import RunReport


def show(
    run: Run,
    file: File = None,
    *,
    svg: AsSvg = None,
    png: AsPng = None,
    dot: AsDot = None,
    mermaid: AsMermaid = None,
    force: Forced = False,
    as_json: AsJson = False,
) -> int:
    """Show one run: its charts, what it waits for, its ledgers, the way it went.

    With a PICTURE, it is drawn and nothing else is printed: "-" is standard output, a file is
    one that only you may read. SVG and PNG need the extra "console", or Graphviz's dot.

    Exit code 1 says that only the run's header can be read.
    """
    require_run(run)
    wishes = wishes_of(svg=svg, png=png, dot=dot, mermaid=mermaid, is_forced=force, is_json=as_json)
    with opened(file) as stored:
        found = stored.find(run)
    now_ms = SystemClock().now_ms()
    try:
        report = read_report(found.header, found.blob, found.shape, now_ms=now_ms, mail=found.mail)
        if wishes:
            draw_all(picture_of(report, found.shape), wishes, place_of(file), is_forced=force)
        if as_json or not wishes:
            write(_told(report, found, as_json=as_json), sys.stdout)
    except (DecodeError, EncodeError) as error:
        header, reason = found.header, error.reason
    else:
        return EXIT_OK
    if as_json:
        write(written(unreadable_document(header, reason, now_ms=now_ms)), sys.stdout)
    elif wishes:
        tell(f"no picture of run {header.run_id!r}: {reason}")
    else:
        screen = screen_of(sys.stdout, os.environ)
        told = unreadable_text(header, reason, now_ms=now_ms)
        write(rendered(told, screen), sys.stdout)
    return EXIT_NO


def shape(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Digest of a shape, or name of a machine.")
    ],
    file: File = None,
    *,
    svg: AsSvg = None,
    png: AsPng = None,
    dot: AsDot = None,
    mermaid: AsMermaid = None,
    force: Forced = False,
    as_json: AsJson = False,
) -> int:
    """Show the chart of a shape that runs were stored with; of a machine, the newest one.

    No code of the chart is needed. With a PICTURE, it is drawn and nothing else is printed.

    Exit code 1 says that there is no such shape in the file, or that it cannot be read.
    """
    wishes = wishes_of(svg=svg, png=png, dot=dot, mermaid=mermaid, is_forced=force, is_json=as_json)
    with opened(file) as stored:
        found = shape_of(stored, name) or newest_shape(stored, name)
    if found is None:
        tell(f"no shape with the digest {name!r}, and none of a machine of that name")
        return EXIT_NO
    try:
        picture = picture_of_shape(found.shape)
    except DecodeError as error:
        tell(f"shape {found.digest!r}: {error.reason}")
        return EXIT_NO
    if wishes:
        draw_all(picture, wishes, place_of(file), is_forced=force)
    if as_json:
        write(written({"digest": found.digest, "shape": load(found.shape)}), sys.stdout)
    elif not wishes:
        screen = screen_of(sys.stdout, os.environ)
        write(rendered(charts_text(picture, screen, is_declared=True), screen), sys.stdout)
    return EXIT_OK


COMMANDS: Final = (show, shape)


def _told(report: RunReport, found: FoundRun, *, as_json: bool) -> str:
    if as_json:
        return written(run_document(report))
    try:
        picture = picture_of(report, found.shape)
    except DecodeError as error:
        # The run is readable without its shape.
        picture = replace(picture_of(report, None), notes=(error.reason,))
    screen = screen_of(sys.stdout, os.environ)
    return rendered(run_text(report, screen=screen, picture=picture), screen)
