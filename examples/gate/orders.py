"""The job as it is: revision 3. `note` is called `remark`, and the alias says so."""

from typing import Annotated

import attrs

from stateshift import Field, Job, Operator, ValueStateDescriptor


@attrs.frozen
class Order:
    id: int
    remark: Annotated[str, Field(aliases=["note"])]
    items: int
    currency: str = "EUR"


job = Job([Operator("shop", key=str, states=[ValueStateDescriptor("open", Order)])])
