"""`python -m snapshots.inspection.cli`: the command `snapshots`."""

from snapshots.inspection.cli import main

main()
