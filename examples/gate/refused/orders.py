"""A change that the gate refuses: `note` is called `remark`, and nothing says that they are one."""

import attrs

from stateshift import Job, Operator, ValueStateDescriptor


@attrs.frozen
class Order:
    id: int
    remark: str
    items: int
    currency: str = "EUR"


job = Job([Operator("shop", key=str, states=[ValueStateDescriptor("open", Order)])])
