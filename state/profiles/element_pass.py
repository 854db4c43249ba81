"""The pass over the operator state of one subtask: its lists and broadcast maps, which are read as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compat.description import StateKind
from ...serializers.errors import OldReaderUnavailable, UnsupportedFormat, ValueNotConvertible, located
from ...serializers.views import DataInputView
from ..columnar.runs import RUN_BYTES
from ..formats.flink.operator_stream import read_operator_stream
from ..formats.flink.sources import open_stream
from ..storage.prefetch import in_batches
from .tallies import OperatorTally, StateTally

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from ..formats.flink.handles import OperatorStateHandle
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .plans import OperatorPlan, StatePlan


def pass_elements(
    plan: OperatorPlan,
    handle: OperatorStateHandle,
    subtask: int,
    folder: Folder,
    executor: ExecutorName,
    reference_ms: int,
) -> OperatorTally:
    """Return the statistics of the operator state of a subtask; raises `CorruptSavepoint`."""
    found = OperatorTally()
    with open_stream(handle.stream, folder) as source:
        stream = read_operator_stream(source, handle)
        for state in plan.states.values():
            if state.kind.is_keyed:
                continue
            tally = found.states[state.place] = StateTally.of(state, reference_ms, None)
            with located(file=source.name, operator=plan.title, state=state.name):
                if state.kind is StateKind.BROADCAST:
                    _add_map(state, tally, stream.broadcast.get(state.name))
                else:
                    _add_elements(state, tally, stream.elements.get(state.name, ()), subtask, executor)
    return found


def _add_map(state: StatePlan, tally: StateTally, data: bytes | None) -> None:
    if data is None:
        return
    tally.entries += DataInputView(data).read_int()
    tally.size_bytes += len(data)
    _add_columns(state, tally, lambda columns: columns.batch(data))


def _add_elements(
    state: StatePlan, tally: StateTally, elements: tuple[bytes, ...], subtask: int, executor: ExecutorName
) -> None:
    for some in in_batches(elements, len, RUN_BYTES):
        values = np.fromiter(map(len, some), np.int64, len(some))
        tally.add_sizes(np.zeros(len(some), np.int64), values, None)
        _add_columns(state, tally, partial(_batch_of, subtask, some, executor))


def _batch_of(subtask: int, elements: list[bytes], executor: ExecutorName, columns: Any) -> pa.RecordBatch:
    return columns.batch(subtask, elements, executor)


def _add_columns(state: StatePlan, tally: StateTally, read: Callable[[Any], pa.RecordBatch]) -> None:
    """Add the columns of some elements, or why they cannot be had."""
    why = ""
    for table in state.tables:
        columns: Any = table.columns
        try:
            batch = read(columns)
        except (ValueNotConvertible, OldReaderUnavailable, UnsupportedFormat) as error:
            why = error.what.splitlines()[0]
            continue
        for name in [one for one in ("key", "value") if one in batch.schema.names]:
            tally.fields.add(name, batch.column(name), getattr(columns, name))
        return
    tally.not_decoded = tally.not_decoded or why
