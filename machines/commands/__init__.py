"""Commands of `snapshots` that need the code of charts; see also `machines.demo`."""
