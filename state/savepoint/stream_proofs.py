"""What can be proven of the entries in one stream: that they lie where their keys hash to, and end where they should.

Keys become objects. Values are passed over by their layout, so that no user code is needed, and read only where none
else tells their end: Avro, records that contain themselves, serializers of the user's own. Source: rule RUN-3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.transcode.framing import ReadBy
from ...serializers.errors import (
    CorruptSavepoint,
    OldReaderUnavailable,
    StateShiftError,
    ValueNotConvertible,
    cause_text,
    located,
    shown,
)
from ...serializers.layout import Counted, Nullable, Separated, Sequence
from ...serializers.views import DataInputView
from ..key_groups import has_stable_hash, key_group, key_hasher, prefix_size
from .entry_keys import EntryKeyFormat, TimerKeyFormat, decode
from .keyed_readers import blocks_ahead
from .meta_info import KEY_SERIALIZER, NAMESPACE_SERIALIZER
from .state_kinds import info_snapshot, keyed_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...serializers.layout import Layout
    from ...serializers.serializer import TypeSerializer
    from .blocks import Block
    from .keyed_readers import KeyedReader
    from .keyed_stream import KeyedStreamHeader
    from .meta_info import StateMetaInfo


@attrs.define
class StreamProof:
    """What was seen in one keyed stream.

    Attributes:
        entries: Of each state.
        hashed: Whether keys were hashed again.
        unread: States of which only the framing was looked at.
        hidden: States whose entries could not be reached.
    """

    entries: dict[str, int] = attrs.field(factory=dict)
    hashed: bool = True
    unread: set[str] = attrs.field(factory=set)
    hidden: set[str] = attrs.field(factory=set)


def prove_stream(reader: KeyedReader, max_parallelism: int) -> StreamProof:
    """Look at every entry of a keyed stream that can be reached.

    Raises:
        CorruptSavepoint: An entry does not lie in its key group, or does not end where its type says.
    """
    proof = StreamProof()
    states = _state_proofs(reader.header, max_parallelism, proof)
    proof.hidden |= reader.hidden.keys()
    proof.unread -= proof.hidden
    reached = [state_id for state_id, state in enumerate(states) if state.name not in proof.hidden]
    for block in blocks_ahead(reader, state_ids=reached):
        state = states[block.state_id]
        with located(file=reader.name, state=state.name):
            if not state.look_at(block):
                proof.unread.add(state.name)
        proof.entries[state.name] = proof.entries.get(state.name, 0) + block.entries
    return proof


def prove_elements(info: StateMetaInfo, parts: Iterable[bytes]) -> bool:
    """Prove where elements of a list state, or maps of a broadcast state, end; False where that cannot be told.

    Raises:
        CorruptSavepoint: One does not end where its type says.
    """
    key = info.snapshot(KEY_SERIALIZER)
    try:
        layout = _end_of(info.value.restore_serializer())
        if key is not None:
            layout = Counted(Sequence((_end_of(key.restore_serializer()), layout)))
    except OldReaderUnavailable:
        return False
    with located(state=info.name):
        try:
            for part in parts:
                _skip_whole(layout, part)
        except OldReaderUnavailable:
            return False
    return True


def _state_proofs(header: KeyedStreamHeader, max_parallelism: int, proof: StreamProof) -> list[_StateProof]:
    try:
        key = header.key_snapshot.restore_serializer()
    except StateShiftError:
        proof.hashed = False
        proof.unread |= {info.name for info in header.states}
        return [_StateProof(info.name, max_parallelism) for info in header.states]
    hasher = key_hasher(key) if has_stable_hash(key) else None
    proof.hashed = hasher is not None
    proofs = []
    for info in header.states:
        state = _StateProof(info.name, max_parallelism, key, hasher)
        proofs.append(state)
        try:
            state.learn(info)
        except OldReaderUnavailable:
            state.value = None
        if state.value is None:
            proof.unread.add(info.name)
    return proofs


@attrs.define
class _StateProof:
    """Looks at the entries of one state of one stream."""

    name: str
    max_parallelism: int
    key: TypeSerializer[Any] | None = None
    hasher: Callable[[Any], int] | None = None
    split: Callable[[bytes], Any] | None = None
    value: Callable[[bytes], None] | None = None
    user_key: Callable[[bytes], None] | None = None

    def learn(self, info: StateMetaInfo) -> None:
        """Take from a state's description how its entries are taken apart, as far as that can be told."""
        assert self.key is not None  # noqa: S101 - without a key there is nothing to learn
        kind = keyed_kind(info)
        if kind is StateKind.TIMERS:
            namespace = info.value.children()[1].restore_serializer()
            self.split = TimerKeyFormat.of(self.key, namespace, self.max_parallelism).split
            self.value = _skip_nothing
            return
        namespace = info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer()
        has_user_key = kind is StateKind.MAP
        self.split = EntryKeyFormat.of(self.key, namespace, self.max_parallelism, has_user_key=has_user_key).split
        serializer: Any = info.value.restore_serializer()
        if kind is StateKind.LIST:
            self.value = _skipper(Separated(_end_of(serializer.element)))
        elif has_user_key:
            self.value = _map_value_skipper(_end_of(serializer.value))
            self.user_key = _skipper(_end_of(serializer.key))
        else:
            self.value = _skipper(_end_of(serializer))

    def look_at(self, block: Block) -> bool:
        """Look at the entries of a block; False where of a value only the framing can be told.

        Raises:
            CorruptSavepoint: An entry does not lie in its place, or does not end where it should.
        """
        prefix = block.key_group.to_bytes(prefix_size(self.max_parallelism), "big")
        proven = self.value is not None
        for entry_key, value in block.items():
            if not entry_key.startswith(prefix):
                raise _misplaced(block.key_group, shown(entry_key.hex()))
            if self.split is None or self.key is None:
                continue
            with located(key=shown(entry_key.hex())):
                parts = self.split(entry_key)
            if self.hasher is not None:
                key = decode(self.key, parts.key)
                if key_group(self.hasher(key), self.max_parallelism) != block.key_group:
                    raise _misplaced(block.key_group, shown(key))
            try:
                if self.value is not None:
                    self.value(value)
                if self.user_key is not None:
                    self.user_key(parts.user_key)
            except OldReaderUnavailable:
                proven = False
            except StateShiftError as error:
                error.where.setdefault("key", shown(decode(self.key, parts.key)))
                raise
        return proven


