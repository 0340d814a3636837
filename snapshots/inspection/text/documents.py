"""Reports as JSON documents: the names in them are promised, and no terminal obeys them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from snapshots.codec import dump
from snapshots.inspection.reports.derived import saves_of, updated_of
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from snapshots.codec import Plain
    from snapshots.inspection.reports.records import NodeReport, RunReport
    from snapshots.records import RunHeader

_PLANE: Final = 0xFFFF


def runs_document(headers: Sequence[RunHeader], *, now_ms: int, following: str | None) -> Plain:
    """Return a page of runs: `{"now_ms", "runs": [header, ...], "more", "next"}`.

    `following` is the run behind which the next page begins, None on the last page.
    """
    listed = [header_document(header) for header in headers]
    page = {"more": following is not None, "next": following}
    return {"now_ms": now_ms, "runs": listed, **page}


def run_document(report: RunReport) -> Plain:
    """Return one run: its header, `"unreadable": null`, and what its report holds.

    `chart` is the tree of charts; `children` names the paths of those below the root. Values are
    raw JSON as they are stored, tagged values included.
    """
    named = _record(report, but=("header", "now_ms", "root", "children"))
    return {
        "now_ms": report.now_ms,
        "run": header_document(report.header),
        "unreadable": None,
        **named,
        "chart": _chart(report.root),
        "children": [child.path for child in report.children],
    }


def unreadable_document(header: RunHeader, reason: str, *, now_ms: int) -> Plain:
    """Return a run of which only the header can be read, and why."""
    return {"now_ms": now_ms, "run": header_document(header), "unreadable": reason}


def header_document(header: RunHeader) -> Plain:
    """Return what is known of a run without its content; times are Unix milliseconds.

    Of a row whose head is damaged, `saves` and `updated_ms` may be None.
    """
    return {
        "run": header.run_id,
        "machine": header.machine,
        "digest": header.digest,
        "status": header.status,
        "reason": header.reason,
        "saves": saves_of(header),
        "created_ms": header.created_ms,
        "updated_ms": updated_of(header),
        "ended_ms": header.ended_ms,
        "due_ms": None if header.due_ms == NO_TIMER_MS else header.due_ms,
        "parked": header.parked,
    }


def written(document: Plain) -> str:
    r"""Return a document as one line of JSON in which only printable characters stand.

    JSON itself leaves some control characters and all direction marks as they are; within a
    string `\u009b` says the same. Raises `EncodeError` for values nested beyond what it can write.
    """
    text = dump(document).decode()
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    return f"{text}\n"


def record_document(record: object) -> dict[str, Plain]:
    """Return a report's fields by name, with those of the reports in it."""
    return _record(record)


def _chart(node: NodeReport) -> Plain:
    return {
        **_record(node, but=("children",)),
        "children": [_chart(child) for child in node.children],
    }


def _record(record: object, but: Iterable[str] = ()) -> dict[str, Plain]:
    """Return a report's own fields by name, with those of the reports in it."""
    assert hasattr(record, "__dataclass_fields__"), "only records have fields"
    names = [field.name for field in fields(record) if field.name not in but]  # type: ignore[arg-type]  # any dataclass
    return {name: _plain(getattr(record, name)) for name in names}


def _plain(value: object) -> Plain:
    """Turn records and tuples into objects and lists; raw JSON, which has neither, stays."""
    if hasattr(value, "__dataclass_fields__"):
        return _record(value)
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value


def _escape(char: str) -> str:
    code = ord(char)
    if code <= _PLANE:
        return f"\\u{code:04x}"
    # JSON's escapes are UTF-16: beyond the first plane a character takes two of them.
    units = char.encode("utf-16-be")
    return f"\\u{units[:2].hex()}\\u{units[2:].hex()}"
