"""How fast entries are migrated, beside what cannot be beaten: a copy of the same files.

    python benchmarks/migrate_entries.py [--entries 100000] [--runs 3] [--cores 2] [--json]

The state is a record of the examples (`Account` v1 -> v3: a field widened, two added, one dropped) for each key. Four
ways through the same bytes, in alternating runs of one process; medians:

    copy        the files, as they are
    copy bytes  each stream is parsed and its entries written anew as bytes: the states beside one that changes
    convert     each entry is read, converted and written as an object
    on Spark    the same on local cores, in a session that runs already, after one run to warm its workers

Figures of one machine say little; the ratios between lines of one run say more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor
from stateshift.compat.check import check
from stateshift.compat.planner import plan
from stateshift.state.migration.performing import perform
from stateshift.state.migration.run import publish_result, split
from stateshift.state.savepoint.files import Folder
from stateshift.state.savepoint.publish import prepare_target
from stateshift.state.savepoint.reader import Savepoint

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[1] / "examples"


def job_of(account: type, beside: type) -> Job:
    """One state to convert; or, where `beside` is another type than was stored, one to copy as bytes beside it."""
    states = [ValueStateDescriptor("account", account), ValueStateDescriptor("beside", beside)]
    return Job([Operator("accounts", key=int, states=states)])


def in_process(source: Path, target: Path, job: Job) -> None:
    """Migrate in this process."""
    savepoint = Savepoint.open(source)
    chosen = plan(check(savepoint.describe(), job.describe()))
    tasks = split(savepoint, chosen)
    folder = Folder.at(target)
    prepare_target(folder)
    publish_result(savepoint, chosen, tasks, [perform(task, savepoint.folder, folder) for task in tasks], folder)


def seconds(way: Callable[[Path], object], target: Path) -> float:
    """Time one way through; what it wrote is removed."""
    started = time.perf_counter()
    way(target)
    taken = time.perf_counter() - started
    shutil.rmtree(target)
    return taken


def measure(scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the savepoint, go all ways, and give medians in seconds."""
    from stateshift.spark.migrate import migrate
    from stateshift.spark.session import session

    sys.path.insert(0, str(EXAMPLES))
    import accounts_v1
    import accounts_v3

    source = scratch / "source"
    with SavepointWriter(source, job_of(accounts_v1.Account, int), parallelism=arguments.cores) as writer:
        for key in range(arguments.entries):
            writer.put("accounts", "account", key, accounts_v1.Account(key, f"account number {key}", key % 1000))
        writer.put("accounts", "beside", 0, 1)
    size_bytes = sum(file.stat().st_size for file in source.iterdir())

    started = time.perf_counter()
    spark = session(f"local[{arguments.cores},4]")
    start_s = time.perf_counter() - started
    converts, copies = job_of(accounts_v3.Account, int), job_of(accounts_v1.Account, str)
    copies = attrs.evolve(copies, operators=[with_converter(copies.operators[0])])
    ways: dict[str, Callable[[Path], object]] = {
        "copy": lambda target: shutil.copytree(source, target),
        "copy bytes": lambda target: in_process(source, target, copies),
        "convert": lambda target: in_process(source, target, converts),
        "on Spark": lambda target: migrate(source, target, converts, session=spark),
    }
    seconds(ways["on Spark"], scratch / "warm")
    runs = [{name: seconds(way, scratch / "new") for name, way in ways.items()} for _ in range(arguments.runs)]
    spark.stop()
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "spark_cores": arguments.cores,
        "entries": arguments.entries,
        "bytes": size_bytes,
        "session_start_s": start_s,
        "seconds": {name: statistics.median(run[name] for run in runs) for name in ways},
    }


def with_converter(operator: Operator) -> Operator:
    """Let the small state beside change, so that the large one is copied as bytes and not as a file."""
    account, beside = operator.states
    return attrs.evolve(operator, states=[account, attrs.evolve(beside, converter=str)])


def main() -> int:
    """Print times, entries and bytes a second, and ratios to the copy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stateshift-benchmark-") as scratch:
        result = measure(Path(scratch), arguments)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return 0
    taken = result["seconds"]
    print(
        f"Python {result['python']} on {result['machine']}, {result['cores']} cores; {result['entries']:,} entries, "
        f"{result['bytes'] / 1e6:.1f} MB; median of {arguments.runs}"
    )
    for name, one in taken.items():
        rates = f"{result['entries'] / one:12,.0f} entries/s  {result['bytes'] / one / 1e6:8.1f} MB/s"
        ratios = f"{one / taken['copy']:8.1f} x copy  {one / taken['convert']:7.3f} x convert"
        print(f"{name:<10} {one:7.3f} s  {rates}  {ratios}")
    print(f"a session starts in {result['session_start_s']:.1f} s; Spark had {result['spark_cores']} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
