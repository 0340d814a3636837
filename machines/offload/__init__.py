"""The asynchronous face of a synchronous storage."""

from machines.offload.calls import Offload
from machines.offload.claiming import Claiming
from machines.offload.workspaces import AsyncSubscription, AsyncWorkspace

__all__ = ["AsyncSubscription", "AsyncWorkspace", "Claiming", "Offload"]
