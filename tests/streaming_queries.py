"""A query of Spark in a folder: its input and output files, its state and its checkpoint."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stateshift.spark.streaming.carriers import APPLY_IN_PANDAS, TRANSFORM
from stateshift.spark.streaming.job import StreamJob
from stateshift.spark.streaming.upgrade import UPGRADING
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.storage.files import Folder

KINDS = {"string": pa.string(), "long": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}

BY_CARRIER = pytest.mark.parametrize("carrier", [APPLY_IN_PANDAS, pytest.param(TRANSFORM, marks=pytest.mark.faults)])
"""For tests that take long by `transformWithState`, which starts a process for each query; `make faults` has these."""


class Query:
    """Files of a query.

    Args:
        spark: The session.
        place: The folder of all.
        columns: The columns of the input, such as "user string, amount long".
        state: The state directory; "": a folder beside the others.
        options: Those of the job.
    """

    def __init__(self, spark, place, columns, *, state="", **options):
        self.state, self.checkpoint = state, ""
        self.spark, self.place, self.columns, self.options = spark, Path(place), columns, options
        self.schema = pa.schema([(name, KINDS[kind]) for name, kind in (one.split() for one in columns.split(", "))])

    def feed(self, *rows, into="in", schema=None):
        """Write a file of input, which is a batch: tuples of values."""
        schema = schema or self.schema
        folder = self.place / into
        folder.mkdir(parents=True, exist_ok=True)
        hidden, number = folder / f".{uuid.uuid4().hex}", len(list(folder.glob("*.parquet")))
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(named, schema), hidden)
        written_s = 1_600_000_000 + number
        os.utime(hidden, (written_s, written_s))  # Spark takes the files by their times
        hidden.rename(folder / f"{number:05}.parquet")

    def frame(self, folder="in", columns=None, per_batch=1):
        """Return the files of a folder as a streaming DataFrame."""
        (self.place / folder).mkdir(parents=True, exist_ok=True)
        reader = self.spark.readStream.schema(columns or self.columns).option("maxFilesPerTrigger", per_batch)
        return reader.parquet(str(self.place / folder))

    def job(self, **options):
        """Return a new job on the state and the checkpoint."""
        return StreamJob(
            self._state, self.checkpoint or self.place / "checkpoint", **{"slots": 2, **self.options, **options}
        )

    def start(self, job, results, **options):
        """Start the query of some results."""
        return job.start(self.writer(results), **options)

    def run(self, build, *, on_incompatible="refuse", options=UPGRADING, begin=None, **of_job):
        """Run a query until all files are processed, and return its job: `build(job, query)` returns the results.

        `begin` has the options of a start from a savepoint.
        """
        job = self.job(**of_job)
        how = {"available_now": True, "on_incompatible": on_incompatible, "options": options, **(begin or {})}
        query = self.start(job, build(job, self), **how)
        query.awaitTermination()
        state = Folder.at(self._state)
        while any(name.startswith("_claim-") for name in state.names()):  # it is released a moment later
            time.sleep(0.01)
        return job

    def drain(self, build, **of_job):
        """Drain a query that has ended, and return its job: `build(job, query)` returns the results."""
        job = self.job(**of_job)
        job.drain(self.writer(build(job, self)))
        return job

    def writer(self, results):
        """Return what writes the results of a query."""
        return results.writeStream.format("parquet").option("path", str(self.place / "out"))

    def results(self, *columns):
        """Return the rows that the sink has, sorted: those of all finished batches."""
        found = self.spark.read.parquet(str(self.place / "out"))
        return sorted((tuple(row) for row in found.select(*columns or "*").collect()), key=repr)

    @property
    def _state(self):
        return self.state or str(self.place / "state")

    @property
    def directory(self):
        """The state directory."""
        return StateDirectory.open(Folder.at(self._state))
