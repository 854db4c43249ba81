"""The record fields and containers of a savepoint that hold nulls.

Flink's snapshots do not record it, so the first entries of each state are read.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.description import StateKind
from ..serializers.containers.either import JavaEitherSerializerSnapshot, Right
from ..serializers.containers.lists import MapSerializerSnapshot, SetSerializerSnapshot
from ..serializers.containers.optional import NullableSerializerSnapshot
from ..serializers.containers.sequences import SequenceSnapshot
from ..serializers.containers.ttl import TtlSerializerSnapshot
from ..serializers.containers.ttl_aware import without_ttl_awareness
from ..serializers.containers.tuples import TupleSerializerSnapshot
from ..serializers.errors import OldReaderUnavailable, ValueNotConvertible, located
from ..serializers.records.recursion import followed, snapshots
from ..serializers.records.serializers import RecordSnapshot
from ..serializers.rows.serializers import RowSerializerSnapshot
from ..serializers.snapshot import snapshot_to_bytes
from .savepoint.entries import EntryDecoder
from .savepoint.keyed_readers import open_keyed
from .savepoint.meta_info import NAMESPACE_SERIALIZER
from .savepoint.state_kinds import info_snapshot
from .savepoint.states import keyed_handles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .savepoint.blocks import Block
    from .savepoint.reader import Savepoint, SavepointOperator

    Snapshot = TypeSerializerConfigSnapshot[Any]

LOOKED_AT = 1000
"""How many entries of each keyed state are read."""

MOST_BYTES = 1 << 26
"""How many bytes of each operator's streams are read."""


@attrs.frozen
class StoredNulls:
    """The fields and containers in which a null was found.

    Attributes:
        fields: The record fields that were null at least once, as (class, field).
        containers: Maps with null values and sets with null elements, as the bytes of their snapshots.
    """

    fields: set[tuple[str, str]] = attrs.field(factory=set)
    containers: set[bytes] = attrs.field(factory=set)

    def has_field(self, record_name: str, field: str) -> bool:
        """Whether this field of a record was null at least once."""
        return (record_name, field) in self.fields

    def has_item(self, container: Snapshot) -> bool:
        """Whether a value of this kind of map, or an element of this kind of set, was null at least once."""
        return snapshot_to_bytes(container) in self.containers

    def look(self, value: Any, snapshot: Snapshot) -> None:
        """Find the nulls in a value, as the generic reader of its snapshot returns it."""
        snapshot = without_ttl_awareness(snapshot)
        if isinstance(snapshot, TtlSerializerSnapshot) and value is not None:
            value, snapshot = value.value, without_ttl_awareness(snapshot.nested[1])
        if isinstance(snapshot, NullableSerializerSnapshot):
            snapshot = without_ttl_awareness(snapshot.nested[0])
        if value is None:
            return
        if isinstance(snapshot, MapSerializerSnapshot | SetSerializerSnapshot) and _has_null(value):
            self.containers.add(snapshot_to_bytes(snapshot))
        with followed(snapshot) as found:
            if isinstance(found, RecordSnapshot):
                with snapshots.entered(found.circle):
                    self._look_into_record(value, found)
        for item, item_snapshot in _items(value, snapshot):
            self.look(item, item_snapshot)

    def _look_into_record(self, value: Any, snapshot: RecordSnapshot) -> None:
        found = _class_of(value._type_name, snapshot) or snapshot  # noqa: SLF001 - public despite the underscore
        for field in found.stored_fields():
            if value[field.name] is None:
                self.fields.add((found.record_name(), field.name))
            self.look(value[field.name], field.snapshot)


def _has_null(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(getattr(item, "value", item) is None for item in items)


def _items(value: Any, snapshot: Snapshot) -> Iterator[tuple[Any, Snapshot]]:
    if isinstance(snapshot, SequenceSnapshot):
        yield from ((item, snapshot.element_snapshot()) for item in value)
    elif isinstance(snapshot, SetSerializerSnapshot):
        yield from ((item, snapshot.nested[0]) for item in value)
    elif isinstance(snapshot, JavaEitherSerializerSnapshot):
        yield value.value, snapshot.nested[isinstance(value, Right)]
    elif isinstance(snapshot, MapSerializerSnapshot):
        for entry in value.items():
            yield from zip(entry, snapshot.nested, strict=True)
    elif isinstance(snapshot, TupleSerializerSnapshot | RowSerializerSnapshot):
        yield from zip(value, snapshot.nested, strict=True)


def _class_of(name: str, snapshot: RecordSnapshot) -> RecordSnapshot | None:
    """Find the snapshot of the class `name`: the declared class or one of its subclasses."""
    if snapshot.record_name() == name:
        return snapshot
    subclasses = (*snapshot.registered_subclasses(), *snapshot.unregistered_subclasses())
    return next((found for _, subclass in subclasses if (found := _class_of(name, subclass))), None)


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
        values = (state for state in operator.states if state.kind.is_keyed and state.kind is not StateKind.TIMERS)
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
        nulls.look(dict([value]) if decoder.kind is StateKind.MAP else value, snapshot)
        left[name] -= 1
    if not left[name]:
        del left[name]
