"""Slots whose event time ends in a batch, and slots that are called without rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from streaming_batches import Batches

from stateshift import KeyedCoProcessFunction, KeyedProcessFunction, ValueStateDescriptor


@attrs.frozen
class Visit:
    user: str
    at: int


SCHEMA = {"user": pa.string(), "at": pa.int64()}


class Counts(KeyedProcessFunction):
    """Emits the number of elements of a key 10 ms after each, with the watermark."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int, int]]:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), ctx.timer_service().current_watermark()


def counts(place, backend):
    return Batches(place, Counts(), backend, schema=SCHEMA, key=("user",), element=Visit, timestamp="at", slots=1)


def at(user, time):
    return {"user": user, "at": time}


def fired(rows):
    return sorted(tuple(row.values()) for row in rows)


def test_the_last_watermark_fires_what_is_left_and_then_event_time_goes_on_where_it_was(tmp_path, backend):
    engine = counts(tmp_path, backend)
    engine.batch([at("ann", 5), at("bob", 7)])
    (group,) = engine.committed
    last = (1 << 63) - 1

    once = engine.batch(only=[group], drains=True, commits=False)
    again = engine.batch(only=[group], drains=True)
    watermark = engine.manifests[0].watermark
    none = engine.batch([at("ann", 16)])
    later = engine.batch([at("bob", 27)])

    assert [("ann", 1, last), ("bob", 1, last)] == fired(once) == fired(again)
    assert 6 == watermark
    assert ([], [("ann", 2, 26)]) == (none, fired(later))


def test_a_batch_with_rows_processes_them_before_event_time_ends(tmp_path, backend):
    engine = counts(tmp_path, backend)

    rows = engine.batch([at("ann", 5), at("ann", 20)], drains=True)

    assert [("ann", 1, 19), ("ann", 2, (1 << 63) - 1)] == fired(rows)


def test_a_slot_with_nothing_to_do_writes_nothing(tmp_path, backend):
    engine = counts(tmp_path, backend)
    engine.batch([at("ann", 5)], now_ms=1000)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    (group,), written = engine.committed, dict(engine.committed)

    answer = engine.runner(group, engine.committed[group], [], 5000, engine.number)

    assert answer.manifest is None
    assert answer.is_current
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert written == engine.committed


class Both(KeyedCoProcessFunction):
    """Emits a key when event time passes its element."""

    def process_element1(self, value: Visit, ctx: Any) -> Iterator[str]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        return iter(())

    process_element2 = process_element1

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key()


def test_a_slot_is_woken_when_an_input_has_been_silent_for_long_enough(tmp_path, backend):
    engine = Batches(tmp_path, Both(), backend, schema=SCHEMA, key=("user",), element=Visit, timestamp="at", slots=1,
                     inputs=2, idle_ms=1000)  # fmt: skip
    engine.batch([at("ann", 5)], [at("bob", 1)], now_ms=100)
    engine.batch([at("ann", 9)], [], now_ms=600)
    (group,) = engine.committed

    assert engine.wakes == {group: 1100}
    assert [{"value": "bob"}, {"value": "ann"}] == engine.batch(only=[group], now_ms=1100)
    assert engine.wakes == {group: 1600}
