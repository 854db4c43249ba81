"""One operator's state goes from PyFlink to a local program, to a query on Spark, and back to PyFlink.

Each program is the same text, and yields all that a key has: after each station it is what one program had yielded
that had read all lines itself.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from pyspark import cloudpickle

from stateshift import Job, ListStateDescriptor, MigrationOptions, Operator, Savepoint, TimeWindow
from stateshift.compat.repartition import Repartition
from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import StreamExecutionEnvironment
from stateshift.spark import StreamJob
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.testing import migrate_in_process

PROGRAM = Path(__file__).parent / "programs/across/everything.py"
LINES = [f"{number % 7} {number}" for number in range(60)]
PARTS = [LINES[:30], LINES[30:40], LINES[40:50], LINES[50:]]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program with its imports changed, as a module."""
    text = re.sub(r"^from pyflink", "from stateshift.pyflink", PROGRAM.read_text("utf-8"), flags=re.MULTILINE)
    place = tmp_path_factory.mktemp("here") / "everything.py"
    place.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("everything", place)
    sys.modules["everything"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules["everything"]


def expected(lines):
    """What the program yields of each line."""
    kept, found = {}, []
    for line in lines:
        key, number = map(int, line.split(" "))
        numbers = kept.setdefault(key, [])
        numbers.append(number)
        counts = {kind: sum(one % 2 == at for one in numbers) for kind, at in (("even", 0), ("odd", 1))}
        state = {
            "count": len(numbers), "last": [number, f"n{number}"], "note": {"seen": [*numbers]},
            "kept": "".join(f"k{one}" for one in numbers), "events": [[one, f"é{one}"] for one in numbers],
            "counts": {kind: count for kind, count in counts.items() if count},
            "total": sum(numbers) / 4, "mean": sum(numbers) / len(numbers),
        }  # fmt: skip
        found.append([key, state])
    return found


def of_part(number):
    """What a station yields that goes on with a part of the lines."""
    before = sum(map(len, PARTS[:number]))
    return sorted(map(json.dumps, expected(LINES)[before : before + len(PARTS[number])]))


def same(results):
    return sorted(json.dumps(json.loads(one)) for one in results)


def in_pyflink(run_pyflink, folder, part, mode, *options, program="everything"):
    (folder / "lines").mkdir(parents=True)
    (folder / "lines" / "a.txt").write_text("".join(f"{line}\n" for line in part), "utf-8")
    return run_pyflink(f"across/{program}.py", folder, "--mode", mode, *options)


def locally(program, part, savepoint, target):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.configure({"execution.savepoint.path": savepoint, "execution.savepoint.ignore-unclaimed-state": "true"})
    results = []
    keyed = environment.from_collection(part, Types.STRING()).key_by(lambda line: int(line.split(" ")[0]), Types.LONG())
    program.make(keyed).add_sink(results.append)
    environment.execute(savepoint=str(target), on_incompatible="migrate")
    return results


def on_spark(program, spark, folder, part, savepoint):
    @attrs.frozen
    class Line:
        key: int
        text: str

    class OnSpark(program.Everything):
        def process_element(self, line: Line, ctx) -> Iterator[tuple[str]]:
            for text in super().process_element(line.text, ctx):
                yield (text,)

        def on_timer(self, timestamp, ctx) -> Iterator[tuple[str]]:
            yield from ()

    rows = [(int(line.split(" ")[0]), line) for line in part]
    spark.createDataFrame(rows, "key bigint, text string").coalesce(1).write.parquet(str(folder / "lines"))
    lines = spark.readStream.schema("key bigint, text string").parquet(str(folder / "lines"))
    job = StreamJob(str(folder / "state"), str(folder / "checkpoint"), slots=2)
    results = job.stream(lines).key_by("key").process(OnSpark(), uid="everything")
    writer = results.writeStream.format("parquet").option("path", str(folder / "results"))
    job.start(writer, available_now=True, from_savepoint=str(savepoint)).awaitTermination()
    take_savepoint(folder / "state", folder / "savepoint")
    return [one[0] for one in spark.read.parquet(str(folder / "results")).collect()]


@pytest.mark.parametrize(("before", "after"), [("process", "thread"), ("thread", "process")])
def test_state_goes_from_pyflink_through_here_and_spark_to_pyflink(
    run_pyflink, program, spark, tmp_path, before, after
):
    results, written = in_pyflink(run_pyflink, tmp_path / "first", PARTS[0], before)
    assert of_part(0) == same(results)

    assert of_part(1) == same(locally(program, PARTS[1], written, tmp_path / "local"))
    assert of_part(2) == same(on_spark(program, spark, tmp_path / "spark", PARTS[2], tmp_path / "local"))

    back = Job([Operator.pyflink("everything", program.Everything(), key=Types.LONG(), execution_mode=after)])
    options = MigrationOptions(repartition=Repartition())
    migrate_in_process(Savepoint.open(tmp_path / "spark/savepoint"), tmp_path / "back", back, options)
    results, written = in_pyflink(run_pyflink, tmp_path / "last", PARTS[3], after, "--restore", tmp_path / "back")
    assert of_part(3) == same(results)
    timers = [
        (one.key[0], one.timestamp - program.LATER_MS)
        for state in Savepoint.open(written).operator("everything").states
        if state.kind == "timers"
        for one in state.read_timers()
    ]
    assert sorted([(number % 7, number) for number in range(60)] * 2) == sorted(timers)


@pytest.mark.parametrize(("before", "after"), [("process", "thread"), ("thread", "process")])
def test_windows_end_in_the_other_mode(run_pyflink, tmp_path, before, after):
    """Their timers have another name there: without it they would never end."""
    lines = LINES[:40]
    _, written = in_pyflink(run_pyflink, tmp_path / "first", lines, before, program="begin_windows")
    contents = [ListStateDescriptor("window-contents", Types.TUPLE([Types.LONG()] * 2), namespace=TimeWindow)]
    jobs = {
        mode: Job([Operator.pyflink("windows", contents, key=Types.LONG(), execution_mode=mode)])
        for mode in (before, after)
    }
    new = attrs.evolve(jobs[after], former=jobs[before])
    migrate_in_process(Savepoint.open(written), tmp_path / "migrated", new, MigrationOptions())
    restored = ["--restore", tmp_path / "migrated", "--results", 7]
    results, _ = in_pyflink(run_pyflink, tmp_path / "last", ["0 250"], after, *restored, program="open_windows")

    assert [[key, 0, [*range(key, 40, 7)]] for key in range(7)] == sorted(map(json.loads, results))
