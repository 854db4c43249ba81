"""The module `orders` as it is, and what the value of release 1.0 is to it."""

from typing import Annotated

import attrs

from stateshift import Field, Verdict, serializer_for


@attrs.frozen
class Order:
    id: int
    remark: Annotated[str, Field(aliases=["note"])]
    items: int
    currency: str = "EUR"


serializer = serializer_for(Order)
value = Order(id=1, remark="fragile", items=3)
verdict = Verdict.REQUIRES_MIGRATION
