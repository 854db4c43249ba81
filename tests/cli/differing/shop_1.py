"""A job, before `shop_2`."""

import enum
from typing import Annotated

import attrs

from stateshift import Field, Int32, Job, Operator, ValueStateDescriptor, record, serializer_for

Size = enum.Enum("Size", "S M", module="shop")


@attrs.frozen
class Order:
    name: str
    visits: Int32
    obsolete: bytes
    note: str
    size: Size


@attrs.frozen
class Bill:
    amount: int
    due: int


@record(aliases=["shop_1.Bill"])
@attrs.frozen
class Invoice:
    due: int
    sum: Annotated[int, Field(aliases=["amount"])]


# A job that took bills over goes on with this copy, which keeps the order of their bytes.
invoices = serializer_for(Invoice).ensure_compatibility(serializer_for(Bill).snapshot_configuration())

job = Job(
    [
        Operator(
            "orders",
            key=int,
            states=[
                ValueStateDescriptor("order", Order),
                ValueStateDescriptor("invoice", invoices.reconfigured_serializer),
                ValueStateDescriptor("same", int),
                ValueStateDescriptor("gone", str),
                ValueStateDescriptor("last", str),
                ValueStateDescriptor("seen", int),
            ],
        ),
        Operator("removed", key=int, states=[ValueStateDescriptor("s", int)]),
        Operator("keyed", key=int, states=[ValueStateDescriptor("s", int)]),
    ]
)
