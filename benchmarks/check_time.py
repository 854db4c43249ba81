"""How long `stateshift check` takes, start of Python included: in seconds, and as a ratio to `python -c pass`.

    python benchmarks/check_time.py [--runs 9] [--json]

The savepoint is the small one of the examples, so what is measured is loading code, which every check pays. Medians of
alternating runs, each in a process of its own, with the files in the page cache.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
CHECK = ["-m", "stateshift", "check", "savepoints/rocksdb-account-v1", "--job", "accounts_v3:job"]
NOTHING = ["-c", "pass"]
LIMIT_S = 1.0


def seconds(arguments: list[str]) -> float:
    """Time one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=EXAMPLES, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> int:
    """Print both times and their ratio; give 1 where a check takes longer than a second."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds(CHECK)  # fills the page cache
    pairs = [(seconds(NOTHING), seconds(CHECK)) for _ in range(arguments.runs)]
    nothing, check = (statistics.median(side) for side in zip(*pairs, strict=True))
    if arguments.json:
        facts = {"python": platform.python_version(), "machine": platform.machine(), "runs": arguments.runs}
        print(json.dumps(facts | {"seconds": {"python -c pass": nothing, "stateshift check": check}}, indent=2))
    else:
        print(f"Python {platform.python_version()} on {platform.machine()}, median of {arguments.runs}")
        print(f"python -c pass     {nothing:6.3f} s")
        print(f"stateshift check   {check:6.3f} s   {check / nothing:.1f} x")
    return 0 if check < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
