"""The gate checks a job against its history: recorded revisions, levels, losses of a change, deployment stamps."""
