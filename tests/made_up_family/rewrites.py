"""Byte rewrites of money."""

from __future__ import annotations

from made_up_family.money import MoneySerializer, widened
from stateshift.serializers.rewrite import Fixed, Sequence, Widened


def _money(writer, reader, conversion):
    if reader.wide == writer.wide and conversion is None:
        return Fixed(writer.length)
    return Sequence((Widened(4, 8), Fixed(3))) if writer.wide and conversion is widened else None


REWRITES = {MoneySerializer: _money}
