"""Stored runs and what becomes of them: pure, nothing is built or written."""
