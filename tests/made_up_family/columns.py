"""Money as a column: a struct would do; here it is text."""

from __future__ import annotations

import attrs

from made_up_family.money import MoneySerializer
from stateshift.serializers.columns.codec import plain
from stateshift.serializers.columns.scalars import TextCodec


@attrs.frozen
class MoneyCodec(TextCodec):
    """`EUR 12.34`."""

    def _arrow_value(self, value):
        return f"{value.currency} {value.cents // 100}.{value.cents % 100:02}"


COLUMNS = {MoneySerializer: plain(MoneyCodec)}
