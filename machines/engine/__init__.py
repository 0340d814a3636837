"""The durable engine: the charts of a run take turns, each macrostep ends at a boundary."""
