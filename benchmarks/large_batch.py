"""A batch far above the memory of Spark, ten million keys, a million timers: how much memory a query of ours takes.

    python -m benchmarks.large_batch [--gigabytes 5] [--keys 10000000] [--timers 1000000] [--ways batch,keys,timers]

Each way is a query over files in a process of its own, on two cores. Memory is the largest that a process of the query
ever had (VmHWM): Java's, and that of the largest Python worker.

    batch   one batch of records of a thousand bytes, of which one slot gets 90 %; each is counted by its key
    keys    one slot; each key comes once in the first batch and a hundredth of the keys in the second one
    timers  one slot; a timer of event time for each of a million keys; all fire in the second batch, in their order
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .machine import arguments_of, facts, peak_bytes, print_table, scratch_folder, told

WAYS = ("batch", "keys", "timers")
RECORD_BYTES = 1000
_RECORDS_IN_FILE = 200_000
_KEYS_IN_FILE = 1_000_000
_BATCH_KEYS = 100_000
_TEXTS = 64 << 20
_LATER = 1 << 40
"""How much later than its row a timer is, in milliseconds: later than all rows but the last one."""


def main() -> int:
    """Measure the ways in turn, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0, help="the size of the records of `batch`")
    parser.add_argument("--keys", type=int, default=10_000_000, help="the number of keys of `keys`")
    parser.add_argument("--timers", type=int, default=1_000_000, help="the number of timers of `timers`")
    parser.add_argument("--ways", default=",".join(WAYS), help="the ways to measure, with commas between")
    parser.add_argument("--heap", default="1g", help="the memory of Java")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments = arguments_of(parser)
    if arguments.way:
        print(json.dumps(run(arguments.way, arguments.place, arguments.heap)))
        return 0
    rows = []
    for way in arguments.ways.split(","):
        with scratch_folder(
            arguments.folder or Path(tempfile.gettempdir())
        ) as folder:  # a disk, since memory is measured
            if way == "batch":
                size = write_records(folder / "rows", int(arguments.gigabytes * 1e9 / RECORD_BYTES))
            elif way == "keys":
                size = write_keys(folder / "rows", arguments.keys)
            else:
                size = write_times(folder / "rows", arguments.timers)
            command = [sys.executable, "-m", "benchmarks.large_batch", "--way", way, "--place", str(folder)]
            done = subprocess.run([*command, "--heap", arguments.heap], check=True, stdout=subprocess.PIPE, text=True)
            rows.append({"way": way, "rows": size, **json.loads(done.stdout.splitlines()[-1])})
            print(way, rows[-1], file=sys.stderr)
    if arguments.json:
        print(json.dumps({"machine": facts(heap=arguments.heap), "ways": rows}, indent=1))
    else:
        print(told(facts(heap=arguments.heap)))
        table = [[str(value) for value in row.values()] for row in rows]
        print_table("Large batches", list(rows[0]), table, markdown=arguments.markdown)
    return 0


def write_records(place: Path, records: int) -> int:
    """Write records of a thousand bytes, 90 % of them with keys of one of two slots; return their number."""
    import numpy as np
    import pyarrow as pa

    from stateshift import serializer_for
    from stateshift.state.key_groups import key_group, key_hasher

    hashed = key_hasher(serializer_for(int))
    groups = np.array([key_group(hashed(key), 128) for key in range(_BATCH_KEYS)])
    slots = np.flatnonzero(groups < 64), np.flatnonzero(groups >= 64)
    random = np.random.default_rng(1)
    texts = random.integers(33, 127, _TEXTS, dtype=np.uint8).tobytes().decode()
    place.mkdir()
    for first in range(0, records, _RECORDS_IN_FILE):
        count = min(_RECORDS_IN_FILE, records - first)
        keys = np.where(random.random(count) < 0.9, random.choice(slots[0], count), random.choice(slots[1], count))
        starts = random.integers(0, _TEXTS - RECORD_BYTES, count).tolist()
        values = [texts[start : start + RECORD_BYTES - 16] for start in starts]
        _write(place / f"{first:012d}.parquet", pa.table({"key": keys, "text": values}))
    return records


