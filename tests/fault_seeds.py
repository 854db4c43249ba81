"""Seeds of tests that draw: from STATESHIFT_FAULT_SEEDS, such as `0-19` or `3,7`; a seed always makes equal choices."""

from __future__ import annotations

import os


def seeds_of(told):
    """Return the seeds of `0-19` or `3,7`."""
    seeds = []
    for part in told.replace(" ", ",").split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1) if part else []
    return seeds


def chosen_seeds(default):
    """Return the seeds that the environment names, else those of a default."""
    return seeds_of(os.environ.get("STATESHIFT_FAULT_SEEDS") or default)
