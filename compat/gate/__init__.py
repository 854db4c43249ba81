"""A job against its history: recorded revisions, levels, what a change loses, and stamps of deployments."""
