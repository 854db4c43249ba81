"""A batch far above the memory of Spark, and ten million keys: how much memory a query of ours then takes.

    python -m benchmarks.large_batch [--gigabytes 5] [--keys 10000000] [--ways batch,keys] [--heap 1g] [--json]

Each way is a query over files in a process of its own, with two slots on two cores. Memory is the largest that a
process of the query ever had (VmHWM): Java's, and that of the largest Python worker.

    batch   one batch of records of a thousand bytes, of which one slot gets 90 %; each is counted by its key
    keys    one slot; each key comes once in the first batch and a hundredth of the keys in the second one
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .machine import arguments_of, facts, peak_bytes, print_table, scratch_folder, told

WAYS = ("batch", "keys")
RECORD_BYTES = 1000
_RECORDS_IN_FILE = 200_000
_KEYS_IN_FILE = 1_000_000
_BATCH_KEYS = 100_000
_TEXTS = 64 << 20


def main() -> int:
    """Measure the ways in turn, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0, help="the size of the records of `batch`")
    parser.add_argument("--keys", type=int, default=10_000_000, help="the number of keys of `keys`")
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
        with scratch_folder(arguments.folder or Path.cwd()) as folder:  # in memory it would be part of what is measured
            if way == "batch":
                size = write_records(folder / "rows", int(arguments.gigabytes * 1e9 / RECORD_BYTES))
            else:
                size = write_keys(folder / "rows", arguments.keys)
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


def _write(path: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def run(way: str, folder: Path, heap: str) -> dict[str, Any]:
    """Run a query over all rows; return its seconds, batches and largest memory in MB."""
    from stateshift.spark import StreamJob
    from stateshift.spark.session import session

    watch = _Watch()
    # The batch of all keys is one batch, and so is what comes after it.
    spark = session("local[2]", conf={"spark.driver.memory": heap, "spark.ui.enabled": "false"})
    rows = spark.readStream.schema("key bigint, text string").option("latestFirst", "false")
    if way == "keys":
        rows = rows.option("maxFilesPerTrigger", len(list((folder / "rows").iterdir())) - 1)
    job = StreamJob(folder / "state", folder / "checkpoint", slots=2 if way == "batch" else 1)
    stream = job.stream(rows.parquet(str(folder / "rows"))).key_by("key")
    results = stream.process(_FUNCTIONS[way](), uid="count", output_type=int)
    start = time.perf_counter()
    query = job.start(results.writeStream.format("noop"), available_now=True)
    query.awaitTermination()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    seconds = time.perf_counter() - start
    batches = sum(progress.numInputRows > 0 for progress in query.recentProgress)
    return {"seconds": round(seconds, 1), "batches": batches, **watch.found()}


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

    return {"batch": Count, "keys": Keep}


_FUNCTIONS = _functions()


if __name__ == "__main__":
    raise SystemExit(main())
