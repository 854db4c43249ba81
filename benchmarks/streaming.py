"""Keyed state on Spark streaming: ours beside Spark's own aggregation and `transformWithState`.

    python -m benchmarks.streaming [--rows 1000000] [--keys 100000] [--batches 4] [--ways native,ours] [--rounds 1]

Word count: each batch has `rows` rows with one of `keys` words. Every way is a query of its own in a process of its
own, with two partitions on two cores. The figure is the CPU time of the whole process tree (JVM and workers) for a
batch: the median of all batches but the first, with the wall time beside it. Each round runs all ways in turn. The
results that the sink gets in a batch are counted, and ways are compared with those that have as many. The ways whose
names begin with `small-` are the same with 100 rows in each of 40 batches, of which the first half only warms up. At
the end the time of an access of state in a function, and that of its serializer alone, in this process.

    native      groupBy("word").count(): no Python; one result for each key of a batch
    ours        a KeyedProcessFunction with a ValueState, RocksDB; one result for each key of a batch, by a timer
    tws         transformWithState with the row API: one get, one update and one result for each key of a batch
    silent      ours without timers and results
    native-silent, tws-silent   those of Spark without results
    each        ours with one result for each row, as in Flink, and without timers
    record      five fields of a class as the state, one result for each row
    tws-record  the same with a struct of five fields
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import attrs

from .machine import arguments_of, facts, print_table, scratch_folder, told

WAYS = (
    "native", "ours", "tws", "native-silent", "silent", "tws-silent", "each", "record", "tws-record",
    "small-native", "small-ours", "small-tws",
)  # fmt: skip
SMALL = "small-"
SMALL_ROWS, SMALL_BATCHES = 100, 40
_TICKS = os.sysconf("SC_CLK_TCK")
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def cpu_of_tree(root: int) -> float:
    """Return the CPU seconds of a process and of all that it has started."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))  # with the ended children of each
    total, waiting = 0, [root]
    while waiting:  # a child may have a smaller number than its parent: numbers are used again
        process = waiting.pop()
        total += used.get(process, 0)
        waiting += [child for child, parent in parents.items() if parent == process]
    return total / _TICKS


def main() -> int:
    """Measure the ways in turn, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1, help="how often all ways run")
    parser.add_argument("--ways", default=",".join(WAYS), help="the ways to measure, with commas between")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments = arguments_of(parser)
    if arguments.way:
        batches = SMALL_BATCHES if arguments.way.startswith(SMALL) else arguments.batches
        print(json.dumps(run(arguments.way, arguments.place, batches)))
        return 0
    with scratch_folder() as folder:
        write_input(folder / "input", arguments.rows, arguments.keys, arguments.batches)
        write_input(folder / "small-input", SMALL_ROWS, SMALL_ROWS, SMALL_BATCHES)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in arguments.ways.split(",")}
        for _ in range(arguments.rounds):
            for way, measured in found.items():
                batches = _in_process(way, folder, arguments)
                print(way, batches, file=sys.stderr)
                measured.extend(batches[SMALL_BATCHES // 2 if way.startswith(SMALL) else 1 :] or batches)
    rows: list[dict[str, Any]] = []
    for way, measured in found.items():
        cpu, wall, results = (statistics.median(one[part] for one in measured) for part in ("cpu", "wall", "results"))
        rows.append({"way": way, "results": int(results), "cpu_s": round(cpu, 3), "wall_s": round(wall, 3)})
    for row in rows:
        for other in ("native", "tws"):
            of = next((one for one in rows if _is_base(one, row, other)), None)
            row[f"of_{other}"] = round(row["cpu_s"] / of["cpu_s"], 2) if of else None
    access = {name: round(us, 2) for name, us in accesses().items()}
    shown = {**facts(), "rows": arguments.rows, "keys": arguments.keys}
    if arguments.json:
        print(json.dumps({"machine": shown, "ways": rows, "access_us": access}, indent=1))
    else:
        print(*(f"{name} {value}" for name, value in shown.items()), sep=", ")
        print_table("Word count, a batch", list(rows[0]), [[str(value) for value in row.values()] for row in rows])
        print("value and update of a key in the cache, us of an access:", told(access))
    return 0


def _is_base(one: dict[str, Any], row: dict[str, Any], way: str) -> bool:
    """Whether a row of the table is of a way of Spark with as many results, and so to be compared with another."""
    small = row["way"].startswith(SMALL)
    names = {SMALL + way} if small else {way, f"{way}-silent", f"{way}-record"}
    return one["way"] in names and one["results"] == row["results"]


def accesses(count: int = 100_000) -> dict[str, float]:
    """Return the CPU microseconds of `value` and of `update` for a key of this batch, and of the serializer alone."""
    from stateshift import EmbeddedRocksDBStateBackend, ValueStateDescriptor, serializer_for
    from stateshift.serializers.views import DataInputView, DataOutputView

    found = {}
    for name, hint, value in (("int", int, 7), ("record", Record, Record("word", 1, 2, 0.5, even=True))):
        serializer, target = serializer_for(hint), DataOutputView()
        serializer.serialize(value, target)
        data = target.taken()
        backend = EmbeddedRocksDBStateBackend(serializer_for(str), 128, range(128))
        state: Any = backend.get_or_create_keyed_state(ValueStateDescriptor("state", hint))
        backend.set_current_key("word")
        begin = time.thread_time()
        for _ in range(count):
            state.value()
            state.update(value)
        ours = time.thread_time() - begin
        begin = time.thread_time()
        for _ in range(count):
            serializer.deserialize(DataInputView(data))
            serializer.serialize(value, target)
            target.taken()
        alone = time.thread_time() - begin
        found |= {name: ours / count / 2 * 1e6, f"{name}, serializer alone": alone / count / 2 * 1e6}
        backend.dispose()
    return found


def _in_process(way: str, folder: Path, arguments: argparse.Namespace) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.streaming", "--way", way, "--place", str(folder)]
    command += ["--batches", str(arguments.batches)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for kept in ("state", "checkpoint"):
        shutil.rmtree(folder / f"{way}-{kept}", ignore_errors=True)  # the next round begins anew
    found: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_input(place: Path, rows: int, keys: int, batches: int) -> None:
    """Write a file of words for each batch, in two parts: Spark then reads it in two tasks."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    for batch in range(batches):
        for part in range(2):
            numbers = random.integers(0, keys, rows // 2)
            words = pa.DictionaryArray.from_arrays(numbers, pa.array([f"word {key:06d}" for key in range(keys)]))
            folder = place / "rows"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"word": words.cast(pa.string())}), folder / f"{batch:03d}-{part}.parquet")


