"""A disk under a real workload: what it was given, what a power loss leaves, how it may fail."""
