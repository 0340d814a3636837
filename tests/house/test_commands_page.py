"""The page about the commands says what the commands say."""

from __future__ import annotations

from tests.house.sources import ROOT
from tools import commands_page


def test_the_page_is_what_the_commands_say_of_themselves() -> None:
    """After a change of a command: `python -m tools.commands_page`."""
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.page()


def test_every_command_has_its_section_and_all_its_options() -> None:
    """None is left out, and none cannot be loaded."""
    page = commands_page.page()
    commands = dict(commands_page.all_commands())
    assert {"runs", "show", "watch", "effects", "timers", "gates", "sweep", "check"} <= set(
        commands
    )
    for name, command in commands.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"snapshots {name}" in section
        assert "Cannot be loaded" not in section
        for parameter in command.params:
            if commands_page.is_option(parameter):
                assert parameter.opts[0] in section


def test_the_page_lies_among_the_docs() -> None:
    """Where the site and its readers look for it."""
    assert commands_page.PAGE == ROOT / "docs" / "commands.md"
