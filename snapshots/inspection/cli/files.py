"""The commands that are about a file as a whole: a backup of it, and its sizes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from snapshots.inspection.cli.meter import Meter
from snapshots.inspection.cli.options import EXIT_OK, AsJson, File, opened, place_of
from snapshots.inspection.printable import size, visible
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import rendered, screen_of, write
from snapshots.inspection.text.typeset import facts
from snapshots.store import backup as copied

_PERCENT: Final = 100


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="New file to write it to.")],
    file: File = None,
    as_json: AsJson = False,
) -> int:
    """Copy the file, live or not, to a new one: whole, compact, verified.

    It holds up no save. TARGET must not exist, and does not until the copy is on the disk.
    """
    with Meter("backup") as meter:
        made = copied(place_of(file), target, progress=meter.show)
    if as_json:
        document = {"path": made.path, "bytes": made.bytes, "source_bytes": made.source_bytes}
        write(written(document | {"rows": dict(made.rows)}), sys.stdout)
    else:
        name = visible(made.path, chars_max=len(made.path))
        sizes = f"{size(made.bytes)} of a file of {size(made.source_bytes)}"
        write(f"{name}: {made.rows.get('runs', 0)} runs, {sizes}, verified\n", sys.stdout)
    return EXIT_OK


def stats(file: File = None, as_json: AsJson = False) -> int:
    """Show how many runs a file has, and its sizes: free pages, which a backup leaves out, too."""
    with opened(file) as stored:
        sizes, counts = stored.sizes(), stored.counts()
    whole, free = sizes.page_bytes * sizes.page_count, sizes.page_bytes * sizes.free_pages
    if as_json:
        document = {"bytes": whole, "free_bytes": free, "wal_bytes": sizes.wal_bytes}
        pages = {"page_bytes": sizes.page_bytes, "pages": sizes.page_count}
        document |= pages | {"free_pages": sizes.free_pages}
        write(written(document | {"live": counts.live, "ended": counts.ended}), sys.stdout)
        return EXIT_OK
    share = _PERCENT * sizes.free_pages // max(sizes.page_count, 1)
    screen = screen_of(sys.stdout, os.environ)
    lines = facts(
        (
            ("runs", f"{counts.live} live, {counts.ended} ended"),
            ("file", f"{size(whole)} in {sizes.page_count} pages"),
            ("free", f"{size(free)} in {sizes.free_pages} pages ({share} %)"),
            ("log", size(sizes.wal_bytes)),
        )
    )
    write(rendered(lines, screen), sys.stdout)
    return EXIT_OK


COMMANDS: Final = (backup, stats)
