"""How long the machine of evolutions runs: 70 examples, always the same; `make evolution` runs 5,000 new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

VARIABLE = "STATESHIFT_EVOLUTION"
"""The environment variable that says how many examples there are."""

USUAL = 70
"""In `make test`; so many come to every verdict, and to a third of the rules."""

NIGHTLY = 5000
"""So many examples come to every rule that the machine can come to."""

examples = int(os.environ.get(VARIABLE) or USUAL)
_always_the_same = not os.environ.get(VARIABLE)
settings.register_profile(
    "evolution",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    max_examples=examples,
    derandomize=_always_the_same,
    **({} if _always_the_same else {"database": None}),
)
profile = settings.get_profile("evolution")
shorter = settings(profile, max_examples=25) if _always_the_same else profile
"""For chains, of which each example has many runs."""
