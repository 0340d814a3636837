"""The demo: three processes, one of which is killed again and again and loses nothing.

`orchestrator` runs a scenario's charts on a host; a process of `outside` is the world that they
call, and keeps count of what really happened; `killer` plays everybody else: it sends the events,
kills the orchestrator, starts it again, and compares what was acknowledged with what is on disk.
The last two outlive every kill, so the verdict rests on nothing that the victim says about its own
past. What happens meanwhile, and what must hold of it, is said by the `scenarios`.
"""
