"""A migration from end to end, as a user starts it: `stateshift migrate`, in processes of its own.

    python -m benchmarks.migrate [--entries 2500000,5000000,10000000] [--shape S2] [--cores 2] [--runs 3] [--json]

A savepoint of each size is migrated by turns, and one of a thousand entries, in which nearly all time is Spark's start:
that is the *fixed* part of the others, and its worker the *idle* one. Medians of the runs; of memory the greatest.

    time              from the start of the command to its end
    rest              what is over the fixed part
    kernel            the transcoder alone, on blocks that are in memory, in one process, over all entries
    rest / kernel     what reading, proofs, writing and Spark cost; the kernel's time is divided by the cores
    JVM, live         most that a collection left of the heap, out of the JVM's own log

All keyed state is one stream (`--parallelism` of the savepoint), so that a task grows with the entries: the hardest
case for memory. Linux only, as memory is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .compare import LEAST_ENTRIES, ROOT, Source, chosen_process
from .machine import arguments_of, facts, print_table, scratch_folder, told
from .shapes import SHAPES, Shape, write_savepoint
from .watch import ROLES, Watch

COLLECTED = re.compile(r"\[gc *\] .*?(\d+)M->(\d+)M")
MEMORY = (*ROLES, "JVM, live")


def migrate(source: Path, target: Path, shape: Shape, arguments: argparse.Namespace) -> dict[str, Any]:
    """Migrate in processes of their own; give seconds, peaks in bytes, and how many entries were written."""
    log = target.with_suffix(".gc")
    command = ["migrate", source, target, "--job", f"{__package__}.states_after:{shape.name.upper()}"]
    command += ["--parallelism", arguments.parallelism, "--master", f"local[{arguments.cores},4]", "--json"]
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "stateshift", *map(str, command)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"SPARK_SUBMIT_OPTS": f"-Xlog:gc:file={log}"},
    )  # fmt: skip
    with Watch(process.pid) as watch:
        printed, problems = process.communicate()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(problems + printed)
    written = sum(count["written"] for count in json.loads(printed)["states"])
    live = [int(after) for _, after in COLLECTED.findall(log.read_text())] if log.exists() else []
    shutil.rmtree(target)
    return {"seconds": seconds, "written": written, "peaks": watch.peaks | {"JVM, live": max(live, default=0) << 20}}


def measure(shape: Shape, sizes: list[int], scratch: Path, arguments: argparse.Namespace) -> dict[int, dict[str, Any]]:
    """Migrate savepoints of all sizes by turns; the first is the one whose time is the fixed part."""
    places = {size: scratch / f"source-{size}" for size in sizes}
    for size, place in places.items():
        write_savepoint(shape, size, place, parallelism=arguments.parallelism)
    migrate(places[sizes[0]], scratch / "target", shape, arguments)  # fills the page cache
    runs = [
        {size: migrate(place, scratch / "target", shape, arguments) for size, place in places.items()}
        for _ in range(arguments.runs)
    ]
    found: dict[int, dict[str, Any]] = {}
    for size, place in places.items():
        ours = [run[size] for run in runs]
        if {run["written"] for run in ours} != {size}:
            raise SystemExit(f"of {size} entries {ours[0]['written']} were written")
        found[size] = {
            "bytes": sum(file.stat().st_size for file in place.iterdir()),
            "seconds": statistics.median(run["seconds"] for run in ours),
            "peak_bytes": {name: max(run["peaks"][name] for run in ours) for name in MEMORY},
        }
    least = sizes[0]
    for size in sizes[1:]:
        kernel = kernel_seconds(shape, places[size], size, scratch / f"kernel-{size}", arguments)
        found[size]["rest_s"] = found[size]["seconds"] - found[least]["seconds"]
        found[size]["kernel_s"] = kernel
        found[size]["rest_to_kernel"] = found[size]["rest_s"] / (kernel / arguments.cores)
        idle = found[least]["peak_bytes"]["worker"]
        found[size]["worker_over_idle_bytes"] = found[size]["peak_bytes"]["worker"] - idle
    return found


def kernel_seconds(shape: Shape, place: Path, entries: int, folder: Path, arguments: argparse.Namespace) -> float:
    """Time the executor alone."""
    folder.mkdir()
    process = chosen_process(shape, folder)
    process.wait_until_ready()
    source = Source(place, place, place, entries, 0, 0)
    seconds = [process.one(source, kernel=True)["seconds"] for _ in range(arguments.runs + 1)]
    process.end()
    return statistics.median(seconds[1:])


def print_results(shape: Shape, found: dict[int, dict[str, Any]], *, markdown: bool) -> None:
    """One line a figure, one column a size."""
    sizes = list(found)
    rows = [
        ("MB", *(f"{found[size]['bytes'] / 1e6:,.0f}" for size in sizes)),
        ("time, s", *(f"{found[size]['seconds']:.1f}" for size in sizes)),
        ("rest, s", "", *(f"{found[size]['rest_s']:.1f}" for size in sizes[1:])),
        ("kernel, s", "", *(f"{found[size]['kernel_s']:.1f}" for size in sizes[1:])),
        ("rest / kernel", "", *(f"{found[size]['rest_to_kernel']:.2f}" for size in sizes[1:])),
    ]
    rows += [(f"{name}, MB", *(f"{found[size]['peak_bytes'][name] / 1e6:,.0f}" for size in sizes)) for name in MEMORY]
    over = (f"{found[size]['worker_over_idle_bytes'] / 1e6:,.0f}" for size in sizes[1:])
    rows.append(("worker over idle, MB", "", *over))
    columns = ("entries", *(f"{size:,}" for size in sizes))
    print_table(f"stateshift migrate, {shape.name}: {shape.title}", columns, rows, markdown=markdown)


def main() -> int:
    """Print times and peaks for each number of entries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", default="2500000,5000000,10000000", help="numbers of entries, ascending")
    parser.add_argument("--shape", default="S2", choices=SHAPES)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--parallelism", type=int, default=1, help="streams of the operator, before and after")
    parser.add_argument("--runs", type=int, default=3)
    arguments = arguments_of(parser)
    sizes = [LEAST_ENTRIES, *map(int, arguments.entries.split(","))]
    machine = facts(runs=arguments.runs, cores_used=arguments.cores, streams=arguments.parallelism)
    with scratch_folder(arguments.folder) as scratch:
        found = measure(SHAPES[arguments.shape], sizes, scratch, arguments)
    if arguments.json:
        print(json.dumps({"machine": machine, "shape": arguments.shape, "sizes": found}, indent=2))
    else:
        print_results(SHAPES[arguments.shape], found, markdown=arguments.markdown)
        print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
