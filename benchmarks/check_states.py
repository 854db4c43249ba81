"""How long `stateshift check` takes for a job with 500 states, start of Python and loading of the job included.

    python benchmarks/check_states.py [--states 500] [--each 10] [--runs 9] [--json]

The states lie in operators of ten, or of as many as `--each` says: values, lists and maps of records with twenty
fields, Avro records with twenty fields, and numbers. A hundred classes serve them, and every fifth of these has
changed: a field was widened, another added. Medians of alternating runs, each in a process of its own, with the files
in the page cache:

    python -c pass        what no program can do without
    python -c import job  the user's own module, which takes its classes through attrs and fastavro
    stateshift check      the command as it is typed
    check --against       the gate: the same job against a recorded revision

What the command does besides is then told apart, step by step, in one more process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIMIT_S = 1.0
HEAVY = ("pyspark", "py4j", "numpy", "pandas", "pyarrow", "hypothesis", "rich")

MODULE = '''
import attrs
from stateshift import (
    AvroSerializer, Int32, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor, record,
)

KINDS = (str, Int32, int, float, bool, list[str], dict[str, int], str | None, int | None, bytes)
AVRO = ("string", "int", "long", "double", "boolean", ["null", "string"])


def class_of(number):
    """A record of twenty fields; every fifth has changed since the savepoint was written."""
    changed = NEW and number % 5 == 0
    fields = {f"field_{index}": KINDS[index % len(KINDS)] for index in range(20)}
    if changed:
        fields |= {"field_1": int, "added": int}
    made = attrs.make_class(
        f"Order{number}",
        {name: attrs.field(type=kind, **({"default": 0} if name == "added" else {})) for name, kind in fields.items()},
        frozen=True,
        slots=True,
    )
    return record(java_class=f"com.acme.orders.Order{number}")(made)


def schema_of(number):
    """The same as an Avro schema."""
    fields = [{"name": f"field_{index}", "type": AVRO[index % len(AVRO)]} for index in range(20)]
    if NEW and number % 5 == 0:
        fields.append({"name": "added", "type": "long", "default": 0})
    return {"type": "record", "name": f"acme.Click{number}", "fields": fields}


def state_of(number):
    """One of five kinds by turns, of a class that five states share."""
    kind, group = number % 5, number // 5
    name = f"state-{number}"
    if kind == 0:
        return ValueStateDescriptor(name, CLASSES[group % len(CLASSES)])
    if kind == 1:
        return ListStateDescriptor(name, CLASSES[group % len(CLASSES)])
    if kind == 2:
        return MapStateDescriptor(name, str, CLASSES[group % len(CLASSES)])
    if kind == 3:
        return ValueStateDescriptor(name, AvroSerializer(schema_of(group)))
    return ValueStateDescriptor(name, int)


CLASSES = [class_of(number) for number in range(100)]
job = Job(
    [
        Operator(f"operator-{first}", key=str, states=[state_of(n) for n in range(first, min(first + EACH, STATES))])
        for first in range(0, STATES, EACH)
    ]
)
'''

STEPS = """
import json, sys, time
marks = [("", time.perf_counter())]
def mark(name):
    marks.append((name, time.perf_counter()))
sys.path.insert(0, ".")
import stateshift.cli.commands.check
from stateshift.compat import explain
from stateshift.compat.check import check
from stateshift.state.savepoint.reader import Savepoint
mark("load stateshift")
from job_new import job
mark("load the job")
new = job.describe("job")
mark("describe the job")
old = Savepoint.open("before").describe()
mark("read the savepoint")
report = check(old, new)
mark("compare")
lines = explain.text_lines(report)
mark("explain")
heavy = [name for name in HEAVY if name in sys.modules]
print(json.dumps([heavy, str(report.decision), len(lines),
    {name: end - start for (_, start), (name, end) in zip(marks, marks[1:])}]))
"""


def write_files(folder: Path, states: int, each: int) -> None:
    """Write both versions of the job, and the savepoint that the first one left: an entry in each operator."""
    for name, is_new in (("job_old", False), ("job_new", True)):
        (folder / f"{name}.py").write_text(
            f"NEW, STATES, EACH = {is_new}, {states}, {each}\n{MODULE}", encoding="utf-8"
        )
    write = (
        "from stateshift import SavepointWriter\n"
        "from job_old import job\n"
        "with SavepointWriter('before', job) as writer:\n"
        "    for operator in job.operators:\n"
        "        state = operator.states[-1].name\n"
        "        writer.put(operator.uid, state, 'ada', 1)\n"
    )
    subprocess.run([sys.executable, "-c", write], cwd=folder, check=True)
    record = [sys.executable, "-m", "stateshift", "snapshot", "--job", "job_old:job", "-m", "As stored"]
    subprocess.run(record, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def environment(folder: Path) -> dict[str, str]:
    """Keep compiled modules in the folder: an install has them, a checkout may be told not to write any."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def seconds(folder: Path, *arguments: str) -> float:
    """Time one process."""
    start = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment(folder), check=False, **quiet)
    return time.perf_counter() - start


def measure(folder: Path, runs: int) -> dict[str, Any]:
    """Give the medians, and the steps of one process of several."""
    sides = {
        "python -c pass": ("-c", "pass"),
        "python -c import job": ("-c", "import job_new"),
        "stateshift check": ("-m", "stateshift", "check", "before", "--job", "job_new:job"),
        "check --against": ("-m", "stateshift", "check", "--job", "job_new:job", "--against", "state_history"),
    }
    for arguments in sides.values():
        seconds(folder, *arguments)  # fills the page cache
    times = [{name: seconds(folder, *arguments) for name, arguments in sides.items()} for _ in range(runs)]
    program = STEPS.replace("HEAVY", repr(HEAVY))
    told = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program], cwd=folder, env=environment(folder), capture_output=True, check=True
            ).stdout
        )
        for _ in range(runs)
    ]
    heavy, decision, lines, _ = told[0]
    return {
        "seconds": {name: statistics.median(run[name] for run in times) for name in sides},
        "least_seconds": {name: min(run[name] for run in times) for name in sides},
        "steps": {name: statistics.median(run[3][name] for run in told) for name in told[0][3]},
        "decision": decision,
        "lines": lines,
        "loaded": heavy,
    }


def main() -> int:
    """Print all times; give 1 where the check takes longer than a second, or loads what it does not need."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--states", type=int, default=500)
    parser.add_argument("--each", type=int, default=10, help="states of one operator")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_files(Path(scratch), arguments.states, arguments.each)
        found = measure(Path(scratch), arguments.runs)
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "states": arguments.states,
        "each": arguments.each,
        "runs": arguments.runs,
        **{name: version(name) for name in ("stateshift", "attrs", "fastavro")},
    }
    if arguments.json:
        print(json.dumps(machine | found, indent=2))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        for name, time_s in found["seconds"].items():
            print(f"{name:24}{time_s:8.3f} s   (least {found['least_seconds'][name]:.3f} s)")
        for name, time_s in found["steps"].items():
            print(f"    {name:20}{time_s:8.3f} s")
        print(f"decision {found['decision']}, {found['lines']} lines, loaded of {', '.join(HEAVY)}: {found['loaded']}")
    slowest = max(found["seconds"]["stateshift check"], found["seconds"]["check --against"])
    return 0 if slowest < LIMIT_S and not found["loaded"] else 1


if __name__ == "__main__":
    sys.exit(main())
