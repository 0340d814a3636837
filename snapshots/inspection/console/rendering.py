"""Templates to pages: whatever a template prints is made visible, bounded and escaped."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from snapshots.inspection.limits import LINE_CHARS_MAX
from snapshots.inspection.printable import moment, relative, size, span, visible
from snapshots.inspection.reports.values import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parent
# Of what a gate says to those who answer it, so much stands on its line.
_NAMED_MAX: Final = 12
_FAULT: Final = {"type", "message"}
_CLOCK: Final = slice(11, 19)
_DAY: Final = slice(0, 10)


def _shown(value: object) -> object:
    """Return what a template prints: markup of our own as it is, all else on one plain line."""
    if isinstance(value, Markup):
        return value
    return visible(str(value), chars_max=LINE_CHARS_MAX)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": moment,
        "relative": relative,
        "span": span,
        "size": size,
        "readable": readable,
        "query": _query,
        "told": _told,
        "fault": _fault,
        "clock": lambda at_ms: moment(at_ms)[_CLOCK],
        "day": lambda at_ms: moment(at_ms)[_DAY],
    }
    return environment


def _told(value: object) -> str:
    """Return a few named values as a person would write them, anything else as it is read."""
    if not isinstance(value, dict) or not value or "$" in value:
        return readable(value)
    named = islice(value.items(), _NAMED_MAX)
    told = [f"{name}: {part if isinstance(part, str) else readable(part)}" for name, part in named]
    return ", ".join(told + ["…"] * (len(value) > _NAMED_MAX))


def _fault(value: object) -> str:
    """Return a stored exception as its type and its message."""
    if isinstance(value, dict) and value.keys() == _FAULT:
        kind, message = value["type"], value["message"]
        if isinstance(kind, str) and isinstance(message, str):
            return f"{kind}: {message}" if message else kind
    return readable(value)


def _query(parameters: Mapping[str, object]) -> Markup:
    """Return the query of an address, which is never cut: all in it is ASCII, and escaped."""
    return escape(urlencode(parameters, errors="backslashreplace"))


class Renderer:
    """Makes pages of templates, each with the same frame around it."""

    def __init__(self, file: str, *, may_write: bool) -> None:
        """Name `file` on each page, and say whether the console `may_write`."""
        self._environment = _environment()
        self._frame = {"file": file, "file_name": Path(file).name, "may_write": may_write}

    def page(self, template: str, *, status: int = 200, **content: object) -> HTMLResponse:
        """Return the answer with a page."""
        text = self._environment.get_template(template).render(self._frame | content)
        # Escaped already: a lone surrogate has no UTF-8, and is not printable either.
        return HTMLResponse(text, status)
