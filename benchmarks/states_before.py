"""The jobs whose savepoints are rewritten: one for each shape, with the types that lie in the savepoint.

`bench.Rec` is the class of `jvm/before`, so that a job of real Flink takes the same savepoint.
"""

from __future__ import annotations

import attrs

from stateshift import (
    AvroSerializer,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ValueStateDescriptor,
    record,
)

from . import sql_rows

UID, STATE = "bench", sql_rows.STATE


@record(java_class="bench.Rec")
@attrs.frozen
class Rec:
    active: bool
    amount: float
    count: Int32
    id: int
    name: str
    tag: str | None = None


@record(java_class="bench.Customer")
@attrs.frozen
class Customer:
    city: str
    name: str
    visits: Int32


@record(java_class="bench.Order")
@attrs.frozen
class Order:
    customer: Customer
    id: int
    note: str | None
    total: float


@record(java_class="bench.Side")
@attrs.frozen
class Side:
    customer: Int32 | None
    id: int | None
    item: str | None
    price: float | None
    time: int | None


@record(java_class="bench.Totals")
@attrs.frozen
class Totals:
    count: int | None
    highest: float | None
    paid: int | None
    seen: int | None
    units: Int32 | None


AVRO = {
    "type": "record",
    "name": "bench.Rec",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "amount", "type": "double"},
        {"name": "active", "type": "boolean"},
        {"name": "tag", "type": ["null", "string"], "default": None},
    ],
}


def job_of(key: object, state: object) -> Job:
    """A job with one keyed state."""
    return Job([Operator(UID, key=key, states=[state])])


S1 = job_of(int, ValueStateDescriptor(STATE, tuple[Int32, int]))
S2 = job_of(str, ValueStateDescriptor(STATE, Rec))
S2N = S2
WIDE = S2N
S3 = job_of(str, ValueStateDescriptor(STATE, AvroSerializer(AVRO)))
MAP = job_of(int, MapStateDescriptor(STATE, str, Rec))
LIST = job_of(int, ListStateDescriptor(STATE, Rec))
NESTED = job_of(str, ValueStateDescriptor(STATE, Order))
TTL = S2
ROW_KEY = sql_rows.rows(["BIGINT"])
JOIN = job_of(ROW_KEY, MapStateDescriptor(STATE, sql_rows.rows(sql_rows.SIDE), Int32))
SIDE = job_of(ROW_KEY, ValueStateDescriptor(STATE, sql_rows.rows(sql_rows.SIDE)))
RECORD = job_of(ROW_KEY, ValueStateDescriptor(STATE, Side))
COUNTED = job_of(ROW_KEY, MapStateDescriptor(STATE, Side, Int32))
AGGREGATE = job_of(ROW_KEY, ValueStateDescriptor(STATE, sql_rows.rows(sql_rows.TOTALS)))
TOTALS = job_of(ROW_KEY, ValueStateDescriptor(STATE, Totals))
