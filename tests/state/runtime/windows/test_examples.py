"""The window examples that PyFlink ships: ours of the same shape, and theirs where the package is at hand."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from stateshift import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowedStream,
    WindowFunction,
)
from stateshift.pyflink.common import Time, Types
from stateshift.state.testing import KeyedProcessHarness


class Counted(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return element[1]


class Summed(WindowFunction[tuple, tuple, str, object]):
    def apply(self, key: str, window: object, inputs: Iterable[tuple]):
        return [(key, sum(value[0] for value in inputs))]


OURS = {"CountWindowProcessFunction": Counted, "MySessionWindowTimeGapExtractor": Gap, "SumWindowFunction": Summed}
GIVEN = {
    "CountWindow": object, "Iterable": Iterable, "ProcessWindowFunction": ProcessWindowFunction,
    "SessionWindowTimeGapExtractor": SessionWindowTimeGapExtractor, "TimeWindow": TimeWindow,
    "TimestampAssigner": object, "WindowFunction": WindowFunction,
}  # fmt: skip
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.fixture(params=["ours", "PyFlink's"])
def example(request):
    """`example(module)`: the classes of an example by their names; STATESHIFT_PYFLINK has the package `pyflink`."""

    def classes(name):
        if request.param == "ours":
            return OURS
        if "STATESHIFT_PYFLINK" not in os.environ:
            pytest.skip("STATESHIFT_PYFLINK names no folder with the package pyflink")
        place = Path(os.environ["STATESHIFT_PYFLINK"]) / "pyflink/examples/datastream/windowing" / f"{name}.py"
        tree = ast.parse(place.read_text(encoding="utf-8"))
        names = dict(GIVEN)
        found = [item for item in tree.body if isinstance(item, ast.ClassDef)]
        exec(compile(ast.Module(found, []), str(place), "exec"), names)  # noqa: S102 - a file of PyFlink
        return names

    return classes


def run(assigner, function):
    """The events of the examples: their text is the key, their number the time."""
    harness = KeyedProcessHarness(WindowedStream(assigner, PAIR).process(function), lambda pair: pair[0], str)
    for time in (1, 2, 3, 4, 5, 8, 9, 15):
        harness.process_element(("hi", time), time)
    harness.process_watermark((1 << 63) - 1)
    return harness.output


def test_tumbling_windows(example):
    function = example("tumbling_time_window")["CountWindowProcessFunction"]()
    found = run(TumblingEventTimeWindows.of(Time.milliseconds(5)), function)

    assert [("hi", 0, 5, 4), ("hi", 5, 10, 3), ("hi", 15, 20, 1)] == found


def test_sliding_windows(example):
    function = example("sliding_time_window")["CountWindowProcessFunction"]()
    found = run(SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2)), function)
    starts = [(-2, 2), (0, 4), (2, 4), (4, 3), (6, 2), (8, 2), (12, 1), (14, 1)]

    assert [("hi", start, start + 5, count) for start, count in starts] == found


def test_sessions(example):
    function = example("session_with_gap_window")["CountWindowProcessFunction"]()

    assert [("hi", 1, 14, 7), ("hi", 15, 20, 1)] == run(
        EventTimeSessionWindows.with_gap(Time.milliseconds(5)), function
    )


def test_sessions_with_gaps_of_their_own(example):
    classes = example("session_with_dynamic_gap_window")
    gap = classes["MySessionWindowTimeGapExtractor"]()
    found = run(EventTimeSessionWindows.with_dynamic_gap(gap), classes["CountWindowProcessFunction"]())

    assert [("hi", 1, 30, 8)] == found


def test_count_windows_are_global_windows_with_a_trigger(example):
    function = example("tumbling_count_window")["SumWindowFunction"]()
    elements = WindowedStream(GlobalWindows.create(), Types.TUPLE([Types.INT(), Types.STRING()]))
    counted = elements.trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(function)
    harness = KeyedProcessHarness(counted, lambda pair: pair[1], str)
    events = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello")]

    assert [("hi", 4), ("hello", 6), ("hello", 12)] == harness.process_elements(*events)
