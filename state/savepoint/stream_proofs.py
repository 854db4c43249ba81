"""Checks of one stream: that its entries or elements are in the right place, and can be read as `export` does it.

Source: rule RUN-3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import SnapshotVersionError, StateShiftError, UnknownSnapshot, UnsupportedFormat, located
from ...serializers.views import DataInputView
from ..entry_keys import decode
from ..formats.flink.entries import read_broadcast
from ..formats.flink.handles import OperatorStateHandle
from ..formats.flink.key_group_ranges import KeyGroupRange
from ..formats.flink.keyed_readers import batches, keyed_reader, read_header
from ..formats.flink.keyed_stream import KeyedStreamReader
from ..formats.flink.meta_info import KEY_SERIALIZER
from ..formats.flink.operator_stream import read_operator_stream, read_operator_stream_header, require_written_order
from ..formats.flink.sources import open_stream
from ..formats.flink.state_kinds import state_kind
from ..formats.flink.value_readers import value_reader
from ..key_groups import prefix_size
from ..storage.prefetch import ahead
from ..transcode.block_transcoder import make_executor
from ..transcode.elements import framed_elements, framed_size
from ..transcode.entry_check import element_check
from ..transcode.executor_choice import ExecutorName, choose_executor
from ..transcode.interpreter import ODD
from ..transcode.key_groups import Treatment, make_key_groups_executor
from .entry_checks import DistinctKeys, Misfits, StreamCheck, is_read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle, KeyGroupsHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..formats.flink.sources import ByteSource
    from ..storage.files import Folder
    from ..transcode.key_groups import StateTotal
    from ..transcode.numba_executor import NumbaKeyGroups
    from ..transcode.program import Program

_CREDIT = 2


def goes_by_machine_code(handle: KeyedHandle | OperatorStateHandle, folder: Folder, max_parallelism: int) -> bool:
    """Whether machine code proves the plain entries or elements of a stream, so that no objects are made of them.

    Raises:
        StateShiftError: The header of the stream cannot be read.
    """
    if not isinstance(handle, OperatorStateHandle):
        return StreamCheck.of(read_header(handle, folder), max_parallelism, ExecutorName.NUMBA).is_fast
    with open_stream(handle.stream, folder) as source:
        header = read_operator_stream_header(source, handle)
    checks = (_element_check(info) for info in header.states)
    return all(check is None or check.program is not None for check in checks)


@attrs.define
class StreamProof:
    """The results of the check of one stream.

    Attributes:
        entries: The number of entries of each state, or of elements of a list state, by `StateKind.scope` and name.
        hashed: Whether the hashes of keys were recomputed.
        unread: States with entries that no serializer reads.
        hidden: States whose entries could not be reached.
        foreign: The number of entries of other key groups, which were left out.
        misfits: The values that do not match their type, by `StateKind.scope` and name of the state.
    """

    entries: dict[tuple[str, str], int] = attrs.field(factory=dict)
    hashed: bool = True
    unread: set[str] = attrs.field(factory=set)
    hidden: set[str] = attrs.field(factory=set)
    foreign: int = 0
    misfits: dict[tuple[str, str], Misfits] = attrs.field(factory=dict)


def prove_stream(
    reader: KeyedReader,
    max_parallelism: int,
    key_groups: range | None = None,
    *,
    alone: bool = False,
    framing_only: bool = False,
    counts: bool = False,
) -> StreamProof:
    """Check every entry of a keyed stream that can be reached.

    Args:
        reader: The reader of the stream.
        max_parallelism: The number of key groups.
        key_groups: The key groups to check; None: all of the stream.
        alone: Whether to read in this thread, instead of in a second one.
        framing_only: Whether to skip keys and values: then entries are only found and counted.
        counts: Whether values that do not match their type are counted; else the first one is an error.

    Raises:
        CorruptSavepoint: An entry is in the wrong key group, cannot be read, or has the key of another entry.
    """
    states = reader.header.states
    misfits: dict[str, Misfits] | None = {} if counts else None
    check = None
    if not framing_only:
        check = StreamCheck.of(reader.header, max_parallelism, reader.executor, misfits=misfits)
    keys, groups = DistinctKeys(reader), _WholeGroups(check, len(states), prefix_size(max_parallelism))
    proof = StreamProof(hashed=check is not None and check.hashed, hidden=set(reader.hidden))
    entries = [0] * len(states)
    found = _found(reader, key_groups, proof.hidden, in_ranges=check is None or check.is_fast)
    for item in found if alone else ahead(found):
        totals = groups.totals(item) if isinstance(item, KeyGroupRange) else None
        if totals is not None:
            for total in totals:
                entries[total.state_id] += total.entries
            continue
        for block in item.blocks() if isinstance(item, KeyGroupRange) else item:
            if check is not None:
                with located(file=reader.name, state=states[block.state_id].name):
                    keys.add(block, check.look_at(block))
            entries[block.state_id] += block.entries
    keys.finish()
    proof.foreign = reader.foreign
    counted = zip(states, entries, strict=True)
    proof.entries = {(StateKind.VALUE.scope, info.name): count for info, count in counted if count}
    proof.misfits = {(StateKind.VALUE.scope, name): found for name, found in (misfits or {}).items()}
    proof.unread = set() if check is None else check.unread - proof.hidden
    return proof


def prove_copied(
    source: ByteSource,
    handle: KeyGroupsHandle | OperatorStateHandle,
    max_parallelism: int,
    executor: ExecutorName | None = None,
    *,
    alone: bool = False,
) -> None:
    """Check a stream that is copied unchanged; a stream whose header this release cannot read is not checked.

    Args:
        source: The bytes of the stream.
        handle: The handle of the stream.
        max_parallelism: The number of key groups of the operator.
        executor: The executor of the check; None: it is chosen by the size of the stream.
        alone: As in `prove_stream`.

    Raises:
        CorruptSavepoint: The stream is damaged.
        UnsupportedFormat: An entry is longer than an entry may be.
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
    counts: bool = False,
) -> StreamProof:
    """Check every element of a stream of list and broadcast state.

    Args:
        source: The bytes of the stream.
        handle: The handle of the stream.
        executor: As in `prove_copied`.
        opaque: The states that no serializer reads.
        framing_only: As in `prove_stream`.
        counts: As in `prove_stream`.

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
            proof.entries[state_kind(info).scope, info.name] = count
            misfits: dict[str, Misfits] | None = {} if counts else None
            if not framing_only and (info.name in opaque or not prove_elements(info, parts, executor, misfits)):
                proof.unread.add(info.name)
            if misfits:
                proof.misfits[state_kind(info).scope, info.name] = misfits[info.name]
    return proof


def _found(
    reader: KeyedReader, key_groups: range | None, hidden: set[str], *, in_ranges: bool
) -> Iterator[KeyGroupRange | list[Block]]:
    """Yield the entries in the form that is checked fastest: whole key groups if machine code can check them."""
    by_machine_code = in_ranges and reader.executor is ExecutorName.NUMBA
    if not isinstance(reader, KeyedStreamReader) or reader.header.compressed or not by_machine_code:
        reached = [at for at, info in enumerate(reader.header.states) if info.name not in hidden]
        yield from batches(reader.blocks(key_groups, reached))
        return
    with located(file=reader.name):
        for found in reader.ranges(key_groups):
            if isinstance(found, KeyGroupRange):
                yield found
            else:
                yield from batches(found)


@attrs.define
class _WholeGroups:
    """Checks whole key groups by machine code, as long as it accepts most of them as plain."""

    check: StreamCheck | None
    states: int
    prefix_bytes: int
    _made: NumbaKeyGroups | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(default=_CREDIT, init=False)

    def totals(self, stored: KeyGroupRange) -> list[StateTotal] | None:
        """Check and count the entries of key groups; return None if their blocks must be checked instead."""
        if not self._credit:
            return None
        if self._made is None:
            check = self.check
            checks = [None if check is None else check.entry_check(at) for at in range(self.states)]
            treatments = [Treatment(None, check=one) for one in checks]
            self._made = make_key_groups_executor(treatments, self.prefix_bytes)
        found = self._made.rewrite(stored.data, stored.begins, stored.key_groups)
        self._credit += 1 if found is not None else -1
        return None if found is None else found.totals


@attrs.frozen
class _ElementCheck:
    """The check of the elements of a list state, or of the maps of a broadcast state.

    Attributes:
        read: Reads the bytes of an element.
        program: The op list that establishes the validity of plain elements; None: there is none.
    """

    read: Callable[[Any, bytes], object]
    program: Program | None


def _element_check(info: StateMetaInfo) -> _ElementCheck | None:
    """Return the check of a state's elements; None if no serializer reads them, or they are read as opaque bytes."""
    key = info.snapshot(KEY_SERIALIZER)
    try:
        value = value_reader(state_kind(info), info.value)
        keys = None if key is None else key.restore_serializer()
        info.value.restore_serializer()
    except StateShiftError:
        return None

    def read(_: Any, data: bytes) -> None:
        if keys is None:
            decode(value, data)
        else:
            read_broadcast(data, keys, value)

    return _ElementCheck(read, element_check(value, keys))


