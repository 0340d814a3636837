"""Reports, lists and changes as text for a terminal, and as JSON documents."""
