"""A function on a stream of flights: it keeps an account of each aircraft, with the class of one version of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from stateshift import KeyedProcessFunction, ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stateshift.spark import StreamJob

UID = "account-state"
COLUMNS = "tailnum string, flight long"
MANY = 100


@attrs.frozen
class Flight:
    tailnum: str
    flight: int


class Accounts(KeyedProcessFunction):
    """Counts the flights of each aircraft, and yields those that have come to a hundred."""

    def __init__(self, account: type) -> None:
        self.account = account

    def open(self, runtime_context: Any) -> None:
        self.stored = runtime_context.get_state(ValueStateDescriptor("account", self.account))

    def process_element(self, flight: Flight, ctx: Any) -> Iterator[str]:
        before = self.stored.value() or self.account(flight.flight, flight.tailnum, 0)
        after = attrs.evolve(before, id=max(before.id, flight.flight), visits=before.visits + 1)
        self.stored.update(after)
        if after.visits == MANY:
            yield flight.tailnum


def read(spark: SparkSession, folder: str) -> DataFrame:
    """Return the flights in the files of a folder, two files a batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 2).parquet(folder)


def accounts(job: StreamJob, flights: DataFrame, account: type) -> DataFrame:
    """Return the aircraft that have come to a hundred flights."""
    return job.stream(flights).key_by("tailnum").process(Accounts(account), uid=UID)