def _misplaced(group: int, key: str) -> CorruptSavepoint:
    return CorruptSavepoint(
        f"an entry lies in key group {group} and belongs to another: Flink would never find it (RUN-3)", key=key
    )


def _skip_whole(layout: Layout, data: bytes) -> None:
    source = DataInputView(data)
    layout.skip(source)
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow a value")


def _skip_nothing(data: bytes) -> None:
    if data:
        raise CorruptSavepoint(f"a timer has a value of {len(data)} bytes")


class _Reading(ReadBy):
    """Passes over a value by reading it; one that is sound and beyond what Python holds proves nothing."""

    def skip(self, source: DataInputView) -> None:
        try:
            super().skip(source)
        except ValueNotConvertible as error:
            raise OldReaderUnavailable(error.what) from error
        except StateShiftError:
            raise
        except Exception as error:
            raise OldReaderUnavailable(f"the reader of a type failed: {cause_text(error)}") from error


def _end_of(serializer: TypeSerializer[Any]) -> Layout:
    """Give the layout of a type, or where only its reader finds the end of a value, the reader."""
    return serializer.layout if serializer.layout.can_skip else _Reading(serializer)


def _skipper(layout: Layout) -> Callable[[bytes], None]:
    return lambda data: _skip_whole(layout, data)


def _map_value_skipper(layout: Layout) -> Callable[[bytes], None]:
    flagged = Nullable(layout)

    def skip(data: bytes) -> None:
        if data[:1] != b"\x01":  # what follows a null flag of map state carries no meaning (format notes 5.3)
            _skip_whole(flagged, data)

    return skip
