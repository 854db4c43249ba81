"""Keyed state of one subtask in a database of RocksDB or ForSt, as canonical blocks.

Each state, timers included, is a column family of its name; ours may be in several, which are read as one. Keys and
values are those of the canonical format, without the ids and flags around them. After a rescaling the files may hold
entries of key groups that are no longer those of the subtask: they are left out, and counted. Source: notes on native
snapshots, sections 2.1 and 4.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import attrs

from ....serializers.errors import CorruptSavepoint, located
from ...key_groups import prefix_size
from ...transcode.executor_choice import ExecutorName
from .blocks import MARGIN_BYTES, Block
from .keyed_stream import RUN_BYTES, KeyedReader
from .meta_info import MetaInfoKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ...rocksdb.database import Items
    from ...rocksdb.table_reader import Records
    from .handles import DatabaseHandle
    from .keyed_stream import KeyedStreamHeader

_LENGTH_BYTES = 4
_MARGIN = bytes(MARGIN_BYTES)


class SortedFamilies(Protocol):
    """Tables of entries in the order of their keys: an opened database, or a frozen store."""

    @property
    def families(self) -> frozenset[str]:
        """The names of the tables, one for each state."""

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a table in the order of their keys, some at a time.

        Args:
            family: The name of the table.
            start: The first key, inclusive; None: from the beginning.
            stop: The last key, exclusive; None: to the end.

        Raises:
            CorruptSavepoint: A file is damaged.
        """


class _Lengths(dict[int, bytes]):
    """The four bytes of a length; looked up, because entries have few different lengths."""

    def __missing__(self, length: int) -> bytes:
        found = length.to_bytes(_LENGTH_BYTES, "big")
        if len(self) < 1 << 16:
            self[length] = found
        return found


_lengths = _Lengths()


