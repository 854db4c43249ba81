"""The files of the HDFS-backed provider, Spark's default: the entries of one partition of a store.

    V.snapshot    all entries of version V
    V.delta       what changed from version V - 1 to V

    i32 size of a key, key, i32 size of its value (-1: the key is removed), value; at the end i32 -1

Both are compressed; keys and values are rows (`rows`). With row checksums a value, and the key of a removal, begins
with u32 CRC-32C, little-endian. In a delta a key may occur several times: the last counts. Source:
`HDFSBackedStateStoreProvider` and `KeyValueChecksumEncoder` of Spark 4.3.

A partition may be larger than memory. So only digests of the changed keys are held, and if they are too many the files
are read several times, each time for a part of the keys; snapshots and deltas are then passed on as they are read.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import attrs
from xxhash import xxh3_128_digest

from ...serializers.errors import CorruptFile, SavepointNotFound, located
from .compression import decompress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.storage.files import Folder

    Entry = tuple[bytes, bytes]
    """A key and its value."""
    Change = tuple[bytes, bytes | None]
    """A key and its value, or None where the key is removed."""

_NAME = re.compile(r"(\d+)\.(snapshot|delta)")
_SIZE = struct.Struct(">i")
_END, PUT, _REMOVE, APPEND = 0, 1, 16, 17
_KINDS = frozenset({PUT, _REMOVE, APPEND})
_CHECKSUM_BYTES = 4
_MOST_DIGESTS = 1 << 20  # about 150 MB
_MOST_PARTS = 1 << 12
_WHOLE = "take the whole folder of the checkpoint; a copy or a download may be incomplete"


@attrs.frozen
class PartitionFiles:
    """The files that together are one version of one partition.

    Attributes:
        folder: The folder of the partition.
        label: The folder's name within the checkpoint, for messages.
        names: The snapshot, where there is one, and the deltas behind it, in order.
        has_checksums: Whether entries begin with checksums.
        most_digests: How many changed keys are held in memory at once.
    """

    folder: Folder
    label: str
    names: tuple[str, ...]
    has_checksums: bool = False
    most_digests: int = _MOST_DIGESTS

    @classmethod
    def of_version(cls, folder: Folder, label: str, version: int, *, has_checksums: bool = False) -> PartitionFiles:
        """Find the files of a version.

        Raises:
            SavepointNotFound: Some of them are missing.
        """
        found: dict[str, set[int]] = {"snapshot": set(), "delta": set()}
        for name in folder.names():
            if parsed := _NAME.fullmatch(name):
                found[parsed[2]].add(int(parsed[1]))
        base = max((one for one in found["snapshot"] if one <= version), default=0)
        needed = range(base + 1, version + 1)
        missing = [f"{one}.delta" for one in needed if one not in found["delta"]]
        if missing:
            raise SavepointNotFound(
                f"{len(missing)} files of version {version} of a state store are missing, the first is {missing[0]}",
                file=f"{label}/{missing[0]}",
                advice=_WHOLE,
            )
        names = [f"{base}.snapshot"] if base else []
        return cls(folder, label, (*names, *(f"{one}.delta" for one in needed)), has_checksums)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries of the version, in no order.

        Raises:
            CorruptFile: A file is damaged.
        """
        if len(self.names) == 1 and self.names[0].endswith(".snapshot"):
            yield from ((key, value) for _, key, value in self._changes(self.names) if value is not None)
            return
        parts = 1
        while (first := self._last_changes(0, parts, self.most_digests)) is None:
            parts *= 2
        for part in range(parts):
            last = first if part == 0 else self._last_changes(part, parts, None)
            yield from self._remaining(last or {}, part, parts)

    def _last_changes(self, part: int, parts: int, most: int | None) -> dict[bytes, int] | None:
        """Return the number of the last change of each key in the deltas; None: there are more than `most` keys."""
        last: dict[bytes, int] = {}
        deltas = [name for name in self.names if name.endswith(".delta")]
        for number, key, _ in self._changes(deltas):
            digest = xxh3_128_digest(key)
            if digest[0] * 256 + digest[1] & (parts - 1) == part:
                last[digest] = number
                if most is not None and len(last) > most and parts < _MOST_PARTS:
                    return None
        return last

    def _remaining(self, last: dict[bytes, int], part: int, parts: int) -> Iterator[Entry]:
        deltas = [name for name in self.names if name.endswith(".delta")]
        for name in self.names:
            if name.endswith(".snapshot"):
                for _, key, value in self._changes([name]):
                    digest = xxh3_128_digest(key)
                    is_mine = digest[0] * 256 + digest[1] & (parts - 1) == part
                    if is_mine and digest not in last and value is not None:
                        yield key, value
        for number, key, value in self._changes(deltas):
            if value is not None and last.get(xxh3_128_digest(key)) == number:
                yield key, value

    def _changes(self, names: list[str] | tuple[str, ...]) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield the changes in files, numbered."""
        number = 0
        for name in names:
            with located(file=f"{self.label}/{name}"):
                for key, value in self._read(name):
                    yield number, key, value
                    number += 1

    def _read(self, name: str) -> Iterator[Change]:
        with self.folder.open_range(name) as file:
            pieces = decompress(file)
            for _, key, value in changes_in(pieces):
                if self.has_checksums:
                    yield _without_checksum(key, value)
                else:
                    yield key, value


def changes_in(pieces: Iterator[bytes], *, has_kinds: bool = False) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Parse the content of a file: yield the kind of each change, its key, and its value, None if the key is removed.

    Args:
        pieces: The content.
        has_kinds: Whether each change begins with its kind, as in changelogs of RocksDB from version 2 on.

    Raises:
        CorruptFile: It is damaged or cut off.
    """
    buffer, at = b"", 0

    def require(size: int) -> None:
        nonlocal buffer, at
        if len(buffer) - at >= size:
            return
        parts, have = [buffer[at:]], len(buffer) - at
        while have < size:
            piece = next(pieces, None)
            if piece is None:
                raise CorruptFile("the file ends within an entry", advice=_WHOLE)
            parts.append(piece)
            have += len(piece)
        buffer, at = b"".join(parts), 0

    kind, key_size = PUT, -1
    while True:
        if has_kinds:
            require(1)
            kind = buffer[at]
            at += 1
        if kind != _END:
            require(4)
            key_size = _SIZE.unpack_from(buffer, at)[0]
            at += 4
        if kind == _END or (key_size == -1 and not has_kinds):
            if at < len(buffer) or any(pieces):  # reading on finds out whether the file is cut off
                raise CorruptFile("the file goes on behind its last entry", advice=_WHOLE)
            return
        if key_size < 0 or kind not in _KINDS:
            raise CorruptFile(f"a change of the kind {kind} has a key with a size of {key_size}", advice=_WHOLE)
        require(key_size + 4)
        key = buffer[at : at + key_size]
        value_size = _SIZE.unpack_from(buffer, at + key_size)[0]
        at += key_size + 4
        if has_kinds and (value_size < 0) is not (kind == _REMOVE):
            raise CorruptFile(f"a change of the kind {kind} has a value with a size of {value_size}", advice=_WHOLE)
        if value_size < 0:
            yield _REMOVE, key, None
            continue
        require(value_size)
        yield kind, key, buffer[at : at + value_size]
        at += value_size


