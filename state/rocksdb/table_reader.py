"""A file with entries, read by blocks: without a database, and only the parts of it that are asked for.

    with open_stream(handle, folder) as file:
        table = open_table(file)
        table.get(key)                      # the index, and one block
        for records in table.blocks(): …    # all entries, about a megabyte at a time

Everything that is read is held against its checksum. What is not known is refused by name: then RocksDB must read the
file. Source: the description of the format in RocksDB's wiki.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, Self

import attrs

from ...serializers.errors import UnsupportedFormat, located, shown
from ..transcode.executor_choice import ExecutorName
from ..transcode.table_entries import PLACES, SHORT_PLACES, STORED_BYTES, VALUES
from .table_blocks import open_blocks, place_of, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .manifest import TableFile
    from .table_blocks import Parsed, Place, TableBlocks, TableBytes

DELETION, VALUE, MERGE, SINGLE_DELETION, RANGE_DELETION = 0, 1, 2, 7, 15
"""The types of entries. A single deletion is that of a key that was put once."""
_TYPES = sum(1 << one for one in (DELETION, VALUE, MERGE, SINGLE_DELETION))
_OTHER_TYPES = {17: "a value in a blob file", 20: "a deletion with a time", 22: "a wide-column entity"}
_TAIL_BYTES, _RUN_BYTES = 1 << 12, 1 << 20
_COMPARATOR = b"leveldb.BytewiseComparator"
_PROPERTIES, _RANGE_DELETIONS, _INDEX = b"rocksdb.properties", b"rocksdb.range_del", b"rocksdb.index"
_PASSED_OVER = (b"filter.", b"fullfilter.", b"partitionedfilter.")
_SEARCHED, _IN_PARTS = 0, 2
_PREFIX = "rocksdb."
_LENGTH = struct.Struct(">i")
_KNOWN = frozenset((
    "block.based.table.index.type", "block.based.table.prefix.filtering", "block.based.table.whole.key.filtering",
    "column.family.id", "column.family.name", "comparator", "compression", "compression_options",
    "creating.db.identity", "creating.host.identity", "creating.session.identity", "creation.time", "data.size",
    "deleted.keys", "external_sst_file.global_seqno", "external_sst_file.version",
    "fast.compression.estimated.data.size", "file.creation.time", "filter.policy", "filter.size", "fixed.key.length",
    "format.version", "index.key.is.user.key", "index.partitions", "index.size", "index.value.is.delta.encoded",
    "key.largest.seqno", "key.smallest.seqno", "merge.operands", "merge.operator", "newest.key.time",
    "num.data.blocks", "num.entries", "num.filter_entries", "num.range-deletions", "oldest.key.time",
    "original.file.number", "prefix.extractor.name", "property.collectors", "raw.key.size", "raw.value.size",
    "seqno.time.map", "slow.compression.estimated.data.size", "tail.start.offset", "top-level.index.size",
    "user.defined.timestamps.persisted",
))  # fmt: skip


@attrs.frozen(eq=False)
class Records:
    """Entries that follow one another in a file: by key, and of one key the newest first.

    Attributes:
        data: The entries as in canonical streams, `i32 n, key, i32 m, value` each, among others, with a margin behind.
        places: The offset of each entry, and the end of the last one.
        sequences: Their sequence numbers.
        types: Their types: `VALUE`, `DELETION`, `MERGE` or `SINGLE_DELETION`.
        has_values_only: Whether they are all values, each of another key.
    """

    data: memoryview = attrs.field(repr=False)
    places: Sequence[int] = attrs.field(repr=False)
    sequences: Sequence[int] = attrs.field(repr=False)
    types: Sequence[int] = attrs.field(repr=False)
    has_values_only: bool

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def framed(self) -> memoryview:
        """The bytes of these entries alone."""
        return self.data[self.places[0] : self.places[len(self)]]

    def key(self, row: int) -> bytes:
        """Return the user key of an entry."""
        return bytes(self.data[self.places[row] + 4 : self._key_end(row)])

    def keys(self) -> list[bytes]:
        """Return the user key of each entry."""
        data, size_of = bytes(self.data[: self.places[len(self)]]), _LENGTH.unpack_from
        starts = [int(place) + _LENGTH.size for place in self.places[: len(self)]]
        return [data[start : start + size_of(data, start - _LENGTH.size)[0]] for start in starts]

    def value(self, row: int) -> bytes:
        """Return the value of an entry; of a deletion it is empty."""
        return bytes(self.data[self._key_end(row) + 4 : self.places[row + 1]])

    def _key_end(self, row: int) -> int:
        at = int(self.places[row])
        return at + 4 + int.from_bytes(self.data[at : at + 4], "big")

    def items(self) -> Iterator[tuple[bytes, int, int, bytes]]:
        """Yield key, sequence number, type and value of each entry."""
        for row in range(len(self)):
            yield self.key(row), int(self.sequences[row]), int(self.types[row]), self.value(row)

    def find(self, key: bytes, start: int = 0) -> int:
        """Return the index of the first entry from `start` on whose key is not before a key."""
        return start + bisect_left(range(start, len(self)), key, key=self.key)

    def cut(self, first: int, after: int) -> Records:
        """Return the entries of a range of indexes."""
        return attrs.evolve(
            self,
            places=self.places[first : after + 1],
            sequences=self.sequences[first:after],
            types=self.types[first:after],
        )


@attrs.frozen
class TableProperties:
    """What a file says of itself.

    Attributes:
        entries: The number of entries, range deletions included.
        deletions: The number of deletions, range deletions included.
        merge_operands: The number of merge operands.
        range_deletions: The number of range deletions.
        is_external: Whether it was written outside a database: then its entries have the sequence number that the
            MANIFEST lists.
        identity: The database and the session that wrote it, and the number that it had there; empty, and 0, where it
            does not say so. Copies have equal ones.
        stored: All properties, by their names without `rocksdb.`.
    """

    entries: int
    deletions: int
    merge_operands: int
    range_deletions: int
    is_external: bool
    identity: tuple[str, str, int]
    stored: Mapping[str, bytes] = attrs.field(repr=False)

    @classmethod
    def of(cls, stored: Mapping[str, bytes]) -> Self:
        """Return properties from those stored.

        Raises:
            UnsupportedFormat: One is not known, or the order of keys is another one.
        """
        for name in sorted(stored.keys() - _KNOWN)[:1]:
            raise UnsupportedFormat(f"a file has the property {shown(name)}, which is not read here without RocksDB")
        if stored.get("comparator") != _COMPARATOR:
            raise UnsupportedFormat("a file has another order of keys than Flink's")

        def number(name: str) -> int:
            return varint(stored.get(name, b"\0"), 0)[0]

        database, session = (
            stored.get(f"creating.{what}.identity", b"").decode("utf-8", "replace") for what in ("db", "session")
        )
        return cls(
            number("num.entries"),
            number("deleted.keys"),
            number("merge.operands"),
            number("num.range-deletions"),
            "external_sst_file.version" in stored,
            (database, session, number("original.file.number")),
            stored,
        )


@attrs.define(eq=False)
class Table:
    """A file with entries. Created with `open_table`.

    Attributes:
        properties: What it says of itself.
        listed: Its entry in a MANIFEST, if that is known.
    """

    properties: TableProperties
    listed: TableFile | None
    _blocks: TableBlocks
    _deleted: Place | None
    _index_place: Place
    _index: Parsed | None = attrs.field(default=None, init=False)

    def range_deletions(self) -> list[tuple[bytes, bytes, int]]:
        """Return the first key, the first key after it, and the sequence number of each range that was deleted.

        Raises:
            CorruptSavepoint: The file is damaged.
        """
        if self._deleted is None:
            found = []
        else:
            records = self._records([self._deleted], 1 << RANGE_DELETION)
            found = [(key, stop, sequence) for key, sequence, _, stop in records.items()]
        if len(found) != self.properties.range_deletions:
            raise self._blocks.damaged(f"it has {len(found)} range deletions, and lists another number")
        return found

    def blocks(self, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Records]:
        """Yield the entries of a range of keys, about a megabyte at a time; range deletions are not among them.

        Args:
            start: The first key, inclusive; None: from the beginning.
            stop: The last key, exclusive; None: to the end.

        Raises:
            CorruptSavepoint: The file is damaged.
            UnsupportedFormat: There are entries or blocks of a kind that is not known.
        """
        count, last = 0, b""
        for places in self._runs(start, stop):
            found = self._records(places, _TYPES)
            first, before = found.key(0), last
            count, last = count + len(found), found.key(len(found) - 1)
            if first < before:
                raise self._blocks.damaged("the keys are not in order", places[0][0])
            if self.listed is not None and not self.listed.keys[0] <= first <= last <= self.listed.keys[1]:
                raise self._blocks.damaged("it has keys that the MANIFEST does not list for it", places[0][0])
            begin = 0 if start is None else found.find(start)
            end = len(found) if stop is None or last < stop else found.find(stop)
            if begin < end:
                yield found if end - begin == len(found) else found.cut(begin, end)
        if start is None and stop is None and count != self.properties.entries - self.properties.range_deletions:
            raise self._blocks.damaged(f"it has {count} entries, and lists another number")

    def get(self, key: bytes) -> list[tuple[int, int, bytes]]:
        """Return sequence number, type and value of each entry of a key, the newest first; errors as in `blocks`."""
        found = (item for records in self.blocks(key, key + b"\0") for item in records.items())
        return [(sequence, kind, value) for _, sequence, kind, value in found]

    def _records(self, places: list[Place], types: int) -> Records:
        found = self._blocks.parse(places, VALUES, STORED_BYTES)
        for one in range(64):
            if (found.types & ~types) >> one & 1:
                raise self._blocks.unsupported(_OTHER_TYPES.get(one, f"entries of type {one}"))
        if not len(found.firsts):
            raise self._blocks.damaged("a block has no entry", places[0][0])
        sequences = found.firsts
        if self.properties.is_external and self.listed is not None:
            sequences[:] = [self.listed.sequences[1]] * len(sequences)
        is_plain = found.types == 1 << VALUE and not found.repeats
        return Records(found.data, found.places, sequences, found.seconds, is_plain)

    def _runs(self, start: bytes | None, stop: bytes | None) -> Iterator[list[Place]]:
        """Yield the places of the blocks of a range of keys, those that are read at once together."""
        if self._index is None:
            self._index = self._parsed_index(self._index_place)
        found = _of_range(self._index, start, stop)
        if self.properties.stored.get("block.based.table.index.type", b"\0")[0] == _SEARCHED:
            yield from _grouped(found)
            return
        for part in found:
            yield from _grouped(_of_range(self._parsed_index(part), start, stop))

    def _parsed_index(self, place: Place) -> Parsed:
        stored = self.properties.stored
        is_short = stored.get("index.value.is.delta.encoded", b"\0") != b"\0"
        has_sequences = stored.get("index.key.is.user.key", b"\0") == b"\0"
        return self._blocks.parse([place], SHORT_PLACES if is_short else PLACES, STORED_BYTES * has_sequences)


def open_table(
    file: TableBytes, listed: TableFile | None = None, executor: ExecutorName = ExecutorName.OBJECTS
) -> Table:
    """Open a file with entries: only its footer and its properties are read.

    Args:
        file: Its bytes, such as `open_stream` gives; they are read by ranges as long as the table is used.
        listed: Its entry in the MANIFEST, if that is known: size and keys are held against it, and a file that was
            written outside a database has its sequence numbers there.
        executor: The executor that finds entries.

    Raises:
        CorruptSavepoint: The file is damaged, or is not the one that is listed.
        UnsupportedFormat: It has a format, properties or parts that are not known; then RocksDB must read it.
    """
    tail = _Tail(file)
    blocks = open_blocks(tail, ExecutorName.OBJECTS)
    if listed is not None and file.size != listed.size:
        raise blocks.damaged(f"the file has {file.size} bytes, and should have {listed.size} by the MANIFEST")
    try:
        parts = {name: place_of(value)[0] for name, value in _named(blocks, blocks.metaindex)}
        for name in sorted(parts):
            if name not in {_PROPERTIES, _RANGE_DELETIONS, _INDEX} and not name.startswith(_PASSED_OVER):
                raise blocks.unsupported(f"the part {shown(repr(name))}")
        index = blocks.index or parts[_INDEX]
        stored = {name.decode().removeprefix(_PREFIX): value for name, value in _named(blocks, parts[_PROPERTIES])}
        with located(file=file.name):
            properties = TableProperties.of(stored)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise blocks.damaged("the file does not say what is in it") from error
    kind = int.from_bytes(stored.get("block.based.table.index.type", b"\0"), "little")
    if kind not in {_SEARCHED, _IN_PARTS}:
        raise blocks.unsupported(f"an index of type {kind}")
    blocks.file, blocks.executor = file, executor
    return Table(properties, listed, blocks, parts.get(_RANGE_DELETIONS), index)


@attrs.define
class _Tail:
    """The bytes of a file, of which the last ones are read at once."""

    _file: TableBytes
    _start: int = attrs.field(init=False)
    _data: bytes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._start = max(0, self._file.size - _TAIL_BYTES)
        self._data = self._file.read_at(self._start, self._file.size - self._start)

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, offset: int, size: int) -> bytes:
        if offset < self._start:
            return self._file.read_at(offset, size)
        return self._data[offset - self._start :][:size]


def _named(blocks: TableBlocks, place: Place) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names and the values of a block that is no part of the data."""
    found = blocks.parse([place], VALUES, 0)
    records = Records(found.data, found.places, found.firsts, found.seconds, has_values_only=False)
    for name, _, _, value in records.items():
        yield name, value


def _of_range(index: Parsed, start: bytes | None, stop: bytes | None) -> list[Place]:
    """Return the places that an index has for a range of keys: no key of a block is after the one that it has there."""
    keys = Records(index.data, index.places, index.firsts, index.seconds, has_values_only=False)
    first = 0 if start is None else keys.find(start)
    after = len(keys) if stop is None else keys.find(stop) + 1
    return [*zip(map(int, index.firsts[first:after]), map(int, index.seconds[first:after]), strict=True)]


def _grouped(places: list[Place]) -> Iterator[list[Place]]:
    """Yield places of blocks that follow one another, about a megabyte at a time."""
    first, begin = 0, places[0][0] if places else 0
    for at, (offset, size) in enumerate(places):
        if offset + size - begin > _RUN_BYTES and at > first:
            yield places[first:at]
            first, begin = at, offset
    if places:
        yield places[first:]
