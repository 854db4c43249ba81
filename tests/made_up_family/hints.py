"""Money as a hint."""

from __future__ import annotations

from typing import Annotated

from made_up_family.money import Money, MoneySerializer

NarrowMoney = Annotated[Money, MoneySerializer(wide=False)]

HINTS = {Money: MoneySerializer()}
