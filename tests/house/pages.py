"""Pages of Markdown: their fenced blocks, and what running a page from its top to its end comes to.

A page is run in one folder of its own. A `python` block is a script. A block with a `title` is the
file of that name, which is there from the start; a second one of that name replaces it. Lines of a
`console` block that begin with `$ ` are commands, and what follows one is output, of which other
lines may be left out; `…` stands for anything. A command that ends with `&` runs on behind. A block
that says `unrun="…"` is not run, for the reason given.
"""

from __future__ import annotations

import ast
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.house.sources import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PATIENCE_S = 60
PROMPT = "$ "
# What no page's test does: change the environment of all tests, and serve until it is ended, which
# the tests of the console have it do.
ELSEWHERE = ("pip install ", "snapshots console")
ANYTHING = "…"
MARKS = frozenset({"title", "unrun", "exits"})
RUNS = frozenset({"python", "console"})
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
_SHOWN = re.compile(r"```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_OPTIONS = {"python": ("-W", "error"), "snapshots": ("-m", "snapshots.inspection.cli")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its page, the line where it starts, its language, marks and text."""

    page: str
    line: int
    language: str
    marks: dict[str, str] = field(default_factory=dict)
    code: str

    def __str__(self) -> str:
        """Name the block as an editor would."""
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether the block does something when its page is run."""
        return "unrun" not in self.marks and (self.language in RUNS or "title" in self.marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block, and the lines of its output that are shown."""

    text: str
    shown: tuple[str, ...] = ()

    @property
    def is_behind(self) -> bool:
        """Whether it runs on while what follows is run."""
        return self.text.endswith("&")


def pages() -> list[Path]:
    """Return the README and the pages of the docs."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def find_blocks(page: str, text: str) -> list[Block]:
    """Return the blocks of a page that name a language, those within a list included."""
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            language=match["language"],
            marks=_marks(match["info"]),
            code=textwrap.dedent(match["code"]),
        )
        for match in _FENCE.finditer(text)
    ]


def _marks(info: str) -> dict[str, str]:
    """Return what stands behind a block's language: `name="text"`, or a bare name."""
    pairs = (word.partition("=") for word in shlex.split(info))
    return {name: value for name, _, value in pairs}


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page of the checkout."""
    return find_blocks(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))


def commands_of(code: str) -> list[Command]:
    """Return the commands of a console block; without any prompt, each line is one."""
    lines = code.splitlines()
    if not any(line.startswith(PROMPT) for line in lines):
        return [Command(text=line) for line in lines if line.strip()]
    found: list[Command] = []
    for line in lines:
        if line.startswith(PROMPT):
            found.append(Command(text=line.removeprefix(PROMPT)))
        else:
            assert found, f"output before any command: {line!r}"
            last = found.pop()
            found.append(Command(text=last.text, shown=(*last.shown, line)))
    return found


def missing(shown: tuple[str, ...], lines: list[str], *, in_order: bool = True) -> str | None:
    """Return the first line shown that the output does not have behind those before it, or None."""
    said = [" ".join(line.split()) for line in lines]
    rest = iter(said)
    for line in shown:
        wanted = " ".join(line.split())
        if wanted in ("", ANYTHING):
            continue
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in wanted.split(ANYTHING)))
        if not any(pattern.fullmatch(other) for other in (rest if in_order else said)):
            return line
    return None


def links_of(text: str) -> list[str]:
    """Return where the links of a page lead, but for those that are only shown as code."""
    return _LINK.findall(_SHOWN.sub("", text))


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    prose = re.sub(r"```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose))
    return {heading.strip().replace(" ", "-") for heading in words}


class Session:
    """One bash in a page's folder, in which `python` and `snapshots` are those of this checkout.

    Once something runs behind, two speak at a time: lines may then come in any order.
    """

    def __init__(self, folder: Path) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._count = 0
        self.two_speak = False
        tools = folder / ".tools"
        tools.mkdir()
        for name, options in _OPTIONS.items():
            command = tools / name
            start = shlex.join((sys.executable, *options))
            command.write_text(f'#!/bin/sh\nexec {start} "$@"\n', encoding="utf-8")
            command.chmod(0o700)
        self._bash = subprocess.Popen(
            ("bash", "--noprofile", "--norc"),  # noqa: S607 - any bash
            cwd=folder,
            env=_environment(tools),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="page-output", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        self._reader.join()
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        with suppress(BrokenPipeError):
            self._bash.stdin.close()
        self._bash.stdout.close()

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _say(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def _next(self, heard: list[str]) -> str:
        try:
            line = self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            line = None
        assert line is not None, "nothing more was said behind:\n" + "\n".join(heard)
        return line

    def run(self, command: Command) -> tuple[int, list[str]]:
        """Run a command; return its exit code and its lines.

        One that runs on behind has 0, and the lines until all that are shown were there.
        """
        heard: list[str] = []
        if command.is_behind:
            self.two_speak = True
            self._say(f"{command.text}\n")
            self._listen(command, heard)
            return 0, heard
        self._count += 1
        end = f"[end of command {self._count}]"
        # Output that ends without a line end would hide the end.
        self._say(f"{command.text}\nprintf '\\n%s %s\\n' {shlex.quote(end)} $?\n")
        while not (line := self._next(heard)).startswith(end):
            heard.append(line)
        code = int(line.removeprefix(end))
        if self.two_speak and code == 0:
            self._listen(command, heard)
        return code, heard

    def _listen(self, command: Command, heard: list[str]) -> None:
        """Hear what a program that runs behind has to say to a command, in whatever order."""
        while missing(command.shown, heard, in_order=False) is not None:
            heard.append(self._next(heard))


def _environment(tools: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    inherited = {name: text for name, text in os.environ.items() if name != "SNAPSHOTS_FILE"}
    return {
        **inherited,
        "PATH": os.pathsep.join((str(tools), os.environ.get("PATH", ""))),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


def run_page(blocks: list[Block], folder: Path) -> None:
    """Run the blocks of a page in order; AssertionError names the first that does otherwise."""
    for block in reversed(blocks):
        if block.is_run and "title" in block.marks:
            _write(block, folder)
    with Session(folder) as session:
        for block in blocks:
            if block.is_run:
                _run_block(block, folder, session)


def _write(block: Block, folder: Path) -> None:
    file = folder / block.marks["title"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.code, encoding="utf-8")


def _run_block(block: Block, folder: Path, session: Session) -> None:
    if "title" in block.marks:
        _write(block, folder)
    elif block.language == "python":
        script = folder / f"block_{block.line}.py"
        script.write_text(block.code, encoding="utf-8")
        _run_command(block, Command(text=f"python {script.name}"), 0, session)
    else:
        commands = commands_of(block.code)
        for command in commands:
            if command.text.startswith(ELSEWHERE) and "&&" not in command.text:
                continue
            is_last = command is commands[-1]
            _run_command(block, command, int(block.marks.get("exits", 0)) * is_last, session)


def _run_command(block: Block, command: Command, code: int, session: Session) -> None:
    exit_code, lines = session.run(command)
    said = "\n".join(lines)
    where = f"{block}: {command.text}"
    assert exit_code == code, f"{where} ended with {exit_code}:\n{said}"
    lacking = missing(command.shown, lines, in_order=not session.two_speak)
    assert lacking is None, f"{where} did not say {lacking!r}, but:\n{said}"


def faults_of(blocks: list[Block]) -> list[str]:
    """Return what is wrong with the marks of a page's blocks, or with Python that is only shown."""
    found: list[str] = []
    for place, block in enumerate(blocks):
        others = "\n".join(other.code for other in (*blocks[:place], *blocks[place + 1 :]))
        found += [f"{block}: {name!r} is not understood" for name in block.marks.keys() - MARKS]
        if block.marks.get("unrun") == "":
            found.append(f"{block}: it is not run, and does not say why")
        title = block.marks.get("title", "Dockerfile")
        # An engine finds this one by its name.
        is_used = title == "Dockerfile" or Path(title).stem in others
        if block.is_run and not is_used:
            found.append(f"{block}: nothing else on the page uses {title}")
        if block.language == "python":
            with suppress(SyntaxError):
                ast.parse(block.code)
                continue
            found.append(f"{block}: it is not Python")
    return found
