"""Every bound of the demo, unit last."""

from __future__ import annotations

from typing import Final

KILLS_DEFAULT: Final = 8
KILLS_MAX: Final = 10_000
RUNS_MAX: Final = 500

START_S_MAX: Final = 30.0
"""How long a process may take from its start to its first word."""
STOP_S_MAX: Final = 15.0
"""How long a process may take to end when it is asked to."""
LIFE_S_MAX: Final = 0.6
"""How long a moment to kill at is waited for."""
STUCK_S: Final = 10.0
"""How long a run that is not finished may go without a save, when nobody is killed any more."""
REST_S_MAX: Final = 60.0
"""How long the runs may take to their end, moving or not, when nobody is killed any more."""
ANSWER_WAIT_S: Final = 15.0
"""How long a command that answers a gate waits for a host."""
HESITATION_S_MAX: Final = 0.8
"""How long an approver may take who answers through the host: a command takes its time to start."""
REPEAT_S: Final = 0.1
"""How long somebody outside waits who asked for nothing, and asks again."""
PERSON_S: Final = 1.0
"""How long a person who hears nothing waits before reading the file again."""
LOOK_S: Final = 0.05
"""How long the killer waits for news before it looks at the time."""
RELEASE_SHARE: Final = 0.5
"""The share of all lives over which the runs are started; each is let through its gates later."""
GATE_SHARE_FIRST: Final = 0.3
"""The share of all lives after which the first run is let through its gates."""

LINE_BYTES_READ: Final = 65_536
REPORTED_ROWS_MAX: Final = 20
REPORTED_CHARS_MAX: Final = 300
