"""The host on asyncio: the live runs of one file, restored at its boot and run until it is left."""

from machines.host.host import Host

__all__ = ["Host"]
