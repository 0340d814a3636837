"""What is well, and what is not, with a file of runs and where it lies; nothing is changed."""

from snapshots.inspection.doctor.examining import examine
from snapshots.inspection.doctor.findings import Examination, Finding, Verdict

__all__ = ["Examination", "Finding", "Verdict", "examine"]
