"""How long the machine of evolutions runs: 200 examples, always the same; `make evolution` runs 5,000 new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NIGHTLY = "STATESHIFT_EVOLUTION"
"""Names the environment variable that says how many examples there are."""

wanted = os.environ.get(NIGHTLY)
is_nightly = bool(wanted)
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("evolution", _COMMON, max_examples=200, derandomize=True)
settings.register_profile("nightly", _COMMON, max_examples=int(wanted or 5000), database=None)
profile = settings.get_profile("nightly" if is_nightly else "evolution")

shorter = profile if is_nightly else settings(profile, max_examples=100)
"""For chains, of which each example has many runs."""
