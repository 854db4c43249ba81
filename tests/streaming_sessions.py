"""A function with sessions and timers, and rows without late ones, in any number of files of input."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateshift import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor

COLUMNS = "user string, at long"
GAP_MS, EVERY_MS = 500, 1000


class Sessions(KeyedProcessFunction):
    """Emits each element with its number in its session, and sessions when they end; counts those of each second."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))
        self.until = runtime_context.get_state(ValueStateDescriptor("until", int, default_value=0))
        self.by_second = runtime_context.get_map_state(MapStateDescriptor("by_second", int, int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, str, int, int]]:
        timers, at = ctx.timer_service(), ctx.timestamp()
        if self.count.value():
            timers.delete_event_time_timer(self.until.value())
        self.count.update(self.count.value() + 1)
        self.until.update(at // 2 * 2 + GAP_MS)  # even
        timers.register_event_time_timer(self.until.value())
        second = at // EVERY_MS * EVERY_MS + EVERY_MS - 1  # odd
        self.by_second.put(second, (self.by_second.get(second) or 0) + 1)
        timers.register_event_time_timer(second)
        yield "element", value.user, at, self.count.value()

    def on_timer(self, timestamp, ctx):
        if timestamp % 2:
            yield "second", ctx.get_current_key(), timestamp, self.by_second.get(timestamp)
            self.by_second.remove(timestamp)
        if timestamp == self.until.value():
            yield "session", ctx.get_current_key(), timestamp, self.count.value()
            self.count.clear()
            self.until.clear()


class Fails(Sessions):
    """Fails at its timers as long as there is a file."""

    def __init__(self, place):
        self.place = Path(place)

    def on_timer(self, timestamp, ctx):
        if (self.place / "fails").exists():
            raise ZeroDivisionError("not now")
        yield from super().on_timer(timestamp, ctx)


def clicks(seed, count):
    """Return rows in the order of their times, which are all different."""
    choice, at, rows = random.Random(f"clicks {seed}"), 0, []  # noqa: S311 - no secret
    for _ in range(count):
        at += choice.choice((1, 2, 5, 40, 90, 300))
        rows.append((choice.choice("abcdefgh"), at))
    return rows


def expected(rows):
    """Return the results after the last watermark."""
    found, counts, last, seconds = [], {}, {}, {}
    for user, at in rows:
        if user in last and last[user] // 2 * 2 + GAP_MS < at:
            found.append(("session", user, last[user] // 2 * 2 + GAP_MS, counts.pop(user)))
        counts[user] = counts.get(user, 0) + 1
        last[user] = at
        second = at // EVERY_MS * EVERY_MS + EVERY_MS - 1
        seconds[second, user] = seconds.get((second, user), 0) + 1
        found.append(("element", user, at, counts[user]))
    found += [("session", user, last[user] // 2 * 2 + GAP_MS, count) for user, count in counts.items()]
    found += [("second", user, second, count) for (second, user), count in seconds.items()]
    return sorted(found, key=repr)
