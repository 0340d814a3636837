"""What an examination found: one record a check, in the order in which they were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was found, and, unless all is well, one sentence of what to do.

    `items` names what it is about one by one, to a bound; `count` says how many there are.
    """

    check: str
    verdict: Verdict
    told: str
    remedy: str = ""
    items: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All findings about a file; `is_copy` says that a copy of it was looked at."""

    path: str
    is_deep: bool
    is_copy: bool
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """Return the worst of all verdicts."""
        found = {finding.verdict for finding in self.findings}
        return "problem" if "problem" in found else "warning" if "warning" in found else "ok"


def well(check: str, told: str) -> Finding:
    """Return the finding of a check that found nothing amiss."""
    return Finding(check=check, verdict="ok", told=told)


def warning(check: str, told: str, remedy: str) -> Finding:
    """Return the finding of what may be meant so, and should be looked at."""
    return Finding(check=check, verdict="warning", told=told, remedy=remedy)


def problem(check: str, told: str, remedy: str) -> Finding:
    """Return the finding of what keeps runs from going on, or may lose them."""
    return Finding(check=check, verdict="problem", told=told, remedy=remedy)
