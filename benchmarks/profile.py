"""`stateshift inspect --profile` beside `to_arrow`: all figures of a state, and a table of all its columns.

    python -m benchmarks.profile [--entries 5000000] [--rounds 5] [--shape S2] [--json]

`to_arrow` makes a table of all columns. `profile` reads the same entries by the same machine code and adds the
statistics. Figures are medians of the rounds, in which both take turns. The memory is what a process needs at most that
makes a profile and nothing else, its libraries included.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys

from stateshift import Savepoint

from .machine import arguments_of, facts, in_turns, print_medians, scratch_folder, told
from .shapes import SHAPES, write_savepoint
from .states_before import STATE

ALONE = """
import sys
from stateshift import Savepoint
Savepoint.open(sys.argv[1]).profile()
print(open("/proc/self/status").read())  # unlike `ru_maxrss`, it has nothing of the process that started this one
"""


def main() -> int:
    """Print the seconds of both, their ratio, and the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="S2", choices=sorted(SHAPES))
    arguments = arguments_of(parser)
    with scratch_folder(arguments.folder) as scratch:
        write_savepoint(SHAPES[arguments.shape], arguments.entries, scratch / "source")
        savepoint = Savepoint.open(scratch / "source")
        ways = {"to_arrow": lambda: savepoint.to_arrow(STATE), "profile": savepoint.profile}
        medians = in_turns(ways, arguments.rounds)
        alone = [sys.executable, "-c", ALONE, str(scratch / "source")]
        status = subprocess.run(alone, check=True, capture_output=True, text=True).stdout
        kib = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])
    ratio = medians["profile"] / medians["to_arrow"]
    machine = facts(rounds=arguments.rounds)
    if arguments.json:
        found = {"entries": arguments.entries, "seconds": medians, "ratio": ratio, "mib": kib / 1024}
        print(json.dumps({"machine": machine, **found}))
        return 0
    title = f"{arguments.entries:,} entries of {arguments.shape}"
    print_medians(title, medians, f"profile: {kib / 1024:,.0f} MiB at most", told(machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
