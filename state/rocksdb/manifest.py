"""The MANIFEST of a database: a log of edits that say which files with entries each column family has.

It is a log in blocks of 32 KiB. Its frames are held against their checksums:

    u32 little-endian masked CRC-32C of type and content, u16 little-endian size, u8 type, content
    types 1 to 4: a whole record, its begin, middle, end; 5 to 8: the same, with a u32 log number before the content
    the last bytes of a block that fit no header are 0

RocksDB takes a broken frame at the end for one that a crash cut off, and opens the database without it. In a snapshot
every frame is whole, so a broken one is damage.

A record is an edit of one column family. Numbers are varints, BYTES are a varint size and the bytes:

    1 comparator BYTES    2 log number    3 next file number    4 last sequence number    9 previous log number
    5 level, internal key BYTES    6 level, number of a file that goes    10 least log number to keep
    200 id of the column family (else 0)
    201 name BYTES: it begins    202: it ends    203 the largest id
    103 level, number, size, least and greatest internal key BYTES, least and greatest sequence number, then fields
        (tag, BYTES) up to the tag 1
    any other tag with the bit 8192 is BYTES that may be skipped

An internal key is a user key and eight bytes: a sequence number of 56 bits and a kind (1: a value), little-endian.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptSavepoint, LibraryNotFound, UnsupportedFormat
from .options_file import DEFAULT_FAMILY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_BLOCK_BYTES = 1 << 15
_HEADER = struct.Struct("<IHB")
_TYPES, _RECYCLABLE = range(1, 9), range(5, 9)
_WHOLE, _BEGIN, _MIDDLE, _END = range(1, 5)
_LOG_NUMBER_BYTES = 4
_MASK_DELTA = 0xA282EAD8
_CRC_BYTES, _SIZE_BYTES = 4, 2
_COMPARATOR_NAME = b"leveldb.BytewiseComparator"
_COMPARATOR, _LOG, _NEXT_FILE, _LAST_SEQUENCE, _PREVIOUS_LOG = 1, 2, 3, 4, 9
_FAMILY, _FAMILY_ADDED, _MOST_FAMILY, _NEW_FILE, _FIELDS_END = 200, 201, 203, 103, 1
_DELETED_FILE, _COMPACT_POINTER, _LEAST_LOG, _FAMILY_ENDS, _MAY_BE_SKIPPED = 6, 5, 10, 202, 8192
_SINGLE = {_LOG, _NEXT_FILE, _LAST_SEQUENCE, _PREVIOUS_LOG, _LEAST_LOG, _FAMILY, _MOST_FAMILY}
_VALUE_OF_NO_TIME = (1).to_bytes(8, "little")
_VARINT_BITS = 7


def require_whole_manifest(data: bytes, name: str) -> None:
    """Refuse a MANIFEST with a frame that is cut off or does not match its checksum.

    Args:
        data: The content of the file.
        name: The name of the file in messages.

    Raises:
        CorruptSavepoint: A frame is damaged.
    """
    at = 0
    while at < len(data):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER.size:
            if any(data[at : at + left]):
                raise CorruptSavepoint("the bytes between two blocks are damaged", file=name, offset=at)
            at += left
            continue
        if at + _HEADER.size > len(data):
            raise CorruptSavepoint("a frame is cut off", file=name, offset=at)
        masked, size, kind = _HEADER.unpack_from(data, at)
        extra = _LOG_NUMBER_BYTES if kind in _RECYCLABLE else 0
        end = at + _HEADER.size + extra + size
        if kind not in _TYPES or end > len(data) or end - at > left:
            raise CorruptSavepoint("a frame is cut off or damaged", file=name, offset=at)
        if crc32c(data[at + _CRC_BYTES + _SIZE_BYTES : end]) != masked:
            raise CorruptSavepoint("a frame does not match its checksum", file=name, offset=at)
        at = end


@lru_cache(maxsize=1)
def _plain_crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError as error:
        raise LibraryNotFound(
            f"files of RocksDB have checksums of a library that is not installed: {error.name}",
            advice="pip install 'stateshift[rocksdb]'",
        ) from error
    found: Callable[[bytes], int] = value
    return found


def crc32c(data: bytes) -> int:
    """Return the masked checksum that files of RocksDB have of some bytes; raises `LibraryNotFound`."""
    crc = _plain_crc32c()(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@attrs.frozen
class TableFile:
    """A file with entries, as a MANIFEST lists it.

    Attributes:
        number: The number that is its name.
        size: Its size in bytes.
        level: The level.
        least: The least internal key.
        greatest: The greatest internal key.
        sequences: The least and the greatest sequence number of its entries.
        fields: Further fields, each a tag and its bytes.
    """

    number: int
    size: int
    level: int
    least: bytes
    greatest: bytes
    sequences: tuple[int, int] = (0, 0)
    fields: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def written(cls, number: int, size: int, level: int, first: bytes, last: bytes) -> TableFile:
        """Return a file of values without a sequence number, from the first user key to the last."""
        return cls(number, size, level, first + _VALUE_OF_NO_TIME, last + _VALUE_OF_NO_TIME)

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """The least and the greatest user key."""
        stored = len(_VALUE_OF_NO_TIME)
        return self.least[:-stored], self.greatest[:-stored]

    def reaches(self, start: bytes | None, stop: bytes | None) -> bool:
        """Whether there may be keys from `start` to before `stop`, or a deletion of some; None: without a limit."""
        first, last = self.keys
        return (start is None or start <= last) and (stop is None or first < stop)

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.number:06d}.sst"


@attrs.frozen
class Manifest:
    """What a MANIFEST says.

    Attributes:
        families: The files of each column family, by name.
        next_file: A number above those of all files that there ever were.
    """

    families: dict[str, tuple[TableFile, ...]]
    next_file: int


def read_manifest(data: bytes, name: str) -> Manifest:
    """Read a MANIFEST.

    Args:
        data: The content of the file.
        name: The name of the file in messages.

    Raises:
        CorruptSavepoint: The file is damaged.
        UnsupportedFormat: It has an edit that is not known, or another order of keys.
    """
    require_whole_manifest(data, name)
    names, files, next_file = {0: DEFAULT_FAMILY}, dict[int, dict[tuple[int, int], TableFile]](), 0
    for record in _records(data):
        edit = _Edit.read(record, name)
        if edit.name:
            names[edit.family] = edit.name
        own = files.setdefault(edit.family, {})
        for place in edit.deleted:
            own.pop(place, None)
        own.update({(file.level, file.number): file for file in edit.added})
        if edit.ends:
            del names[edit.family], files[edit.family]
        next_file = max(next_file, edit.next_file)
    return Manifest({family: tuple(files.get(number, {}).values()) for number, family in names.items()}, next_file)


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a MANIFEST of which every frame is whole."""
    at, record = 0, b""
    while at < len(data):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER.size:
            at += left
            continue
        _, size, kind = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size + (_LOG_NUMBER_BYTES if kind in _RECYCLABLE else 0)
        at = start + size
        kind = kind - _END if kind in _RECYCLABLE else kind
        record = data[start:at] if kind in {_WHOLE, _BEGIN} else record + data[start:at]
        if kind in {_WHOLE, _END}:
            yield record


