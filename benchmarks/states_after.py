"""The jobs that want the state of `states_before` in other types."""

from __future__ import annotations

from typing import Annotated

import attrs

from stateshift import (
    AvroSerializer,
    Field,
    Int32,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    record,
)

from . import sql_rows
from .downtime_job import job as downtime_job
from .states_before import ROW_KEY, STATE, job_of

REGION = "eu-west-1"


@record(java_class="bench.Rec")
@attrs.frozen
class Rec:
    """`active` is dropped, `count` widened, `region` added, `name` is called `title`."""

    amount: float
    count: int
    id: int
    title: Annotated[str, Field(aliases=["name"])]
    region: str = REGION
    tag: str | None = None


@record(java_class="bench.Customer")
@attrs.frozen
class Customer:
    """`visits` is widened, `city` is called `town`."""

    name: str
    town: Annotated[str, Field(aliases=["city"])]
    visits: int


@record(java_class="bench.Order")
@attrs.frozen
class Order:
    """`paid` is added."""

    customer: Customer
    id: int
    note: str | None
    total: float
    paid: bool = True


@record(java_class="bench.Side")
@attrs.frozen
class Side:
    """`customer` is widened, `voucher` added."""

    customer: int | None
    id: int | None
    item: str | None
    price: float | None
    time: int | None
    voucher: int | None = None


@record(java_class="bench.Totals")
@attrs.frozen
class Totals:
    """`units` is widened, `returned` added."""

    count: int | None
    highest: float | None
    paid: int | None
    seen: int | None
    units: int | None
    returned: int | None = None


AVRO = {
    "type": "record",
    "name": "bench.Rec",
    "fields": [
        {"name": "amount", "type": "double"},
        {"name": "count", "type": "long"},
        {"name": "id", "type": "long"},
        {"name": "region", "type": "string", "default": REGION},
        {"name": "tag", "type": ["null", "string"], "default": None},
        {"name": "title", "type": "string", "aliases": ["name"]},
    ],
}


S1 = job_of(int, ValueStateDescriptor(STATE, tuple[int, int]))
S2 = job_of(str, ValueStateDescriptor(STATE, Rec))
S2N = downtime_job
WIDE = S2N
S3 = job_of(str, ValueStateDescriptor(STATE, AvroSerializer(AVRO)))
MAP = job_of(int, MapStateDescriptor(STATE, str, Rec))
LIST = job_of(int, ListStateDescriptor(STATE, Rec))
NESTED = job_of(str, ValueStateDescriptor(STATE, Order))
TTL = job_of(str, ValueStateDescriptor(STATE, Rec, time_to_live=True))
JOIN = job_of(ROW_KEY, MapStateDescriptor(STATE, sql_rows.widened(sql_rows.SIDE, counted=True), Int32))
SIDE = job_of(ROW_KEY, ValueStateDescriptor(STATE, sql_rows.widened(sql_rows.SIDE)))
RECORD = job_of(ROW_KEY, ValueStateDescriptor(STATE, Side))
COUNTED = job_of(ROW_KEY, MapStateDescriptor(STATE, Side, Int32))
AGGREGATE = job_of(ROW_KEY, ValueStateDescriptor(STATE, sql_rows.widened(sql_rows.TOTALS)))
TOTALS = job_of(ROW_KEY, ValueStateDescriptor(STATE, Totals))
