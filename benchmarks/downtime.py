"""Downtime: how long a job of real Flink stands still while the type of its state changes.

    python -m benchmarks.downtime [--entries 5000000] [--backends hashmap,rocksdb] [--runs 3] [--heap 8g] [--json]

The state is that of shape S2n: a POJO that loses one field and gains another, which Flink migrates by itself. So both
ways end with the same class:

    Flink alone   take a savepoint in the canonical format and stop; start the job with the new class from it
    with ours     the same, and `stateshift migrate` in between

    take      from the call of stop to the end of the job
    migrate   from the start of the command to its end: Python, all proofs, and Spark where it is started
    restore   from the submission of the job to its first record, whose value was found in state

The cluster runs already when the clock starts. All steps by turns, each in a process of its own; medians. The first
savepoint is written by the benchmark itself, and what is taken, migrated and restored is Flink's own.
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

from .compare import LEAST_ENTRIES, ROOT
from .machine import arguments_of, facts, print_table, scratch_folder, told
from .peers import Peers, Unavailable, find_peers
from .shapes import SHAPES, write_savepoint

WAYS = {"Flink alone": ("take", "restore and migrate"), "with ours": ("take", "migrate", "restore")}


def job(peers: Peers, folder: Path, backend: str, savepoint: Path, arguments: argparse.Namespace, *stop: str) -> Any:
    """Run the job from a savepoint to its first record; give what it told."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = peers.command(
        "Downtime", folder, backend, savepoint, *stop,
        records="before" if stop else "after", options=(f"-Xmx{arguments.heap}",),
    )  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stdout + ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def migrate(source: Path, target: Path, arguments: argparse.Namespace) -> tuple[float, str]:
    """Migrate as a user does; give the seconds, and who did it: the process itself, or Spark."""
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "stateshift", "migrate", source, target]
    command += ["--job", f"{__package__}.states_after:{arguments.shape.upper()}", "--target", "flink-2.3", "--json"]
    started = time.perf_counter()
    ran = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if ran.returncode:
        raise SystemExit(ran.stdout + ran.stderr)
    return seconds, json.loads(ran.stdout)["estimate"]["engine"]


def measure(peers: Peers, backend: str, source: Path, scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Go both ways; give medians in seconds, by step."""
    steps: dict[str, list[float]] = {"take": [], "restore and migrate": [], "migrate": [], "restore": []}
    size, engine = 0, ""
    for _ in range(arguments.runs):
        taken = job(peers, scratch / "taking", backend, source, arguments, "stop")
        savepoint = Path(taken["savepoint"])
        size = sum(file.stat().st_size for file in savepoint.iterdir())
        steps["take"].append(taken["take_s"])
        steps["restore and migrate"].append(
            job(peers, scratch / "starting", backend, savepoint, arguments)["restore_s"]
        )
        passed, engine = migrate(savepoint, scratch / "migrated", arguments)
        steps["migrate"].append(passed)
        steps["restore"].append(job(peers, scratch / "starting", backend, scratch / "migrated", arguments)["restore_s"])
    medians = {name: statistics.median(found) for name, found in steps.items()}
    sums = {way: sum(medians[name] for name in names) for way, names in WAYS.items()}
    return {"bytes": size, "engine": engine, "seconds": medians, "downtime_s": sums}


def print_results(found: dict[str, Any], arguments: argparse.Namespace) -> None:
    """One line a way."""
    rows = []
    for backend, one in found.items():
        seconds = one["seconds"]
        for way, names in WAYS.items():
            migrated = f"{seconds['migrate']:.1f}" if "migrate" in names else ""
            times = (f"{seconds['take']:.1f}", migrated, f"{seconds[names[-1]]:.1f}", f"{one['downtime_s'][way]:.1f}")
            by = f" (by {one['engine']})" if migrated else ""
            rows.append((f"{backend}: {way}{by}", *times))
    size = max(one["bytes"] for one in found.values())
    title = (
        f"downtime in seconds: {arguments.entries:,} entries of {arguments.shape}, a savepoint of {size / 1e6:,.0f} MB"
    )
    print_table(title, ("", "take", "migrate", "restore", "downtime"), rows, markdown=arguments.markdown)


def main() -> int:
    """Print the downtime of both ways, split into steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--backends", default="hashmap,rocksdb")
    parser.add_argument("--shape", default="S2n", choices=("S2n", "wide"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--heap", default="8g", help="of the JVM that runs Flink")
    arguments = arguments_of(parser)
    try:
        peers = find_peers()
    except Unavailable as error:
        print(f"needs Flink: {error}", file=sys.stderr)
        return 1
    machine = facts(java=peers.version, flink=peers.flink, runs=arguments.runs, heap=arguments.heap)
    with scratch_folder(arguments.folder) as scratch:
        write_savepoint(SHAPES[arguments.shape], max(arguments.entries, LEAST_ENTRIES), scratch / "source")
        found = {
            backend: measure(peers, backend, scratch / "source", scratch, arguments)
            for backend in arguments.backends.split(",")
        }
    if arguments.json:
        told_too = {"entries": arguments.entries, "shape": arguments.shape, "backends": found}
        print(json.dumps({"machine": machine} | told_too, indent=2))
    else:
        print_results(found, arguments)
        print(told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
