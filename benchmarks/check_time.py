"""How long `stateshift check` takes, start of Python included: in seconds, and as a ratio to `python -c pass`.

    python benchmarks/check_time.py [RUNS]

The savepoint is the small one of the examples, so what is measured is loading code, which every check pays. Medians of
alternating runs, each in a process of its own, with the files in the page cache.
"""

from __future__ import annotations

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
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    seconds(CHECK)  # fills the page cache
    pairs = [(seconds(NOTHING), seconds(CHECK)) for _ in range(runs)]
    nothing, check = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"Python {platform.python_version()} on {platform.machine()}, median of {runs}")
    print(f"python -c pass     {nothing:6.3f} s")
    print(f"stateshift check   {check:6.3f} s   {check / nothing:.1f} x")
    return 0 if check < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
