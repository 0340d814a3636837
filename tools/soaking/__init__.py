"""The parts of `tools/soak.py`: its load, its processes, its books and its judgement."""
