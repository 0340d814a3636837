"""What a run keeps beside its snapshot, each a pure module without I/O."""
