"""Small streaming queries for tests of Spark's own checkpoints: rows in files, one batch for each run."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

SCHEMA = "a string, b string, w bigint, v int, at timestamp"
COLUMNS = ("a", "b", "w", "v", "at")


@attrs.define
class Stream:
    """A streaming source of files, and the checkpoint of a query on it."""

    spark: object
    folder: object
    batches: int = 0

    @property
    def checkpoint(self):
        return str(self.folder / "checkpoint")

    def rows(self, *rows, to="s"):
        """Write a batch of rows; later runs read it."""
        place = self.folder / to
        place.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=False))) for row in rows]
        (place / f"{self.batches}.json").write_text("\n".join(lines))
        self.batches += 1

    def source(self, name="s"):
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema(SCHEMA).json(str(self.folder / name))

    def late(self, name="s"):
        return self.source(name).withWatermark("at", "10 minutes")

    def writer(self, query, results=None, mode="update"):
        def collect(frame, _):
            found = frame.collect()  # a batch whose rows nobody takes is not committed
            if results is not None:
                results.extend(map(tuple, found))

        return (
            query.writeStream.outputMode(mode)
            .foreachBatch(collect)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
        )

    def run(self, query, mode="update"):
        """Run a query on what is new, and return its results in order."""
        results = []
        self.writer(query, results, mode).start().awaitTermination()
        return sorted(results, key=str)

    def saved(self):
        """Copy the checkpoint as it is now."""
        copy = self.folder / "saved"
        shutil.copytree(self.checkpoint, copy)
        return copy


@contextmanager
def settings(spark, **given):
    names = {name.replace("__", "."): value for name, value in given.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


__all__ = ["F", "Stream", "settings"]
