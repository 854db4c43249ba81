"""Which windows an element gets, against plain models."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    DeclarationError,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    RuntimeContext,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueNotConvertible,
    WindowedStream,
)
from stateshift.state.runtime.timer_service import Times
from stateshift.state.runtime.windows.contexts import WindowAssignerContext
from stateshift.state.testing import TaskInfo

SECOND = timedelta(seconds=1)
TIMES = st.integers(-(10**6), 10**6)


def at(now_ms=0):
    return WindowAssignerContext(Times(lambda: now_ms), RuntimeContext(TaskInfo()))


def windows_of(assigner, time):
    """The windows by the way that an assigner gets its time."""
    if assigner.is_event_time():
        return assigner.assign_windows("element", time, at(now_ms=7))
    return assigner.assign_windows("element", None, at(now_ms=time))


@pytest.mark.parametrize("kind", [TumblingEventTimeWindows, TumblingProcessingTimeWindows])
@given(time=TIMES, size=st.integers(1, 5000), shift=st.floats(-0.99, 0.99))
def test_a_tumbling_window_is_the_only_one_of_its_grid_with_the_element(kind, time, size, shift):
    offset = int(size * shift)
    (window,) = windows_of(kind(size, offset), time)

    assert window.start <= time < window.end == window.start + size
    assert 0 == (window.start - offset) % size


@pytest.mark.parametrize("kind", [SlidingEventTimeWindows, SlidingProcessingTimeWindows])
@given(time=TIMES, size=st.integers(1, 500), slide=st.integers(1, 500), shift=st.floats(-0.99, 0.99))
def test_sliding_windows_are_all_of_their_grid_with_the_element(kind, time, size, slide, shift):
    offset = int(slide * shift)
    expected = {
        TimeWindow(start, start + size) for start in range(time - size + 1, time + 1) if (start - offset) % slide == 0
    }
    found = windows_of(kind(size, slide, offset), time)

    assert expected == set(found)
    assert len(expected) == len(found)


@pytest.mark.parametrize("kind", [EventTimeSessionWindows, ProcessingTimeSessionWindows])
def test_a_session_begins_with_its_element_and_ends_after_the_gap(kind):
    assert [TimeWindow(5, 1005)] == windows_of(kind.with_gap(SECOND), 5)


class Length(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return len(element)


@pytest.mark.parametrize("extractor", [Length(), len])
def test_the_gap_may_depend_on_the_element(extractor):
    assert [TimeWindow(5, 12)] == windows_of(EventTimeSessionWindows.with_dynamic_gap(extractor), 5)


def test_all_elements_have_one_global_window():
    assert [GlobalWindow()] == windows_of(GlobalWindows.create(), 5)


class Collected(EventTimeSessionWindows.MergeCallback):
    def __init__(self):
        self.merges = []

    def merge(self, to_be_merged, merge_result):
        self.merges.append((sorted(to_be_merged), merge_result))


def is_near(group, other):
    return any(window.intersects(another) for window in group for another in other)


@given(windows=st.sets(st.builds(lambda start, size: TimeWindow(start, start + size), TIMES, st.integers(1, 10**5))))
def test_windows_merge_that_overlap_or_touch(windows):
    """The model joins windows pair by pair until nothing changes."""
    groups = [{window} for window in windows]
    while pair := next((pair for pair in itertools.combinations(groups, 2) if is_near(*pair)), None):
        groups = [group for group in groups if group not in pair] + [pair[0] | pair[1]]
    expected = [
        (sorted(group), TimeWindow(min(one.start for one in group), max(one.end for one in group)))
        for group in groups
        if len(group) > 1
    ]
    found = Collected()
    EventTimeSessionWindows(1).merge_windows(windows, found)

    assert sorted(expected) == sorted(found.merges)


def test_of_takes_timedeltas():
    assert TumblingEventTimeWindows(60_000, 1000) == TumblingEventTimeWindows.of(60 * SECOND, SECOND)
    assert SlidingEventTimeWindows(60_000, 10_000, 0) == SlidingEventTimeWindows.of(60 * SECOND, 10 * SECOND)
    assert TumblingEventTimeWindows(60_000, 0) != TumblingProcessingTimeWindows(60_000, 0)


@pytest.mark.parametrize(
    "create",
    [
        lambda: TumblingEventTimeWindows(0, 0),
        lambda: TumblingEventTimeWindows(1000, -1000),
        lambda: SlidingProcessingTimeWindows(0, 10, 0),
        lambda: SlidingEventTimeWindows(10, 5, 5),
        lambda: EventTimeSessionWindows(0),
        lambda: EventTimeSessionWindows.with_gap(timedelta(microseconds=999)),
        lambda: TumblingEventTimeWindows.of(60),
        lambda: windows_of(EventTimeSessionWindows.with_dynamic_gap(lambda _: 0), 5),
        lambda: WindowedStream(GlobalWindows(), int).allowed_lateness(-1),
    ],
)
def test_lengths_that_make_no_windows_are_refused(create):
    with pytest.raises(DeclarationError):
        create()


@pytest.mark.parametrize(
    "assigner", [TumblingEventTimeWindows(10, 0), SlidingEventTimeWindows(10, 5, 0), EventTimeSessionWindows(10)]
)
def test_windows_of_event_time_need_a_time_stamp(assigner):
    with pytest.raises(ValueNotConvertible, match="has no time stamp"):
        windows_of(assigner, None)
