"""Checks of the entries of a keyed stream against its header: key groups, duplicate keys, readable values.

Blocks are checked as a whole (`state.transcode.checking`). Only entries on which that check is not conclusive are
decoded to objects, as `export` does it; so an entry that passes can be exported. Source: rule RUN-3.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import (
    CorruptSavepoint,
    OldReaderUnavailable,
    StateShiftError,
    ValueNotConvertible,
    ValuesCollide,
    located,
    shown,
)
from ..entry_keys import EntryKeyFormat, decode
from ..formats.flink.entries import EntryDecoder
from ..formats.flink.meta_info import NAMESPACE_SERIALIZER, MetaInfoKind
from ..formats.flink.state_kinds import info_snapshot, keyed_kind
from ..formats.flink.value_readers import value_reader
from ..key_groups import has_checked_hash, key_group, key_hasher, prefix_size
from ..transcode.entry_check import BlockChecker, CheckedTypes, SeenKeys, make_entry_check
from ..transcode.frames import survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...serializers.serializer import TypeSerializer
    from ..entry_keys import EntryKey
    from ..formats.flink.blocks import Block
    from ..formats.flink.keyed_stream import KeyedReader, KeyedStreamHeader
    from ..formats.flink.meta_info import StateMetaInfo
    from ..transcode.entry_check import EntryCheck
    from ..transcode.executor_choice import ExecutorName


@attrs.define
class Misfits:
    """The values of a state that do not match their type, although their bytes end where they should.

    Attributes:
        count: The number of entries or elements.
        first: The failure of the first of them.
    """

    count: int
    first: CorruptSavepoint

    def add(self, other: Misfits) -> None:
        """Add the values of another part of the state."""
        self.count += other.count

    @staticmethod
    def read(read: Callable[[], bool], found: dict[str, Misfits] | None, state: str) -> bool:
        """Read a part of an entry or element with `is_read`; count a value that does not match in `found`.

        Raises:
            CorruptSavepoint: The bytes are damaged; or, without `found`, the value does not match its type.
        """
        try:
            return read()
        except CorruptSavepoint as error:
            if found is None or not isinstance(error.__cause__, ValueNotConvertible):
                raise
            found.setdefault(state, Misfits(0, error)).count += 1
            return True


class DistinctKeys:
    """Checks that the keys of a state within a key group are distinct, across its pieces, which are added in order."""

    def __init__(self, reader: KeyedReader) -> None:
        self._reader = reader
        self._place = (-1, -1)
        self._pieces: list[_Piece] = []

    def add(self, block: Block, seen: SeenKeys) -> None:
        """Add the next piece; raises `CorruptSavepoint` if the state that ended before it has a key twice."""
        if (block.key_group, block.state_id) != self._place:
            self.finish()
            self._place = (block.key_group, block.state_id)
        self._pieces.append(_Piece.of(block, seen))

    def finish(self) -> None:
        """Check the pieces of the last state; raises as `add`."""
        pieces, self._pieces = self._pieces, []
        if len(pieces) < 2 or _follow(pieces) or _differ(pieces):
            return
        with located(file=self._reader.name, state=self._reader.header.states[self._place[1]].name):
            self._look_at_all()

    def _look_at_all(self) -> None:
        """Compare the keys themselves in a second pass over the entries, because hashes were equal or unknown."""
        counted = Counter(map(hash, self._keys()))
        suspected = {code for code, count in counted.items() if count > 1}
        seen = set[bytes]()
        for key in self._keys() if suspected else ():
            if hash(key) in suspected:
                if key in seen:
                    raise _twice(self._place[0], key)
                seen.add(key)

    def _keys(self) -> Iterator[bytes]:
        group, state_id = self._place
        for block in self._reader.blocks(range(group, group + 1), [state_id]):
            yield from (key for key, _ in block.items())


@attrs.frozen
class _Piece:
    """A piece of a state in a key group: its first and last key, and the check's results on all its keys."""

    first: bytes
    last: bytes
    seen: SeenKeys

    @classmethod
    def of(cls, block: Block, seen: SeenKeys) -> _Piece:
        return cls(_key_at(block, 0), _key_at(block, seen.last), seen)


def _key_at(block: Block, at: int) -> bytes:
    begin = at + 4
    return bytes(block.data[begin : begin + int.from_bytes(block.data[at:begin], "big")])


def _follow(pieces: list[_Piece]) -> bool:
    """Whether the keys of all pieces ascend."""
    return all(one.seen.ascends for one in pieces) and all(one.last < other.first for one, other in pairwise(pieces))


def _differ(pieces: list[_Piece]) -> bool:
    """Whether all keys are known to differ, by their hashes."""
    found = [one.seen.hashes for one in pieces]
    if any(one is None for one in found):
        return False
    import numpy as np

    hashes = np.sort(np.concatenate(found))
    return not (hashes[1:] == hashes[:-1]).any()


