"""The states of an operator in a savepoint: their descriptions, their sizes and their values.

Every stream has its own header, so a state is read with the snapshots of the stream that contains it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from ...compat.description import SerializerDescription, StateDescription, StateKind
from ...compat.former_job import saying_more
from ...serializers.errors import CorruptSavepoint, OldReaderUnavailable, StateShiftError, at_step, located
from ...serializers.flink.namespaces import TimerSerializerSnapshot
from ...serializers.snapshot import SkippedSnapshot
from ...serializers.views import DataInputView
from ...serializers.wording import repr_of
from ..formats.flink.keyed_readers import open_keyed, read_header
from ..formats.flink.meta_info import KEY_SERIALIZER, NAMESPACE_SERIALIZER, MetaInfoKind, StateMetaInfo, merged_info
from ..formats.flink.operator_stream import read_operator_stream, read_operator_stream_header
from ..formats.flink.sources import open_stream
from ..formats.flink.state_kinds import info_snapshot, state_kind
from ..formats.flink.value_readers import value_reader
from ..key_groups import key_group_range
from ..progress import count_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.flink.namespaces import Timer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..formats.flink.blocks import Block
    from ..formats.flink.entries import Entry, EntryDecoder
    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.metadata import OperatorState
    from ..storage.files import Folder
    from .chosen_keys import ChosenKeys

T = TypeVar("T")

_ASYNC = "state of the asynchronous state API (KEY_VALUE_V2) is not read by this release"


@attrs.frozen
class Measure:
    """The size of a state.

    Attributes:
        entries: The number of stored entries: in map state one for each user key; in operator lists the elements.
        size_bytes: The bytes of these entries, including keys and framing.
        oversized: How many of them have a value of more than 2 GB, which can be neither read nor rewritten.
    """

    entries: int = 0
    size_bytes: int = 0
    oversized: int = 0

    @classmethod
    def of(cls, block: Block) -> Measure:
        """Return the size of a block."""
        return cls(block.entries, block.size_bytes, int(bool(block.oversized)))

    def __add__(self, other: Measure) -> Measure:
        return Measure(
            self.entries + other.entries, self.size_bytes + other.size_bytes, self.oversized + other.oversized
        )


@attrs.frozen
class SavepointState:
    """One state of an operator, over all its subtasks.

    Attributes:
        name: The name of the state.
        kind: The kind of the state.
        description: The description for a compatibility check.
        is_hidden: Whether its entries cannot even be found, so that it cannot be measured.
        tables: The names of its tables in the streams: several while it is migrated lazily. Their values are read each
            in the form that they have.
        chosen: The keys whose entries it has; None: those of all.
    """

    name: str
    kind: StateKind
    description: StateDescription
    _stored: OperatorState = attrs.field(repr=False)
    _folder: Folder = attrs.field(repr=False)
    _key: TypeSerializerConfigSnapshot[Any] | None = attrs.field(repr=False)
    _reason: str = ""
    is_hidden: bool = False
    tables: tuple[str, ...] = attrs.field(default=attrs.Factory(lambda self: (self.name,), takes_self=True))
    chosen: ChosenKeys | None = attrs.field(default=None, repr=False)

    partitions: ClassVar[int] = 1
    """The parts that are read one after the other."""
    sql_types: ClassVar[dict[str, str] | None] = None
    """The types as SQL spells them; None: they are not of SQL."""

    @classmethod
    def over(cls, name: str, tables: Sequence[SavepointState]) -> SavepointState:
        """Return a state that is migrated lazily over all its tables; its description is that of the present one."""
        last = tables[-1]
        return attrs.evolve(
            last,
            name=name,
            description=attrs.evolve(last.description, name=name),
            reason=next((table.unsupported for table in tables if table.unsupported), ""),
            is_hidden=any(table.is_hidden for table in tables),
            tables=tuple(table.name for table in tables),
        )

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} {self.kind}: {self.description.describe()}")

    @property
    def unsupported(self) -> str:
        """Why this release cannot read its values, or ""."""
        return self._unread[0]

    @property
    def unread_path(self) -> str:
        """The path in its type to the part that cannot be read; "" where all can be read."""
        return self._unread[1]

    @cached_property
    def _unread(self) -> tuple[str, str]:
        """The reason and the path; found only when needed, because a check of very many states does not need them."""
        return (self._reason, "") if self._reason else _unreadable(self.description, self._key)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no entries; most operators have timer queues without a timer."""
        return self.kind.is_keyed and not self.is_hidden and not self.measure().entries

    def measure(self) -> Measure:
        """Count entries and bytes, as in the canonical format; nothing is decoded.

        Raises:
            OldReaderUnavailable: The state is hidden.
            CorruptSavepoint: The bytes are damaged.
        """
        with self._located():
            return self._measure_keyed() if self.kind.is_keyed else self._measure_elements()

    def _measure_keyed(self) -> Measure:
        measure = Measure()
        for handle in self._handles():
            with self._opened(handle) as reader:
                state_ids = [index for index, info in enumerate(reader.header.states) if info.name in self.tables]
                measure = sum(map(Measure.of, reader.blocks(state_ids=state_ids) if state_ids else ()), measure)
        return measure

    def _measure_elements(self) -> Measure:
        parts = [part for parts in self._raw_elements() for part in parts]
        if self.kind is StateKind.BROADCAST:
            return Measure(sum(DataInputView(part).read_int() for part in parts), sum(map(len, parts)))
        return Measure(len(parts), sum(map(len, parts)))

    def read_entries(self) -> Iterator[Entry]:
        """Yield the entries of a keyed state, key groups ascending.

        Raises:
            OldReaderUnavailable: This release cannot read its values; see `unsupported`.
            CorruptSavepoint: The bytes are damaged; the error has file, offset and key.
        """
        from ..formats.flink.entries import grouped  # not needed to read headers, as for a compatibility check

        yield from self.read_by(grouped)

    def read_by(self, read: Callable[[KeyedReader, dict[int, EntryDecoder]], Iterator[T]]) -> Iterator[T]:
        """Yield what `read` makes of each keyed stream; it gets decoders by state id. Raises as `read_entries`."""
        from ..formats.flink.entries import EntryDecoder

        self._require_readable("read_entries")
        key_groups = self._stored.max_parallelism

        def decoded(reader: KeyedReader, infos: dict[int, StateMetaInfo]) -> Iterator[T]:
            key = reader.header.key_snapshot
            spaces = {index: info_snapshot(info, NAMESPACE_SERIALIZER) for index, info in infos.items()}
            decoders = {
                index: EntryDecoder.of(self.kind, key, spaces[index], self.known(info.value), key_groups)
                for index, info in infos.items()
            }
            return read(reader, decoders)

        yield from self._from_keyed_streams(decoded)

    def known(self, stored: TypeSerializerConfigSnapshot[Any]) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot of a stream, or that of the description, which may say more of the same bytes."""
        return saying_more(stored, self.description.value.snapshot)

    def read_timers(self) -> Iterator[Timer[Any, Any]]:
        """Yield the timers of a queue, key groups ascending; timers without a window have `VoidNamespace()`.

        Raises:
            OldReaderUnavailable: This release cannot read its keys or namespaces; see `unsupported`.
            CorruptSavepoint: The bytes are damaged; the error has file, offset and key.
        """
        from ..formats.flink.entries import timers

        self._require_readable("read_timers")

        def read(reader: KeyedReader, infos: dict[int, StateMetaInfo]) -> Iterator[Timer[Any, Any]]:
            decoders = {index: info.value.restore_serializer() for index, info in infos.items()}
            return timers(reader, decoders, self._stored.max_parallelism)

        yield from self._from_keyed_streams(read)

    def _from_keyed_streams(self, read: Callable[[KeyedReader, dict[int, StateMetaInfo]], Iterator[T]]) -> Iterator[T]:
        """Yield the results of `read` on each keyed stream, which gets the stream's description of the state."""
        with self._located():
            for handle in self._handles():
                with self._opened(handle) as reader, located(file=reader.name):
                    states = enumerate(reader.header.states)
                    yield from read(reader, {index: info for index, info in states if info.name in self.tables})

    def _handles(self) -> Iterator[KeyedHandle]:
        """Yield the handles of keyed state that may have the chosen keys."""
        chosen = self.chosen
        yield from (one for one in keyed_handles(self._stored) if chosen is None or chosen.among(one.key_groups))

    @contextmanager
    def _opened(self, handle: KeyedHandle) -> Iterator[KeyedReader]:
        groups = self._stored.max_parallelism
        if self.chosen is None:
            opened = open_keyed(handle, self._folder, groups)
        else:
            from .chosen_keys import open_chosen

            opened = open_chosen(handle, self._folder, groups, self.chosen)
        with opened as reader:
            yield reader

    def of_keys(self, chosen: ChosenKeys) -> SavepointState:
        """Return the state with the entries of some keys alone: what reads it reads no other key groups."""
        return attrs.evolve(self, chosen=chosen)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what is stored under a key; only its key group is read, if the key's type has a stable hash.

        Args:
            key: The key, as `read_entries` has it.
            default: What is returned where nothing is stored.

        Returns:
            The value, as `read_entries` has it; of a state with namespaces, such as windows, a dict of values by
            namespace; of a queue of timers, a list of `Timer`.

        Raises:
            ValueNotConvertible: The value cannot be a key of this operator.
            OldReaderUnavailable: This release cannot read its keys or values; see `unsupported`.
            CorruptSavepoint: The bytes are damaged; the error has file, offset and key.
        """
        from .chosen_keys import ChosenKeys

        self._require_readable("read_timers" if self.kind is StateKind.TIMERS else "read_entries")
        assert self._key is not None  # noqa: S101 - it is keyed
        with self._located():
            chosen = ChosenKeys.of([key], self._key.restore_serializer(), self._stored.max_parallelism)
        found = self._found(chosen)
        if not found and not chosen.is_certain:
            found = self._found(chosen.everywhere)
        if not found:
            return default
        if self.kind is StateKind.TIMERS:
            return found
        return found[0].value if found[0].namespace is None else {entry.namespace: entry.value for entry in found}

    def _found(self, chosen: ChosenKeys) -> list[Any]:
        part = self.of_keys(chosen)
        return list(part.read_timers() if self.kind is StateKind.TIMERS else part.read_entries())

    def read_elements(self) -> list[list[Any]]:
        """Read the elements of an operator's list state by subtask; for broadcast state its map is the only element.

        Raises:
            OldReaderUnavailable: This release cannot read its values; see `unsupported`.
            CorruptSavepoint: The bytes are damaged.
        """
        return [list(elements) for elements in self.each_element()]

    def each_element(self) -> Iterator[Iterator[Any]]:
        """Yield for each subtask an iterator over what `read_elements` returns; one element is read at a time."""
        from ..entry_keys import decode
        from ..formats.flink.entries import read_broadcast

        self._require_readable("read_elements")
        with self._located():
            value = value_reader(self.kind, self.description.value.snapshot)
            key = self.description.key.snapshot.restore_serializer() if self.description.key else None
            read = partial(decode, value) if key is None else partial(read_broadcast, key=key, value=value)
            yield from (self._each(read, parts) for parts in self._raw_elements())

    def _each(self, read: Callable[[bytes], T], parts: tuple[bytes, ...]) -> Iterator[T]:
        with self._located():
            for part in parts:
                yield read(part)
                count_bytes(len(part))

    def _raw_elements(self) -> Iterator[tuple[bytes, ...]]:
        for handle in _operator_handles(self._stored):
            with open_stream(handle.stream, self._folder) as source:
                stream = read_operator_stream(source, handle)
                if self.kind is StateKind.BROADCAST:
                    yield (stream.broadcast[self.name],) if self.name in stream.broadcast else ()
                else:
                    yield stream.elements.get(self.name, ())

    def _require_readable(self, method: str) -> None:
        if self.unsupported:
            with self._located():
                raise OldReaderUnavailable(
                    self.unsupported,
                    path=self.unread_path or None,
                    advice="leave it out of the job: a migration carries it over as bytes",
                )
        by_key = "read_timers" if self.kind is StateKind.TIMERS else "read_entries"
        fitting = by_key if self.kind.is_keyed else "read_elements"
        if method != fitting:
            raise TypeError(f"{self.name!r} is {self.kind} state: use {fitting}")

    def _located(self) -> Any:
        title = str(self._stored)
        return located(savepoint=self._folder.place, operator=title, state=self.name)


def keyed_handles(stored: OperatorState) -> Iterator[KeyedHandle]:
    """Yield the handles of keyed state, sorted by subtask."""
    subtasks = sorted(stored.subtasks, key=lambda subtask: subtask.index)
    yield from (subtask.managed_keyed for subtask in subtasks if subtask.managed_keyed is not None)


def require_own_key_groups(stored: OperatorState) -> None:
    """Refuse keyed state whose key groups are not exactly those of its subtask, as Flink does.

    Raises:
        CorruptSavepoint: The key groups of a subtask differ.
    """
    for subtask in stored.subtasks:
        found = None if subtask.managed_keyed is None else subtask.managed_keyed.key_groups
        expected = key_group_range(subtask.index, stored.parallelism, stored.max_parallelism)
        if found is not None and found != expected:
            raise CorruptSavepoint(
                f"subtask {subtask.index} has key groups {found.start} to {found.stop - 1} and should have"
                f" {expected.start} to {expected.stop - 1}"
            )


def _operator_handles(stored: OperatorState) -> Iterator[OperatorStateHandle]:
    subtasks = sorted(stored.subtasks, key=lambda subtask: subtask.index)
    yield from (subtask.lists for subtask in subtasks if subtask.lists is not None)


def keyed_states(
    stored: OperatorState, folder: Folder
) -> tuple[TypeSerializerConfigSnapshot[Any] | None, list[SavepointState]]:
    """Read the headers of all keyed streams; return the key's snapshot and the states, each once."""
    key: TypeSerializerConfigSnapshot[Any] | None = None
    infos: dict[str, StateMetaInfo] = {}
    hidden: dict[str, str] = {}
    for handle in keyed_handles(stored):
        header = read_header(handle, folder)
        key = key or header.key_snapshot
        _merge(infos, header.states)
        if not handle.frames_values:
            with open_keyed(handle, folder, stored.max_parallelism) as reader:
                hidden = reader.hidden | hidden
    return key, [_state(info, stored, folder, hidden, key) for info in infos.values()]


