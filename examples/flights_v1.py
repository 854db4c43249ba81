"""Version 1 of a job that watches aircraft and flights, and how its state is made from the history of flights."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    StateSource,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

RECENT = 10


@attrs.frozen
class Leg:
    origin: str
    dest: str
    delay: Int32 | None


@attrs.frozen
class Aircraft:
    carrier: str
    flights: Int32
    distance: Int32
    last: Leg


@attrs.frozen
class Delay:
    at: int
    minutes: Int32


@attrs.frozen
class Flight:
    tailnum: str
    origin: str
    dest: str
    distance: Int32
    hour: Int32
    delay: Int32 | None


def job_of(aircraft: type, delay: type, flight: type, visits: object) -> Job:
    """The operators and states of the job; they are the same for every version of the classes."""
    return Job(
        [
            Operator(
                "aircraft",
                key=str,
                states=[
                    ValueStateDescriptor("aircraft", aircraft),
                    MapStateDescriptor("destinations", str, visits),
                    ListStateDescriptor("recent-delays", delay),
                ],
            ),
            Operator("flights", key=tuple[str, int, int], states=[ValueStateDescriptor("flight", flight)]),
        ]
    )


job = job_of(Aircraft, Delay, Flight, Int32)


def recent_delays(rows: Iterable[Row]) -> list[Delay]:
    """The last delays of an aircraft, the newest last; a cancelled flight has none."""
    return list(deque((Delay(row.at, row.arr_delay) for row in rows if row.arr_delay is not None), maxlen=RECENT))


def sources(flights: DataFrame) -> list[StateSource]:
    """Say what of the history becomes which state. Flights of unknown aircraft must have been left out."""
    from pyspark.sql import functions as f

    order = f.struct("at", "carrier", "flight")
    leg = f.struct("origin", "dest", f.col("arr_delay").alias("delay"))
    aircraft = flights.groupBy("tailnum").agg(
        f.max_by("carrier", order).alias("carrier"),
        f.count("*").alias("flights"),
        f.sum("distance").alias("distance"),
        f.max_by(leg, order).alias("last"),
    )
    destinations = flights.groupBy("tailnum", "dest").agg(f.count("*").alias("visits"))
    by_time = ["at", "carrier", "flight"]
    return [
        StateSource("aircraft", "aircraft", aircraft, key_by="tailnum"),
        StateSource("aircraft", "destinations", destinations, key_by="tailnum", user_key="dest", value="visits"),
        StateSource(
            "aircraft",
            "recent-delays",
            flights.select("tailnum", "arr_delay", *by_time),
            key_by="tailnum",
            order_by=by_time,
            aggregate=recent_delays,
        ),
        StateSource("flights", "flight", flights, key_by=["carrier", "flight", "at"], value={"delay": "arr_delay"}),
    ]
