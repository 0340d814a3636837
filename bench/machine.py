"""The machine under a measurement: what a number means nothing without."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

import apsw

MOUNTS = Path("/proc/self/mounts")
PROCESSORS = Path("/proc/cpuinfo")


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`, or "unknown" if nothing tells."""
    if not MOUNTS.is_file():
        return "unknown"
    found = (Path("/"), "unknown")
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        mounted = Path(point)
        # Of two mounts on one point the later one is seen.
        if folder.is_relative_to(mounted) and len(mounted.parts) >= len(found[0].parts):
            found = (mounted, kind)
    return found[1]


def page_bytes() -> int:
    """Return the page size in bytes that SQLite gives a new file."""
    connection = apsw.Connection(":memory:")
    try:
        (row,) = connection.execute("pragma page_size")
    finally:
        connection.close()
    return int(str(row[0]))


def processor() -> str:
    """Return the model of the processor, or its architecture if nothing tells more."""
    if PROCESSORS.is_file():
        for line in PROCESSORS.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def measured_on() -> dict[str, str]:
    """Return the machine and what runs on it: one name and one value for each fact."""
    folder = Path(tempfile.gettempdir()).resolve()
    return {
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": apsw.sqlite_lib_version(),
        "file system": f"{file_system(folder)} ({folder})",
        "page size": f"{page_bytes()} bytes",
        "processors": f"{os.cpu_count()}, {processor()}",
        "kernel": f"{platform.system()} {platform.release()}",
    }


def header() -> str:
    """Return the facts as one line."""
    facts = ", ".join(f"{name} {value}" for name, value in measured_on().items())
    return f"measured on: {facts}"
