"""`_metadata`: the operators of a savepoint, and the handles of their state.

    i32 0x4960672D, i32 version, i64 checkpoint id
    i32 n, n x master state      i32 0xC96B1696, i32 m, bytes[m]
    i32 n, n x operator state
    version 4 and up             checkpoint properties, to the end of the file

    operator state
      version 5 and up           UTF name, UTF uid
      bytes[16] operator id, i32 parallelism, i32 max parallelism, stream handle of the coordinator
      i32 n (-1: finished), n x subtask state

    subtask state
      i32 index (-(i+1): subtask i had finished, and nothing follows)
      i32 1 or 0 and an operator handle (managed), the same (raw), keyed handle (managed), keyed handle (raw)
      i32 0, i32 0               channel state, which a savepoint does not have

Source: format notes, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import CorruptSavepoint, StateShiftError, UnsupportedFormat, located
from ....serializers.views import DataInputView, DataOutputView
from .handles import (
    CANONICAL_ADVICE,
    EmptyHandle,
    KeyedHandle,
    OperatorStateHandle,
    StreamHandle,
    read_keyed_handle,
    read_operator_handle,
    read_stream_handle,
    write_keyed_handle,
    write_operator_handle,
    write_stream_handle,
)
from .properties import CANONICAL_PROPERTIES, check_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....compat.targets import Target

METADATA = "_metadata"
MAGIC, MASTER_MAGIC = 0x4960672D, 0xC96B1696 - (1 << 32)
OLDEST_VERSION, NEWEST_VERSION = 3, 6
MAX_PARALLELISM = 1 << 15
_WITH_PROPERTIES, _WITH_NAMES = 4, 5
_FIRST_OF_FLINK_2, _VERSIONS = 5, {"1": 4, "2": 6}  # format notes 3.7
_FINISHED = -1
_LEAST_OPERATOR_BYTES = 29
_LEAST_SUBTASK_BYTES = 4


@attrs.frozen
class SubtaskState:
    """The state of one subtask of an operator.

    Attributes:
        index: The index of the subtask, from 0.
        finished: Whether the subtask had finished, so that it has no state.
        managed_operator: Operator state: lists and broadcast maps.
        raw_operator: Operator state that the operator wrote itself.
        managed_keyed: Keyed state and timers.
        raw_keyed: Keyed state that the operator wrote itself.
    """

    index: int
    finished: bool = False
    managed_operator: OperatorStateHandle | None = None
    raw_operator: OperatorStateHandle | None = None
    managed_keyed: KeyedHandle | None = None
    raw_keyed: KeyedHandle | None = None

    @property
    def lists(self) -> OperatorStateHandle | None:
        """The managed operator state, where there is any: a checkpoint with merged files names empty ones, too."""
        handle = self.managed_operator
        return None if handle is None or isinstance(handle.stream, EmptyHandle) else handle

    @property
    def has_state(self) -> bool:
        """Whether any of the four parts exists."""
        parts = (self.lists, self.raw_operator, self.managed_keyed, self.raw_keyed)
        return any(part is not None for part in parts)


@attrs.frozen
class OperatorState:
    """The state of one operator.

    Attributes:
        operator_id: 16 bytes; `operator_id_of_uid` of the uid where the job sets one.
        parallelism: The number of subtasks.
        max_parallelism: The number of key groups.
        name: The name of the operator; empty where it is not known (before version 5).
        uid: The uid of the operator; empty where it is not known (before version 5).
        coordinator: The state of its coordinator, which sources have.
        subtasks: The subtasks in the order of the file, which is arbitrary.
        finished: Whether the operator had finished on all subtasks, so that it has no state.
    """

    operator_id: bytes = attrs.field(repr=bytes.hex)
    parallelism: int
    max_parallelism: int
    name: str = ""
    uid: str = ""
    coordinator: StreamHandle | None = None
    subtasks: tuple[SubtaskState, ...] = ()
    finished: bool = False

    @property
    def has_state(self) -> bool:
        """Whether the coordinator or any subtask has state."""
        return self.coordinator is not None or any(subtask.has_state for subtask in self.subtasks)

    @property
    def streams(self) -> Iterator[StreamHandle]:
        """The handles of all streams, inline or in files."""
        if self.coordinator is not None:
            yield self.coordinator
        for subtask in self.subtasks:
            handles = (subtask.managed_keyed, subtask.raw_keyed, subtask.managed_operator, subtask.raw_operator)
            yield from (stream for handle in handles if handle is not None for stream in handle.streams)

    def __str__(self) -> str:
        return self.uid or self.name or self.operator_id.hex()


@attrs.frozen
class SavepointMetadata:
    """The content of `_metadata`.

    Attributes:
        version: 3 to 6; it determines what is written (names from 5 on, properties from 4 on).
        checkpoint_id: The id of the checkpoint; not negative.
        operators: The operators in the order of the file, which is arbitrary.
        master_states: The state of legacy checkpoint hooks, as opaque bytes.
        properties: A Java object as opaque bytes; empty at version 3.
    """

    version: int
    checkpoint_id: int
    operators: tuple[OperatorState, ...]
    master_states: tuple[bytes, ...] = ()
    properties: bytes = attrs.field(default=b"", repr=False)

    @property
    def streams(self) -> Iterator[StreamHandle]:
        """The handles of all operators' streams, inline or in files."""
        for operator in self.operators:
            yield from operator.streams

    @property
    def stored_by(self) -> str:
        """The major release of Flink that writes this version, "1" or "2"."""
        return "1" if self.version < _FIRST_OF_FLINK_2 else "2"

    def written_for(self, target: Target) -> SavepointMetadata:
        """Return the metadata at the version that the target writes; unchanged where the target names no release."""
        return attrs.evolve(self, version=_VERSIONS.get(target.major, self.version))

    @classmethod
    def new(cls, operators: tuple[OperatorState, ...], checkpoint_id: int = 1) -> SavepointMetadata:
        """Return the metadata of a savepoint that is written from scratch: the newest version, canonical."""
        return cls(NEWEST_VERSION, checkpoint_id, operators, properties=CANONICAL_PROPERTIES)


