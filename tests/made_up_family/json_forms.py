"""Money as JSON."""

from __future__ import annotations

from made_up_family.money import MoneySnapshot


def _money(_):
    return lambda value: {"$money": [value.cents, value.currency]}


JSON_FORMS = {MoneySnapshot: _money}
