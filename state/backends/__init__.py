"""Where live keyed and operator state is kept, and how it becomes a snapshot."""
