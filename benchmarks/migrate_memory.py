"""How much memory a migration takes, by process, and whether that grows with the number of entries.

    python benchmarks/migrate_memory.py [--sizes 1,4] [--cores 2] [--parallelism 1] [--key-groups 128] [--json]

The state is that of the examples' flights, version 1: each size is so many copies of it under keys of their own,
bootstrapped on Spark. Each is then migrated to version 2 by `stateshift migrate`, as a user starts it, in processes of
its own. All keyed state of an operator is one stream and one task (`--parallelism 1`), so that a task grows with the
entries: the hardest case.

    driver            peak of the Python that was started
    JVM               peak of the Java that it starts; it takes what it is allowed to before it collects, so:
    JVM, live         most that a collection left of the heap, out of the JVM's own log
    worker            peak of the largest Python worker
    workers, shared   peak of all workers and of the daemon they are forked from, each page counted once (PSS)

A task reads up to 4 MiB of a key group at a time: a worker grows a little until the key groups are that large, and no
more then. `--key-groups 8` shows that with fewer entries.

Peaks are the kernel's own (VmHWM), so none is missed between two looks. Read from /proc: Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

EXAMPLES = Path(__file__).parents[1] / "examples"
LOOK_S = 0.05
GROWTH_LIMIT = 1.25
COLLECTED = re.compile(r"\[gc *\] .*?(\d+)M->(\d+)M")
FIGURES = ("driver", "JVM", "JVM, live", "worker", "workers, shared")


def write_sources(scratch: Path, sizes: list[int], arguments: argparse.Namespace) -> dict[int, Path]:
    """Bootstrap a savepoint for each size."""
    sys.path.insert(0, str(EXAMPLES))
    import flights_v1
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from flights_history import read_flights
    from pyspark.sql import functions as f

    from stateshift.spark.bootstrap import bootstrap
    from stateshift.spark.session import session

    flights = read_flights()
    pq.write_table(flights.filter(pc.is_valid(flights["tailnum"])), scratch / "flights.parquet")
    spark = session(f"local[{arguments.cores},4]")
    places = {}
    for size in sizes:
        copies = spark.range(size).withColumnRenamed("id", "copy")
        rows = spark.read.parquet(str(scratch / "flights.parquet")).crossJoin(copies)
        own_keys = {"tailnum": f.concat_ws("-", "tailnum", "copy"), "flight": f.expr("flight + 10000 * copy")}
        sources = flights_v1.sources(rows.withColumns(own_keys).drop("copy"))
        places[size] = scratch / f"source-{size}"
        division = {"parallelism": arguments.parallelism, "max_parallelism": arguments.key_groups}
        bootstrap(places[size], flights_v1.job, sources, **division)
    spark.stop()
    return places


class Watch:
    """Looks at the processes of a session again and again, and keeps the peaks.

    Args:
        leader: Process id of the driver, which leads the session.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peaks = {"driver": 0, "JVM": 0, "worker": 0, "workers, shared": 0}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            shared = 0
            for process in self._processes():
                with suppress(OSError, KeyError):  # it has just ended
                    shared += self._look(process)
            self.peaks["workers, shared"] = max(self.peaks["workers, shared"], shared)

    def _processes(self) -> list[Path]:
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self._leader:
                        found.append(process)
        return found

    def _look(self, process: Path) -> int:
        """Keep the peak of a process; give the bytes that a worker has, shared pages by their part."""
        what = role_of(process, self._leader)
        if not what:
            return 0
        self.peaks[what] = max(self.peaks[what], kilobytes(facts_of(process / "status")["VmHWM"]))
        return kilobytes(facts_of(process / "smaps_rollup")["Pss"]) if what == "worker" else 0


def role_of(process: Path, leader: int) -> str:
    """Say what a process is: driver, JVM, worker (or the daemon they are forked from), or nothing of these.

    By its program and not its name: what the JVM starts has, for a moment, the JVM's memory and another name.
    """
    if int(process.name) == leader:
        return "driver"
    if (process / "exe").readlink().name == "java":
        return "JVM"
    return "worker" if b"pyspark.daemon" in (process / "cmdline").read_bytes() else ""


def facts_of(file: Path) -> dict[str, str]:
    """Read lines of `name: value`."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in file.read_text().splitlines())}


def kilobytes(text: str) -> int:
    """Give the bytes of `1234 kB`."""
    return int(text.removesuffix(" kB")) << 10


def measure(source: Path, target: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Migrate in processes of their own; give the peaks in bytes, and what was done."""
    log = target.with_suffix(".gc")
    command = ["migrate", source, target, "--job", "flights_v2:job", "--parallelism", arguments.parallelism]
    command += ["--master", f"local[{arguments.cores},4]", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stateshift", *map(str, command)],
        cwd=EXAMPLES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"SPARK_SUBMIT_OPTS": f"-Xlog:gc:file={log}"},
    )  # fmt: skip
    started = time.perf_counter()
    with Watch(process.pid) as watch:
        printed, told = process.communicate()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(told + printed)
    report = json.loads(printed)
    live = [int(after) for _, after in COLLECTED.findall(log.read_text())]
    peaks = watch.peaks | {"JVM, live": max(live, default=0) << 20}
    entries = sum(count["written"] for count in report["states"])
    size_bytes = sum(file.stat().st_size for file in source.iterdir())
    return {"entries": entries, "bytes": size_bytes, "seconds": seconds, "peak_bytes": peaks}


def print_table(results: list[dict[str, Any]], growth: dict[str, float]) -> None:
    """One line a figure, one column a size, and the growth from the smallest to the largest."""
    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores; peaks in MB")
    rows = [
        ("entries", [f"{one['entries']:,}" for one in results]),
        ("bytes", [f"{one['bytes']:,}" for one in results]),
        *((name, [f"{one['peak_bytes'][name] / 1e6:.0f}" for one in results]) for name in FIGURES),
        ("seconds", [f"{one['seconds']:.1f}" for one in results]),
    ]
    for name, columns in rows:
        print(f"{name:<16}", *(f"{column:>13}" for column in columns), f"{growth[name]:>8.2f} x")


def main() -> int:
    """Print peaks by process and size, and how they grow; give 1 where one grows with the entries."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="1,4", help="multiples of the flights, ascending")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--parallelism", type=int, default=1, help="streams of each operator, before and after")
    parser.add_argument("--key-groups", type=int, default=128, help="max parallelism of the job")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="stateshift-benchmark-") as folder:
        scratch = Path(folder)
        sources = write_sources(scratch, sizes, arguments)
        results = [measure(sources[size], scratch / f"target-{size}", arguments) for size in sizes]
    first, last = results[0], results[-1]
    growth = {name: last["peak_bytes"][name] / max(first["peak_bytes"][name], 1) for name in FIGURES}
    if arguments.json:
        facts = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
        print(json.dumps(facts | {"sizes": dict(zip(sizes, results, strict=True)), "growth": growth}, indent=2))
    else:
        print_table(results, growth | {name: last[name] / first[name] for name in ("entries", "bytes", "seconds")})
    return 0 if max(growth.values()) < GROWTH_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
