"""Strategies of values: a subclass has those of its base only if they are given."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import find
from hypothesis import strategies as st

from stateshift import DeclarationError
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers.primitives.numeric import LongSerializer


@attrs.frozen
class Shifted(LongSerializer):
    """Writes other bytes, and perhaps takes other values."""


def test_a_subclass_has_no_strategy_unless_one_is_given():
    with pytest.raises(DeclarationError, match=r"there is no strategy for values of long[^$]*own=\{Shifted: …\}"):
        values_of(Shifted())

    assert 9 == find(values_of(Shifted(), own={Shifted: st.just(9)}), lambda _: True)