def prove_elements(
    info: StateMetaInfo, parts: Sequence[bytes], executor: ExecutorName, misfits: dict[str, Misfits] | None = None
) -> bool:
    """Check that elements of a list state, or maps of a broadcast state, can be read.

    Args:
        info: The state.
        parts: Its elements or maps.
        executor: The executor of the check.
        misfits: Where those that do not match their type are counted; None: the first one is an error.

    Returns:
        Whether all were read; False where no serializer reads them.

    Raises:
        CorruptSavepoint: An element cannot be read, or does not end where its type says.
    """
    check = _element_check(info)
    if check is None:
        return False
    with located(state=info.name):
        odd = _odd_elements(check.program, parts, executor)
        reads = (partial(is_read, check.read, None, part) for part in odd)
        return min((Misfits.read(read, misfits, info.name) for read in reads), default=True)


def _odd_elements(program: Program | None, parts: Sequence[bytes], executor: ExecutorName) -> Iterator[bytes]:
    """Yield the elements whose validity an op list cannot establish."""
    if program is None or executor is not ExecutorName.NUMBA:
        yield from parts
        return
    made = make_executor(program)
    for first, block in framed_elements(parts):
        place, at = first, 0
        while at < len(block):
            done = made.rewrite(block, at)
            place, at = place + done.entries, done.stop
            if done.status == ODD:
                yield parts[place]
                at += framed_size(parts[place])
                place += 1
