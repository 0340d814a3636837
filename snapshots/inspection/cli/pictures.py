"""Pictures that commands are asked for: the options, the forms, where they go."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from snapshots.inspection.cli.sinks import FORCE, pour, put
from snapshots.inspection.diagram import to_dot, to_mermaid, to_png, to_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from snapshots.inspection.diagram import Picture

STDOUT: Final = "-"

AsSvg = Annotated[
    str | None, typer.Option("--svg", metavar="PICTURE", help="Draw it as SVG to this file.")
]
AsPng = Annotated[
    str | None, typer.Option("--png", metavar="PICTURE", help="Draw it as PNG to this file.")
]
AsDot = Annotated[
    str | None, typer.Option("--dot", metavar="PICTURE", help="Write it as DOT to this file.")
]
AsMermaid = Annotated[
    str | None,
    typer.Option("--mermaid", metavar="PICTURE", help="Write it as Mermaid to this file."),
]
Forced = Annotated[bool, typer.Option(FORCE, help="Replace a PICTURE that exists.")]


def _svg(picture: Picture) -> bytes:
    return to_svg(picture).encode()


def _dot(picture: Picture) -> bytes:
    return to_dot(picture).encode()


def _mermaid(picture: Picture) -> bytes:
    return to_mermaid(picture).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A picture that was asked for: the option, where it is to go, and how it is drawn."""

    option: str
    place: str
    draw: Callable[[Picture], bytes]


def wishes_of(
    *,
    svg: str | None,
    png: str | None,
    dot: str | None,
    mermaid: str | None,
    is_forced: bool,
    is_json: bool,
) -> tuple[Wish, ...]:
    """Return the pictures that are asked for; raise `typer.BadParameter` for what cannot be."""
    wishes = tuple(_wishes(svg=svg, png=png, dot=dot, mermaid=mermaid))
    _check(wishes, is_forced=is_forced, is_json=is_json)
    return wishes


def _wishes(
    *, svg: str | None, png: str | None, dot: str | None, mermaid: str | None
) -> Iterator[Wish]:
    wishes: tuple[tuple[str, str | None, Callable[[Picture], bytes]], ...] = (
        ("--svg", svg, _svg),
        ("--png", png, to_png),
        ("--dot", dot, _dot),
        ("--mermaid", mermaid, _mermaid),
    )
    for option, place, draw in wishes:
        if place is not None:
            yield Wish(option=option, place=place, draw=draw)


def _check(wishes: tuple[Wish, ...], *, is_forced: bool, is_json: bool) -> None:
    """Refuse what cannot be done before anything is."""
    to_stdout = [wish.option for wish in wishes if wish.place == STDOUT]
    if is_json:
        to_stdout.append("--json")
    files = [wish.place for wish in wishes if wish.place != STDOUT]
    message = ""
    if not all(files):
        message = "PICTURE is empty"
    elif len(set(files)) < len(files):
        message = "two pictures in one file"
    elif len(to_stdout) > 1:
        message = f"{' and '.join(to_stdout)} both go to standard output: name a file"
    elif is_forced and not files:
        message = f"{FORCE} is for a PICTURE in a file"
    elif "--png" in to_stdout and sys.stdout.isatty():
        message = "--png writes bytes that no terminal should get: name a file"
    if message:
        raise typer.BadParameter(message)


def draw_all(picture: Picture, wishes: Sequence[Wish], runs: Path, *, is_forced: bool) -> None:
    """Draw all pictures, and only then write the first; `runs` is the file that they are of."""
    for wish, data in [(wish, wish.draw(picture)) for wish in wishes]:
        if wish.place == STDOUT:
            pour(data)
        else:
            put(Path(wish.place), data, beside=runs, is_forced=is_forced)
