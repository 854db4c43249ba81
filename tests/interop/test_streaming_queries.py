"""Real Flink restores a savepoint that was taken from the state directory of a streaming query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from streaming_batches import BACKENDS, Batches, close_slots

from stateshift import KeyedProcessFunction, MapStateDescriptor, Operator, ValueStateDescriptor
from stateshift.spark.streaming.savepoints import take_savepoint

SCHEMA = {"user": pa.string(), "amount": pa.int64(), "at": pa.int64()}
LATER_MS = 1_000_000


@attrs.frozen
class Payment:
    user: str
    amount: int
    at: int


class Account(KeyedProcessFunction):
    """Has the sum of a key, how often it had each amount, and a timer for each of its elements."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))
        self.amounts = runtime_context.get_map_state(MapStateDescriptor("amounts", int, int))

    def process_element(self, value: Payment, ctx: Any) -> Iterator[int]:
        self.total.update(self.total.value() + value.amount)
        self.amounts.put(value.amount, (self.amounts.get(value.amount) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value.at + LATER_MS)
        yield self.total.value()


@pytest.fixture(autouse=True)
def _no_slots():
    yield
    close_slots()


@pytest.mark.parametrize(("backend", "in_flink"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_flink_restores_a_savepoint_of_a_query(flink_restore, same_contents, restorations, tmp_path, backend, in_flink):
    engine = Batches(tmp_path / "state", Account(), BACKENDS[backend], schema=SCHEMA, key=("user",), element=Payment,
                     timestamp="at", slots=3, key_groups=128, uid="accounts")  # fmt: skip
    batches = [[Payment(f"user-{n % 40}", n % 7, number * 1000 + n) for n in range(100)] for number in range(3)]
    totals, amounts, timers = {}, {}, []
    for batch in batches:
        engine.batch([attrs.asdict(payment) for payment in batch])
        for payment in batch:
            totals[payment.user] = totals.get(payment.user, 0) + payment.amount
            counts = amounts.setdefault(payment.user, {})
            counts[payment.amount] = counts.get(payment.amount, 0) + 1
            timers.append([payment.user, {"$void": True}, payment.at + LATER_MS])
    engine.batch([attrs.asdict(Payment("uncommitted", 1, 5000))], commits=False)

    take_savepoint(tmp_path / "state", tmp_path / "savepoint")

    maps = [[user, {"$map": [list(item) for item in counts.items()]}] for user, counts in amounts.items()]
    keyed = {"total": {"entries": [list(item) for item in totals.items()]}, "amounts": {"entries": maps}}
    operator = {"operator_id": Operator("accounts").id, "keyed": keyed, "timers": {"event": timers}}
    for parallelism in (None, 2):
        restored = flink_restore(tmp_path / "savepoint", backend=in_flink, parallelism=parallelism)
        assert same_contents({"operators": [operator]}, restored) == []
        restorations.append((f"savepoint of a query ({backend})", "2.3", "2.3", in_flink, parallelism))
