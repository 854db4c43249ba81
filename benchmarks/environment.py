"""The local environment: an element beside the same function in a harness, and a program beside PyFlink's thread mode.

    python -m benchmarks.environment [--elements 200000] [--lines 1000000] [--rounds 5] [--pyflink VENV/bin/python]

Both ways of the first table call a `KeyedProcessFunction` with a count for each of 1,000 keys, and hand its results to
a list: a harness, whose `process_element` is called for each element, and an environment, from `from_collection` to the
end of `execute`. They take turns; a figure is the median of the rounds, in nanoseconds of CPU time for each element,
and the ratio is the median of the ratios within a round.

The second table is of `environment_job`: lines of a file through key_by, process and an event-time window into files,
by stateshift and by PyFlink, each in a process of its own. The results of both are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import ValueStateDescriptor
from stateshift.state.testing import KeyedProcessHarness

from .machine import arguments_of, facts, print_table, scratch_folder, told

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 1000
PROGRAM = Path(__file__).with_name("environment_job.py")


class Counts(KeyedProcessFunction):
    """Counts the elements of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def _key(value: tuple[int, int]) -> int:
    return value[0]


def by_harness(elements: list[tuple[int, int]]) -> list[Any]:
    """Return the results of a harness."""
    with KeyedProcessHarness(Counts(), _key, int) as harness:
        process = harness.process_element
        for element in elements:
            process(element)
        return list(harness.output)


def by_environment(elements: list[tuple[int, int]]) -> list[Any]:
    """Return the results of an environment."""
    env, found = StreamExecutionEnvironment.get_execution_environment(), []
    env.from_collection(elements).key_by(_key, Types.LONG()).process(Counts()).add_sink(found.append)
    env.execute()
    return found


def of_elements(count: int, rounds: int) -> dict[str, float]:
    """Measure both ways: nanoseconds for each element, and the ratio."""
    elements = [(number % KEYS, number) for number in range(count)]
    found: dict[str, list[float]] = {"harness": [], "environment": []}
    ways = {"harness": by_harness, "environment": by_environment}
    for _ in range(rounds):
        results = {}
        for way, run in ways.items():
            begin = time.process_time()
            results[way] = run(elements)
            found[way].append((time.process_time() - begin) / count * 1e9)
        if len(results["environment"]) != count:
            raise SystemExit(f"{len(results['environment'])} results of {count} elements")
    ratios = [one / other for one, other in zip(found["environment"], found["harness"], strict=True)]
    return {way: statistics.median(times) for way, times in found.items()} | {"ratio": statistics.median(ratios)}


def of_programs(lines: int, rounds: int, pyflink: Path | None, folder: Path) -> list[dict[str, Any]]:
    """Run the program by stateshift, and by PyFlink where there is one; return what each of them printed."""
    file = folder / "lines.txt"
    file.write_text("".join(f"{number}\n" for number in range(lines)))
    found, results = [], []
    for python in (Path(sys.executable), *(() if pyflink is None else (pyflink,))):
        place = folder / f"results-{len(found)}"
        variables = {**os.environ, "PYTHONPATH": ""}
        command = [python, PROGRAM, file, place, "--rounds", rounds]
        # In another folder: where the package's own folder `pyflink` is at hand, it would be taken for PyFlink.
        run = subprocess.run(
            list(map(str, command)), stdout=subprocess.PIPE, check=True, text=True, cwd=folder, env=variables
        )
        found.append(json.loads(run.stdout.splitlines()[-1]))
        parts = (part for part in (place / "0").rglob("*part*") if part.is_file())
        results.append(Counter(line for part in parts for line in part.read_text(encoding="utf-8").splitlines()))
    if any(one != results[0] for one in results) or not results[0]:
        raise SystemExit("the results of both are different")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=200_000, help="of the first table")
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the second table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pyflink", type=Path, help="the interpreter of an environment with apache-flink")
    arguments = arguments_of(parser)
    elements = of_elements(arguments.elements, arguments.rounds)
    if arguments.pyflink is None:
        print("PyFlink was not measured: --pyflink names no interpreter of it (benchmarks/README.md)", file=sys.stderr)
    with scratch_folder(arguments.folder) as folder:
        programs = of_programs(arguments.lines, min(arguments.rounds, 3), arguments.pyflink, folder)
    if arguments.json:
        print(json.dumps({"machine": facts(), "elements": elements, "programs": programs}, indent=2))
        return
    print(told(facts(elements=arguments.elements, lines=arguments.lines)), "\n")
    rows = [[way, f"{elements[way]:.0f}"] for way in ("harness", "environment")]
    rows.append(["ratio (asked: at most 1.3)", f"{elements['ratio']:.2f}"])
    print_table("An element", ("", "ns of CPU"), rows, markdown=arguments.markdown)
    medians = [{name: statistics.median(one[name]) for name in ("s", "cpu_s")} for one in programs]
    rows = [[one["home"], f"{mid['s']:.1f}", f"{mid['cpu_s']:.1f}"] for one, mid in zip(programs, medians, strict=True)]
    if len(medians) > 1:
        ratios = (f"{medians[0][name] / medians[1][name]:.2f}" for name in ("s", "cpu_s"))
        rows.append(["ratio (asked: at most 1)", *ratios])
    print_table("A program of lines", ("", "s", "s of CPU"), rows, markdown=arguments.markdown)


if __name__ == "__main__":
    main()
