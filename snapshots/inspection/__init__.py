"""Looks at stored runs from outside: read-only, on a live file, without the code that wrote them."""

from snapshots.inspection.queries import FoundRun, RunFile, open_run_file
from snapshots.inspection.reading import read_report
from snapshots.inspection.report import RunReport

__all__ = ["FoundRun", "RunFile", "RunReport", "open_run_file", "read_report"]
