"""What a figure depends on: the machine, the versions, where the files lie; and how tables are printed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PACKAGES = ("stateshift", "numpy", "numba", "pyarrow", "fastavro", "pyspark")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


def facts(**more: object) -> dict[str, Any]:
    """Give the machine and the versions; `more` goes with them."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "load": [round(load, 1) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        **more,
    }


def told(found: dict[str, Any]) -> str:
    """Put facts into a line."""
    return ", ".join(f"{name} {value}" for name, value in found.items() if value not in (None, ""))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    """Give the model of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


@contextmanager
def scratch_folder(place: Path | None = None) -> Iterator[Path]:
    """Make a folder that is gone afterwards: in `place`, else in a memory file system where there is one.

    It goes as well where the program is told to end (SIGTERM): what is left there would be left in memory.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    place = place or (SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)
    folder = tempfile.mkdtemp(prefix="stateshift-benchmark-", dir=place)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def peak_bytes(process: int | str = "self") -> int:
    """Give the most memory that a process has had (VmHWM); 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def pyflink_accesses(python: Path | None, backend: str, keys: int) -> list[dict[str, Any]]:
    """Measure accesses of PyFlink's state (`pyflink_access`) in threads and in processes, where there is a PyFlink.

    Args:
        python: The interpreter of an environment with apache-flink; None: there is none.
        backend: Flink's name of the state backend.
        keys: The number of keys.
    """
    if python is None:
        print("PyFlink was not measured: --pyflink names no interpreter of it (benchmarks/README.md)", file=sys.stderr)
        return []
    program, found = Path(__file__).with_name("pyflink_access.py"), []
    for mode, accesses, rounds in (("thread", 1_000_000, 3), ("process", 30_000, 1)):
        counts = "--accesses", accesses, "--rounds", rounds, "--keys", keys
        command = [python, program, "--mode", mode, "--backend", backend, *counts]
        run = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=False, text=True)
        if run.returncode:
            print(f"PyFlink, {mode}: the job failed with status {run.returncode}", file=sys.stderr)
        else:
            found.append(json.loads(run.stdout.splitlines()[-1]))
    return found


def print_pyflink(found: list[dict[str, Any]], *, markdown: bool = False) -> None:
    """Print what `pyflink_accesses` found."""
    if found:
        rows = [(f"{one['mode']}, {one['backend']}", f"{one['us']:.2f}", f"{one['cpu_us']:.2f}") for one in found]
        title = f"PyFlink {found[0]['apache-flink']}, value and update of an access"
        print_table(title, ("", "us", "us of CPU"), rows, markdown=markdown)


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Add what all benchmarks take, and read the command line."""
    parser.add_argument("--json", action="store_true", help="print data in place of tables")
    parser.add_argument("--markdown", action="store_true", help="print tables for a page")
    parser.add_argument("--folder", type=Path, help="for the files; by default in a memory file system")
    return parser.parse_args()


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Run some ways in turns, and give the median of the seconds of each, those of the first rounds apart."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + warm_up):
        for way, run in ways.items():
            started = time.perf_counter()
            run()
            if turn >= warm_up:
                seconds[way].append(time.perf_counter() - started)
    return {way: statistics.median(found) for way, found in seconds.items()}


def print_medians(title: str, medians: Mapping[str, float], *lines: str) -> None:
    """Print a table of medians beside the first one, and lines below it."""
    first = next(iter(medians))
    rows = [(way, f"{one:.3f}", f"{one / medians[first]:.2f}") for way, one in medians.items()]
    print_table(title, ("", "s", f"of {first}"), rows)
    print(*lines, sep="\n")


def children_cpu_s() -> float:
    """Give the seconds of CPU of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool = False) -> None:
    """Print a table whose first column is text and whose others are figures."""
    if markdown:
        lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
        print(f"{title}\n", *(f"| {' | '.join(line)} |" for line in lines), "", sep="\n")
        return
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if os.isatty(1) else 140)
    console.print(title, highlight=False)
    console.print(table)
