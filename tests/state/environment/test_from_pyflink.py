"""A program goes on from a savepoint of real PyFlink, in either mode."""

import json
import shutil

import pytest

from stateshift import RestoreRefused
from stateshift.pyflink.common import Time, Types, WatermarkStrategy
from stateshift.pyflink.common.watermark_strategy import TimestampAssigner
from stateshift.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from stateshift.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from stateshift.pyflink.datastream.window import TumblingEventTimeWindows

LONG, STRING = Types.LONG(), Types.STRING()
NUMBERS = Types.TUPLE([LONG, LONG])


@pytest.fixture
def program(root, tmp_path):
    """`program(name)`: an environment that goes on from a copy of a savepoint, and what is expected of that."""

    def of(name):
        place = root / "tests/fixtures/pyflink-2.3" / name
        shutil.copytree(place / "savepoint", tmp_path / "before")
        environment = StreamExecutionEnvironment.get_execution_environment()
        said = {"execution.savepoint.path": str(tmp_path / "before")}
        environment.configure(said | {"execution.savepoint.ignore-unclaimed-state": "true"})
        return environment, json.loads((place / "expected.json").read_text("utf-8"))

    return of


class Keeps(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG))
        last = ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [LONG, STRING]))
        self.last = runtime_context.get_state(last)
        self.note = runtime_context.get_state(ValueStateDescriptor("note", Types.PICKLED_BYTE_ARRAY()))
        self.events = runtime_context.get_list_state(ListStateDescriptor("events", STRING))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", STRING, LONG))
        total = ReducingStateDescriptor("total", lambda one, other: one + other, LONG)
        self.total = runtime_context.get_reducing_state(total)

    def process_element(self, key, ctx):
        yield (
            str(key),
            {
                "count": self.count.value(), "last": self.last.value().as_dict(), "note": self.note.value(),
                "events": list(self.events.get()), "counts": dict(self.counts.items()), "total": self.total.get(),
            },
        )  # fmt: skip


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_a_function_finds_what_it_had_in_pyflink(program, mode, tmp_path):
    environment, expected = program(f"values-{mode}")
    results = []
    keyed = environment.from_collection([*range(7)], LONG).key_by(lambda key: key, LONG)
    keyed.process(Keeps()).uid("keeps").add_sink(results.append)
    environment.execute(on_incompatible="migrate")

    assert [
        (str(key), {name: expected["last"][str(key)][name] for name in results[0][1]}) for key in range(7)
    ] == results
    assert (tmp_path / "before-migrated/_metadata").exists()


def test_it_is_refused_with_what_to_do(program, tmp_path):
    environment, _ = program("values-process")
    keyed = environment.from_collection([1], LONG).key_by(lambda key: key, LONG)
    keyed.process(Keeps()).uid("keeps").print()
    with pytest.raises(RestoreRefused) as refused:
        environment.execute()

    assert 'on_incompatible="migrate"' in str(refused.value)
    assert {"PYF-1", "PYF-3", "ROLE-4"} <= {one.rule for _, _, one in refused.value.report.findings()}
    assert [tmp_path / "before"] == [*tmp_path.iterdir()]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


@pytest.mark.parametrize("name", ["windows", "windows-thread"])
def test_windows_that_were_open_in_pyflink_end_here(program, name):
    environment, expected = program(name)
    results = []
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    keyed = (
        environment.from_collection([(0, 50), (1, 150)], NUMBERS)
        .assign_timestamps_and_watermarks(times)
        .key_by(lambda value: value[0], LONG)
    )
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(100)))
    reduced = windows.reduce(lambda one, other: (one[0], one[1] + other[1]), output_type=NUMBERS)
    reduced.uid("reduced").add_sink(results.append)
    environment.execute(on_incompatible="migrate")

    sums = {key: 50 * (key == 0) for key in range(7)}
    for key, number in expected["lines"]:
        sums[key] += number
    assert {*sums.items(), (1, 150)} == {*results}
