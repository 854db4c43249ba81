"""One subtask of an operator, alive: its function on its backends, restored and written."""
