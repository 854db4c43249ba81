"""A Spark checkpoint whose state gets other types, beside a plain copy of it by Spark's own `StateRewriter`.

    python -m benchmarks.spark_checkpoint [--entries 5000000] [--few 1000000] [--rounds 3] [--partitions 5] [--json]

The state of an aggregation by two texts. All ways run in processes of their own, which take turns; figures are medians
of the rounds, memory is the greatest of any round, for all entries and for few ones.

    rewriter   `StateRewriter` alone, which changes nothing, on `local[2]`: RocksDB, the one provider that it takes
    default    ours, a new aggregate, a wider one and exchanged keys: each entry goes to another partition
    rocksdb    the same from RocksDB to RocksDB

The rewriter copies a small checkpoint first, so that the start of Java is not in its figure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .machine import arguments_of, facts, peak_bytes, print_table, scratch_folder, told

REWRITER = "rewriter"
WAYS = {REWRITER: "rocksdb", "default": "aggregation", "rocksdb": "rocksdb"}
"""The ways, and the fixture of the tests that each begins with."""
_SMALL = 20_000


def main() -> int:
    """Print the rates, and how they compare with the rewriter's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--few", type=int, default=1_000_000, help="the entries with which memory is compared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--small", type=Path, help=argparse.SUPPRESS)
    arguments = arguments_of(parser)
    if arguments.make:
        make(arguments.way, arguments.source, arguments.entries, arguments.partitions)
        return 0
    if arguments.way:
        print(json.dumps(run(arguments.way, arguments.source, arguments.small)))
        return 0
    sizes = (arguments.entries, arguments.few)
    found: dict[str, dict[int, list[tuple[float, int]]]] = {way: {size: [] for size in sizes} for way in WAYS}
    with scratch_folder(arguments.folder) as folder:
        for fixture in {*WAYS.values()}:
            for size in {*sizes, _SMALL}:
                of = ["--entries", size, "--partitions", arguments.partitions]
                _start("--make", "--way", fixture, "--source", folder / f"{fixture}-{size}", *of)
        for _ in range(arguments.rounds):
            for size in sizes:
                for way, fixture in WAYS.items():
                    small = folder / f"{fixture}-{_SMALL}"
                    text = _start("--way", way, "--source", folder / f"{fixture}-{size}", "--small", small)
                    found[way][size].append(tuple(json.loads(text.splitlines()[-1])))
    rates = {way: arguments.entries / statistics.median(s for s, _ in of[sizes[0]]) for way, of in found.items()}
    memory = {way: [max(one for _, one in of[size]) for size in sizes] for way, of in found.items()}
    about = facts(entries=arguments.entries, few=arguments.few, partitions=arguments.partitions)
    if arguments.json:
        print(json.dumps({"facts": about, "rates": rates, "peak_bytes": memory, "rounds": found}))
        return 0
    rows = []
    for way, rate in rates.items():
        most, of_few = memory[way]
        compared = f"{rate / rates[REWRITER]:.2f}"
        rows.append([way, f"{rate / 1e3:.0f}", compared, f"{most / 1e6:.0f}", f"{most / max(of_few, 1):.2f}"])
    print(told(about))
    columns = ["way", "thousand/s", "of the rewriter", "memory MB", "of that for few"]
    print_table("A checkpoint of Spark", columns, rows, markdown=arguments.markdown)
    return 0


def _start(*arguments: object) -> str:
    command = [sys.executable, "-m", f"{__package__}.spark_checkpoint", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _fixtures() -> Any:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import spark_changes

    return spark_changes


def make(fixture: str, place: Path, entries: int, partitions: int) -> None:
    """Write a checkpoint with many entries."""
    changes = _fixtures()
    changes.copy_of(fixture, place)
    changes.fill(place, entries, partitions=partitions)


def run(way: str, source: Path, small: Path) -> tuple[float, int]:
    """Copy a checkpoint; return the seconds, and the peak of memory of this process, without Java's."""
    target = source.with_name("target")
    try:
        seconds = _rewrite(source, target, small) if way == REWRITER else _migrate(source, target)
        return seconds, peak_bytes()
    finally:
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(source.with_name("like"), ignore_errors=True)


def _migrate(source: Path, target: Path) -> float:
    from stateshift.compat.queries.changes import FieldChanges
    from stateshift.spark.queries.migration import migrate_checkpoint

    changes = _fixtures()
    key, value = changes.fields(l="string", k="string"), changes.fields(max="double", sum="decimal(20,0)", count="long")
    fixture = "rocksdb" if source.name.startswith("rocksdb") else "aggregation"
    like = changes.copy_of(fixture, source.with_name("like"), key, value)
    start = time.perf_counter()
    migrate_checkpoint(source, target, like=like, changes={0: FieldChanges(fills={"value.count": 0})})
    return time.perf_counter() - start


def _rewrite(source: Path, target: Path, small: Path) -> float:
    from stateshift.spark.sessions import session

    spark = session("local[2]", conf={"spark.ui.enabled": "false"})
    _rewritten(spark, small, target)
    shutil.rmtree(target)
    return _rewritten(spark, source, target)


def _rewritten(spark: Any, source: Path, target: Path) -> float:
    """Let Spark write the state of the last batch as that of the next one; the copy has no stores before."""
    shutil.copytree(source, target, ignore=lambda _, names: [one for one in names if one.endswith((".zip", ".sst"))])
    jvm, java = spark._jvm, spark._jsparkSession  # noqa: SLF001 - Spark has no public way
    internal = jvm.org.apache.spark.sql.execution.streaming
    conf = java.sessionState().newHadoopConf()
    places = [internal.utils.StreamingUtils.resolvedCheckpointLocation(conf, str(one)) for one in (source, target)]
    metadata = internal.runtime.StreamingQueryCheckpointMetadata(java, places[1], False)  # noqa: FBT003 - Java
    batch = metadata.commitLog().getLatestBatchId().get()
    metadata.offsetLog().add(batch + 1, metadata.offsetLog().get(batch).get())
    some, none = jvm.scala.Some, jvm.scala.Option.empty()
    rewriter = internal.state.StateRewriter(
        java, batch, batch + 1, places[1], conf, some(places[0]), none, some(metadata)
    )
    start = time.perf_counter()
    rewriter.run()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
