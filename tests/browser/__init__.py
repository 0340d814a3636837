"""Tests of the console in a chromium; `pytest -m browser` runs them, and nothing else does."""
