"""What a measured program is asked, and how it answers: a JSON text a line, over two pipes.

It says first that it is ready, and by which versions it stands:

    {"ready": "burr", "versions": {"apache-burr": "0.43.0"}}

Then it is asked, and answers each line by one; `{"error": "…"}` if it could not do it.

    {"do": "open", "run": "1 KB", "folder": "…", "charts": [{…}, …]}
        starts a run in a folder, with that many charts and their values     {"opened": "1 KB"}
    {"do": "measure", "run": "1 KB", "steps": [[0, {…}], …]}
        gives charts new values, one after the other, and saves each time    {"ns": [8123, …]}
    {"do": "read", "run": "1 KB"}
        returns the values of all charts as they are on disk                 {"stored": [{…}, …]}

It ends when there is nothing more to read. This module runs in the environments of others, so it
stands on nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import IO, Any, Protocol

Values = dict[str, Any]
Step = tuple[int, Values]
"""Which chart gets new values, and the values."""


class Subject(Protocol):
    """One run under measurement."""

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Do the steps; return how many ns each took, from the event until it was saved."""

    def stored(self) -> list[Values] | None:
        """Return the values of all charts, read from the file; None if it holds no values."""

    def close(self) -> None:
        """Give everything back."""


Open = Callable[[Path, Sequence[Values]], Subject]
"""Starts a run in an empty folder, with the first values of its charts, and saves it."""


def timed(steps: Sequence[Step], tell: Callable[[int, Values], object]) -> list[int]:
    """Do steps by a function that returns once the step is saved."""
    took_ns: list[int] = []
    for chart, values in steps:
        start_ns = perf_counter_ns()
        tell(chart, values)
        took_ns.append(perf_counter_ns() - start_ns)
    return took_ns


def serve(name: str, versions: Mapping[str, str], open_run: Open) -> None:
    """Answer until there is nothing more to read. What a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _say(answers, {"ready": name, "versions": dict(versions)})
    subjects: dict[str, Subject] = {}
    try:
        for line in sys.stdin:
            try:
                answer = _answer(json.loads(line), subjects, open_run)
            except Exception as error:  # noqa: BLE001 - who asked is told, and goes on or ends
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            _say(answers, answer)
    finally:
        for subject in subjects.values():
            subject.close()


def _answer(asked: Mapping[str, Any], subjects: dict[str, Subject], open_run: Open) -> Values:
    run = asked["run"]
    if asked["do"] == "open":
        subjects[run] = open_run(Path(asked["folder"]), asked["charts"])
        return {"opened": run}
    if asked["do"] == "measure":
        return {"ns": subjects[run].measure([(chart, values) for chart, values in asked["steps"]])}
    assert asked["do"] == "read", asked["do"]
    return {"stored": subjects[run].stored()}


def _say(answers: IO[str], answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
