"""Hypothesis strategies: types, values of a type, and what becomes of a type from one version of a job to the next.

    @given(st.data())
    def test_my_tool_takes_every_type(data):
        hint = data.draw(types())
        value = data.draw(values_of(hint))
        later = data.draw(evolutions(hint))

Whole jobs, and what their states hold, are drawn by `stateshift.state.testing.jobs` and `contents_of`.
This package imports hypothesis, and nothing of stateshift imports it before it is used:
`pip install 'stateshift[test]'` brings what it needs.
"""

from .evolving import Evolution, evolutions
from .hints import types
from .holding import values_of

__all__ = ["Evolution", "evolutions", "types", "values_of"]
