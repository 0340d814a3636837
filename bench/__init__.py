"""Measurements: plain tests in the suite, timed by `pytest --benchmark-only bench`."""
