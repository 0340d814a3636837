"""Processes that are killed for good, and what is left of their work."""
