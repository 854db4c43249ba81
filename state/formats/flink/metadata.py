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

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.byte_forms import INT, LONG, UTF, ByteForm, checked, made, many, marked, optional, sized
from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ....serializers.views import DataInputView, DataOutputView
from .handles import (
    CANONICAL_ADVICE,
    KEYED_HANDLE,
    OPERATOR_HANDLE,
    RAW_KEYED_HANDLE,
    STREAM_HANDLE,
    EmptyHandle,
    KeyedHandle,
    OperatorStateHandle,
    StreamHandle,
)
from .properties import CANONICAL_PROPERTIES, check_properties, stops_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ....compat.targets import Target

METADATA = "_metadata"
MAGIC, MASTER_MAGIC = 0x4960672D, 0xC96B1696 - (1 << 32)
OLDEST_VERSION, NEWEST_VERSION = 3, 6
MAX_PARALLELISM = 1 << 15
_WITH_PROPERTIES, _WITH_NAMES = 4, 5
_FIRST_OF_FLINK_2, _VERSIONS = 5, {"1": 4, "2": 6}  # format notes 3.7
_FINISHED = -1


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
    def stops_job(self) -> bool:
        """Whether it is a savepoint that was taken to stop its job, as Flink says from version 4 on."""
        return stops_job(self.properties)

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
        return made(partial(SavepointMetadata, version), _parts(version)).read(source)


def write_metadata(metadata: SavepointMetadata) -> bytes:
    """Return the bytes of `_metadata`, at the version that `metadata` has.

    Metadata from `read_metadata` is written byte for byte as it was read.
    """
    target = DataOutputView()
    target.write_int(MAGIC)
    made(SavepointMetadata, {"version": INT, **_parts(metadata.version)}).write(target, metadata)
    return target.getvalue()


def _parts(version: int) -> dict[str, ByteForm[Any]]:
    """Return the forms of what follows the version; raises `UnsupportedFormat`."""
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnsupportedFormat(
            f"the metadata has version {version}; this release reads {OLDEST_VERSION} to {NEWEST_VERSION}",
            advice="take the savepoint with Flink 1.11 to 2.3, or use a newer stateshift",
        )
    return {
        "checkpoint_id": checked(LONG, lambda number: number >= 0, "the checkpoint id is {}"),
        "master_states": many(_MASTER_STATE, "master states"),
        "operators": many(_NAMED if version >= _WITH_NAMES else _NAMELESS, "operators", apart="operator_id"),
        "properties": _PROPERTIES if version >= _WITH_PROPERTIES else _NO_PROPERTIES,
    }


def _read_properties(source: DataInputView) -> bytes:
    start = source.position
    properties = source.read_fully(source.remaining())
    try:
        check_properties(properties)
    except CorruptSavepoint as error:
        error.where["offset"] = start + int(str(error.where.get("offset", 0)))
        raise
    return properties


def _read_end(source: DataInputView) -> bytes:
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow the metadata", offset=source.position)
    return b""


_PROPERTIES = ByteForm(_read_properties, lambda target, data: target.write(data or CANONICAL_PROPERTIES))
_NO_PROPERTIES = ByteForm(_read_end, lambda _, __: None)
_OPERATOR_PART = optional(
    checked(INT, (0, 1).__contains__, "a subtask has {} operator state handles"),
    checked(OPERATOR_HANDLE, lambda handle: handle is not None, "an operator state handle is announced and missing"),
)
_PARTS: dict[str, ByteForm[Any]] = {
    "managed_operator": _OPERATOR_PART,
    "raw_operator": _OPERATOR_PART,
    "managed_keyed": KEYED_HANDLE,
    "raw_keyed": RAW_KEYED_HANDLE,
}
"""The parts of a subtask's state, in the order of their bytes."""


def _read_subtask(source: DataInputView) -> SubtaskState:
    stored = source.read_int()
    if stored < 0:
        return SubtaskState(-(stored + 1), finished=True)
    subtask = SubtaskState(stored, **{name: form.read(source) for name, form in _PARTS.items()})
    channels = source.read_int() or source.read_int()
    if channels:
        raise UnsupportedFormat(
            f"subtask {stored} has {channels} channel states: this is an unaligned checkpoint",
            advice=CANONICAL_ADVICE,
            offset=source.position - 4,
        )
    return subtask


def _write_subtask(target: DataOutputView, subtask: SubtaskState) -> None:
    target.write_int(-subtask.index - 1 if subtask.finished else subtask.index)
    if not subtask.finished:
        for name, form in _PARTS.items():
            form.write(target, getattr(subtask, name))
        target.write_long(0)  # no channel state, of either kind


_SUBTASKS = many(ByteForm(_read_subtask, _write_subtask, 4), "subtasks", apart="index")


def _read_subtasks(source: DataInputView, operator: OperatorState) -> dict[str, Any]:
    """Read what an operator says of its subtasks; they must fit its parallelism."""
    start = source.position
    if source.peek(4) == _FINISHED.to_bytes(4, "big", signed=True):
        source.skip_bytes(4)
        return {"finished": True}
    subtasks, parallelism = _SUBTASKS.read(source), operator.parallelism
    if len(subtasks) > parallelism:
        raise CorruptSavepoint(f"{len(subtasks)} subtasks are listed at parallelism {parallelism}", offset=start)
    for subtask in subtasks:
        if subtask.index >= parallelism:
            raise CorruptSavepoint(f"subtask {subtask.index} is listed at parallelism {parallelism}", offset=start)
        for handle in (subtask.managed_keyed, subtask.raw_keyed):
            end = 0 if handle is None else handle.key_groups.stop
            if end > operator.max_parallelism:
                raise CorruptSavepoint(
                    f"key groups to {end - 1} are listed at max parallelism {operator.max_parallelism}", offset=start
                )
    return {"subtasks": subtasks}


def _operator(names: Mapping[str, ByteForm[str]]) -> ByteForm[OperatorState]:
    """Return the form of an operator, which begins with its names, where the version has them."""
    operator_id = ByteForm(lambda source: source.read_fully(16), lambda target, data: target.write(data), 16)
    head = made(OperatorState, {**names, "operator_id": operator_id, "parallelism": INT, "max_parallelism": INT})

    def read(source: DataInputView) -> OperatorState:
        operator = head.read(source)
        subtasks, groups = operator.parallelism, operator.max_parallelism
        with located(operator=str(operator)):
            if not 0 < subtasks <= groups <= MAX_PARALLELISM:
                raise CorruptSavepoint(
                    f"parallelism {subtasks} and max parallelism {groups} are not possible",
                    offset=source.position - 8,
                )
            return attrs.evolve(operator, coordinator=STREAM_HANDLE.read(source), **_read_subtasks(source, operator))

    def write(target: DataOutputView, operator: OperatorState) -> None:
        head.write(target, operator)
        STREAM_HANDLE.write(target, operator.coordinator)
        if operator.finished:
            target.write_int(_FINISHED)
        else:
            _SUBTASKS.write(target, operator.subtasks)

    return ByteForm(read, write, head.least + 5)


_NAMELESS, _NAMED = _operator({}), _operator({"name": UTF, "uid": UTF})
_MASTER_STATE = marked(
    MASTER_MAGIC,
    "the magic number of a master state",
    checked(sized("a master state"), len, "a master state is empty"),
)
