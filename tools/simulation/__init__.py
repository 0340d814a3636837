"""A whole host under one seed: its loop, its clock, its file, its outside and its deaths."""
