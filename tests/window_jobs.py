"""The window operators of `WindowJobs.java` in Python, over the same events, with results in the same shape.

Its savepoints are in `fixtures/windows-2.3`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from stateshift import (
    AggregateFunction,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    Int32,
    OutputTag,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    ValueStateDescriptor,
    WindowedStream,
)
from stateshift.state.backends.snapshots import OperatorSnapshot, publish_snapshot
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.publication.commit import Commit
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.storage.files import Folder
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness

FIXTURES = Path(__file__).parent / "fixtures" / "windows-2.3"
PAIR = tuple[Int32, Int32]
FIRED = ValueStateDescriptor("fired", Int32)
LATE = OutputTag("late")
END = (1 << 63) - 1


def add(one, other):
    return one[0], one[1] + other[1]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return 1000 * accumulator[0] + accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Note(ProcessWindowFunction):
    """Yields what is in a window, and how often windows fired: of the key, or each for itself."""

    def __init__(self, *, each=False):
        self.each = each

    def process(self, key, context, elements):
        fired = (context.window_state() if self.each else context.global_state()).get_state(FIRED)
        fired.update((fired.value() or 0) + 1)
        window = context.window()
        shown = "global" if isinstance(window, GlobalWindow) else {"$window": [window.start, window.end]}
        yield [key, shown, sorted((tagged(one) for one in elements), key=str), fired.value()]

    def clear(self, context):
        if self.each:
            context.window_state().get_state(FIRED).clear()


def tagged(value):
    return {"$tuple": list(value)} if isinstance(value, tuple) else value


OPERATIONS = {
    "sessions": (
        WindowedStream(EventTimeSessionWindows.with_gap(timedelta(seconds=5)), PAIR)
        .allowed_lateness(timedelta(seconds=3))
        .side_output_late_data(LATE)
        .reduce(add, Note())
    ),
    "sums": (
        WindowedStream(SlidingEventTimeWindows.of(timedelta(seconds=20), timedelta(seconds=10)), PAIR)
        .allowed_lateness(timedelta(seconds=3))
        .aggregate(Sum(), Note(each=True), PAIR)
    ),
    "lists": (
        WindowedStream(EventTimeSessionWindows.with_dynamic_gap(lambda pair: 2000 * (1 + pair[1] % 5)), PAIR)
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .process(Note())
    ),
    "counts": (
        WindowedStream(GlobalWindows.create(), PAIR).trigger(PurgingTrigger.of(CountTrigger.of(4))).process(Note())
    ),
}


class Jobs:
    """All of the operators, each in a harness; `options` are those of the harness."""

    def __init__(self, **options):
        self.harnesses = {
            uid: KeyedProcessHarness(operation, lambda pair: pair[0], Int32, uid=uid, **options)
            for uid, operation in OPERATIONS.items()
        }

    def restore(self, savepoint):
        for uid, harness in self.harnesses.items():
            harness.restore(HarnessSnapshot.of(savepoint, uid))

    def run(self, *events, end=False):
        """Process the events of files, and give all results so far, sorted as `WindowJobs.java` does."""
        for file in events:
            for line in (FIXTURES / file).read_text(encoding="utf-8").splitlines():
                kind, *numbers = line.split()
                for harness in self.harnesses.values():
                    if kind == "w":
                        harness.process_watermark(int(numbers[0]))
                    else:
                        key, time, value = map(int, numbers)
                        harness.process_element((key, value), time)
        if end:
            for harness in self.harnesses.values():
                harness.process_watermark(END)
        return self.results()

    def results(self):
        found = {uid: harness.output for uid, harness in self.harnesses.items()}
        found["late"] = [list(pair) for pair in self.harnesses["sessions"].side_output(LATE)]
        return ordered(found)

    def write(self, folder):
        """Write one savepoint of all operators."""
        target = Folder.at(folder)
        target.create()
        commit = Commit(target)
        publish_snapshot(
            commit,
            [
                OperatorSnapshot(harness.operator, 128, [harness.write(1, commit, is_checkpoint=False)])
                for harness in self.harnesses.values()
            ],
        )
        return folder


def ordered(results):
    return {uid: sorted(rows, key=str) for uid, rows in results.items() if rows}


def of_flink(name):
    """What `WindowJobs.java` saw: `before` or `after` the savepoint."""
    return ordered(json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))["results"])


def contents(savepoint, uid):
    """The descriptions of the keyed states of an operator by name, and their entries as bytes, by state and group."""
    stored = savepoint.operator(uid).stored
    infos, entries = {}, {}
    for handle in keyed_handles(stored):
        with open_keyed(handle, savepoint.folder, stored.max_parallelism) as reader:
            infos |= {info.name: info for info in reader.header.states}
            for block in reader.blocks():
                name = reader.header.states[block.state_id].name
                entries.setdefault((name, block.key_group), []).extend(map(tuple, block.items()))
    return infos, {place: sorted(found) for place, found in entries.items()}
