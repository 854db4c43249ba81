"""Hypothesis strategies: types, values of a type, and later versions of a type.

    @given(st.data())
    def test_my_tool_takes_every_type(data):
        hint = data.draw(types())
        value = data.draw(values_of(hint))
        later = data.draw(evolutions(hint))

Whole jobs, and the contents of their states, are drawn by `stateshift.state.testing.jobs` and `contents_of`. This
package imports hypothesis, and the rest of stateshift imports it only on use. `pip install 'stateshift[test]'` installs
its dependencies.
"""

from .evolution import Evolution, evolutions
from .hints import types, values_of

__all__ = ["Evolution", "evolutions", "types", "values_of"]
