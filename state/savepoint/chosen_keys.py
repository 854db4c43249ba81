"""Some keys of keyed state: only their key groups are read, and of those only their entries are decoded.

A reader of chosen keys yields the blocks of another reader without the entries of other keys, so that whatever reads a
state also reads a part of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from ..entry_keys import encode
from ..formats.flink.blocks import Block
from ..formats.flink.keyed_readers import open_keyed
from ..formats.flink.keyed_stream import KeyedReader
from ..formats.flink.state_kinds import keyed_kind
from ..key_groups import has_checked_hash, has_stable_hash, key_group, key_hasher
from ..transcode.executor_choice import ExecutorName
from .largest_keys import KeyCutter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..storage.files import Folder

_LENGTH_BYTES = 4
_MOST_SLOW_BYTES = 16 << 20
_MOST_KEPT_BYTES = 16 << 20


@attrs.frozen
class ChosenKeys:
    """Which entries of an operator's keyed state are read.

    Attributes:
        key_groups: The key groups that may have them; None: all.
        encoded: The bytes of the keys, if they are known.
        takes: Whether the bytes of a key are those of a chosen one, if their bytes are not known. With neither, all
            keys of the key groups are chosen.
        is_certain: Whether no other key group can have the keys. Earlier releases placed lists, rows and big integers
            by another hash.
        kept: What was found in some key groups of a stream, if it is little: the entries of all states lie together,
            and are read once. None: it is much.
        readers: The readers of streams, by the identity of the handle.
    """

    key_groups: frozenset[int] | None = None
    encoded: tuple[bytes, ...] = ()
    takes: Callable[[bytes], bool] | None = attrs.field(default=None, repr=False)
    is_certain: bool = True
    kept: dict[tuple[int, range], list[Block] | None] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    readers: dict[int, ChosenReader] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    @classmethod
    def of(cls, keys: Sequence[Any], serializer: TypeSerializer[Any], max_parallelism: int) -> ChosenKeys:
        """Return the choice of some keys; their key groups are known if the type has a stable hash.

        Raises:
            ValueNotConvertible: A value cannot be a key of this type.
        """
        encoded = tuple(encode(serializer, key) for key in keys)
        if not has_stable_hash(serializer):
            return cls(None, encoded)
        hashed = key_hasher(serializer)
        groups = frozenset(key_group(hashed(key), max_parallelism) for key in keys)
        return cls(groups, encoded, is_certain=has_checked_hash(serializer))

    @property
    def has_keys(self) -> bool:
        """Whether keys are chosen, and not whole key groups."""
        return bool(self.encoded) or self.takes is not None

    @property
    def is_few(self) -> bool:
        """Whether it is one key, whose entries lie together in a sorted table."""
        return len(self.encoded) == 1 and self.key_groups is not None

    def executor_for(self, handle: KeyedHandle) -> ExecutorName | None:
        """Return the executor that finds the entries of a stream; None: it is chosen by the size of the stream.

        Loading machine code takes as long as finding the entries of some megabytes without it.
        """
        if self.key_groups is None:
            return None
        groups = sum(map(len, self.among(handle.key_groups)))
        return ExecutorName.OBJECTS if handle.size * groups < _MOST_SLOW_BYTES * len(handle.key_groups) else None

    @property
    def everywhere(self) -> ChosenKeys:
        """The same keys in all key groups."""
        return attrs.evolve(self, key_groups=None, is_certain=True)

    def reader_of(self, handle: KeyedHandle) -> ChosenReader | None:
        """Return the reader of a stream that need not be opened again; None: it has to be."""
        places = ((id(handle), some) for some in self.among(handle.key_groups))
        return self.readers.get(id(handle)) if all(self.kept.get(place) is not None for place in places) else None

    def among(self, key_groups: range) -> list[range]:
        """Return the key groups of a stream that are read, adjacent ones together."""
        if self.key_groups is None:
            return [key_groups]
        found: list[range] = []
        for group in sorted(self.key_groups.intersection(key_groups)):
            if found and found[-1].stop == group:
                found[-1] = range(found[-1].start, group + 1)
            else:
                found.append(range(group, group + 1))
        return found


@contextmanager
def open_chosen(
    handle: KeyedHandle, folder: Folder, max_parallelism: int, chosen: ChosenKeys | None
) -> Iterator[KeyedReader]:
    """Open the keyed state that a handle points at with the entries of some keys alone, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        max_parallelism: The number of key groups of the operator.
        chosen: The keys; None: all.

    Raises:
        UnknownSnapshot, UnsupportedFormat, CorruptSavepoint, LibraryNotFound: As `open_keyed`.
    """
    if chosen is None:
        with open_keyed(handle, folder, max_parallelism) as reader:
            yield reader
        return
    if (known := chosen.reader_of(handle)) is not None:
        yield known
        return
    executor = chosen.executor_for(handle)
    with open_keyed(handle, folder, max_parallelism, executor=executor, few=chosen.is_few) as reader:
        yield ChosenReader.over(reader, chosen, handle, max_parallelism)


@attrs.frozen(slots=False)
class ChosenReader(KeyedReader):
    """Reads the entries of chosen keys. Created with `over`."""

    _reader: KeyedReader = attrs.field(repr=False)
    _chosen: ChosenKeys
    _handle: KeyedHandle = attrs.field(repr=False)
    _takes: list[Callable[[bytes], bool]] = attrs.field(repr=False)

    @classmethod
    def over(cls, reader: KeyedReader, chosen: ChosenKeys, handle: KeyedHandle, max_parallelism: int) -> ChosenReader:
        """Return the reader of chosen keys over that of all entries.

        Args:
            reader: The reader of the stream.
            chosen: The keys.
            handle: The handle of the stream.
            max_parallelism: The number of key groups of the operator.
        """
        takes = _tests(chosen, reader.header, max_parallelism)
        chosen.readers[id(handle)] = made = cls(
            reader.header, reader.name, reader.executor, reader, chosen, handle, takes
        )
        return made

    @property
    def hidden(self) -> dict[str, str]:
        return self._reader.hidden

    @property
    def foreign(self) -> int:
        return self._reader.foreign

    def blocks(
        self, key_groups: range | None = None, state_ids: Collection[int] | None = None, *, beginning: bytes = b""
    ) -> Iterator[Block]:
        for some in self._chosen.among(self._handle.key_groups if key_groups is None else key_groups):
            if not self._chosen.has_keys:
                yield from self._reader.blocks(some, state_ids)
                continue
            kept = None if self._reader.has_states_apart else self._kept(some)
            found = self._found(some, state_ids) if kept is None else kept
            yield from (block for block in found if state_ids is None or block.state_id in state_ids)

    def _kept(self, key_groups: range) -> list[Block] | None:
        """Return the entries of all states; None if they are too many to be kept."""
        place = id(self._handle), key_groups
        if place not in self._chosen.kept:
            size, blocks, hidden = 0, list[Block](), self._reader.hidden
            readable = [at for at, info in enumerate(self.header.states) if info.name not in hidden]
            for block in self._found(key_groups, readable):
                blocks.append(block)
                size += block.size_bytes
                if size > _MOST_KEPT_BYTES:
                    break
            self._chosen.kept[place] = blocks if size <= _MOST_KEPT_BYTES else None
        return self._chosen.kept[place]

    def _found(self, key_groups: range, state_ids: Collection[int] | None) -> Iterator[Block]:
        only = self._chosen.encoded[0] if len(self._chosen.encoded) == 1 else b""
        for block in self._reader.blocks(key_groups, state_ids, beginning=only):
            takes = self._takes[block.state_id]
            if block.oversized:  # it has one entry, whose value cannot be read
                if takes(bytes(block.data[_LENGTH_BYTES:])):
                    yield block
                continue
            if items := [item for item in block.items() if takes(item[0])]:
                yield Block.of(block.key_group, block.state_id, items)


def _tests(chosen: ChosenKeys, header: KeyedStreamHeader, max_parallelism: int) -> list[Callable[[bytes], bool]]:
    """Return for each state whether the key of an entry has a chosen key."""
    if not chosen.has_keys:
        return []
    serializer = header.key_snapshot.restore_serializer()
    cutters = (KeyCutter.of(keyed_kind(info), serializer, max_parallelism) for info in header.states)
    return [_test(chosen, cutter) for cutter in cutters]


def _test(chosen: ChosenKeys, cutter: KeyCutter) -> Callable[[bytes], bool]:
    takes, encoded, start, cut = chosen.takes, chosen.encoded, cutter.start, cutter.cut
    if takes is not None:
        return lambda entry_key: takes(cut(entry_key))
    # No key's encoding is a prefix of another's.
    return lambda entry_key: entry_key.startswith(encoded, start)
