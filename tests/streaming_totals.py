"""Functions that sum and count, which tests share; the batches of the first one run without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from streaming_batches import Batches

from stateshift import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessFunction,
    ValueStateDescriptor,
)

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


class Numbered(ProcessFunction, CheckpointedFunction):
    """Counts all elements of its slot, in operator state."""

    def initialize_state(self, context):
        self.parts = context.get_operator_state_store().get_list_state(ListStateDescriptor("parts", int))
        self.count = sum(self.parts.get())

    def snapshot_state(self, context):
        self.parts.update([self.count])

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        self.count += 1
        yield self.count


def visits(**amounts):
    return [{"user": user, "amount": amount} for user, amount in amounts.items()]


def totals(place, backend, **options):
    return Batches(place, Totals(), backend, schema=SCHEMA, key=("user",), element=Visit, **options)


def totals_in(savepoint, uid="operator"):
    return {entry.key: entry.value for entry in savepoint.operator(uid).state("total").read_entries()}
