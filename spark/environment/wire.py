"""Elements between sources, steps and operators: pickled, so that they may be anything, as in a local run."""

from __future__ import annotations

import itertools
from copy import copy
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.errors import DeclarationError
from ...state.entry_keys import decode
from ...state.runtime.checkpointed import ListCheckpointed
from ...state.runtime.sources import SourceFunction
from ...state.streaming.slot import Elements
from ..streaming.blobs import Packing
from ..streaming.elements import ElementReader, ResultWriter
from ..streaming.query_plan import Plan
from ..worker import dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from ...serializers.serializer import TypeSerializer
    from ...state.runtime.output_tag import OutputTag
    from ...state.runtime.sources import SourceContext
    from ...state.streaming.slot import SlotTask
    from ..streaming.query_plan import Input, Work
    from ..worker import Settings

AT = "at"
"""The column of time stamps."""

_ELEMENTS = pa.schema([("value", pa.binary())])
_RESULTS = pa.schema([("tag", pa.string()), ("value", pa.binary()), (AT, pa.int64())])


class _Begun:
    """What a source emits first: a row without an element, so that there is a first batch even without elements."""

    def __reduce__(self) -> str:
        return "BEGUN"


BEGUN = _Begun()


class Collection(SourceFunction, ListCheckpointed):
    """Emits the elements of a collection, and remembers how many were read: a query goes on behind them.

    Args:
        elements: The elements.
        name: The name of the source.
    """

    state_type = int

    def __init__(self, elements: list[Any], name: str) -> None:
        self._elements, self._name, self._read = elements, name, 0
        self._is_running = True

    def __deepcopy__(self, _: Any) -> Collection:
        return copy(self)

    def run(self, ctx: SourceContext) -> None:
        if self._read > len(self._elements):
            raise DeclarationError(
                f"the query has read {self._read} elements of the source {self._name!r}, and there are"
                f" {len(self._elements)}",
                advice="pass the elements that were read, too, with new ones behind them; or use another checkpoint",
            )
        lock = ctx.get_checkpoint_lock()
        for element in itertools.islice(self._elements, self._read, None):
            with lock:
                if not self._is_running:
                    return
                ctx.collect(element)
                self._read += 1

    def cancel(self) -> None:
        self._is_running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self._read]

    def restore_state(self, state: list[int]) -> None:
        self._read = sum(state)


def with_begun(function: SourceFunction) -> SourceFunction:
    """Return a source that emits `BEGUN` first."""
    kind = type(function)

    def run(self: Any, ctx: SourceContext) -> None:
        ctx.collect(BEGUN)
        kind.run(self, ctx)

    found = copy(function)
    found.__class__ = type(kind.__name__, (kind,), {"run": run, "__slots__": ()})
    return found


@attrs.frozen
class SourceRows(ResultWriter):
    """Turns the elements of a source into rows."""

    @property
    def schema(self) -> pa.Schema:
        return _ELEMENTS

    def write(self, results: Sequence[Any], side: Sequence[tuple[OutputTag, Any]]) -> pa.RecordBatch:
        values = [None if one is BEGUN else dumped(one) for one in results]
        return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], schema=_ELEMENTS)


@attrs.frozen
class ResultRows(ResultWriter):
    """Turns the results of an operator into rows.

    Attributes:
        tags: The names of the outputs that something takes (None: the main output).
    """

    tags: frozenset[str | None] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        return _RESULTS

    def rows_of(self, task: SlotTask) -> pa.RecordBatch:
        results, side = task.take()
        rows = list(self._rows([(None, *one) for one in results]))
        rows += self._rows([(tag.tag_id, *one) for tag, one in side])
        tags, values, times = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(column, field.type) for column, field in zip((tags, values, times), _RESULTS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_RESULTS)

    def _rows(
        self, results: list[tuple[str | None, Any, int | None]]
    ) -> Iterator[tuple[str | None, bytes, int | None]]:
        for tag, value, at in results:
            if tag in self.tags:
                yield tag, dumped(value), at


@attrs.frozen
class RowReader(ElementReader):
    """Turns rows into the elements of an operator."""

    def read(self, index: int, batch: pa.RecordBatch) -> Elements:
        key = self.key
        keys = None if key is None else [decode(key, one) for one in batch.column("key").to_pylist()]
        values = [loaded(one) for one in batch.column("value").to_pylist()]
        return Elements(index, keys, values, batch.column(AT).to_pylist())

    def read_by_key(
        self, index: int, batch: pa.RecordBatch, stored: TypeSerializer[Any] | None, max_parallelism: int
    ) -> Elements:
        return self.read(index, batch)  # in the order in which they came, as in a local run


@attrs.frozen
class RowPacking(Packing):
    """Packs rows whose key groups are known. Those without keys go to each slot in turn."""

    def parts(
        self, batch: pa.RecordBatch, slots: int, max_parallelism: int, origin: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self.to_all or slots == 1:
            yield from ((slot, batch) for slot in range(slots))
            return
        chosen = list(range(batch.num_rows))
        if self.key is not None:
            chosen = [group * slots // max_parallelism for group in batch.column("key_group").to_pylist()]
        rows: list[list[int]] = [[] for _ in range(slots)]
        for row, number in enumerate(chosen):
            rows[number % slots].append(row)
        for slot, of_slot in enumerate(rows):
            if of_slot:
                yield slot, batch.take(pa.array(of_slot))


@attrs.frozen
class RowPlan(Plan):
    """The plan of operators that are called with the elements of a program.

    Attributes:
        order: The numbers of the inputs of the operator that is planned, in the order of their sources.
    """

    order: tuple[int, ...] = ()

    def packing(self, one: Input, index: int, settings: Settings, *, tolerates: bool) -> Packing:
        of_key = one.key, one.key_columns, one.timestamp
        return RowPacking(self.run, settings, index, *of_key, one.to_all, self.blob_bytes, tolerates)

    def packed(self, inputs: Sequence[Input], work: Work) -> list[DataFrame]:
        found = super().packed(inputs, work)
        return [found[index] for index in self.order]
