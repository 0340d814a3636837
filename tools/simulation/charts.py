"""The charts of the simulation: what clients send to them, and what leads each to its end.

Every event of a client carries a `token`, which the callback that takes it keeps in the model: what
was run, and how often, can be read from the row.
"""

from __future__ import annotations

from machines import Machine
from tools.simulation import calling, waiting

MACHINES: tuple[Machine, ...] = (
    Machine(waiting.Tally),
    Machine(waiting.Talker),
    Machine(calling.Checkout, failed=("declined",)),
    Machine(calling.Asker),
    Machine(calling.Doubter, failed=("declined",)),
    Machine(waiting.Watch),
    Machine(waiting.Patient),
    Machine(waiting.Review),
    Machine(calling.Tree),
    Machine(calling.Crawl),
    Machine(calling.Session),
)
"""What every host of a world knows; made once, since a chart is dear to look at."""

EVENTS: dict[str, tuple[str, ...]] = {
    "Tally": ("note", "note", "flip", "spoil_it", "finish"),
    "Talker": ("note", "note", "begin", "spoil_it", "finish"),
    "Checkout": ("note", "pay", "pay", "leave"),
    "Asker": ("begin",),
    "Doubter": ("begin", "@", "@"),
    "Watch": ("begin", "begin", "leave", "again", "note"),
    "Patient": ("begin",),
    "Review": ("submit", "@", "@", "note"),
    "Tree": ("begin", "@", "note", "finish"),
    "Crawl": (),
    "Session": ("begin",),
}
"""What clients send to a chart; `@` answers one of its open gates."""
SURE = {
    ("Tally", "note"),
    ("Talker", "note"),
    ("Checkout", "note"),
    ("Review", "note"),
    ("Tree", "note"),
}
"""Events that a live chart always takes."""
GUIDE: dict[tuple[str, str], str] = {
    ("Tally", "opened"): "finish", ("Tally", "shut"): "finish", ("Talker", "calm"): "finish",
    ("Talker", "busy"): "finish", ("Checkout", "draft"): "pay", ("Asker", "idle"): "begin",
    ("Doubter", "idle"): "begin", ("Doubter", "checking"): "@", ("Watch", "idle"): "finish",
    ("Watch", "late"): "again", ("Patient", "idle"): "begin", ("Review", "writing"): "submit",
    ("Review", "reviewing"): "@", ("Tree", "resting"): "finish", ("Tree", "growing"): "@",
    ("Session", "idle"): "begin",
}  # fmt: skip
"""What leads a chart to its end: from each state in which it waits for somebody."""
