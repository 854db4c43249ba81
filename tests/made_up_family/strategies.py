"""Strategies of money."""

from __future__ import annotations

from hypothesis import strategies as st

from made_up_family.money import Money, MoneySerializer
from stateshift.serializers.drawing import whole


def _money(_, serializer):
    return st.builds(Money, whole(63 if serializer.wide else 31), st.sampled_from(["EUR", "USD", "XTS"]))


STRATEGIES = {MoneySerializer: _money}
