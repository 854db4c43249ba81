"""All benchmarks about rewritten state, one after the other: `python -m benchmarks [--scale 0.01] [--markdown|--json]`.

`--scale` is a factor on all numbers of entries. Ends with the status of the first that fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from .peers import ROOT

PROGRAMS: tuple[tuple[str, list[int], list[str]], ...] = (
    ("compare", [2_000_000], []),
    ("compare", [10_000_000], ["--shapes", "S1", "--without", "objects"]),
    ("migrate", [2_500_000, 5_000_000, 10_000_000], []),
    ("downtime", [5_000_000], []),
)
"""What is run, with how many entries and which options. Of two million of S1, a pass takes but 30 ms."""


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    scale, others = parser.parse_known_args()
    for name, sizes, options in PROGRAMS:
        scaled = ",".join(str(int(size * scale.scale)) for size in sizes)
        command = [sys.executable, "-m", f"{__package__}.{name}", "--entries", scaled, *options, *others]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
