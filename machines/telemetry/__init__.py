"""What a host tells of its runs: log lines, metrics and spans, and those who subscribed."""

from machines.telemetry.dispatcher import Dispatcher
from machines.telemetry.kinds import KINDS, Kind, Occurrence
from machines.telemetry.subscriptions import Subscription

__all__ = ["KINDS", "Dispatcher", "Kind", "Occurrence", "Subscription"]