def run(way: str, folder: Path, batches: int) -> list[dict[str, float]]:
    """Run a query over all batches; return CPU and wall seconds of each."""
    from stateshift.spark.sessions import session

    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    if way.removeprefix(SMALL).startswith("tws"):
        conf["spark.sql.streaming.stateStore.providerClass"] = _ROCKSDB
    spark = session("local[2]", conf=conf)
    place = str(folder / way)
    given = str(folder / ("small-input" if way.startswith(SMALL) else "input") / "rows")
    rows = spark.readStream.schema("word string").option("maxFilesPerTrigger", 2).parquet(given)
    way = way.removeprefix(SMALL)
    seen = [(cpu_of_tree(os.getpid()), time.perf_counter(), 0)]

    def note(df: Any, _: int) -> None:
        from pyspark.sql import Observation, functions

        counted = Observation()
        df.observe(counted, functions.count(functions.lit(1)).alias("results")).write.format("noop").mode(
            "overwrite"
        ).save()
        seen.append((cpu_of_tree(os.getpid()), time.perf_counter(), counted.get["results"]))

    if way in _FUNCTIONS:
        from stateshift.spark import StreamJob

        job = StreamJob(f"{place}-state", f"{place}-checkpoint", slots=2)
        results = job.stream(rows).key_by("word").process(_FUNCTIONS[way](), uid="count", output_type=_OUTPUTS[way])
        query = job.start(results.writeStream.foreachBatch(note), available_now=True)
    else:
        writer = _plain(way, rows).writeStream.outputMode("update").option("checkpointLocation", f"{place}-checkpoint")
        query = writer.foreachBatch(note).trigger(availableNow=True).start()
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    pairs = islice(pairwise(seen), batches)
    return [{"cpu": after[0] - before[0], "wall": after[1] - before[1], "results": after[2]} for before, after in pairs]


def _plain(way: str, rows: Any) -> Any:
    if way == "native":
        return rows.groupBy("word").count()
    if way == "native-silent":
        return rows.groupBy("word").count().where("count < 0")
    processor, schema = {
        "tws": (Counter, "word string, count long"),
        "tws-silent": (Silent, "word string, count long"),
        "tws-record": (Recorder, "word string, n long"),
    }[way]
    return rows.groupBy("word").transformWithState(processor(), schema, "update", "none")


@attrs.frozen
class Record:
    """A state of five fields."""

    word: str
    count: int
    first: int
    total: float
    even: bool


def _functions() -> tuple[dict[str, Any], dict[str, Any]]:
    from stateshift import KeyedProcessFunction, ValueStateDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

        def process_element(self, value: str, ctx: Any) -> Any:
            self.count.update(self.count.value() + 1)

    class OfKeys(Count):
        def process_element(self, value: str, ctx: Any) -> Any:
            self.count.update(self.count.value() + 1)
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time())

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
            yield self.count.value()

    class Each(Count):
        def process_element(self, value: str, ctx: Any) -> Iterator[int]:
            count = self.count.value() + 1
            self.count.update(count)
            yield count

    class Records(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.record = runtime_context.get_state(ValueStateDescriptor("record", Record))

        def process_element(self, value: str, ctx: Any) -> Iterator[Record]:
            found = self.record.value() or Record(value, 0, 0, 0.0, even=True)
            count = found.count + 1
            after = Record(value, count, found.first, found.total + 0.5, count % 2 == 0)
            self.record.update(after)
            yield after

    functions = {"ours": OfKeys, "silent": Count, "each": Each, "record": Records}
    return functions, {"ours": int, "silent": int, "each": int, "record": Record}


_FUNCTIONS, _OUTPUTS = _functions()


def _processors() -> tuple[Any, Any, Any]:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's
            count = (self.count.get()[0] if self.count.exists() else 0) + sum(1 for _ in rows)
            self.count.update((count,))
            yield Row(word=key[0], count=count)

        def close(self) -> None:
            pass

    class Silent(Counter):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's
            for _ in super().handleInputRows(key, rows, timerValues):
                pass
            return iter(())

    class Recorder(Counter):
        def init(self, handle: Any) -> None:
            schema = "word string, count long, first long, total double, even boolean"
            self.count = handle.getValueState("record", schema)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's
            found = self.count.get() if self.count.exists() else (key[0], 0, 0, 0.0, True)
            for _ in rows:
                found = (key[0], found[1] + 1, found[2], found[3] + 0.5, found[1] % 2 == 1)
                yield Row(word=key[0], n=found[1])
            self.count.update(found)

    return Counter, Silent, Recorder


try:
    Counter, Silent, Recorder = _processors()
except ImportError:  # without Spark only the help is shown
    Counter = Silent = Recorder = None


if __name__ == "__main__":
    raise SystemExit(main())