def operator_states(stored: OperatorState, folder: Folder) -> list[SavepointState]:
    """Read the headers of all operator state streams; return the states, each once."""
    infos: dict[str, StateMetaInfo] = {}
    for handle in _operator_handles(stored):
        with open_stream(handle.stream, folder) as source:
            _merge(infos, read_operator_stream_header(source, handle).states)
    return [_state(info, stored, folder, {}, None) for info in infos.values()]


def _merge(infos: dict[str, StateMetaInfo], found: tuple[StateMetaInfo, ...]) -> None:
    """Add the states of a stream; a state that subtasks describe differently becomes unreadable."""
    for info in found:
        known, disagreed = merged_info(infos.get(info.name, info), info)
        if disagreed:
            differs = SkippedSnapshot(stored_id=f"{info.value.describe()}: the subtasks describe it differently")
            known = known.with_snapshots(**dict.fromkeys(disagreed, differs))
        infos[info.name] = known


def _state(
    info: StateMetaInfo,
    stored: OperatorState,
    folder: Folder,
    hidden: dict[str, str],
    key: TypeSerializerConfigSnapshot[Any] | None,
) -> SavepointState:
    kind = state_kind(info)
    namespace, broadcast_key = info.snapshot(NAMESPACE_SERIALIZER), info.snapshot(KEY_SERIALIZER)
    description = StateDescription(
        info.name,
        kind,
        SerializerDescription(info.value, unread=_unread(info.name, hidden)),
        key=None if broadcast_key is None else SerializerDescription(broadcast_key),
        namespace=None if namespace is None else SerializerDescription(namespace),
    )
    reason = hidden.get(info.name, "")
    if kind is StateKind.TIMERS and not isinstance(info.value, TimerSerializerSnapshot):
        reason = reason or f"the queue contains {info.value.describe()} instead of timers"
    elif info.kind is MetaInfoKind.KEY_VALUE_V2:
        reason = _ASYNC
    return SavepointState(info.name, kind, description, stored, folder, key, reason, info.name in hidden)


def _unread(name: str, hidden: dict[str, str]) -> str:
    """Return why the state cannot be rewritten, or "": a hidden state prevents the conversion of a native stream."""
    others = "".join(
        f"the state {other!r} cannot be separated from the others: {why}" for other, why in [*hidden.items()][:1]
    )
    return hidden.get(name, others)


def _unreadable(description: StateDescription, key: TypeSerializerConfigSnapshot[Any] | None) -> tuple[str, str]:
    """Return why the state cannot be read, and the path in its type to that part; two empty strings if it can."""
    namespace = None if description.namespace is None else description.namespace.snapshot
    user_key = None if description.key is None else description.key.snapshot
    try:
        for name, snapshot in (("<key>", key), ("<namespace>", namespace), ("<key>", user_key)):
            with at_step(name):
                if snapshot is not None:
                    snapshot.restore_serializer()
        value_reader(description.kind, description.value.snapshot)
    except StateShiftError as error:
        path = str(error.where.get("path", "$"))
        return error.what.splitlines()[0] + (f", at {path}" if path != "$" else ""), path
    return "", ""
