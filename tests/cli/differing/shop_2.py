"""A job, after `shop_1`, with one change of each kind."""

import enum
from typing import Annotated

import attrs

from stateshift import Field, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor, record

Size = enum.Enum("Size", "S M L", module="shop")


@record(aliases=["shop_1.Order"])
@attrs.frozen
class Order:
    title: Annotated[str, Field(aliases=["name"])]
    visits: int
    size: Size
    email: str = ""
    note: str | None = None


@record(aliases=["shop_1.Invoice"])
@attrs.frozen
class Invoice:
    due: int
    sum: int


job = Job(
    [
        Operator(
            "orders",
            key=int,
            states=[
                ValueStateDescriptor("order", Order),
                ValueStateDescriptor("invoice", Invoice),
                ValueStateDescriptor("same", int),
                ListStateDescriptor("last", str),
                ValueStateDescriptor("seen", int, time_to_live=True),
                MapStateDescriptor("fresh", str, int),
            ],
        ),
        Operator("added", key=int, states=[ValueStateDescriptor("s", int)]),
        Operator("keyed", key=str, states=[ValueStateDescriptor("s", int)]),
    ]
)
