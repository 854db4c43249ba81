"""A query whose results are known, whatever is killed: sums by user in the order of time, and timers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateshift import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor

COLUMNS = "id long, user long, amount long, at long"
USERS, SECOND_MS = 40, 1000


class Sums(KeyedProcessFunction):
    """Emits the sum so far for each element, and at the end of each second how many elements a user had in it.

    At one element it fails once: the file says that it has.
    """

    def __init__(self, fails_at, has_failed):
        self.fails_at, self.has_failed = fails_at, has_failed

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", int, default_value=0))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", int, int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int, int, int]]:
        self.sum.update(self.sum.value() + value.amount)
        if value.id == self.fails_at and not Path(self.has_failed).exists():
            Path(self.has_failed).touch()
            raise ZeroDivisionError("once")
        end = value.at // SECOND_MS * SECOND_MS + SECOND_MS
        self.counts.put(end, (self.counts.get(end) or 0) + 1)
        ctx.timer_service().register_event_time_timer(end)
        yield "sum", value.id, value.user, self.sum.value()

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp, ctx.get_current_key(), self.counts.get(timestamp)
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
    """Return the results of some batches."""
    results, sums, counts, last = [], Counter(), Counter(), 0
    for number, user, amount, at in sorted((row for batch in rows for row in batch), key=lambda row: row[3]):
        sums[user] += amount
        counts[at // SECOND_MS * SECOND_MS + SECOND_MS, user] += 1
        results.append(("sum", number, user, sums[user]))
        last = max(last, at)
    fired = [("timer", end, user, count) for (end, user), count in counts.items() if end <= last - 1]
    return sorted([*results, *fired], key=repr)


def sums(seed, rows):
    """Return what builds the query: `build(job, query)`."""
    fails_at = random.Random(f"failure {seed}").randrange(len(rows) * len(rows[0]))  # noqa: S311 - no secret

    def build(job, query):
        function = Sums(fails_at, str(query.place / "has_failed"))
        return job.stream(query.frame(), timestamp="at").key_by("user").process(function, uid="sums")

    return build