@attrs.define
class StreamCheck:
    """Checks blocks of a keyed stream against its header, in one thread. Created with `of`.

    Attributes:
        hashed: Whether the hashes of keys are recomputed: only if the key type has a stable hash.
        unread: States with entries of which only the framing was checked.
    """

    hashed: bool
    unread: set[str]
    _states: list[_StateCheck]

    @classmethod
    def of(
        cls,
        header: KeyedStreamHeader,
        max_parallelism: int,
        executor: ExecutorName,
        *,
        converted: Mapping[int, bool] | None = None,
        misfits: dict[str, Misfits] | None = None,
    ) -> StreamCheck:
        """Return a check for the types in a header.

        Args:
            header: The header of the stream.
            max_parallelism: The number of key groups.
            executor: The executor that checks blocks.
            converted: Ids of the states whose values are not checked here, because their conversion reads them anyway;
                each with whether it reads their user keys as well.
            misfits: Where values that do not match their type are counted, by state; None: the first one is an error.
        """
        key = _restored(header.key_snapshot.restore_serializer)
        read = converted or {}
        states = [
            _StateCheck.of(
                info, key, max_parallelism, executor,
                with_values=at not in read, with_user_keys=not read.get(at), misfits=misfits,
            )
            for at, info in enumerate(header.states)
        ]  # fmt: skip
        return cls(key is not None and has_checked_hash(key), {one.name for one in states if one.is_unread}, states)

    @property
    def is_fast(self) -> bool:
        """Whether the check by machine code suffices for all entries that it accepts as plain."""
        return all(one.is_fast for one in self._states)

    def entry_check(self, state_id: int) -> EntryCheck:
        """Return the check that machine code applies to the entries of a state."""
        return self._states[state_id].checker.check

    def look_at(self, block: Block) -> SeenKeys:
        """Check the entries of a block.

        Raises:
            CorruptSavepoint: An entry is in the wrong key group, cannot be read, or has the key of another entry.
            UnsupportedFormat: An entry is longer than an entry may be.
        """
        block.refuse_oversized()
        state = self._states[block.state_id]
        seen, is_read = state.look_at(block)
        if not is_read:
            self.unread.add(state.name)
        return seen


def _restored(restore: Callable[[], TypeSerializer[Any]]) -> TypeSerializer[Any] | None:
    try:
        return restore()
    except StateShiftError:
        return None


@attrs.define
class _StateCheck:
    """Checks the entries of one state of one stream.

    Attributes:
        name: The name of the state.
        checker: Checks whole blocks.
        entries: Checks entries one by one.
        is_unread: Whether a part of the entries is not checked, because no serializer reads it.
        is_fast: Whether entries that `checker` accepts as plain need no further check; else each entry must be read.
    """

    name: str
    checker: BlockChecker
    entries: _EntryCheck
    is_unread: bool
    is_fast: bool

    @classmethod
    def of(
        cls,
        info: StateMetaInfo,
        key: TypeSerializer[Any] | None,
        max_parallelism: int,
        executor: ExecutorName,
        *,
        with_values: bool,
        with_user_keys: bool,
        misfits: dict[str, Misfits] | None,
    ) -> _StateCheck:
        kind, namespace, value = keyed_kind(info), None, None
        if info.kind is not MetaInfoKind.KEY_VALUE_V2:
            value = _restored(lambda: value_reader(kind, info.value))
            if kind is StateKind.TIMERS:
                children = info.value.children()
                namespace = _restored(children[1].restore_serializer) if len(children) > 1 else None
            else:
                namespace = _restored(info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer)
        types = CheckedTypes(kind, key, namespace, value)
        prefix = prefix_size(max_parallelism)
        check = make_entry_check(
            types,
            groups=max_parallelism,
            prefix_bytes=prefix,
            with_values=with_values,
            with_user_keys=with_user_keys,
        )
        entries = _EntryCheck.of(types, max_parallelism, with_values=with_values)
        entries = attrs.evolve(entries, state=info.name, misfits=misfits)
        is_fast = check.is_whole or not entries.readers
        opaque = value is not None and _restored(info.value.restore_serializer) is None
        is_unread = key is None or namespace is None or value is None or opaque
        return cls(info.name, BlockChecker(check, prefix, executor), entries, is_unread, is_fast)

    def look_at(self, block: Block) -> tuple[SeenKeys, bool]:
        """Check a block; return the results on its keys, and whether all its values were read."""
        seen = self.checker.keys(block.data, block.key_group) if self.is_fast else None
        if seen is None:
            return self.entries.look_at(block)
        is_read = True
        for start, end in self.checker.odd_entries(block.data):
            piece = attrs.evolve(block, data=block.data[start:end], entries=_entries_in(block.data[start:end]))
            is_read &= self.entries.look_at(piece)[1]
        return seen, is_read


def _entries_in(data: bytes | memoryview) -> int:
    return survey(data, b"").entries


