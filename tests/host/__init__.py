"""What the host promises, each promise on a real file."""
