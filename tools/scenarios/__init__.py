"""Scenarios of the crash tool alone, beside those of the demo."""
