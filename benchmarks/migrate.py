"""A migration from end to end, as a user starts it: `stateshift migrate`, in processes of its own.

    python -m benchmarks.migrate [--entries 2500000,5000000,10000000] [--shape S2] [--cores 2] [--runs 3] [--json]

Once as it comes, when what takes no longer than Spark's start is done in the process that was started; and once on
Spark. A savepoint of each size is migrated by turns, and two small ones: of a thousand entries, which need no machine
code, and whose memory is the *idle* one; and of 20,000, which do, and take nothing but the start. Medians of runs.
Memory is that of two runs before them, the greatest: to look at it takes time of the cores.

    time              from the start of the command to its end
    rest              what is over the time of 20,000 entries, which is Spark's start and the loading of machine code.
                      How long the session took to start, as each run says, is left out on both sides: it differs by
                      more than the rest takes
    ... migrating     as much of it as the phase took that goes through the state, by the run's own report: the least
                      that depends on how Python, Java and Spark start and end
    start             the time without the rest
    kernel            the transcoder alone, on blocks that are in memory, in one process, over all entries
    file to file      the time of one process that reads, converts, proves and writes the same, and nothing else: two
                      threads on two cores, as in `compare`
    ... CPU           the same, of all processors together
    rest / kernel     what reading, proofs, writing and Spark cost; on Spark the time of a kernel, which is one of a
                      core, is divided by the cores, as far as there are streams for them
    rest / file       by the time of file to file, which has as many cores
    rest / CPU        by that of all processors, divided as the kernel's is: 1 if Spark cost nothing beyond its start
    time / least      the time by that of the start and the kernel together
    copy              the file copied by the system, by turns with the latter: what the memory of the machine allows
    over idle         the memory of who rewrites, a worker of Spark or the process itself; as all that is compared with
                      the small ones, only where those have the same engine
    JVM, live         most that a collection left of the heap, out of the JVM's own log

The savepoint has one stream; its successor as many as stateshift makes. With `--parallelism 1` that is one, too, and a
task grows with the entries: the hardest case for memory. Linux only, as memory is read from /proc.
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
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs

from .compare import LEAST_ENTRIES, ROOT, Process, Source, way_of
from .machine import arguments_of, facts, print_table, scratch_folder, told
from .shapes import SHAPES, Shape, write_savepoint
from .watch import ROLES, Watch

COLLECTED = re.compile(r"\[gc *\] .*?(\d+)M->(\d+)M")
MEMORY = (*ROLES, "JVM, live")
ON_SPARK = "on Spark"
WAYS = ("as it comes", ON_SPARK)
START_ENTRIES = 20_000
WATCHED_RUNS = 2


def migrate(
    source: Path, target: Path, shape: Shape, way: str, arguments: argparse.Namespace, *, watched: bool = False
) -> dict[str, Any]:
    """Migrate in processes of their own; give seconds, who did it, how much was written, and peaks in bytes.

    Args:
        source: What is migrated.
        target: Where to; it is removed.
        shape: Of the state.
        way: One of `WAYS`.
        arguments: Of the command line.
        watched: Whether the memory of the processes is looked at, which takes time.
    """
    log = target.with_suffix(".gc")
    log.unlink(missing_ok=True)
    command = ["migrate", source, target, "--job", f"{__package__}.states_after:{shape.name.upper()}", "--json"]
    command += ["--parallelism", arguments.parallelism] if arguments.parallelism else []
    command += ["--master", f"local[{arguments.cores},4]"] if way == ON_SPARK else []
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "stateshift", *map(str, command)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"SPARK_SUBMIT_OPTS": f"-Xlog:gc:file={log}"},
    )  # fmt: skip
    watch = Watch(process.pid)
    with watch if watched else nullcontext():
        printed, problems = process.communicate()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(problems + printed)
    report = json.loads(printed)
    live = [int(after) for _, after in COLLECTED.findall(log.read_text())] if log.exists() else []
    shutil.rmtree(target)
    return {
        "seconds": seconds,
        "beyond_session": seconds - report["phases"].get("starting Spark", 0),
        "migrating": report["phases"]["migrating"],
        "written": sum(count["written"] for count in report["states"]),
        "engine": report["estimate"]["engine"],
        "streams": report["streams_rewritten"],
        "peaks": watch.peaks | {"JVM, live": max(live, default=0) << 20},
    }


@attrs.frozen
class Beside:
    """The same without Spark, in processes of their own, which go through a savepoint when they are asked."""

    transcoder: Process
    copier: Process

    @classmethod
    def started(cls, shape: Shape, folder: Path) -> Beside:
        """Start them."""
        folder.mkdir()
        ours = cls(way_of("rewrite", shape, folder), way_of("copy", shape, folder))
        ours.transcoder.wait_until_ready()
        ours.copier.wait_until_ready()
        return ours

    def end(self) -> None:
        """End them."""
        self.transcoder.end()
        self.copier.end()

    def kernel_seconds(self, source: Source, runs: int) -> float:
        """Time the executor alone."""
        seconds = [self.transcoder.one(source, kernel=True)["seconds"] for _ in range(runs + 1)]
        return statistics.median(seconds[1:])

    def one(self, source: Source) -> dict[str, float]:
        """Go through a savepoint once by each."""
        found, copied = self.transcoder.one(source), self.copier.one(source)
        self.transcoder.clear()
        self.copier.clear()
        return {
            "file_to_file_s": found["seconds"],
            "file_to_file_cpu_s": found["cpu_seconds"],
            "copy_s": copied["seconds"],
        }


def measure(
    shape: Shape, start: Path, places: dict[int, Path], beside: Beside, way: str, arguments: argparse.Namespace
) -> dict[int, dict[str, Any]]:
    """Migrate savepoints of all sizes by turns, and the one whose time is their start; the first has idle memory."""
    least, *others = places
    sources = {size: Source(places[size], places[size], places[size], size, 0, 0) for size in others}
    kernels = {size: beside.kernel_seconds(source, arguments.runs) for size, source in sources.items()}
    target = start.with_name("target")
    watched = [
        {size: migrate(place, target, shape, way, arguments, watched=True) for size, place in places.items()}
        for _ in range(WATCHED_RUNS)
    ]
    starts, runs = [], []
    for _ in range(arguments.runs):
        starts.append(migrate(start, target, shape, way, arguments))
        runs.append({size: migrate(place, target, shape, way, arguments) for size, place in places.items()})
    # By themselves: of more files that come and go, a virtual machine has more memory to get from its host.
    turns = [{size: beside.one(source) for size, source in sources.items()} for _ in range(arguments.runs)]
    found: dict[int, dict[str, Any]] = {}
    for size, place in places.items():
        ours = [run[size] for run in runs]
        if {run["written"] for run in ours} != {size}:
            raise SystemExit(f"of {size} entries {ours[0]['written']} were written")
        found[size] = {
            "bytes": sum(file.stat().st_size for file in place.iterdir()),
            "engine": " or ".join(sorted({run["engine"] for run in ours})),
            "streams": ours[0]["streams"],
            "seconds": statistics.median(run["seconds"] for run in ours),
            "peak_bytes": {name: max(run[size]["peaks"][name] for run in watched) for name in MEMORY},
        }
    for size, kernel in kernels.items():
        found[size]["kernel_s"] = kernel
        found[size] |= {name: statistics.median(turn[size][name] for turn in turns) for name in turns[0][size]}
        if found[size]["engine"] == found[least]["engine"]:
            rest, migrating = (
                statistics.median(run[size][name] for run in runs) - statistics.median(run[name] for run in starts)
                for name in ("beyond_session", "migrating")
            )
            found[size] |= {"rest_s": rest, "migrating_s": migrating}
            _compare(found[size], found[least], arguments.cores)
    return found


def _compare(found: dict[str, Any], least: dict[str, Any], cores: int) -> None:
    """Say what a run costs over the smallest one."""
    on_spark = found["engine"] == "spark"
    found["start_s"] = found["seconds"] - found["rest_s"]
    at_once = min(cores, found["streams"]) if on_spark else 1
    found["rest_to_file_to_file"] = found["rest_s"] / found["file_to_file_s"]
    for other in ("kernel", "file_to_file_cpu"):
        found[f"rest_to_{other}"] = found["rest_s"] * at_once / found[f"{other}_s"]
    found["time_to_least"] = found["seconds"] / (found["start_s"] + found["kernel_s"] / at_once)
    who = "worker" if on_spark else "driver"
    found["over_idle_bytes"] = found["peak_bytes"][who] - least["peak_bytes"][who]


def print_results(shape: Shape, way: str, found: dict[int, dict[str, Any]], *, markdown: bool) -> None:
    """One line a figure, one column a size."""
    sizes = list(found)

    def row(title: str, name: str, form: str = ".2f", unit: float = 1) -> tuple[str, ...]:
        """A figure of all sizes that have it."""
        return (title, *(f"{found[size][name] / unit:{form}}" if name in found[size] else "" for size in sizes))

    rows = [
        row("MB", "bytes", ",.0f", 1e6),
        ("who", *(found[size]["engine"] for size in sizes)),
        ("streams", *(str(found[size]["streams"]) for size in sizes)),
        row("time, s", "seconds", ".1f"),
        row("start, s", "start_s", ".1f"),
        row("rest, s", "rest_s"),
        row("... migrating, s", "migrating_s"),
        row("kernel, s", "kernel_s"),
        row("file to file, s", "file_to_file_s"),
        row("... CPU, s", "file_to_file_cpu_s"),
        row("rest / kernel", "rest_to_kernel"),
        row("rest / file", "rest_to_file_to_file"),
        row("rest / CPU", "rest_to_file_to_file_cpu"),
        row("time / least", "time_to_least"),
        row("copy, s", "copy_s"),
    ]
    for name in MEMORY:
        peaks = [found[size]["peak_bytes"][name] for size in sizes]
        rows += [(f"{name}, MB", *(f"{peak / 1e6:,.0f}" for peak in peaks))] if any(peaks) else []
    rows.append(row("over idle, MB", "over_idle_bytes", ",.0f", 1e6))
    columns = ("entries", *(f"{size:,}" for size in sizes))
    print_table(f"stateshift migrate, {way}; {shape.name}: {shape.title}", columns, rows, markdown=markdown)


def main() -> int:
    """Print times and peaks for each number of entries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", default="2500000,5000000,10000000", help="numbers of entries, ascending")
    parser.add_argument("--shape", default="S2", choices=SHAPES)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--parallelism", type=int, default=0, help="streams that are written; by default not said")
    parser.add_argument("--runs", type=int, default=3)
    arguments = arguments_of(parser)
    sizes = [LEAST_ENTRIES, *map(int, arguments.entries.split(","))]
    machine = facts(runs=arguments.runs, cores_used=arguments.cores)
    shape = SHAPES[arguments.shape]
    with scratch_folder(arguments.folder) as scratch:
        places = {size: scratch / f"source-{size}" for size in sizes}
        start = scratch / "source-start"
        for size, place in [*places.items(), (START_ENTRIES, start)]:
            write_savepoint(shape, size, place)
        beside = Beside.started(shape, scratch / "beside")
        found = {way: measure(shape, start, places, beside, way, arguments) for way in WAYS}
        beside.end()
    if arguments.json:
        print(json.dumps({"machine": machine, "shape": arguments.shape, "ways": found}, indent=2))
    else:
        for way in WAYS:
            print_results(shape, way, found[way], markdown=arguments.markdown)
        print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
