"""A function that sums, whose batches run without Spark; tests of state directories share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from streaming_batches import Batches

from stateshift import KeyedProcessFunction, ValueStateDescriptor

SCHEMA = {"user": pa.string(), "amount": pa.int64()}


@attrs.frozen
class Visit:
    user: str
    amount: int


class Totals(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[int]:
        self.total.update(self.total.value() + value.amount)
        yield self.total.value()


def visits(**amounts):
    return [{"user": user, "amount": amount} for user, amount in amounts.items()]


def totals(place, backend, **options):
    return Batches(place, Totals(), backend, schema=SCHEMA, key=("user",), element=Visit, **options)


def totals_in(savepoint, uid="operator"):
    return {entry.key: entry.value for entry in savepoint.operator(uid).state("total").read_entries()}
