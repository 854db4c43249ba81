"""Numbers in a file, through key_by, process and a window: one program for PyFlink and for stateshift.

    VENV/bin/python benchmarks/environment_job.py LINES RESULTS [--rounds 3] [--mode thread]

Runs in an environment with apache-flink on Flink's cluster within one JVM, else with `stateshift.pyflink`. It prints
one line of JSON: the seconds of each round by the clock, and those of processor time of all its processes. RESULTS gets
a folder of files for each round. A small run before starts the JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

IS_PYFLINK = find_spec("pyflink") is not None and find_spec("pyflink.java_gateway") is not None
HOME = "pyflink" if IS_PYFLINK else "stateshift.pyflink"


def _of(module: str) -> Any:
    return import_module(f"{HOME}.{module}")


common, datastream, files = _of("common"), _of("datastream"), _of("datastream.connectors.file_system")
state, watermarks, window = _of("datastream.state"), _of("common.watermark_strategy"), _of("datastream.window")
Types = common.Types
KEYS, WINDOW_S = 1000, 100_000
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Counts(datastream.KeyedProcessFunction):
    """Counts the elements of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(state.ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class Seconds(watermarks.TimestampAssigner):
    """The number of a line is its time in seconds."""

    def extract_timestamp(self, value: tuple[int, int], record_timestamp: int) -> int:
        return value[1] * 1000


def parsed(line: str) -> tuple[int, int]:
    """Return key and number of a line."""
    number = int(line)
    return number % KEYS, number


def key_of(value: tuple[int, int]) -> int:
    """Return the key of a pair."""
    return value[0]


def larger(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the pair with the larger count."""
    return one if one[1] > other[1] else other


def run(lines: Path, results: Path, mode: str) -> tuple[float, float]:
    """Run the job; return its seconds by the clock, and of processor time."""
    configuration = common.Configuration()
    if IS_PYFLINK:
        configuration.set_string("python.executable", sys.executable)
        configuration.set_string("python.client.executable", sys.executable)
        configuration.set_string("python.execution-mode", mode)
    environment = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(1)
    source = files.FileSource.for_record_stream_format(files.StreamFormat.text_line_format(), str(lines)).build()
    strategy = common.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    (
        environment.from_source(source, common.WatermarkStrategy.no_watermarks(), "lines")
        .map(parsed, PAIR)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(key_of, Types.LONG())
        .process(Counts(), PAIR)
        .key_by(key_of, Types.LONG())
        .window(window.TumblingEventTimeWindows.of(common.Time.seconds(WINDOW_S)))
        .reduce(larger, output_type=PAIR)
        .map(str, Types.STRING())
        .sink_to(files.FileSink.for_row_format(str(results), common.Encoder.simple_string_encoder()).build())
    )
    begin, used = time.perf_counter(), processor_s()
    environment.execute()
    return time.perf_counter() - begin, processor_s() - used


def processor_s() -> float:
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
    parser.add_argument("lines", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--mode", choices=("process", "thread"), default="thread")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if os.getpid() != os.getsid(0):
        os.setsid()
    # The interpreter within the JVM (mode thread) knows nothing of the environment that this program runs in.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(os.path.isdir, sys.path[1:]))
    few = chosen.results / "few.txt"
    few.parent.mkdir(parents=True, exist_ok=True)
    few.write_text("".join(f"{number}\n" for number in range(1000)))
    run(few, chosen.results / "few", chosen.mode)
    rounds = [run(chosen.lines, chosen.results / str(number), chosen.mode) for number in range(chosen.rounds)]
    print(json.dumps({"home": HOME, "s": [one for one, _ in rounds], "cpu_s": [one for _, one in rounds]}))


if __name__ == "__main__":
    main()
