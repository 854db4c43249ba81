"""The nulls in a savepoint: the first entries of each state are read."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ...serializers.errors import OldReaderUnavailable, ValueNotConvertible, located
from ...serializers.source import StoredNulls
from ..formats.flink.entries import EntryDecoder
from ..formats.flink.keyed_readers import open_keyed
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER
from ..formats.flink.state_kinds import info_snapshot
from .states import keyed_handles

if TYPE_CHECKING:
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.blocks import Block
    from .reader import Savepoint, SavepointOperator

    Snapshot = TypeSerializerConfigSnapshot[Any]

LOOKED_AT = 1000
"""How many entries of each keyed state are read."""

MOST_BYTES = 1 << 26
"""How many bytes of each operator's streams are read."""


def look_for_nulls(savepoint: Savepoint, *, entries: int = LOOKED_AT, size_bytes: int = MOST_BYTES) -> StoredNulls:
    """Return the nulls in the first entries of each keyed state that this release reads.

    Args:
        savepoint: The savepoint.
        entries: How many entries to read of each state; in map state each pair of a map is an entry.
        size_bytes: How many bytes to read of each operator's streams, even if fewer entries were found by then.

    Raises:
        CorruptSavepoint: An entry cannot be read.
    """
    nulls = StoredNulls()
    for operator in savepoint.operators:
        values = (state for state in operator.states if state.kind.has_values)
        left = {state.name: entries for state in values if not state.unsupported}
        with located(savepoint=savepoint.place, operator=operator.title):
            _look_through(operator, nulls, left, size_bytes)
    return nulls


def _look_through(operator: SavepointOperator, nulls: StoredNulls, left: dict[str, int], size_bytes: int) -> None:
    """Read entries until no state has entries `left` to read."""
    kinds = {state.name: state.kind for state in operator.states if state.kind.is_keyed}
    for handle in keyed_handles(operator.stored):
        if not left:
            return
        with open_keyed(handle, operator.folder, operator.max_parallelism) as reader:
            infos = reader.header.states
            decoders = {
                info.name: EntryDecoder.of(
                    kinds[info.name],
                    reader.header.key_snapshot,
                    info_snapshot(info, NAMESPACE_SERIALIZER),
                    info.value,
                    operator.max_parallelism,
                )
                for info in infos
                if info.name in left
            }
            reached = [state_id for state_id, info in enumerate(infos) if info.name not in reader.hidden]
            for block in reader.blocks(state_ids=reached):
                size_bytes -= len(block.data)
                if not left or size_bytes < 0:
                    return
                info = infos[block.state_id]
                if info.name in left and info.name in decoders:
                    _look_at(block, decoders[info.name], info.value, nulls, left, info.name)


def _look_at(
    block: Block, decoder: EntryDecoder, snapshot: Snapshot, nulls: StoredNulls, left: dict[str, int], name: str
) -> None:
    for key, data in islice(block.items(), left[name]):
        try:
            value = decoder.read_value(decoder.place(key)[2], data)
        except (OldReaderUnavailable, ValueNotConvertible):
            # Some values turn out to be unreadable only when they are read; then the entries before them must do.
            del left[name]
            return
        nulls.look(dict([value]) if decoder.kind.has_user_keys else value, snapshot)
        left[name] -= 1
    if not left[name]:
        del left[name]
