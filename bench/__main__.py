"""`python -m bench bars | compare | growth | peers`: measurements that are not tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import compare
from bench.bars import command as bars_command
from bench.bars.registry import BARS
from bench.compare import MISSING
from bench.peers.folder import Folder, default_folder
from bench.peers.installing import main as install_command


def _bars(options: argparse.Namespace) -> int:
    return bars_command.main(
        BARS, only=options.only, json_file=options.json, markdown=options.markdown
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    bars = commands.add_parser("bars", help="measure every bar; exits 1 if one does not hold")
    bars.add_argument("--only", action="append", default=[], metavar="NAME", help="or a pattern")
    bars.add_argument("--json", type=Path, metavar="FILE", help="write the values there, too")
    bars.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    bars.set_defaults(run=_bars)
    _add_compare(commands)
    _add_peers(commands)
    _add_growth(commands)
    return made


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = commands.add_parser(
        "compare", help="measure us beside the peers; exits 1 if a bar fails, 2 if one is missing"
    )
    made.add_argument("--folder", type=Path, default=default_folder(), help="where the peers lie")
    made.add_argument("--without", action="append", default=[], metavar="NAME")
    made.add_argument("--rounds", type=int, default=compare.ROUNDS)
    made.add_argument("--whole", action="store_true", help="also 100 KB, all of it new each time")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    made.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    made.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    return compare.main(
        Folder(path=options.folder.absolute()),
        without=options.without,
        rounds=options.rounds,
        kinds=(*compare.KINDS, *([compare.WHOLE] if options.whole else [])),
        json_file=options.json,
        markdown=options.markdown,
    )


def _add_peers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = commands.add_parser("peers", help="install the peers into a folder of their own")
    made.add_argument("--folder", type=Path, default=default_folder(), help="where they are to lie")
    made.add_argument("--without", action="append", default=[], metavar="NAME")
    made.set_defaults(run=_peers)


def _peers(options: argparse.Namespace) -> int:
    folder = Folder(path=options.folder.absolute())
    return install_command(folder, without=options.without)


def _add_growth(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    made = commands.add_parser("growth", help="draw time and log of a save against what grows")
    made.add_argument("--file", type=Path, default=Path("growth.png"), help="the PNG to write")
    made.add_argument("--rounds", type=int, default=20)
    made.set_defaults(run=_growth)


def _growth(options: argparse.Namespace) -> int:
    try:
        from bench import growth  # noqa: PLC0415 - the other commands need no matplotlib
    except ImportError as error:
        print(f"{error}; it comes with the extra `bench`", file=sys.stderr)
        return MISSING
    return growth.main(options.file, rounds=options.rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says and return its exit code."""
    options = parser().parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
