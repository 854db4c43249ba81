"""Rows travel to the slots as blobs of Arrow rows: one or several for each task upstream and slot.

A blob is a row of five columns: the integer of its slot, the number of the input, the task that packed it, the largest
time stamp that the task has met so far, and the rows themselves. Every task sends every slot at least one blob, with
its largest time stamp, so that all slots have the same watermark. Source: notes on Spark, sections 1 and 2.3.

What a task has for a slot beyond its first blobs goes by lanes: no group of a batch has more bytes than Spark can hold,
whatever the batch has.

Spark puts a group into the partition `pmod(murmur3(integer, 42), partitions)`. Source: notes on Spark, 2.1, rule 1.
Spark 4.3 holds all rows of a group in one buffer of at most 2 GB before Python gets the first one
(`ApplyInPandasWithStatePythonRunner`). So a slot has groups besides its own for the rows of a large batch, its lanes.
Their integers are negative: Spark orders groups by their integers, so a slot's own group comes after its lanes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.columnar.key_columns import encoded_keys, key_column
from ..frames import arrow_columns, partition_of
from .row_errors import key_error, without_bad_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..worker import Settings
    from .runs import Run, RunFacts

_DIRECT_TASKS, _DIRECT_BLOBS = 16, 2
"""How many tasks send blobs to a slot's own group, and how many each."""
_LANE_BLOBS, _TASK_LANES = 8, 16
"""How many blobs of a task go by a lane before the next one, and how far tasks are from each other."""
BLOBS = "slot_group int, input int, origin long, highest_ms long, rows binary"
"""The columns of packed rows."""

_SCHEMA = arrow_columns(BLOBS)


@attrs.frozen
class Blob:
    """A row of five columns, without that of its slot."""

    index: int
    origin: int
    highest_ms: int | None
    rows: bytes = attrs.field(repr=False)


