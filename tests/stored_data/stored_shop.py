"""A user's job, whose state, plans and history are stored data; beside each folder of that lies the job as it was."""

from __future__ import annotations

from typing import Any

import attrs

import stateshift as ss


@attrs.frozen
class Account:
    name: str
    visits: ss.Int32


@ss.record(aliases=["stored_shop.Account"])
@attrs.frozen
class AccountNow:
    name: str
    visits: int
    email: str | None = None


@attrs.frozen
class Basket:
    """A class of the user's with values of the library in it."""

    owner: str
    things: list[Any]
    by_name: dict[str, Any]


@ss.record(aliases=["stored_shop.Basket"])
@attrs.frozen
class BasketNow:
    owner: str


@attrs.frozen
class Temperature:
    degrees: float


@attrs.frozen
class TemperatureSerializer(ss.TypeSerializer[Temperature]):
    def serialize(self, value, target):
        target.write_short(round(value.degrees))

    def deserialize(self, source):
        return Temperature(float(source.read_short()))

    def snapshot_configuration(self):
        return TemperatureSnapshot()


@attrs.define
class TemperatureSnapshot(ss.TypeSerializerConfigSnapshot[Temperature]):
    """It is registered by who writes: who reads finds nothing but the stored serializer."""

    snapshot_id = "stateshift/stored-temperature"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return TemperatureSerializer()


def degrees(values):
    return [value if isinstance(value, float) else value.degrees for value in values]


HELD = (
    *(ss.Record, ss.RowKind, ss.Instant, ss.LocalDate, ss.LocalTime, ss.LocalDateTime, ss.JavaDate, ss.SqlDate),
    *(ss.SqlTime, ss.SqlTimestamp, ss.Left, ss.Right, ss.TimeWindow, ss.GlobalWindow, ss.VoidNamespace, ss.Timer),
    *(ss.PickledValue, ss.TtlValue, ss.Row),
)
"""What may lie in a basket."""


def _accounts(account, visits, note):
    states = [
        ss.ValueStateDescriptor("account", account),
        ss.ListStateDescriptor("visits", visits),
        ss.MapStateDescriptor("notes", str, note),
        ss.ValueStateDescriptor("seen", ss.Instant),
    ]
    return ss.Job([ss.Operator("accounts", key=int, states=states)])


accounts = _accounts(Account, ss.Int32, bytes)
accounts_widened = _accounts(Account, int, str)
accounts_now = _accounts(AccountNow, int, str)


def opaque_with(*more):
    states = [
        ss.ValueStateDescriptor("basket", ss.PickleSerializer(Basket, references=HELD)),
        ss.ValueStateDescriptor("clouded", ss.CloudPickleSerializer(Basket, references=HELD)),
        ss.ValueStateDescriptor("moment", ss.PickleSerializer(ss.Instant)),
        ss.ValueStateDescriptor("kind", ss.RowKind),
        ss.ValueStateDescriptor("raw", bytes),
        *more,
    ]
    return ss.Job([ss.Operator("opaque", key=str, states=states)])


opaque = opaque_with()
opaque_now = ss.Job(
    [
        ss.Operator(
            "opaque",
            key=str,
            states=[
                ss.ValueStateDescriptor("basket", BasketNow),
                ss.ValueStateDescriptor("raw", Account, converter=ss.from_pickled(Account)),
                ss.ValueStateDescriptor("temperatures", list[float], converter=degrees),
            ],
        )
    ]
)
