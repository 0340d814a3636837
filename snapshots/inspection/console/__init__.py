"""The console: pages about a file of runs, for the people of this machine, on 127.0.0.1 alone.

It needs the extra `console`; `snapshots.inspection.console.serving.serve` runs it, and
`snapshots.inspection.console.app.console_app` makes it as an ASGI application. It is the one place
in `snapshots` that has an event loop.
"""