@attrs.frozen
class Packing:
    """Packs the rows of one input of an operator; used with `mapInArrow`.

    Attributes:
        run: Reads what holds for this start of the query.
        settings: The settings of the workers.
        index: The number of the input.
        key: The serializer of the keys; None: the input has no keys.
        key_columns: The columns of the key.
        time_column: The column of the time stamps; "": there is none.
        to_all: Whether every slot gets every row: the input is broadcast.
        blob_bytes: The size at which a blob ends.
        tolerates: Whether rows without a key travel, too: the operator goes on without them.
    """

    run: RunFacts
    settings: Settings
    index: int
    key: TypeSerializer[Any] | None
    key_columns: tuple[str, ...]
    time_column: str
    to_all: bool
    blob_bytes: int
    tolerates: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.settings.begin()
        run = self.run.read()
        origin, task = task_number(), self.index
        held: list[list[pa.RecordBatch]] = [[] for _ in run.groups]
        sizes, sent = [0] * len(run.groups), [0] * len(run.groups)
        highest: int | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            highest = self._highest(batch, highest)
            for slot, part in self.parts(batch, len(run.groups), run.max_parallelism, origin):
                held[slot].append(part)
                sizes[slot] += part.nbytes
                if sizes[slot] >= self.blob_bytes:
                    yield _blob(_group(run, slot, origin, sent[slot]), task, origin, highest, held[slot])
                    held[slot], sizes[slot] = [], 0
                    sent[slot] += 1
        for slot, (own, parts) in enumerate(zip(run.groups, held, strict=True)):
            group = _group(run, slot, origin, sent[slot])
            if parts and group != own:
                yield _blob(group, task, origin, highest, parts)
                parts.clear()
            yield _blob(own, task, origin, highest, parts)

    def _highest(self, batch: pa.RecordBatch, before: int | None) -> int | None:
        if not self.time_column:
            return before if before is not None else 0  # there are rows, which is all that is asked for
        found = pc.max(milliseconds(batch.column(self.time_column))).as_py()
        return before if found is None else found if before is None else max(before, found)

    def parts(
        self, batch: pa.RecordBatch, slots: int, max_parallelism: int, origin: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each slot."""
        if self.to_all:
            yield from ((slot, batch) for slot in range(slots))
            return
        if self.key is None:
            yield origin % slots, batch
            return
        if slots == 1 and self.tolerates:
            yield 0, batch
            return
        if self.tolerates:
            batch, without = without_bad_keys(batch, self.key, self.key_columns)
            if without.num_rows:
                yield origin % slots, without
        elif (error := key_error(batch, self.key_columns)) is not None:
            raise error
        if slots == 1:
            yield 0, batch
            return
        column = key_column(self.key, [batch.column(name) for name in self.key_columns])
        _, groups = encoded_keys(self.key, column, max_parallelism)
        chosen = groups.astype(np.int64) * slots // max_parallelism
        order = stable_order(chosen, slots)
        taken = batch.take(pa.array(order))
        ends = np.searchsorted(chosen[order], np.arange(slots + 1))
        for slot in range(slots):
            if count := int(ends[slot + 1] - ends[slot]):
                yield slot, taken.slice(int(ends[slot]), count)


def stable_order(numbers: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """Return the stable order of numbers below `most`; numpy sorts numbers of 16 bits far faster."""
    return np.argsort(numbers.astype(np.uint16) if most <= 1 << 16 else numbers, kind="stable")


def milliseconds(column: pa.Array) -> pa.Array:
    """Return a column of times as milliseconds since 1970 UTC, rounded down; integers are milliseconds already."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    per_unit = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
    factor, divisor = per_unit[column.type.unit]
    numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return pa.array(numbers * factor // divisor, mask=pc.is_null(column).to_numpy(zero_copy_only=False))


def task_number() -> int:
    """Return the number of this task, which is that of its partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _group(run: Run, slot: int, origin: int, sent: int) -> int:
    """Return the group of a task's next blob for a slot to which it has sent some before."""
    direct = _DIRECT_BLOBS if origin < _DIRECT_TASKS else 0
    if sent < direct:
        return run.groups[slot]
    lanes = lanes_of(slot, len(run.groups), run.epoch.partitions)
    return lanes[(origin * _TASK_LANES + (sent - direct) // _LANE_BLOBS) % LANES]


def _blob(group: int, index: int, origin: int, highest: int | None, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = packed(parts)
    return pa.RecordBatch.from_pydict(
        {"slot_group": [group], "input": [index], "origin": [origin], "highest_ms": [highest], "rows": [rows]},
        schema=_SCHEMA,
    )


def packed(parts: Sequence[pa.RecordBatch]) -> bytes:
    """Return rows as bytes; no rows give b""."""
    if not parts:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, parts[0].schema) as writer:
        writer.write_table(pa.Table.from_batches(parts).combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(rows: bytes) -> list[pa.RecordBatch]:
    """Return the rows of a blob."""
    return list(pa.ipc.open_stream(rows)) if rows else []


LANES = 256
"""How many lanes a slot has."""


def slot_groups(slots: int, partitions: int) -> tuple[int, ...]:
    """Return an integer for each slot: the slots go to the partitions in turn."""
    found: list[int] = []
    for slot in range(slots):
        first = found[-1] + 1 if found else 0
        found.append(next(number for number in count(first) if partition_of(number, partitions) == slot % partitions))
    return tuple(found)


@lru_cache(maxsize=1024)
def lanes_of(slot: int, slots: int, partitions: int) -> tuple[int, ...]:
    """Return the integers of a slot's lanes, in the order in which Spark calls them; they are in its partition."""
    numbers = (-1 - slot - slots * number for number in count())
    found = (number for number in numbers if partition_of(number, partitions) == slot % partitions)
    return tuple(reversed(list(islice(found, LANES))))


def slot_of_lane(group: int, slots: int) -> int:
    """Return the slot to which a lane belongs."""
    return (-1 - group) % slots
