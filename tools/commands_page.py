"""Writes `docs/commands.md` from what the commands say of themselves.

`python -m tools.commands_page` does it. A test compares the page with what this would write, so
that no option is missing on it.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from snapshots.inspection.cli.app import app
from snapshots.inspection.cli.entry_points import GROUP, Commands, load
from snapshots.inspection.cli.options import EXIT_CODES
from snapshots.inspection.text.screen import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
INTRODUCTION = f"""\
# Commands

This page is made of the commands' own help by `python -m tools.commands_page`; a test compares
the two.

`FILE` is the last argument of every command and may be left out: then it is `$SNAPSHOTS_FILE`,
else `./state.db`. Where `RUN` may be left out too, one argument alone is a file if it has a slash
in it or a file of that name is there, else a run. A run may be abbreviated, as long as only one
begins so. {EXIT_CODES}

Commands that look open the file read-only, in short statements with bounds of time and rows: no
save waits for them. A copy in a folder that cannot be written can be looked at as well. On a
terminal there is color unless `NO_COLOR` is set, and lines are as wide as it is (or `COLUMNS`);
what is piped is plain and never wrapped. `{PROGRAM} --install-completion` has the shell complete
commands, options and the ids of runs in the usual file.
"""
# What every command has, and says nothing about it.
_UNTOLD = frozenset({"--help"})
_CHOICES = re.compile(r"[\w-]+(?:\|[\w-]+)+")


def page() -> str:
    """Return the page as it should be."""
    commands = list(all_commands())
    listed = [f"- [`{name}`](#{name}): {summary_of(command)}" for name, command in commands]
    sections = [section(name, command) for name, command in commands]
    return "\n".join([INTRODUCTION, *listed, "", *sections]).rstrip("\n") + "\n"


def all_commands() -> Iterator[tuple[str, Any]]:
    """Yield the commands of this distribution by name: those of `snapshots`, then the others."""
    group = get_command(app)
    assert isinstance(group, Commands)
    own = dict(group.commands)
    yield from own.items()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, value in sorted(settings["project"]["entry-points"][GROUP].items()):
        entry = EntryPoint(name=name, value=value, group=GROUP)
        yield name, load(entry)


def section(name: str, command: Any) -> str:
    """Return what the page says of one command."""
    usage = " ".join([PROGRAM, name, *pieces_of(command)])
    lines = [f"## {name}", "", f"```\n{usage}\n```", "", text_of(command), ""]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [parameter for parameter in command.params if is_option(parameter)]
    if arguments:
        lines += table("argument", ((f"`{shown(a)}`", told(a)) for a in arguments))
    if options:
        lines += table("option", ((f"`{shown(o)}`", told(o)) for o in options))
    return "\n".join(lines)


def table(title: str, rows: Iterator[tuple[str, str]]) -> list[str]:
    """Return the lines of a table of two columns."""
    escaped = [f"| {name.replace('|', chr(92) + '|')} | {what} |" for name, what in rows]
    return [f"| {title} | |", "|---|---|", *escaped, ""]


def pieces_of(command: Any) -> list[str]:
    """Return the parts of a command's usage behind its name."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    return ["[OPTIONS]", *(shown(a) if a.required else f"[{shown(a)}]" for a in arguments)]


def is_option(parameter: Any) -> bool:
    """Whether a parameter is an option that the page tells of, and no argument."""
    return parameter.param_type_name == "option" and not _UNTOLD.intersection(parameter.opts)


def shown(parameter: Any) -> str:
    """Return how a parameter is written, with the name of its value."""
    if parameter.param_type_name != "option":
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" {value_of(parameter)}"
    return names + value


def value_of(parameter: Any) -> str:
    """Return what an option's value is called: its choices where it has some."""
    if parameter.metavar:
        return str(parameter.metavar)
    # Releases of typer keep choices in places of their own, and all show them so.
    record = parameter.get_help_record(typer.Context(get_command(app)))
    choices = _CHOICES.search(record[0])
    return choices[0] if choices else "N"


def told(parameter: Any) -> str:
    """Return what is said of a parameter, and its default if that is more than nothing."""
    text = " ".join((parameter.help or "").split())
    default = parameter.default
    if parameter.param_type_name != "option" or not isinstance(default, (int, float, str)):
        return text
    return text if default is False or default == "" else f"{text} Default: {_choice(default)}."


def text_of(command: Any) -> str:
    """Return a command's whole help as paragraphs."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def summary_of(command: Any) -> str:
    """Return the first sentence of a command's help."""
    return text_of(command).partition("\n\n")[0]


def _choice(value: Any) -> str:
    return str(getattr(value, "value", value))


def main() -> int:
    """Write the page, and say whether it was another one before."""
    written = page()
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(written, encoding="utf-8")
    sys.stdout.write(
        f"{PAGE.relative_to(ROOT)}: {'as it was' if written == before else 'written'}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
