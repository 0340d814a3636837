"""The durable engine: the charts of a run take turns, and stop at a boundary where each macrostep ends."""
