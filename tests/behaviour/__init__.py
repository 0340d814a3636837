"""One suite of behaviours, on every backend."""
