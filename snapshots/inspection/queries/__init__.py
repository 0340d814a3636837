"""What inspection asks of a file: read-only, within bounds, while its owner goes on writing."""
