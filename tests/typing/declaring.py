"""What type checkers make of a job of a user: the test is that mypy and pyright find no error here (`make types`)."""

from __future__ import annotations

import dataclasses
import enum
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, assert_type

import attrs

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Array,
    AvroSerializer,
    Either,
    Field,
    Int32,
    Job,
    Left,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    PickleSerializer,
    ReducingStateDescriptor,
    Right,
    Row,
    StateTransform,
    TimerServiceDescriptor,
    TimeWindow,
    TypeSerializer,
    ValueStateDescriptor,
    enum_options,
    record,
    row_of,
    serializer_for,
)


@enum_options(default="OPEN")
class Status(enum.Enum):
    OPEN = 1


@record(java_class="com.acme.Account", aliases=("com.acme.old.Account",))
@attrs.frozen
class Account:
    id: int
    visits: Int32
    title: Annotated[str, Field(aliases=("name",))] = ""
    lines: Array[Int32] = attrs.field(factory=list[int])


@record(retired={"level": str})
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@record()
class Pair(NamedTuple):
    left: int
    right: str


# Decorated classes stay what they are: constructors, fields, members.
account = Account(1, 2, title="Ada")
assert_type(account, Account)
assert_type(account.visits, int)
assert_type(account.title, str)
assert_type(account.lines, list[int])
assert_type(Point(1).y, int)
assert_type(Pair(1, "one").right, str)
member: Status = Status.OPEN
Account("one", 2)  # type: ignore[arg-type]
"""The constructor is called as it was declared."""

# A serializer is of the type that its hint is.
assert_type(serializer_for(int), TypeSerializer[int])
assert_type(serializer_for(Account), TypeSerializer[Account])
assert_type(serializer_for(Status), TypeSerializer[Status])
assert_type(serializer_for(list[Point]), TypeSerializer[list[Point]])
assert_type(serializer_for(dict[str, Account]), TypeSerializer[dict[str, Account]])
assert_type(serializer_for(Row[int, str]), TypeSerializer[Row[int, str]])
assert_type(serializer_for(Either[int, str]), TypeSerializer[Either[int, str]])
assert_type(serializer_for(serializer_for(Pair)), TypeSerializer[Pair])
assert_type(serializer_for(Account | None), TypeSerializer[Any])
assert_type(serializer_for(None), TypeSerializer[Any])
narrow: TypeSerializer[int] = serializer_for(Int32)
array: TypeSerializer[list[int]] = serializer_for(Array[Int32])
assert_type(AvroSerializer.of(Point), AvroSerializer[Point])
assert_type(AvroSerializer('"long"'), AvroSerializer[Any])
assert_type(PickleSerializer(Point), PickleSerializer[Point])

# Values of our own generic types.
number: int = 7
row = Row(number, "seven" + str(number))
assert_type(row, Row[int, str])
either: Either[int, str] = Left(number)
other: Either[int, str] = Right("seven")
by_name: TypeSerializer[Any] = row_of({"id": int, "order total": float | None})
of_class: TypeSerializer[Any] = row_of(Point, stored=("x",))


def added(total: int, value: int) -> int:
    return total + value


class Mean(AggregateFunction[int, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


# A descriptor is of the type of its values.
accounts = ValueStateDescriptor("account", Account, Account(1, 2))
assert_type(accounts, ValueStateDescriptor[Account])
assert_type(accounts.value_serializer, TypeSerializer[Account])
assert_type(accounts.default_value, Account | None)
assert_type(ListStateDescriptor("points", Point), ListStateDescriptor[Point])
assert_type(
    ValueStateDescriptor("in-windows", Account, namespace=TimeWindow), ValueStateDescriptor[Account]
)  # the namespace has a type of its own
assert_type(MapStateDescriptor("by-name", str, Account), MapStateDescriptor[str, Account])
assert_type(ReducingStateDescriptor("sum", added, int), ReducingStateDescriptor[int])
assert_type(
    AggregatingStateDescriptor("mean", Mean(), tuple[int, int]),
    AggregatingStateDescriptor[tuple[int, int]],
)
assert_type(ValueStateDescriptor("row", serializer_for(Pair)), ValueStateDescriptor[Pair])
assert_type(ValueStateDescriptor("avro", AvroSerializer('"long"')), ValueStateDescriptor[Any])
of_texts: ReducingStateDescriptor[str] = ReducingStateDescriptor("sum", added, str)  # type: ignore[arg-type]
"""A function of other values is seen."""

# Every hint may stand where one may, also one that no checker takes for a class.
job = Job(
    [
        Operator(
            "accounts",
            key=Int32,
            states=[
                accounts,
                ValueStateDescriptor("optional", Account | None, time_to_live=True),
                ValueStateDescriptor("narrow", Int32),
                ValueStateDescriptor("annotated", Annotated[int, serializer_for(int)]),
                ListStateDescriptor("arrays", Array[Int32], former_time_to_live=timedelta(days=7)),
                MapStateDescriptor("maps", str, Account | None, converter=lambda value: value),
                ListStateDescriptor("changed", int, transform=StateTransform.from_value(lambda value: [value])),
            ],
            timers=[TimerServiceDescriptor("window-timers", namespace=TimeWindow)],
        ),
        Operator(
            "lists",
            list_states=(ListStateDescriptor("pending", Point),),
            broadcast_states=[MapStateDescriptor("rules", str, Status)],
        ),
    ]
)
assert_type(job.operators, tuple[Operator, ...])
assert_type(job.operators[0].key, TypeSerializer[Any] | None)
