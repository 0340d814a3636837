"""Tests of the house itself: floors, shape, words, packaging, README and gate."""
