"""Stored runs seen from outside: read-only, on the live file, without the code of their charts."""

from snapshots.inspection.queries.files import FoundRun, RunFile, open_run_file
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.reports.records import RunReport

__all__ = ["FoundRun", "RunFile", "RunReport", "open_run_file", "read_report"]
