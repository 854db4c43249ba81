"""The module `orders` as release 1.0 had it, and a value that it wrote."""

import attrs

from stateshift import Int32, serializer_for


@attrs.frozen
class Order:
    id: int
    note: str
    items: Int32


serializer = serializer_for(Order)
value = Order(id=1, note="fragile", items=3)