@attrs.frozen(slots=False)
class DatabaseStreamReader(KeyedReader):
    """Reads the keyed state of one subtask from a database. Created with `open`."""

    _database: SortedFamilies = attrs.field(repr=False)
    _key_groups: range
    _prefix: int

    has_states_apart: ClassVar[bool] = True

    @classmethod
    def open(
        cls,
        database: SortedFamilies,
        header: KeyedStreamHeader,
        handle: DatabaseHandle,
        max_parallelism: int,
        executor: ExecutorName = ExecutorName.OBJECTS,
        *,
        few: bool = False,
    ) -> DatabaseStreamReader:
        """Return the reader of an opened database.

        Args:
            database: The database.
            header: The header of the stream.
            handle: From `_metadata`.
            max_parallelism: The number of key groups of the operator.
            executor: The executor that finds the entries.
            few: Whether a few entries are read: then it is not looked for whether any is in its key groups.

        Raises:
            CorruptSavepoint: The states of the header are not the column families, or no entry is in the key groups of
                the handle.
        """
        require_same_states(header, database.families)
        name = f"the database of key groups {handle.key_groups.start} to {handle.key_groups.stop - 1}"
        reader = cls(header, name, executor, database, handle.key_groups, prefix_size(max_parallelism))
        if not few:
            reader.require_own()
        return reader

    @cached_property
    def foreign(self) -> int:
        """The number of entries of other key groups, which are left out."""
        first, after = self._range(self._key_groups)
        return sum(
            len(keys)
            for family in self._database.families
            for part in ((None, first), (after, None))
            for keys, _ in self._database.items(family, *part)
        )

    def blocks(
        self, key_groups: range | None = None, state_ids: Collection[int] | None = None, *, beginning: bytes = b""
    ) -> Iterator[Block]:
        own = self._key_groups if key_groups is None else common(self._key_groups, key_groups)
        if not own:
            return
        wanted = range(len(self.header.states)) if state_ids is None else sorted(state_ids)
        states = {at: self.header.states[at].name for at in wanted}
        bounds = {at: self._bounds(own, beginning, self.header.states[at].kind) for at in wanted}
        families = {at: self._family(name, *bounds[at]) for at, name in states.items()}
        for key_group in own:
            end = self._start(key_group + 1)
            for state_id, family in families.items():
                with located(file=self.name, state=states[state_id]):
                    yield from family.blocks(key_group, state_id, end)

    def _family(self, name: str, first: bytes, after: bytes) -> _Family | _FamilyByBlocks:
        by_blocks = getattr(self._database, "by_blocks", None)
        if self.executor is ExecutorName.NUMBA and by_blocks is not None:
            records = by_blocks(name, first, after)
            if records is not None:
                return _FamilyByBlocks(records)
        return _Family(self._database.items(name, first, after))

    def _start(self, key_group: int) -> bytes:
        return key_group.to_bytes(self._prefix, "big")

    def _range(self, key_groups: range) -> tuple[bytes, bytes]:
        return self._start(key_groups.start), self._start(key_groups.stop)

    def _bounds(self, key_groups: range, beginning: bytes, kind: MetaInfoKind) -> tuple[bytes, bytes]:
        """Return the first key that is read, and the first one after the last."""
        first, after = self._range(key_groups)
        if not beginning or len(key_groups) != 1 or kind is MetaInfoKind.PRIORITY_QUEUE:
            return first, after
        return first + beginning, following(first + beginning)

    def require_own(self) -> None:
        """Refuse a database of which all entries are of other key groups: its files are another subtask's."""
        own, families = self._range(self._key_groups), sorted(self._database.families)
        if any(self._holds(family, *own) for family in families):
            return
        for family in families:
            if self._holds(family):
                raise CorruptSavepoint(
                    f"no entry of the state {family!r}, nor of any other, is in these key groups: the files are those"
                    " of another subtask",
                    file=self.name,
                )

    def _holds(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> bool:
        return next(self._database.items(family, start, stop), None) is not None


def require_same_states(header: KeyedStreamHeader, families: frozenset[str]) -> None:
    """Refuse a header whose states are not the column families of a database.

    Raises:
        CorruptSavepoint: The two are not of one snapshot.
    """
    states = {info.name for info in header.states}
    for other in sorted(states ^ families)[:1]:
        lacking = "the database lacks" if other in states else "the header lacks"
        raise CorruptSavepoint(f"{lacking} the state {other!r}: header and files are not of one snapshot")


def following(prefix: bytes) -> bytes:
    """Return the first bytes behind all that begin with a prefix, which begins with a key group."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])


def common(one: range, other: range) -> range:
    """Return what two ranges have in common."""
    return range(max(one.start, other.start), min(one.stop, other.stop))


class _Family:
    """The entries of one column family, taken key group by key group.

    Args:
        items: The entries in the order of their keys, some at a time.
    """

    def __init__(self, items: Iterator[Items]) -> None:
        self._items = items
        self._keys: tuple[bytes, ...] = ()
        self._values: tuple[bytes, ...] = ()
        self._at = 0

    def blocks(self, key_group: int, state_id: int, end: bytes) -> Iterator[Block]:
        """Yield the entries of a key group: those whose keys are before `end`."""
        parts: list[bytes] = []
        size = entries = last = 0
        while self._at < len(self._keys) or self._more():
            stop = len(self._keys) if self._keys[-1] < end else bisect_left(self._keys, end, self._at)
            if stop > self._at:
                keys, values = self._keys[self._at : stop], self._values[self._at : stop]
                parts.append(framed_entries(keys, values))
                entries += len(keys)
                size += len(parts[-1])
                last = size - 2 * _LENGTH_BYTES - len(keys[-1]) - len(values[-1])
                self._at = stop
            if stop < len(self._keys):
                break
            if size >= RUN_BYTES:
                yield Block(key_group, state_id, _with_margin(parts), entries, last)
                parts, size, entries = [], 0, 0
        if parts:
            yield Block(key_group, state_id, _with_margin(parts), entries, last)

    def _more(self) -> bool:
        self._keys, self._values = next(self._items, ((), ()))
        self._at = 0
        return bool(self._keys)


class _FamilyByBlocks:
    """The entries of one column family, taken key group by key group from those of its files.

    Args:
        records: The entries in the order of their keys, some at a time.
    """

    def __init__(self, records: Iterator[Records]) -> None:
        self._records = records
        self._current: Records | None = None
        self._at = 0

    def blocks(self, key_group: int, state_id: int, end: bytes) -> Iterator[Block]:
        """Yield the entries of a key group: those whose keys are before `end`."""
        while True:
            found = self._current
            if found is None or self._at == len(found):
                self._current, self._at = next(self._records, None), 0
                if self._current is None:
                    return
                continue
            # Those before are the consumer's, which may have overwritten them.
            stop = len(found) if found.key(len(found) - 1) < end else found.find(end, self._at)
            if stop > self._at:
                begin, last, after = (int(found.places[row]) for row in (self._at, stop - 1, stop))
                yield Block(key_group, state_id, found.data[begin:after], stop - self._at, last - begin)
                self._at = stop
            if stop < len(found):
                return


def _with_margin(parts: list[bytes]) -> memoryview:
    """Return the joined parts in memory where machine code finds the margin that it needs, and copies nothing."""
    return memoryview(bytearray().join((*parts, _MARGIN)))[:-MARGIN_BYTES]


def framed_entries(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """Return entries in the canonical format, without Python code for each."""
    parts = [b""] * (4 * len(keys))
    parts[0::4] = map(_lengths.__getitem__, map(len, keys))
    parts[1::4] = keys
    parts[2::4] = map(_lengths.__getitem__, map(len, values))
    parts[3::4] = values
    return b"".join(parts)