@attrs.define
class _Edit:
    family: int = 0
    name: str = ""
    ends: bool = False
    next_file: int = 0
    added: list[TableFile] = attrs.field(factory=list)
    deleted: list[tuple[int, int]] = attrs.field(factory=list)

    @classmethod
    def read(cls, record: bytes, file: str) -> _Edit:
        edit, source = cls(), _Varints(record)
        try:
            while source.at < len(record):
                edit._take(source.number(), source)
        except (IndexError, UnicodeDecodeError) as error:
            raise CorruptSavepoint("an edit is damaged", file=file) from error
        return edit

    def _take(self, tag: int, source: _Varints) -> None:
        if tag == _COMPARATOR:
            if source.bytes() != _COMPARATOR_NAME:
                raise UnsupportedFormat("a column family has another order of keys than Flink's")
        elif tag in _SINGLE:
            number = source.number()
            self.family = number if tag == _FAMILY else self.family
            self.next_file = number if tag == _NEXT_FILE else self.next_file
        elif tag == _DELETED_FILE:
            self.deleted.append((source.number(), source.number()))
        elif tag == _COMPACT_POINTER:
            source.number()
            source.bytes()
        elif tag == _FAMILY_ADDED:
            self.name = source.bytes().decode()
        elif tag == _FAMILY_ENDS:
            self.ends = True
        elif tag == _NEW_FILE:
            self.added.append(source.file())
        elif tag & _MAY_BE_SKIPPED:
            source.bytes()
        else:
            raise UnsupportedFormat(f"a MANIFEST has an edit {tag}, which this release does not read")


