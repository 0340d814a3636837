"""The tests: behaviour, unit, host, crash and house."""
