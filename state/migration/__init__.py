"""A migration, but for the engine that schedules it: which tasks there are, what each writes, what becomes of all."""
