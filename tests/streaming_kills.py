"""A query whose results are known, whatever is killed: sums by user in the order of time, time to live, and timers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from stateshift import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    TimeDomain,
    ValueStateDescriptor,
)
from stateshift.state.directory.garbage import collect
from stateshift.state.directory.manifest import FILES, MANIFESTS, SHARED, Manifest

COLUMNS = "id long, user long, amount long, at long"
USERS, SECOND_MS = 40, 1000
BATCHES, SIZE, RETAINED = 24, 1000, "2"


class Sums(KeyedProcessFunction):
    """Emits for each element the sum so far, and how many elements of its batch its user had by then.

    The latter is known by a time to live, since the time of a batch stands still. At the end of each second of event
    time it emits how many elements a user had in it; and in the next batch, by a timer of processing time, each element
    once more. At one element it fails, until there is a file that says so: it makes it itself, unless it `stays`.
    """

    def __init__(self, fails_at, has_failed, *, stays=False):
        self.fails_at, self.has_failed, self.stays = fails_at, has_failed, stays

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", int, default_value=0))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", int, int))
        in_batch = ValueStateDescriptor("in_batch", int)
        in_batch.enable_time_to_live(StateTtlConfig.new_builder(timedelta(milliseconds=1)).build())
        self.in_batch = runtime_context.get_state(in_batch)
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int, int, int]]:
        self.sum.update(self.sum.value() + value.amount)
        if value.id == self.fails_at and not Path(self.has_failed).exists():
            if not self.stays:
                Path(self.has_failed).touch()
            raise ZeroDivisionError("once")
        end = value.at // SECOND_MS * SECOND_MS + SECOND_MS
        self.counts.put(end, (self.counts.get(end) or 0) + 1)
        self.in_batch.update((self.in_batch.value() or 0) + 1)
        self.seen.add(value.id)
        timers = ctx.timer_service()
        timers.register_event_time_timer(end)
        timers.register_processing_time_timer(timers.current_processing_time() + 1)
        yield "sum", value.id, value.user, self.sum.value()
        yield "in batch", value.id, value.user, self.in_batch.value()

    def on_timer(self, timestamp, ctx):
        user = ctx.get_current_key()
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            # Those of this batch, whose timer is due in the next one, are emitted with that.
            for number in self.seen.get():
                yield "seen", number, user, 1
            self.seen.clear()
        else:
            yield "timer", timestamp, user, self.counts.get(timestamp)
            self.counts.remove(timestamp)


def batches(seed, count, size):
    """Return the rows of some batches; their times are all different, and in no order within a batch."""
    choice = random.Random(f"rows {seed}")  # noqa: S311 - no secret
    found = []
    for batch in range(count):
        numbers = range(batch * size, (batch + 1) * size)
        rows = [(number, choice.randrange(USERS), choice.randint(-5, 50), number * 7) for number in numbers]
        choice.shuffle(rows)
        found.append(rows)
    return found


def expected(rows):
    """Return the results of some batches; the elements of the last one are not seen again."""
    results, sums, counts, last = [], Counter(), Counter(), 0
    batch_of = {row[0]: number for number, batch in enumerate(rows) for row in batch}
    in_batch = Counter()
    for number, user, amount, at in sorted((row for batch in rows for row in batch), key=lambda row: row[3]):
        sums[user] += amount
        counts[at // SECOND_MS * SECOND_MS + SECOND_MS, user] += 1
        in_batch[batch_of[number], user] += 1
        results.append(("sum", number, user, sums[user]))
        results.append(("in batch", number, user, in_batch[batch_of[number], user]))
        last = max(last, at)
    seen = [("seen", number, user, 1) for batch in rows[:-1] for number, user, *_ in batch]
    fired = [("timer", end, user, count) for (end, user), count in counts.items() if end <= last - 1]
    return sorted([*results, *seen, *fired], key=repr)


def results_of(query, rows):
    """Return what the sink has, but for what the last batch may have seen already of its own elements."""
    last = {row[0] for row in rows[-1]}
    return [row for row in query.results() if row[0] != "seen" or row[1] not in last]


def by_batch(rows, results):
    """Return the rows of files by the batches that Spark made of them, as the results tell.

    A file is a batch, unless a driver is killed after the source has noted a file and before the batch is: the next
    driver then takes that file and the one after it together.
    """
    counts = {number: count for name, number, _, count in results if name == "in batch"}
    found = []
    for file in rows:
        firsts = {user: number for number, user, *_ in sorted(file, key=lambda row: row[3], reverse=True)}
        if found and any(counts.get(number) != 1 for number in firsts.values()):
            found[-1] = found[-1] + file
        else:
            found.append(file)
    return found


def sums(seed, rows, *, stays=False):
    """Return what builds the query: `build(job, query)`."""
    fails_at = random.Random(f"failure {seed}").randrange(len(rows) * len(rows[0]))  # noqa: S311 - no secret

    def build(job, query):
        function = Sums(fails_at, str(query.place / "has_failed"), stays=stays)
        return job.stream(query.frame(), timestamp="at").key_by("user").process(function, uid="sums")

    return build


def left_after_gc(directory):
    """Collect garbage, and return the files that are there and those that the manifests need: they are equal."""
    collect(directory, older_than_h=0)
    manifests = directory.folder.folder(MANIFESTS)
    read = [Manifest.from_bytes(manifests.read(name)) for name in manifests.names()]
    needed = {name for manifest in read for name in manifest.files()}
    there = {f"{folder}/{name}" for folder in (FILES, SHARED) for name in directory.folder.folder(folder).names()}
    last = max(manifest.batch for manifest in read)
    retained = max(run.retained for run in directory.runs().values())
    assert last - min(manifest.batch for manifest in read) <= retained + 1
    return there, needed
