"""One log line for each occurrence, through the standard library's loggers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from machines.telemetry.kinds import EACH, KINDS

if TYPE_CHECKING:
    from machines.telemetry.kinds import Occurrence

_IN_DOUBT: Final = "unknown"


class Lines:
    """Writes `machines` and `snapshots` lines: text for people, and the same fields as `extra`.

    A library's loggers say nothing where nobody has set logging up: they get a NullHandler.
    """

    def __init__(self) -> None:
        self._loggers = {kind.logger: logging.getLogger(kind.logger) for kind in KINDS.values()}
        for logger in self._loggers.values():
            if not logger.handlers:
                logger.addHandler(logging.NullHandler())

    @property
    def each(self) -> bool:
        """Whether a line for each macrostep or each save would be written."""
        return any(self.wants(kind) for kind in EACH)

    def wants(self, kind: str) -> bool:
        """Whether lines of a kind are written, at the level that it has at least."""
        known = KINDS[kind]
        return self._loggers[known.logger].isEnabledFor(known.level) or (
            kind == "effect.outcome" and self._loggers[known.logger].isEnabledFor(logging.WARNING)
        )

    def write(self, told: Occurrence) -> None:
        """Write the line of an occurrence."""
        kind = KINDS[told.kind]
        level, logger = level_of(told), self._loggers[kind.logger]
        if not logger.isEnabledFor(level):
            return
        of_run = {"run_id": told.run, "machine": told.machine, "state": ",".join(told.state)}
        extra: dict[str, Any] = {"kind": told.kind, **of_run, **told.data}
        said = [told.kind]
        said += [
            f"{'run' if name == 'run_id' else name}={_shown(value)}"
            for name, value in (*of_run.items(), *told.data.items())
            if value not in (None, "")
        ]
        logger.log(level, "%s", " ".join(said), extra=extra)


def level_of(told: Occurrence) -> int:
    """Return how loud an occurrence is: an effect in doubt is a warning."""
    if told.data.get("status") == _IN_DOUBT and told.kind == "effect.outcome":
        return logging.WARNING
    return KINDS[told.kind].level


def _shown(value: Any) -> str:
    """Return a value on one line: what could be taken for more than one is quoted."""
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    is_plain = text.isprintable() and not set(text) & {" ", '"', "'", "="}
    return text if is_plain else repr(text)
