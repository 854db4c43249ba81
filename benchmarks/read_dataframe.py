"""A state as a DataFrame, side by side: the data source, one that only hands over Arrow batches, and one by objects.

    python -m benchmarks.read_dataframe [--entries 2000000] [--rounds 5] [--shape S2] [--json]

All three give the same columns of the same state in the same number of tasks, and Spark takes all rows of each and
writes them nowhere. `ready` hands over batches that were made before and lie in files: what any source in Python takes
at least. `objects` reads each entry as an object and makes columns of those, from a twentieth of the entries. Figures
are medians of the rounds, in which the three take turns; two rounds before them warm up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from stateshift.spark import register
from stateshift.spark.sessions import own_session
from stateshift.state.columnar.table import StateTable
from stateshift.state.savepoint.reader import Savepoint

from .machine import arguments_of, facts, print_table, scratch_folder, told
from .shapes import SHAPES, STATE, UID, write_savepoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

WARM_UP = 2
SLOWER = 20
TASKS_PER_CORE = 2
WAYS = ("savepoint", "ready", "objects")


class _Files(DataSource):
    """Hands over the batches in the files of a folder, a task each."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        with pa.memory_map(f"{self.options['path']}/0.arrow") as source:
            return from_arrow_schema(pa.ipc.open_file(source).schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _FilesReader(self.options["path"], int(self.options["files"]))


class _FilesReader(DataSourceReader):
    def __init__(self, place: str, files: int) -> None:
        self.place, self.files = place, files

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(index) for index in range(self.files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(f"{self.place}/{partition.value}.arrow") as source:
            file = pa.ipc.open_file(source)
            for index in range(file.num_record_batches):
                yield file.get_batch(index)


class _Objects(_Files):
    """Reads each entry as an object."""

    @classmethod
    def name(cls) -> str:
        return "objects"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ObjectsReader(_table(self.options["savepoint"]), int(self.options["files"]))


class _ObjectsReader(DataSourceReader):
    def __init__(self, table: StateTable, tasks: int) -> None:
        self.table, self.tasks = table, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(piece) for piece in self.table.slices(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.table.read(partition.value, singly=True)


def _table(place: str) -> StateTable:
    return StateTable.of(Savepoint.open(place).operator(UID), STATE)


def ready_files(place: Path, folder: Path, tasks: int) -> int:
    """Write the batches of each slice to a file; give how many there are."""
    table = _table(str(place))
    folder.mkdir()
    pieces = table.slices(tasks)
    for index, piece in enumerate(pieces):
        with pa.ipc.new_file(str(folder / f"{index}.arrow"), table.schema) as writer:
            for batch in table.read(piece):
                writer.write_batch(batch)
    return len(pieces)


def measure(spark: SparkSession, shape: str, entries: int, scratch: Path, rounds: int) -> dict[str, Any]:
    """Time the three ways; give seconds for a million rows."""
    tasks = spark.sparkContext.defaultParallelism * TASKS_PER_CORE
    few = entries // SLOWER
    frames = {}
    for name, count in (("all", entries), ("few", few)):
        place, files = scratch / name, scratch / f"{name}-files"
        write_savepoint(SHAPES[shape], count, place)
        number = ready_files(place, files, tasks)
        ways = WAYS[:2] if name == "all" else WAYS[2:]
        for way in ways:
            reader = spark.read.format(way)
            if way == "savepoint":
                frames[way] = reader.option("operator", UID).option("state", STATE).load(str(place))
            else:
                frames[way] = reader.options(files=number, savepoint=str(place)).load(str(files))
    rows = {way: frame.count() for way, frame in frames.items()}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(WARM_UP + rounds):
        for way, frame in frames.items():
            start = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            if number >= WARM_UP:
                seconds[way].append((time.perf_counter() - start) / rows[way] * 1e6)
    return {way: statistics.median(seconds[way]) for way in WAYS} | {"rows": rows}


def main() -> int:
    """Print the rates, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="S2", choices=SHAPES)
    arguments = arguments_of(parser)
    with scratch_folder(arguments.folder) as scratch, own_session() as spark:
        register(spark)
        for source in (_Files, _Objects):
            spark.dataSource.register(source)
        found = measure(spark, arguments.shape, arguments.entries, scratch, arguments.rounds)
    found["of_ready"] = found["ready"] / found["savepoint"]
    found["of_objects"] = found["objects"] / found["savepoint"]
    machine = facts(entries=arguments.entries, shape=arguments.shape, rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps({"machine": machine, **found}, indent=2))
        return 0
    lines = [
        (way, f"{found['rows'][way]:,}", f"{1 / found[way]:.2f}", f"{found['ready'] / found[way]:.2f}") for way in WAYS
    ]
    print_table(
        f"a DataFrame of {arguments.shape}",
        ("way", "rows", "million rows/s", "of ready"),
        lines,
        markdown=arguments.markdown,
    )
    print(f"savepoint: {found['of_ready']:.0%} of ready, {found['of_objects']:.1f} times objects")
    print(told(machine))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
