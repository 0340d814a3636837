"""Commands of other packages, found by entry points and loaded only when they are asked for."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from snapshots.inspection.cli.options import EXIT_ERROR
from snapshots.inspection.text.screen import tell

GROUP: Final = "snapshots.commands"
SENTENCE_CHARS_MAX: Final = 300
"""Beyond it a command's line in the list of all is cut: that of another package, at most."""


def entries() -> dict[str, metadata.EntryPoint]:
    """Return the commands that installed packages add, by name; of two equal names the first."""
    found: dict[str, metadata.EntryPoint] = {}
    for entry in metadata.entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def packages() -> frozenset[str]:
    """Return the top-level packages that commands come from, this one among them."""
    own = __name__.partition(".")[0]
    return frozenset({own, *(entry.module.partition(".")[0] for entry in entries().values())})


class Commands(TyperGroup):
    """The group of all commands: its own, and those of the entry-point group `snapshots.commands`.

    An entry is a `typer.Typer` or a plain function, as `typer` would take it. One that cannot be
    loaded stays in the list, says why when it is called, and keeps no other from being called.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of this package first."""
        own = super().list_commands(ctx)
        return [*own, *sorted(name for name in entries() if name not in own)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the whole first sentence of its help, which is never cut."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(SENTENCE_CHARS_MAX))
            for name, command in commands
            if not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, loading it if it is another package's."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = entries().get(cmd_name)
        return None if entry is None else load(entry)


def load(entry: metadata.EntryPoint) -> Any:
    """Return the command of an entry; where it cannot be loaded, one that says why."""
    try:
        loaded = entry.load()
        app = loaded if isinstance(loaded, typer.Typer) else _app_of(entry.name, loaded)
        command = get_command(app)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - another package's import may do anything
        return _broken(entry, error)
    command.name = entry.name
    return command


def _app_of(name: str, loaded: object) -> typer.Typer:
    if not callable(loaded) or isinstance(loaded, type):
        message = f"expected a function or a typer.Typer, found {loaded!r}"
        raise TypeError(message)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(loaded)
    return app


def _broken(entry: metadata.EntryPoint, error: BaseException) -> Any:
    why = f"{type(error).__name__}: {error}"
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(
        entry.name,
        help="Cannot be loaded; call it to see why.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def say_why() -> None:
        tell(
            f"the command {entry.name!r} ({entry.value}) cannot be loaded: {why};"
            " mend or uninstall the package that it comes from"
        )
        raise typer.Exit(EXIT_ERROR)

    return get_command(app)
