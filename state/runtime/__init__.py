"""State in the hand of a function: handles, functions, their contexts, timers. Knows no backend and no file."""