def write_keys(place: Path, keys: int) -> int:
    """Write each key once, and a hundredth of them again as the last file; return the number of rows."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)
    place.mkdir()
    for first in range(0, keys, _KEYS_IN_FILE):
        numbers = np.arange(first, min(first + _KEYS_IN_FILE, keys))
        _write(place / f"{first:012d}.parquet", pa.table({"key": numbers, "text": [" " * 80] * len(numbers)}))
    again = random.choice(keys, keys // 100, replace=False)
    _write(place / "again.parquet", pa.table({"key": again, "text": [" " * 80] * len(again)}))
    return keys + len(again)


def write_times(place: Path, timers: int) -> int:
    """Write a row with a time of its own for each key, and one that is later than all timers; return their number."""
    import numpy as np
    import pyarrow as pa

    times = np.random.default_rng(1).permutation(timers)
    place.mkdir()
    _write(place / "0.parquet", pa.table({"key": np.arange(timers), "at": times}))
    _write(place / "1.parquet", pa.table({"key": [timers], "at": [_LATER + timers]}))
    return timers + 1


def _write(path: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def run(way: str, folder: Path, heap: str) -> dict[str, Any]:
    """Run a query over all rows; return its seconds, batches and largest memory in MB."""
    from stateshift.spark import StreamJob
    from stateshift.spark.sessions import session

    watch = _Watch()
    spark = session("local[2]", conf={"spark.driver.memory": heap, "spark.ui.enabled": "false"})
    files = sorted((folder / "rows").iterdir())
    rows = spark.readStream.schema(f"key bigint, {'at bigint' if way == 'timers' else 'text string'}")
    if way != "batch":  # all files but the last one are the first batch
        rows = rows.option("maxFilesPerTrigger", len(files) - 1)
    job = StreamJob(folder / "state", folder / "checkpoint", slots=2 if way == "batch" else 1)
    stream = job.stream(rows.parquet(str(folder / "rows")), timestamp="at" if way == "timers" else "")
    results = stream.key_by("key").process(_FUNCTIONS[way](), uid="count", output_type=int)
    start = time.perf_counter()
    writer = results.writeStream.format("parquet").option("path", str(folder / "results"))
    query = job.start(writer, available_now=True)
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    seconds = time.perf_counter() - start
    batches = sum(progress.numInputRows > 0 for progress in query.recentProgress)
    found = {"seconds": round(seconds, 1), "batches": batches, "results": _results(folder / "results", way)}
    return {**found, **watch.found()}


def _results(place: Path, way: str) -> int:
    """Return the number of results; those of timers must stand in the order of their times."""
    import numpy as np
    import pyarrow.parquet as pq

    values = [pq.read_table(path)["value"].to_numpy() for path in place.glob("*.parquet")]
    if way == "timers" and any(np.any(np.diff(one) <= 0) for one in values):
        raise RuntimeError("timers fired in another order than that of their times")
    return sum(map(len, values))


class _Watch:
    """The largest memory of the processes that this one has started, looked at five times a second."""

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, int], int] = {}
        threading.Thread(target=self._look, daemon=True).start()

    def found(self) -> dict[str, int]:
        """Return the largest memory of Java and of a Python worker, in MB."""
        return {
            f"{kind}_mb": max((peak >> 20 for (name, _), peak in self._peaks.items() if name == kind), default=0)
            for kind in ("java", "worker")
        }

    def _look(self) -> None:
        while True:
            parents, names = {}, {}
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                    except OSError:
                        continue
                    parents[int(entry.name)], names[int(entry.name)] = int(rest.split()[1]), name
            ours = {os.getpid()}
            while more := {one for one, parent in parents.items() if parent in ours} - ours:
                ours |= more
            for one in ours - {os.getpid()}:
                key = ("java" if names[one] == "java" else "worker", one)
                self._peaks[key] = max(self._peaks.get(key, 0), peak_bytes(one))
            time.sleep(0.2)


def _functions() -> dict[str, Any]:
    from stateshift import KeyedProcessFunction, ValueStateDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

        def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
            count = self.count.value() + 1
            self.count.update(count)
            if count % 100 == 0:
                yield count

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.text = runtime_context.get_state(ValueStateDescriptor("text", str))

        def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
            if self.text.value() is not None:
                yield 1
            self.text.update(value.text)

    class Wait(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(_LATER + value.at)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
            yield timestamp

    return {"batch": Count, "keys": Keep, "timers": Wait}


_FUNCTIONS = _functions()


if __name__ == "__main__":
    raise SystemExit(main())
