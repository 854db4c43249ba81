"""Parameters of which each run takes a few, `make slow` more, and a longer run the rest."""

from __future__ import annotations

import pytest


def a_few(values, *, of=3, of_slow=1):
    """Every value; the first of each `of` in every run, of each `of_slow` in slow ones, and the others with faults."""
    marks = [pytest.mark.slow if at % of_slow == 0 else pytest.mark.faults for at in range(len(values))]
    return [pytest.param(value, marks=marks[at] if at % of else ()) for at, value in enumerate(values)]
