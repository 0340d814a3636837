"""Random and hand-written charts, and the library's own run of one, for restart equivalence."""
