"""336,776 flights: a bootstrap makes state of those up to a day; those after it come as a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from stateshift import Job, KeyedProcessFunction, Operator, Savepoint, StateSource, ValueStateDescriptor, bootstrap

DAY = 1_372_636_800
"""The first second of July 2013."""


@attrs.frozen
class Flight:
    tailnum: str
    flight: int
    at: int


class Counts(KeyedProcessFunction):
    """Yields the number of each flight among those of its aircraft."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Flight, ctx: Any) -> Iterator[tuple[str, int]]:
        self.count.update(self.count.value() + 1)
        yield value.tailnum, self.count.value()


def counts_of(flights: pa.Table) -> dict[str, int]:
    grouped = flights.group_by("tailnum").aggregate([("flight", "count")])
    return dict(zip(grouped["tailnum"].to_pylist(), grouped["flight_count"].to_pylist(), strict=True))


@pytest.mark.slow
def test_no_flight_is_counted_twice_and_none_is_missing(query, spark, root, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "examples")])
    from flights_history import read_flights

    flights = read_flights()
    flights = flights.filter(pc.is_valid(flights["tailnum"])).sort_by("at").select(["tailnum", "flight", "at"])
    live = query("tailnum string, flight long, at long")
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, flights.num_rows, 50_000)):
        pq.write_table(flights.slice(start, 50_000), folder / f"{number}.parquet")
    history = spark.read.parquet(str(folder)).where(f"at < {DAY}").groupBy("tailnum").count()
    job = Job([Operator("counts", key=str, states=[ValueStateDescriptor("count", int)])])
    source = StateSource("counts", "count", history, key_by="tailnum", value="count")
    bootstrap(tmp_path / "savepoint", job, [source], position={"at": DAY})

    live.run(
        lambda job, query: (
            job.stream(query.frame(per_batch=2).where(f"at >= {DAY}")).key_by("tailnum").process(Counts(), uid="counts")
        ),
        begin={"from_savepoint": tmp_path / "savepoint"},
    )

    counts, before = counts_of(flights), counts_of(flights.filter(pc.less(flights["at"], DAY)))
    entries = Savepoint.open(tmp_path / "state").operator("counts").state("count").read_entries()
    assert counts == {entry.key: entry.value for entry in entries}
    numbers = [(name, number) for name, most in counts.items() for number in range(before.get(name, 0) + 1, most + 1)]
    assert sorted(numbers) == sorted(live.results())
