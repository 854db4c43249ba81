"""Version 2: fields added, removed, renamed and widened, also in a nested record; and its state computed from scratch.

Aircraft  distance -> miles, int -> long; flights int -> long; carrier gone; grounded and alerts new
Leg       delay int -> long; gate new
Delay     minutes int -> long
Flight    distance -> miles, int -> long; hour gone; checked new
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import attrs
from flights_v1 import RECENT, job_of

from stateshift import Field, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@record(aliases=("flights_v1.Leg",))
@attrs.frozen
class Leg:
    origin: str
    dest: str
    delay: int | None
    gate: str | None = None


@record(aliases=("flights_v1.Aircraft",))
@attrs.frozen
class Aircraft:
    flights: int
    miles: Annotated[int, Field(aliases=("distance",))]
    last: Leg
    grounded: bool = False
    alerts: int = 0


@record(aliases=("flights_v1.Delay",))
@attrs.frozen
class Delay:
    at: int
    minutes: int


@record(aliases=("flights_v1.Flight",))
@attrs.frozen
class Flight:
    tailnum: str
    origin: str
    dest: str
    miles: Annotated[int, Field(aliases=("distance",))]
    delay: int | None
    checked: bool = False


job = job_of(Aircraft, Delay, Flight, int)

State = dict[Any, Any]


def state_of(flights: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], State]:
    """Fold this version's own code over the history: by operator and state, the value of each key.

    It shares nothing with version 1, with Spark or with the migration, and so can check whether they are right.
    """
    aircraft: State = {}
    destinations: State = {}
    delays: State = {}
    by_flight: State = {}
    for row in sorted(flights, key=lambda row: (row["at"], row["carrier"], row["flight"])):
        tailnum, dest, miles, delay = row["tailnum"], row["dest"], row["distance"], row["arr_delay"]
        leg = Leg(row["origin"], dest, delay)
        before = aircraft.get(tailnum) or Aircraft(0, 0, leg)
        aircraft[tailnum] = attrs.evolve(before, flights=before.flights + 1, miles=before.miles + miles, last=leg)
        visits = destinations.setdefault(tailnum, {})
        visits[dest] = visits.get(dest, 0) + 1
        if delay is not None:
            delays[tailnum] = [*delays.get(tailnum, [])[1 - RECENT :], Delay(row["at"], delay)]
        by_flight[row["carrier"], row["flight"], row["at"]] = Flight(tailnum, row["origin"], dest, miles, delay)
    return {
        ("aircraft", "aircraft"): aircraft,
        ("aircraft", "destinations"): destinations,
        ("aircraft", "recent-delays"): delays,
        ("flights", "flight"): by_flight,
    }