def read_metadata(data: bytes) -> SavepointMetadata:
    """Read `_metadata`.

    Raises:
        CorruptSavepoint: The data is not a `_metadata` file, truncated or damaged; the error has the offset.
        UnsupportedFormat: The version is not supported, or the snapshot is not a savepoint.
    """
    source = DataInputView(data)
    with located(file=METADATA):
        if source.peek(4) != MAGIC.to_bytes(4, "big"):
            raise CorruptSavepoint("the file does not start like the metadata of a savepoint", offset=0)
        source.skip_bytes(4)
        version = source.read_int()
        if not OLDEST_VERSION <= version <= NEWEST_VERSION:
            raise _wrong_version(version)
        checkpoint_id = source.read_long()
        if checkpoint_id < 0:
            raise CorruptSavepoint(f"the checkpoint id is {checkpoint_id}", offset=8)
        masters = tuple(
            _read_master_state(source) for _ in range(source.read_size("master states", least_bytes_each=8))
        )
        count = source.read_size("operators", least_bytes_each=_LEAST_OPERATOR_BYTES)
        operators = tuple(_read_operator(source, version) for _ in range(count))
        if len({operator.operator_id for operator in operators}) < count:
            raise CorruptSavepoint("two operators have the same id")
        properties = _read_properties(source, version)
        return SavepointMetadata(version, checkpoint_id, operators, masters, properties)


def write_metadata(metadata: SavepointMetadata) -> bytes:
    """Return the bytes of `_metadata`, at the version that `metadata` has.

    Metadata from `read_metadata` is written byte for byte as it was read.
    """
    version = metadata.version
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise _wrong_version(version)
    target = DataOutputView()
    target.write_int(MAGIC)
    target.write_int(version)
    target.write_long(metadata.checkpoint_id)
    target.write_int(len(metadata.master_states))
    for master in metadata.master_states:
        target.write_int(MASTER_MAGIC)
        target.write_int(len(master))
        target.write(master)
    target.write_int(len(metadata.operators))
    for operator in metadata.operators:
        _write_operator(operator, version, target)
    if version >= _WITH_PROPERTIES:
        target.write(metadata.properties or CANONICAL_PROPERTIES)
    return target.getvalue()


def _wrong_version(version: int) -> StateShiftError:
    return UnsupportedFormat(
        f"the metadata has version {version}; this release reads {OLDEST_VERSION} to {NEWEST_VERSION}",
        advice="take the savepoint with Flink 1.11 to 2.3, or use a newer stateshift",
    )


def _read_master_state(source: DataInputView) -> bytes:
    source.expect(MASTER_MAGIC, "the magic number of a master state")
    start = source.position
    size = source.read_size("bytes of a master state")
    if not size:
        raise CorruptSavepoint("a master state is empty", offset=start)
    return source.read_fully(size)


def _read_properties(source: DataInputView, version: int) -> bytes:
    start = source.position
    properties = source.read_fully(source.remaining())
    if version >= _WITH_PROPERTIES:
        try:
            check_properties(properties)
        except CorruptSavepoint as error:
            error.where["offset"] = start + int(str(error.where.get("offset", 0)))
            raise
    elif properties:
        raise CorruptSavepoint(f"{len(properties)} bytes follow the metadata", offset=start)
    return properties


