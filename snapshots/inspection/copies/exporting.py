"""One run as one JSON document, and bytes put into a file where nothing is lost by it."""

from __future__ import annotations

import base64
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapshots.codec import dump, load
from snapshots.database.errors import TargetExistsError
from snapshots.database.places import PARTS, unreachable
from snapshots.errors import DecodeError, EncodeError, StorageError
from snapshots.inspection.text.documents import header_document
from snapshots.layout import unfold_blob

if TYPE_CHECKING:
    from snapshots.codec import Plain
    from snapshots.inspection.queries.files import FoundRun

OPERATION: Final = "export"
FORMAT: Final = 1
# What belongs to a file of runs and would be lost with it.
_BESIDE: Final = ("", *PARTS)


def export_document(found: FoundRun, *, now_ms: int) -> dict[str, Plain]:
    """Return a run: its row, what its blob holds, its chart's shape, and its mail.

    `{"format": 1, "exported_ms", "run": header, "row": {"id", "revision", "due_ms", "bytes"},
    "unreadable": null, "blob": {...}, "shape": {...} or null, "mail": [...]}`; the values in
    the blob are raw JSON, tagged values included, its effects are rows and its timers one list.
    Where the blob is none, `unreadable` says why, `blob` is null, and `raw` has its bytes in
    base64.
    """
    header = found.header
    row = {"id": header.row, "revision": header.revision, "due_ms": header.due_ms}
    document: dict[str, Plain] = {
        "format": FORMAT,
        "exported_ms": now_ms,
        "run": header_document(header),
        "row": row | {"bytes": len(found.blob)},
        "unreadable": None,
        "blob": None,
        "shape": _shape(found.shape),
        "mail": [
            {name: getattr(entry, name) for name in ("entry", "kind", "created_ms", "outcome")}
            for entry in found.mail
        ],
    }
    try:
        blob = unfold_blob(load(found.blob), header.run_id)
        dump(blob)
        document["blob"] = blob
    except (DecodeError, EncodeError) as error:
        document["unreadable"] = error.reason
        document["raw"] = base64.b64encode(found.blob).decode()
    return document


def _shape(shape: bytes | None) -> Plain:
    if shape is None:
        return None
    try:
        return load(shape)
    except DecodeError:
        return None


def write_file(target: Path, data: bytes, *, beside: Path, is_forced: bool = False) -> str:
    """Write bytes to a file that only its owner may read, whole or not at all; return its path.

    Raises TargetExistsError for a file that exists, unless `is_forced`; StorageError for one
    that belongs to `beside`, the file of runs, in any case; and what the system has against it.
    """
    place = os.path.realpath(target)
    _refuse_own(place, beside)
    if not is_forced and os.path.lexists(target):
        raise TargetExistsError(OPERATION, place, place)
    # By chance, not by the process: one that was killed may have left a file under our number.
    draft = f"{place}.unfinished-export-{secrets.token_hex(8)}"
    try:
        _put(draft, data)
        try:
            _name(draft, place, is_forced=is_forced)
        finally:
            Path(draft).unlink(missing_ok=True)
    except FileExistsError as error:
        raise TargetExistsError(OPERATION, place, place) from error
    except OSError as error:
        ours = unreachable(error, place)
        raise type(ours)(OPERATION, place, ours.hint, detail=ours.detail) from error
    return place


def _put(draft: str, data: bytes) -> None:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _name(draft: str, place: str, *, is_forced: bool) -> None:
    """Give the file its name; a link, unlike a rename, replaces nothing."""
    if is_forced:
        Path(draft).replace(place)
    else:
        os.link(draft, place)


def _refuse_own(place: str, beside: Path) -> None:
    source = os.path.realpath(beside)
    own = {f"{source}{suffix}" for suffix in _BESIDE}
    try:
        found = Path(place).stat()
    except OSError:
        is_own, is_folder = place in own, False
    else:
        is_own = place in own or any(_is_same(found, path) for path in own)
        is_folder = stat.S_ISDIR(found.st_mode)
    if is_own or is_folder:
        detail = "it is a folder" if is_folder else "it belongs to the file of runs itself"
        hint = "name another file"
        raise StorageError(OPERATION, place, hint, detail=detail)


def _is_same(found: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(found, Path(path).stat())
    except OSError:
        return False
