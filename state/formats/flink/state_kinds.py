"""The kind of a state in a stream, and the snapshots that its kind must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....compat.description import StateKind
from ....serializers.errors import CorruptSavepoint
from ...entry_keys import EntryKeyFormat
from .meta_info import KEYED_STATE_TYPE, NAMESPACE_SERIALIZER, MetaInfoKind, StateMetaInfo
from .operator_stream import mode_of

if TYPE_CHECKING:
    from ....serializers.serializer import TypeSerializer
    from ....serializers.snapshot import TypeSerializerConfigSnapshot


def info_snapshot(info: StateMetaInfo, role: str) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot of a role that states of this kind always have."""
    snapshot = info.snapshot(role)
    if snapshot is None:
        raise CorruptSavepoint(f"the state {info.name!r} has no {role}")
    return snapshot


_KINDS = {kind.row.flink: kind for kind in StateKind if kind.row.flink}


def keyed_kind(info: StateMetaInfo) -> StateKind:
    """Return the kind of a keyed state; raises `CorruptSavepoint` where its option does not name one."""
    if info.kind is MetaInfoKind.PRIORITY_QUEUE:
        return StateKind.TIMERS
    name = info.option(KEYED_STATE_TYPE) or ""
    kind = _KINDS.get(name)
    if kind is not None and kind.is_keyed:
        return kind
    if info.kind is MetaInfoKind.KEY_VALUE:
        raise CorruptSavepoint(f"the state {info.name!r} is of kind {name!r}, which is not known", state=info.name)
    return StateKind.VALUE


def entry_key_format(info: StateMetaInfo, key: TypeSerializer[Any], max_parallelism: int) -> EntryKeyFormat:
    """Return the format of the keys of a state's entries, by the metadata of the state."""
    kind = keyed_kind(info)
    is_queue = kind is StateKind.TIMERS
    namespace = info.value.children()[1] if is_queue else info_snapshot(info, NAMESPACE_SERIALIZER)
    return EntryKeyFormat.of(kind, key, namespace.restore_serializer(), max_parallelism)


def state_kind(info: StateMetaInfo) -> StateKind:
    """Return the kind of any state; raises as `keyed_kind`."""
    is_keyed = info.kind not in {MetaInfoKind.OPERATOR, MetaInfoKind.BROADCAST}
    return keyed_kind(info) if is_keyed else _KINDS[mode_of(info).name]
