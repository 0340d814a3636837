"""Somebody who listens to hosts: to their log lines, as they are written, and by callback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from machines import Occurrence


class Lines(logging.Handler):
    """Keeps the lines of both loggers; `look` is called at each, while the host writes it."""

    def __init__(self, look: Callable[[logging.LogRecord], object] | None = None) -> None:
        super().__init__()
        self.records: list[Any] = []
        self._look = look

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.records.append(record)
        if self._look is not None:
            self._look(record)

    def of(self, kind: str) -> list[Any]:
        """Return the lines of a kind."""
        return [record for record in self.records if record.kind == kind]

    @property
    def kinds(self) -> list[str]:
        """The kinds of all lines, in their order."""
        return [record.kind for record in self.records]


@contextmanager
def lines(
    level: int = logging.DEBUG, look: Callable[[logging.LogRecord], object] | None = None
) -> Iterator[Lines]:
    """Have the lines of both loggers kept in the block."""
    handler = Lines(look)
    loggers = [logging.getLogger(name) for name in ("machines", "snapshots")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield handler
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(was)


class Heard:
    """A subscriber that keeps what it is told."""

    def __init__(self) -> None:
        self.all: list[Occurrence] = []

    def __call__(self, told: Occurrence) -> None:
        """Keep an occurrence."""
        self.all.append(told)

    @property
    def kinds(self) -> list[str]:
        """The kinds of all, in their order."""
        return [told.kind for told in self.all]

    def of(self, kind: str) -> list[Occurrence]:
        """Return those of a kind."""
        return [told for told in self.all if told.kind == kind]