def require_checksum(expected: bytes, *parts: bytes) -> bytes:
    """Compare the checksum of some bytes, if its library is there; return the last part.

    Raises:
        CorruptFile: The checksum is wrong.
    """
    try:
        from google_crc32c import value as crc32c
    except ImportError:
        return parts[-1]
    if crc32c(b"".join(parts)) != int.from_bytes(expected, "little"):
        raise CorruptFile("the checksum of an entry is wrong", advice="take another copy of the checkpoint")
    return parts[-1]


def _without_checksum(key: bytes, value: bytes | None) -> Change:
    """Check the checksum of an entry and remove it.

    Raises:
        CorruptFile: The checksum is wrong, or missing.
    """
    checked = key if value is None else value
    if len(checked) < _CHECKSUM_BYTES:
        raise CorruptFile("an entry should begin with a checksum, and is too short for it")
    expected, rest = checked[:_CHECKSUM_BYTES], checked[_CHECKSUM_BYTES:]
    if value is None:
        return require_checksum(expected, rest), None
    return key, require_checksum(expected, key, rest)


def elements_of(entries: Iterator[Entry], delimiter: bytes) -> Iterator[Entry]:
    """Yield the elements of lists, each with the key of its list.

    Raises:
        CorruptFile: A list is damaged.
    """
    for key, value in entries:
        at = 0
        while at < len(value):
            start = at + _SIZE.size
            size = int.from_bytes(value[at:start], "little")
            at = start + size + len(delimiter)
            if start + size > len(value):
                raise CorruptFile("a list is damaged: an element lies outside of it", advice=_WHOLE)
            yield key, value[start : start + size]