def _read_operator(source: DataInputView, version: int) -> OperatorState:
    name, uid = (source.read_utf(), source.read_utf()) if version >= _WITH_NAMES else ("", "")
    operator_id = source.read_fully(16)
    with located(operator=uid or name or operator_id.hex()):
        start = source.position
        parallelism, max_parallelism = source.read_int(), source.read_int()
        if not (0 < parallelism <= max_parallelism <= MAX_PARALLELISM):
            raise CorruptSavepoint(
                f"parallelism {parallelism} and max parallelism {max_parallelism} are not possible", offset=start
            )
        coordinator = read_stream_handle(source)
        subtasks, finished = _read_subtasks(source, parallelism, max_parallelism)
        return OperatorState(
            operator_id, parallelism, max_parallelism, name, uid, coordinator, subtasks, finished
        )  # fmt: skip


def _read_subtasks(
    source: DataInputView, parallelism: int, max_parallelism: int
) -> tuple[tuple[SubtaskState, ...], bool]:
    if source.peek(4) == _FINISHED.to_bytes(4, "big", signed=True):
        source.skip_bytes(4)
        return (), True
    start = source.position
    count = source.read_size("subtasks", least_bytes_each=_LEAST_SUBTASK_BYTES)
    if count > parallelism:
        raise CorruptSavepoint(f"{count} subtasks are listed at parallelism {parallelism}", offset=start)
    subtasks = tuple(_read_subtask(source, parallelism, max_parallelism) for _ in range(count))
    if len({subtask.index for subtask in subtasks}) < count:
        raise CorruptSavepoint("two subtasks have the same index", offset=start)
    return subtasks, False


def _read_subtask(source: DataInputView, parallelism: int, max_parallelism: int) -> SubtaskState:
    start = source.position
    stored = source.read_int()
    index = stored if stored >= 0 else -(stored + 1)
    if index >= parallelism:
        raise CorruptSavepoint(f"subtask {index} is listed at parallelism {parallelism}", offset=start)
    if stored < 0:
        return SubtaskState(index, finished=True)
    managed_operator = _read_operator_part(source)
    raw_operator = _read_operator_part(source)
    managed_keyed = _read_keyed_part(source, max_parallelism)
    raw_keyed = _read_keyed_part(source, max_parallelism, is_raw=True)
    if source.peek(8) != bytes(8):
        channels = source.read_int() or source.read_int()
        raise UnsupportedFormat(
            f"subtask {index} has {channels} channel states: this is an unaligned checkpoint",
            advice=CANONICAL_ADVICE,
            offset=source.position - 4,
        )
    source.skip_bytes(8)
    return SubtaskState(
        index,
        managed_operator=managed_operator,
        raw_operator=raw_operator,
        managed_keyed=managed_keyed,
        raw_keyed=raw_keyed,
    )


def _read_operator_part(source: DataInputView) -> OperatorStateHandle | None:
    start = source.position
    count = source.read_int()
    if count not in {0, 1}:
        raise CorruptSavepoint(f"a subtask has {count} operator state handles", offset=start)
    if not count:
        return None
    handle = read_operator_handle(source)
    if handle is None:
        raise CorruptSavepoint("an operator state handle is announced and missing", offset=start)
    return handle


def _read_keyed_part(source: DataInputView, max_parallelism: int, *, is_raw: bool = False) -> KeyedHandle | None:
    start = source.position
    handle = read_keyed_handle(source, is_raw=is_raw)
    if handle is not None and handle.key_groups.stop > max_parallelism:
        raise CorruptSavepoint(
            f"key groups to {handle.key_groups.stop - 1} are listed at max parallelism {max_parallelism}", offset=start
        )
    return handle


def _write_operator(operator: OperatorState, version: int, target: DataOutputView) -> None:
    if version >= _WITH_NAMES:
        target.write_utf(operator.name)
        target.write_utf(operator.uid)
    target.write(operator.operator_id)
    target.write_int(operator.parallelism)
    target.write_int(operator.max_parallelism)
    write_stream_handle(operator.coordinator, target)
    if operator.finished:
        target.write_int(_FINISHED)
        return
    target.write_int(len(operator.subtasks))
    for subtask in operator.subtasks:
        if subtask.finished:
            target.write_int(-subtask.index - 1)
            continue
        target.write_int(subtask.index)
        for handle in (subtask.managed_operator, subtask.raw_operator):
            target.write_int(0 if handle is None else 1)
            if handle is not None:
                write_operator_handle(handle, target)
        write_keyed_handle(subtask.managed_keyed, target)
        write_keyed_handle(subtask.raw_keyed, target)
        target.write_int(0)
        target.write_int(0)
