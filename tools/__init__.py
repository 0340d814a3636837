"""What a developer runs; not part of the wheel."""
