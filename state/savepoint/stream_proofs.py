"""What is proven of one stream: that its entries or elements lie where they should, and can be read as `export` does.

Source: rule RUN-3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import SnapshotVersionError, StateShiftError, UnknownSnapshot, UnsupportedFormat, located
from ...serializers.views import DataInputView
from ..key_groups import prefix_size
from ..storage.prefetch import ahead
from ..transcode.choice import ExecutorName, choose_executor
from ..transcode.element_blocks import framed_elements, framed_size
from ..transcode.entry_check import element_check
from ..transcode.executors import make_executor
from ..transcode.interpreter import ODD
from ..transcode.key_groups import Treatment, make_key_groups_executor
from .entries import read_broadcast
from .entry_checks import DistinctKeys, StreamCheck, is_read
from .entry_keys import decode
from .handles import OperatorStateHandle
from .key_group_ranges import Stretch
from .keyed_readers import batches, keyed_reader
from .keyed_stream import KeyedStreamReader
from .meta_info import KEY_SERIALIZER
from .operator_stream import read_operator_stream, read_operator_stream_header, require_written_order
from .state_kinds import state_kind
from .value_readers import value_reader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ..transcode.key_groups import KeyGroupsExecutor, StateTotal
    from ..transcode.program import Program
    from .blocks import Block
    from .handles import KeyedHandle
    from .keyed_readers import KeyedReader
    from .meta_info import StateMetaInfo
    from .sources import ByteSource

_CREDIT = 2


@attrs.define
class StreamProof:
    """What was seen in one stream.

    Attributes:
        entries: Of each state, by its room and name; of a list state its elements.
        hashed: Whether keys were hashed again.
        unread: States of which there are entries that nothing reads.
        hidden: States whose entries could not be reached.
    """

    entries: dict[tuple[str, str], int] = attrs.field(factory=dict)
    hashed: bool = True
    unread: set[str] = attrs.field(factory=set)
    hidden: set[str] = attrs.field(factory=set)


def prove_stream(
    reader: KeyedReader, max_parallelism: int, *, alone: bool = False, framing_only: bool = False
) -> StreamProof:
    """Look at every entry of a keyed stream that can be reached.

    Args:
        reader: Of the stream.
        max_parallelism: Number of key groups.
        alone: Whether no other thread is to read meanwhile.
        framing_only: Whether to pass over keys and values: then entries are only found, and counted.

    Raises:
        CorruptSavepoint: An entry does not lie in its key group, cannot be read, or has a key that another has, too.
    """
    states = reader.header.states
    check = None if framing_only else StreamCheck.of(reader.header, max_parallelism, reader.executor)
    keys, groups = DistinctKeys(reader), _WholeGroups(check, len(states), prefix_size(max_parallelism))
    proof = StreamProof(hashed=check is not None and check.hashed, hidden=set(reader.hidden))
    entries = [0] * len(states)
    found = _found(reader, proof.hidden, in_stretches=check is None or check.is_fast)
    for item in found if alone else ahead(found):
        totals = groups.totals(item) if isinstance(item, Stretch) else None
        if totals is not None:
            for total in totals:
                entries[total.state_id] += total.entries
            continue
        for block in item.blocks() if isinstance(item, Stretch) else item:
            if check is not None:
                with located(file=reader.name, state=states[block.state_id].name):
                    keys.add(block, check.look_at(block))
            entries[block.state_id] += block.entries
    keys.finish()
    counts = zip(states, entries, strict=True)
    proof.entries = {(StateKind.VALUE.room, info.name): count for info, count in counts if count}
    proof.unread = set() if check is None else check.unread - proof.hidden
    return proof


def prove_copied(
    source: ByteSource,
    handle: KeyedHandle | OperatorStateHandle,
    max_parallelism: int,
    executor: ExecutorName | None = None,
    *,
    alone: bool = False,
) -> None:
    """Look at a stream that is copied as it is; nothing is told of one whose header this release cannot read.

    Args:
        source: The stream.
        handle: What points at it.
        max_parallelism: Number of key groups of the operator.
        executor: Who looks; None: it is chosen by the size of the stream.
        alone: As of `prove_stream`.

    Raises:
        CorruptSavepoint: It is damaged.
        UnsupportedFormat: An entry has more bytes than one may have.
    """
    if isinstance(handle, OperatorStateHandle):
        _prove_elements_copied(source, handle, executor)
        return
    try:
        reader = keyed_reader(source, handle, max_parallelism, executor)
    except (UnknownSnapshot, SnapshotVersionError, UnsupportedFormat):
        return
    prove_stream(reader, max_parallelism, alone=alone)


def _prove_elements_copied(source: ByteSource, handle: OperatorStateHandle, executor: ExecutorName | None) -> None:
    try:
        read_operator_stream_header(source, handle)
    except (UnknownSnapshot, SnapshotVersionError, UnsupportedFormat):
        return
    prove_stored_elements(source, handle, executor)


def prove_stored_elements(
    source: ByteSource,
    handle: OperatorStateHandle,
    executor: ExecutorName | None = None,
    *,
    opaque: Collection[str] = (),
    framing_only: bool = False,
) -> StreamProof:
    """Look at every element of a stream of list and broadcast state.

    Args:
        source: The stream.
        handle: What points at it.
        executor: As of `prove_copied`.
        opaque: States that nothing reads.
        framing_only: As of `prove_stream`.

    Raises:
        CorruptSavepoint: An element cannot be read, or does not end where its type says.
    """
    require_written_order(handle)
    stream, proof = read_operator_stream(source, handle), StreamProof()
    executor = executor or choose_executor(handle.stream.size)
    with located(file=source.name):
        for info in stream.header.states:
            parts, is_map = stream.parts_of(info), info.name in stream.broadcast
            count = sum(DataInputView(part).read_int() for part in parts) if is_map else len(parts)
            proof.entries[state_kind(info).room, info.name] = count
            if not framing_only and (info.name in opaque or not prove_elements(info, parts, executor)):
                proof.unread.add(info.name)
    return proof


def _found(reader: KeyedReader, hidden: set[str], *, in_stretches: bool) -> Iterator[Stretch | list[Block]]:
    """Give the stored bytes as they are best looked at: in stretches where whole key groups can be."""
    by_machine_code = in_stretches and reader.executor is ExecutorName.NUMBA
    if not isinstance(reader, KeyedStreamReader) or reader.header.compressed or not by_machine_code:
        reached = [at for at, info in enumerate(reader.header.states) if info.name not in hidden]
        yield from batches(reader.blocks(state_ids=reached))
        return
    with located(file=reader.name):
        for found in reader.stretches():
            if isinstance(found, Stretch):
                yield found
            else:
                yield from batches(found)


@attrs.define
class _WholeGroups:
    """Looks at whole key groups by machine code, while that takes most of them for plain."""

    check: StreamCheck | None
    states: int
    prefix_bytes: int
    _made: KeyGroupsExecutor | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(default=_CREDIT, init=False)

    def totals(self, stretch: Stretch) -> list[StateTotal] | None:
        """Count the entries of a stretch; None where its blocks are to be looked at."""
        if not self._credit:
            return None
        if self._made is None:
            check = self.check
            checks = [None if check is None else check.entry_check(at) for at in range(self.states)]
            treatments = [Treatment(None, check=one) for one in checks]
            self._made = make_key_groups_executor(treatments, self.prefix_bytes)
        found = self._made.rewrite(stretch.data, stretch.begins, stretch.key_groups)
        self._credit += 1 if found is not None else -1
        return None if found is None else found.totals


def prove_elements(info: StateMetaInfo, parts: Sequence[bytes], executor: ExecutorName) -> bool:
    """Prove that elements of a list state, or maps of a broadcast state, can be read; False where nothing reads them.

    Raises:
        CorruptSavepoint: One cannot, or does not end where its type says.
    """
    key = info.snapshot(KEY_SERIALIZER)
    try:
        value = value_reader(state_kind(info), info.value)
        keys = None if key is None else key.restore_serializer()
        info.value.restore_serializer()
    except StateShiftError:
        return False  # nothing reads it, or it is taken as the bytes of a frame

    def read(_: Any, data: bytes) -> None:
        if keys is None:
            decode(value, data)
        else:
            read_broadcast(data, keys, value)

    with located(state=info.name):
        odd = _odd_elements(element_check(value, keys), parts, executor)
        return min((is_read(read, None, part) for part in odd), default=True)


def _odd_elements(program: Program | None, parts: Sequence[bytes], executor: ExecutorName) -> Iterator[bytes]:
    """Give the elements of which an op list cannot tell that they are sound."""
    if program is None or executor is ExecutorName.OBJECTS:
        yield from parts
        return
    made = make_executor(executor, program)
    for first, block in framed_elements(parts):
        place, at = first, 0
        while at < len(block):
            done = made.rewrite(block, at)
            place, at = place + done.entries, done.stop
            if done.status == ODD:
                yield parts[place]
                at += framed_size(parts[place])
                place += 1
