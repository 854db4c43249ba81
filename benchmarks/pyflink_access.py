"""What an access of PyFlink's value state costs: a job with `value` and `update` beside the same job without.

    VENV/bin/python benchmarks/pyflink_access.py [--keys 100000] [--accesses 500000] [--mode thread] [--backend hashmap]

Runs in an environment with apache-flink, which stands apart from stateshift's (see the README beside this file), and
prints one line of JSON: the microseconds of an access by the clock, and by the processor time of all its processes. The
jobs run by turns on Flink's cluster within one JVM, with one subtask; elements are numbers, keys are theirs mixed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.version import __version__

_MIXER = 0x9E3779B1  # odd, so that each number below 2 ** 32 becomes another one


class Reads(KeyedProcessFunction):
    """Reads and updates the state of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))

    def process_element(self, value, ctx):  # noqa: ANN001, ANN201 - as PyFlink declares it
        self.state.update(self.state.value() or "value of a key")
        yield from ()


class Passes(KeyedProcessFunction):
    """Does the same without state."""

    def process_element(self, value, ctx):  # noqa: ANN001, ANN201 - as PyFlink declares it
        yield from ()


def run(function: KeyedProcessFunction, chosen: argparse.Namespace) -> tuple[float, float]:
    """Run a job; return its seconds by the clock, and of processor time."""
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    configuration.set_string("python.execution-mode", chosen.mode)
    configuration.set_string("state.backend.type", chosen.backend)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(1)
    source = NumberSequenceSource(0, chosen.accesses - 1)
    keys = chosen.keys
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    keyed = numbers.key_by(lambda number: (number * _MIXER & 0xFFFFFFFF) % keys, Types.LONG())
    keyed.process(function, Types.LONG()).print()
    begin, used = time.perf_counter(), _processor_s()
    environment.execute()
    return time.perf_counter() - begin, _processor_s() - used


def _processor_s() -> float:
    """Return the processor time of this session's processes: Python, the JVM, and its Python workers that live."""
    session, ticks = os.getsid(0), 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))  # with children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--accesses", type=int, default=500_000)
    parser.add_argument("--mode", choices=("process", "thread"), default="thread")
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if os.getpid() != os.getsid(0):
        os.setsid()
    # The interpreter within the JVM (mode thread) knows nothing of the environment that this program runs in.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(os.path.isdir, sys.path[1:]))
    run(Passes(), argparse.Namespace(**{**vars(chosen), "accesses": 1000}))  # starts the JVM
    clock, processor = [], []
    for _ in range(chosen.rounds):
        (without_s, without_cpu), (with_s, with_cpu) = run(Passes(), chosen), run(Reads(), chosen)
        clock.append((with_s - without_s) / chosen.accesses * 1e6)
        processor.append((with_cpu - without_cpu) / chosen.accesses * 1e6)
    found = {
        "apache-flink": __version__,
        **{name: getattr(chosen, name) for name in ("mode", "backend", "keys", "accesses")},
        "us": statistics.median(clock),
        "cpu_us": statistics.median(processor),
        "job_s": {"with": with_s, "without": without_s},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
