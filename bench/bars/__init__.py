"""What a change may not make dearer: each bar, and what measures it."""
