"""Every bound of the package, with its unit last."""

from __future__ import annotations

from typing import Final

from snapshots.limits import BLOB_DEPTH_MAX, VALUE_DEPTH_MAX

MICROSTEPS_MAX: Final = 10_000
"""A macrostep that takes more does not come to rest (design of SCXML's main loop: no bound)."""
KNOWN_NAMES_MAX: Final = 64
"""How many sets of callback names, as its charts have them, are kept resolved of a class."""
ROUTES_MAX: Final = 4_096
"""Pairs of a configuration and an event whose transition is remembered for one class."""
PLANS_MAX: Final = 256
"""The same for one chart, each with the chart's own callbacks."""
TIMER_SLICE_MS: Final = 1_000
"""The longest sleep before the wall clock is read again."""
STALE_ALARMS_MAX: Final = 1_000
"""Places in the alarm's order that nothing waits at, beyond as many as something does."""
DELIVERY_CHARS_MAX: Final = 200
REFUSAL_CHARS_MAX: Final = 500
"""How much of what a gate's model says against an answer is told."""
CHILD_ID_CHARS_MAX: Final = 200
CHARTS_DEPTH_MAX: Final = (BLOB_DEPTH_MAX - VALUE_DEPTH_MAX - 1) // 2
"""Charts above one: each adds two levels to the blob, around whatever the lowest one has."""
ENDING_S: Final = 2.0
"""How long a stopping host waits for tasks that it has cancelled."""
GRACE_S: Final = 10.0
"""How long a stopping host waits for calls in flight."""
WRITE_WAIT_S: Final = 0.1
"""How long a thread waits for its run's own before it looks whether that still goes on."""
SAVE_RETRY_MS: Final = 50
SAVE_RETRY_MS_MAX: Final = 5_000
SWEEP_INTERVAL_S: Final = 3_600.0
SWEEP_SLICE_S: Final = 0.0115
"""From one slice of a sweep to the next: 100 rows each time are 8,700 a second."""
SWEEP_PAUSE_S: Final = 0.003
"""How long the loop is left alone between two slices at least, also by a sweep that is late."""
SWEEP_BEHIND_S_MAX: Final = 0.1
"""How much time a sweep that was held up tries to catch up with."""
SWEEP_QUIET_S: Final = 0.000_05
"""A turn of the loop that took less had nothing to do: the next slice delays nobody."""
SWEEP_TURNS_MAX: Final = 100
"""After so many turns a slice goes on although the loop is busy, so that a sweep ends."""
THREADS_MAX: Final = 32
"""Blocking effects that one host calls at a time; the next ones wait with their intent."""
PLAIN_THREADS_MAX: Final = 256
"""Blocking plain calls that one host runs at a time: some run for as long as their state."""
STORAGE_THREADS_MAX: Final = 8
"""Calls that wait for a storage's server at a time; it takes as many connections."""
CLAIM_RENEWALS: Final = 3
"""How often a claim is renewed while its time to live passes once."""
CLAIM_RETRIES: Final = 12
"""How often, in the same time, after a renewal that failed."""
RETRY_BACKOFF_S: Final = 0.5
RETRY_BACKOFF_S_MAX: Final = 60.0
LOCK_PATIENCE_S: Final = 1.0
"""How long a host waits for short runs without a host to give the file back."""
LOCK_RETRY_S: Final = 0.1
MAIL_POLL_MS: Final = 100
"""How long a host waits before it looks into its mailbox again."""
MAIL_PAGES_MAX: Final = 5
"""How many pages of the mailbox are read at one look; the next one goes on behind them."""
MAIL_HELD_MAX: Final = 100
"""How many entries of one run a host knows at a time; the others wait in the file."""
MAIL_KNOWN_MAX: Final = 10_000
"""From how many entries on, of all runs, a host takes in no further page."""
MAIL_SLICE_RUNS: Final = 20
"""For how many runs entries are begun to be taken before others have a chance."""
MAIL_ASIDE_S: Final = 5.0
"""How long the mail of a run that cannot be taken up is left alone before the next look."""
ANSWER_REST_S: Final = 1.0
"""How long an answer waits for its run to come to rest before it comes between two macrosteps."""
MAIL_REST_S: Final = 1.0
"""How long an event from the mailbox waits for its run to come to rest before it is queued.

What ends the run waits as long for those that were handed in before it.
"""
APPROVAL_POLL_MS: Final = 100
"""How long a host waits before it looks for decisions about its open approvals again."""
APPROVAL_RETRY_S_MAX: Final = 30.0
"""How long a decision that cannot be taken is left alone at most before the next attempt."""
APPROVAL_SLICE_RUNS: Final = 20
"""After so many runs that were looked at for open approvals, others run."""
ASKED_S_MAX: Final = 10.0
"""How long work in a thread waits for what only the loop knows."""
CARRY_RETRIES: Final = 10
"""How often carry state is asked for again while its storage cannot be reached."""
BOOT_SLICE_MS: Final = 2
"""How long a boot holds the loop before others have a chance, but for what one run takes."""
RESIDENT_RUNS_MAX: Final = 2_000
"""How many runs a host keeps built by default, some 100 MB of small charts; others wait as ids."""
PASSING_RUNS_MAX: Final = 20
"""How many runs are looked at in one go for whether they can be passed out of memory."""
PASSING_RETRY_S: Final = 0.1
"""How long a host waits until it looks again for runs to pass out, if none could be."""
HOLDER_CHARS_MAX: Final = 200
"""How much of a holder's name is shown."""
PUMP_MACROSTEPS_MAX: Final = 50
"""After so many macrosteps in a row a tree lets others run."""
CONFIGURATIONS_MAX: Final = 1_000
"""Configurations of one class whose states' names are kept together."""
OUTLINES_MAX: Final = 1_000
"""Classes and configurations of which one machine keeps the JSON that their charts share."""
LAB_PATIENCE_S: Final = 5.0
"""How long a test waits for runs to come to rest before it says what goes on."""
LAB_ALARMS_MAX: Final = 100_000
"""After so many alarms in one turn of a test's clock, timers are set without end."""
LAB_LIVES_MAX: Final = 10_000
"""As often a chart is restarted behind one act before its macrosteps count as endless."""
SUBSCRIPTION_SLICE_S: Final = 0.005
"""After so long a callback's backlog lets the loop have a turn."""
SUBSCRIPTION_HELD_MAX: Final = 1_000
"""Occurrences that a listener of a host may be behind before it loses the oldest."""
