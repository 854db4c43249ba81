"""The states of a savepoint as a table with one row for each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...compat.lazy_tables import state_in
from ...compat.type_difference import state_type_text, type_text
from ...serializers.errors import StateShiftError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..savepoint.reader import SavepointOperator
    from ..savepoint.sizes import StateSizes

LISTING = pa.schema(
    [
        ("operator", pa.string()),
        ("operator_id", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("key_type", pa.string()),
        ("namespace_type", pa.string()),
        ("type", pa.string()),
        ("entries", pa.int64()),
        ("size_bytes", pa.int64()),
        ("unreadable", pa.string()),
    ]
)
"""The columns of the table. operator: its uid, else its id. entries: the stored entries; in map state one for each user
key. size_bytes: with keys and framing. unreadable: why the values cannot be read, or null; in a row without a state,
why the states are not known."""


def listing(operators: Sequence[SavepointOperator]) -> pa.RecordBatch:
    """Return a row for each state of the operators; entries and bytes are counted without decoding."""
    rows = [row for operator in operators for row in _rows(operator)]
    return pa.RecordBatch.from_pylist(rows, LISTING)


def _rows(operator: SavepointOperator) -> Iterator[dict[str, Any]]:
    names = {"operator": operator.title, "operator_id": operator.operator_id}
    for why in (operator.unreadable_keyed, operator.unreadable_lists):
        if why:
            yield names | {"unreadable": why}
    if not operator.stored.has_state or not operator.states:
        return
    for sizes in operator.measure().states:
        yield names | _row(operator, sizes)


def _row(operator: SavepointOperator, sizes: StateSizes) -> dict[str, Any]:
    state = sizes.state
    described = state.description
    key = operator.key if state.kind.is_keyed else None
    error = "" if sizes.error is None else sizes.error.what
    return {
        "state": state_in(state.name),
        "kind": str(state.kind),
        "key_type": None if key is None else type_text(key),
        "namespace_type": None if described.namespace is None else type_text(described.namespace.snapshot),
        "type": _type(state),
        "entries": None if sizes.measure is None else sizes.measure.entries,
        "size_bytes": None if sizes.measure is None else sizes.measure.size_bytes,
        "unreadable": error or state.unsupported or None,
    }


def _type(state: Any) -> str:
    try:
        return state_type_text(state.description)
    except StateShiftError:
        return str(state.description.value.snapshot.describe())