@attrs.define
class _Varints:
    data: bytes
    at: int = 0

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            shift += _VARINT_BITS
            if byte < 1 << _VARINT_BITS:
                return found

    def bytes(self) -> bytes:
        size = self.number()
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise IndexError(self.at)
        return self.data[start : self.at]

    def file(self) -> TableFile:
        level, number, size = self.number(), self.number(), self.number()
        least, greatest, sequences = self.bytes(), self.bytes(), (self.number(), self.number())
        fields: list[tuple[int, bytes]] = []
        while (tag := self.number()) != _FIELDS_END:
            fields.append((tag, self.bytes()))
        return TableFile(number, size, level, least, greatest, sequences, tuple(fields))


def write_manifest(families: Sequence[tuple[str, Iterable[TableFile]]], next_file: int) -> bytes:
    """Return the content of a MANIFEST, in which every RocksDB from 6 on knows all tags.

    Args:
        families: The name of each column family, and its files; the first is `default`.
        next_file: A number above those of all files.
    """
    records, last_sequence = [], 0
    for number, (name, files) in enumerate(families):
        added = _tagged(_FAMILY_ADDED, name.encode()) + numbers(_FAMILY, number) if number else b""
        records.append(added + _tagged(_COMPARATOR, _COMPARATOR_NAME))
        edit = numbers(_FAMILY, number) if number else b""
        for file in files:
            last_sequence = max(last_sequence, *file.sequences)
            edit += numbers(_NEW_FILE, file.level, file.number, file.size)
            edit += _bytes(file.least) + _bytes(file.greatest) + numbers(*file.sequences)
            edit += b"".join(_tagged(tag, value) for tag, value in file.fields) + numbers(_FIELDS_END)
        records.append(edit + numbers(_LOG, 0))
    records.append(
        numbers(_LOG, 0, _PREVIOUS_LOG, 0, _NEXT_FILE, next_file, _LAST_SEQUENCE, last_sequence)
        + numbers(_MOST_FAMILY, len(families) - 1)
    )
    return b"".join(_framed(records))


def _framed(records: Iterable[bytes]) -> Iterator[bytes]:
    at = 0
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            left = _BLOCK_BYTES - at % _BLOCK_BYTES
            if left < _HEADER.size:
                yield bytes(left)
                at += left
                continue
            part, rest = rest[: left - _HEADER.size], rest[left - _HEADER.size :]
            kind = (_BEGIN if rest else _WHOLE) if is_first else (_MIDDLE if rest else _END)
            yield _HEADER.pack(crc32c(bytes([kind]) + part), len(part), kind) + part
            at += _HEADER.size + len(part)
            is_first = False


def numbers(*values: int) -> bytes:
    """Return numbers as varints."""
    written = bytearray()
    for number in values:
        left = number
        while left >> _VARINT_BITS:
            written.append(left & 0x7F | 0x80)
            left >>= _VARINT_BITS
        written.append(left)
    return bytes(written)


def _bytes(data: bytes) -> bytes:
    return numbers(len(data)) + data


def _tagged(tag: int, data: bytes) -> bytes:
    return numbers(tag) + _bytes(data)
