"""A look at a savepoint beside the migration that wrote it: `stateshift verify`, in processes of its own.

    python -m benchmarks.verify [--entries 4000000] [--shapes S2,map,list] [--runs 3] [--json]

A savepoint of each shape is migrated, what came out is verified by its digests, and then with `--values`; that is done
as often as is said, and figures are medians.

    CPU       seconds of all processors, from the start of a command to its end
    time      seconds
    ratio     CPU by that of the migration

A migration that is left to Spark is none to compare with: its processes are not those of the command.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from .compare import ROOT
from .machine import arguments_of, children_cpu_s, facts, print_table, scratch_folder, told
from .shapes import SHAPES, write_savepoint

if TYPE_CHECKING:
    from pathlib import Path

    from .shapes import Shape

COMMANDS = ("migrate", "verify", "verify --values")


def timed(*arguments: object) -> dict[str, Any]:
    """Run a command; give what it told, and the seconds that it took."""
    before, started = children_cpu_s(), time.perf_counter()
    command = [sys.executable, "-m", "stateshift", *map(str, arguments), "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds, cpu_s = time.perf_counter() - started, children_cpu_s() - before
    if ran.returncode:
        raise SystemExit(ran.stdout + ran.stderr)
    return {"told": json.loads(ran.stdout), "seconds": seconds, "cpu_s": cpu_s}


def measure(shape: Shape, folder: Path, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Migrate and verify by turns."""
    source, target = folder / "source", folder / "target"
    write_savepoint(SHAPES[shape.stored], arguments.entries, source)
    job = f"{__package__}.states_after:{shape.name.upper()}"
    turns = []
    timed("warm-up")  # else a first migration may be left to Spark
    for _ in range(arguments.runs + 1):
        migrated = timed("migrate", source, target, "--job", job)
        if (engine := migrated["told"]["estimate"]["engine"]) != "process":
            raise SystemExit(f"{arguments.entries:,} entries of {shape.name} are for {engine}: take fewer")
        turns.append((migrated, timed("verify", target), timed("verify", target, "--values")))
        shutil.rmtree(target)
    found = {
        command: {name: statistics.median(turn[at][name] for turn in turns[1:]) for name in ("cpu_s", "seconds")}
        for at, command in enumerate(COMMANDS)
    }
    return {name: one | {"ratio": one["cpu_s"] / found["migrate"]["cpu_s"]} for name, one in found.items()}


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="A look at a savepoint beside the migration that wrote it.")
    parser.add_argument("--entries", type=int, default=4_000_000)
    parser.add_argument("--shapes", default="S2,map,list", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--runs", type=int, default=3)
    arguments = arguments_of(parser)
    found = facts(entries=arguments.entries, runs=arguments.runs)
    shapes = {}
    for name in arguments.shapes.split(","):
        with scratch_folder(arguments.folder) as folder:
            shapes[name] = measure(SHAPES[name], folder, arguments)
    if arguments.json:
        print(json.dumps({"machine": found, "shapes": shapes}, indent=2))
        return 0
    for name, commands in shapes.items():
        rows = [
            [command, f"{one['cpu_s']:.2f}", f"{one['seconds']:.2f}", f"{one['ratio']:.2f}"]
            for command, one in commands.items()
        ]
        print_table(name, ["command", "CPU s", "s", "ratio"], rows, markdown=arguments.markdown)
    print(told(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
