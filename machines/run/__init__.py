"""One run in memory: its row, its ledgers, what enters it, and how it goes back after a failure."""
