"""A DataFrame as a savepoint, side by side: `df.write`, `bootstrap`, and Spark's own write of the same rows as Parquet.

    python -m benchmarks.write_dataframe [--entries 1000000] [--rounds 3] [--shape S2] [--json]

All three take the same rows from the same Parquet files. Both of ours bring the rows to their key groups, sort them by
key and prove what they wrote, which Parquet does not ask for. Figures are medians of the rounds, in which the ways take
turns; one round before them warms up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stateshift.spark import register
from stateshift.spark.bootstrap import StateSource, bootstrap
from stateshift.spark.sessions import own_session

from .machine import arguments_of, facts, print_table, scratch_folder, told
from .shapes import SHAPES
from .states_before import STATE, UID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FILES = 8
WAYS = ("parquet", "df.write", "bootstrap")


def rows_of(spark: SparkSession, shape: str, entries: int, folder: Path) -> DataFrame:
    """Return the rows of a shape, from Parquet files."""
    random = np.random.default_rng(2)
    folder.mkdir()
    for index, numbers in enumerate(np.array_split(np.arange(entries, dtype=np.int64), FILES)):
        table = pa.Table.from_pydict(SHAPES[shape].table(random, np.repeat(numbers, SHAPES[shape].rows)))
        pq.write_table(table, folder / f"{index}.parquet")
    return spark.read.parquet(str(folder))


def ways_of(shape: str, rows: DataFrame) -> dict[str, Callable[[str], Any]]:
    """Return what writes the rows to a place, by the name of the way."""
    job, columns = SHAPES[shape].before(), SHAPES[shape].columns
    module = f"{__package__}.states_before:{shape.upper()}"
    writer = keyed(rows, columns).write.format("savepoint").mode("append")
    return {
        "parquet": rows.write.parquet,
        "df.write": writer.options(operator=UID, state=STATE, job=module).save,
        "bootstrap": lambda place: bootstrap(place, job, StateSource(UID, STATE, rows, **columns)),
    }


def keyed(rows: DataFrame, columns: dict[str, Any]) -> DataFrame:
    """Return the rows with the columns that `df.write` takes."""
    from pyspark.sql import functions as f

    if "value" in columns:
        return rows.select("key", "value")
    others = [name for name in rows.columns if name not in columns.values()]
    user_key = [columns["user_key"]] if "user_key" in columns else []
    return rows.select("key", *[f.col(name).alias("user_key") for name in user_key], f.struct(*others).alias("value"))


def main() -> int:
    """Print the rates, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="S2", choices=("S1", "S2", "wide", "map", "nested"))
    arguments = arguments_of(parser)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with scratch_folder(arguments.folder) as scratch, own_session() as spark:
        register(spark)
        ways = ways_of(arguments.shape, rows_of(spark, arguments.shape, arguments.entries, scratch / "rows"))
        for number in range(1 + arguments.rounds):
            for way, write in ways.items():
                start = time.perf_counter()
                write(str(scratch / f"{way}-{number}"))
                if number:
                    seconds[way].append(time.perf_counter() - start)
    found = {way: statistics.median(times) for way, times in seconds.items()}
    machine = facts(entries=arguments.entries, shape=arguments.shape, rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps({"machine": machine, "seconds": found}, indent=2))
        return 0
    lines = [
        (
            way,
            f"{found[way]:.1f}",
            f"{arguments.entries / found[way] / 1e6:.2f}",
            f"{found[way] / found['parquet']:.1f}",
        )
        for way in WAYS
    ]
    print_table(
        f"a DataFrame of {arguments.shape} written",
        ("way", "seconds", "million rows/s", "times parquet"),
        lines,
        markdown=arguments.markdown,
    )
    print(told(machine))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