@attrs.frozen
class _EntryCheck:
    """Checks the entries of one state one by one, read as `export` reads them.

    Attributes:
        max_parallelism: The number of key groups.
        key: The serializer of the keys; None where no serializer reads them.
        hasher: Hashes keys; None where their hash is not checked.
        split: Splits the key of an entry; None where no serializer reads key or namespace.
        readers: Functions that read the namespace, and the user key or the value where these are checked.
        state: The name of the state.
        misfits: Where values that do not match their type are counted; None: the first one is an error.
    """

    max_parallelism: int
    key: TypeSerializer[Any] | None
    hasher: Callable[[Any], int] | None = None
    split: Callable[[bytes], EntryKey] | None = None
    readers: tuple[Callable[[EntryKey, bytes], object], ...] = ()
    state: str = ""
    misfits: dict[str, Misfits] | None = None

    @classmethod
    def of(cls, types: CheckedTypes, max_parallelism: int, *, with_values: bool) -> _EntryCheck:
        key, namespace, value = types.key, types.namespace, types.value
        if key is None or namespace is None:
            return cls(max_parallelism, key)
        hasher = key_hasher(key) if has_checked_hash(key) else None

        def read_namespace(parts: EntryKey, _: bytes) -> None:
            decode(namespace, parts.namespace)

        keys = EntryKeyFormat.of(types.kind, key, namespace, max_parallelism)
        if types.kind is StateKind.TIMERS:
            return cls(max_parallelism, key, hasher, keys.split, (read_namespace, _read_nothing))
        decoder = EntryDecoder.of_parts(types.kind, key, namespace, value or key, max_parallelism)

        def read_value(parts: EntryKey, data: bytes) -> None:
            decoder.read_value(parts.user_key, data)

        def read_user_key(parts: EntryKey, _: bytes) -> None:
            decode(user_key, parts.user_key)

        user_key: Any = getattr(value, "key", None) if types.kind.has_user_keys else None
        by_kind: list[Callable[[EntryKey, bytes], object]] = [read_namespace]
        if value is not None and with_values:
            by_kind.append(read_value)
        elif user_key is not None:
            by_kind.append(read_user_key)
        return cls(max_parallelism, key, hasher, keys.split, tuple(by_kind))

    def look_at(self, block: Block) -> tuple[SeenKeys, bool]:
        """Check all entries of a block; return as `_StateCheck.look_at`."""
        keys, before, ascends, all_read = set[bytes](), b"", True, True
        last = at = 0
        for entry_key, value in block.items():
            group = block.key_group
            all_read &= Misfits.read(partial(self._look_at_one, group, entry_key, value), self.misfits, self.state)
            if entry_key in keys:
                raise _twice(block.key_group, entry_key)
            ascends, before = ascends and before < entry_key, entry_key
            keys.add(entry_key)
            last, at = at, at + 8 + len(entry_key) + len(value)
        return SeenKeys(last, ascends), all_read

    def _look_at_one(self, group: int, entry_key: bytes, value: bytes) -> bool:
        """Check an entry; return False where no serializer reads a part of it."""
        is_placed = entry_key.startswith(group.to_bytes(prefix_size(self.max_parallelism), "big"))
        if self.split is None or self.key is None:
            if not is_placed:
                raise _said_elsewhere(group, shown(entry_key.hex()))
            return False
        with _read_within(shown(entry_key.hex())):
            parts = self.split(entry_key)
            key = decode(self.key, parts.key)
        if not is_placed:
            raise _said_elsewhere(group, shown(key))
        with _read_within(shown(key)):
            if self.hasher is not None and key_group(self.hasher(key), self.max_parallelism) != group:
                raise CorruptSavepoint(
                    f"an entry in key group {group} belongs to another: Flink would never find it (RUN-3)"
                )
            return min(is_read(read, parts, value) for read in self.readers)


def _said_elsewhere(group: int, key: str) -> CorruptSavepoint:
    return CorruptSavepoint(
        f"an entry in key group {group} is stored as belonging to another key group", key=key, rule="RUN-3"
    )


@contextmanager
def _read_within(key: str) -> Iterator[None]:
    """Add the entry's key to errors and remove the offset, which is relative to the entry and not to the file."""
    try:
        with located(key=key):
            yield
    except StateShiftError as error:
        error.where.pop("offset", None)
        raise


def is_read(read: Callable[[Any, bytes], object], parts: Any, value: bytes) -> bool:
    """Read a part of an entry; return False where no serializer reads it, or Python cannot represent a valid value."""
    try:
        read(parts, value)
    except (OldReaderUnavailable, ValuesCollide):
        return False
    except ValueNotConvertible as error:
        if isinstance(error.__cause__, TypeError):  # keys that are not hashable in Python
            return False
        damage = CorruptSavepoint(f"a value does not match its type: {error.what}")
        damage.where |= error.where
        raise damage from error
    except StateShiftError:
        raise
    except Exception:  # noqa: BLE001 - a user's serializer may raise anything
        return False
    return True


def _read_nothing(_: Any, data: bytes) -> None:
    if data:
        raise CorruptSavepoint(f"a timer has a value of {len(data)} bytes")


def _twice(group: int, entry_key: bytes) -> CorruptSavepoint:
    return CorruptSavepoint(f"two entries of key group {group} have the same key", key=shown(entry_key.hex()))
