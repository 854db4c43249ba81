"""Parameters of which each run takes a few, and `make slow` the rest."""

from __future__ import annotations

import pytest


def a_few(values, *, of=3):
    """Every value; only the first of each `of` in every run."""
    return [value if at % of == 0 else pytest.param(value, marks=pytest.mark.slow) for at, value in enumerate(values)]
