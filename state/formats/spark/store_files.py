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
from itertools import chain
from typing import TYPE_CHECKING

import attrs
from xxhash import xxh3_128_digest

from ....serializers.errors import CorruptFile, SavepointNotFound, located
from ...storage.prefetch import in_batches, pair_bytes
from ...transcode.executor_choice import LOADING_BYTES, ExecutorName, choose_executor
from .checksums import require_sums, sums_of
from .compression import decompress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...storage.files import Folder

    Entry = tuple[bytes, bytes]
    """A key and its value."""
    Change = tuple[bytes, bytes | None]
    """A key and its value, or None where the key is removed."""
    Entries = tuple[Sequence[bytes], Sequence[bytes]]
    """Keys, and their values."""
    Changes = tuple[Sequence[int], Sequence[bytes], Sequence[bytes | None]]
    """The kinds of changes, their keys, and their values."""

_NAME = re.compile(r"(\d+)\.(snapshot|delta)")
_SIZE = struct.Struct(">i")
_END, PUT, _REMOVE, APPEND = 0, 1, 16, 17
_KINDS = frozenset({PUT, _REMOVE, APPEND})
_CHECKSUM_BYTES = 4
BLOCK_BYTES, BLOCK_ENTRIES = 4 << 20, 1 << 16
"""The size of a block of entries, which ends with the entry that reaches it."""
_LEAST_BYTES = BLOCK_BYTES // BLOCK_ENTRIES
"""What an entry counts for at least, so that a block has at most so many."""
_MOST_DIGESTS = 1 << 20  # about 150 MB
_COMPILED_BYTES = 2 << 20  # compressed: from here on it takes longer than to load machine code
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
        beside: The names of all files in the folder.
        most_digests: How many changed keys are held in memory at once.
    """

    folder: Folder
    label: str
    names: tuple[str, ...]
    has_checksums: bool = False
    beside: frozenset[str] = frozenset()
    most_digests: int = _MOST_DIGESTS
    _sound: set[str] = attrs.field(factory=set, init=False, eq=False, repr=False)

    @classmethod
    def of_version(cls, folder: Folder, label: str, version: int, *, has_checksums: bool = False) -> PartitionFiles:
        """Find the files of a version.

        Raises:
            SavepointNotFound: Some of them are missing.
        """
        found: dict[str, set[int]] = {"snapshot": set(), "delta": set()}
        beside = frozenset(folder.names())
        for name in beside:
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
        return cls(folder, label, (*names, *(f"{one}.delta" for one in needed)), has_checksums, beside)

    @property
    def without_sums(self) -> tuple[str, ...]:
        """The files that have no checksum beside them."""
        return tuple(name for name in self.names if not sums_of(self.folder, name, self.beside))

    def blocks(self) -> Iterator[Entries]:
        """Yield all entries of the version in blocks of some MiB, in no order.

        Raises:
            CorruptFile: A file is damaged.
        """
        if len(self.names) == 1 and self.names[0].endswith(".snapshot"):
            return self._of_snapshot(self.names[0])
        return in_blocks(self._last_of_each())

    def _of_snapshot(self, name: str) -> Iterator[Entries]:
        for keys, values in self._read(name):
            if isinstance(values, list) and None in values:
                kept = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
                yield [key for key, _ in kept], [value for _, value in kept]
            else:
                yield keys, values  # type: ignore[misc]  # none of them is None

    def _last_of_each(self) -> Iterator[Entry]:
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
        blocks = (block for name in names for block in self._read(name))
        changes = chain.from_iterable(zip(keys, values, strict=True) for keys, values in blocks)
        return ((number, key, value) for number, (key, value) in enumerate(changes))

    def _read(self, name: str) -> Iterator[tuple[Sequence[bytes], Sequence[bytes | None]]]:
        with located(file=f"{self.label}/{name}"), self.folder.open_range(name) as file:
            if name not in self._sound:
                require_sums(self.folder, name, self.beside)
                self._sound.add(name)
            executor = choose_executor(LOADING_BYTES if file.size >= _COMPILED_BYTES else 0)
            for _, keys, values in changes_in(decompress(file), executor=executor):
                if self.has_checksums:
                    changes = [_without_checksum(key, value) for key, value in zip(keys, values, strict=True)]
                    yield [key for key, _ in changes], [value for _, value in changes]
                else:
                    yield keys, values


def changes_in(
    pieces: Iterator[bytes], *, has_kinds: bool = False, executor: ExecutorName = ExecutorName.OBJECTS
) -> Iterator[Changes]:
    """Parse the content of a file: yield the kinds of some changes, their keys and values, None if a key is removed.

    Args:
        pieces: The content.
        has_kinds: Whether each change begins with its kind, as in changelogs of RocksDB from version 2 on.
        executor: What finds changes without kinds.

    Raises:
        CorruptFile: It is damaged or cut off.
    """
    parts: list[bytes] = []
    have, needed, is_complete = 0, BLOCK_BYTES, False
    for piece in chain(pieces, [None]):
        if piece:
            parts.append(piece)
            have += len(piece)
        if (piece is not None and have < needed) or not have:
            continue
        if is_complete:
            raise CorruptFile("the file goes on behind its last entry", advice=_WHOLE)
        buffer = b"".join(parts)
        at, lacking, is_complete, changes = _parsed(buffer, executor, has_kinds=has_kinds)
        if changes[1]:
            yield changes
        parts, have = [buffer[at:]], len(buffer) - at
        needed = 1 if is_complete else max(lacking, BLOCK_BYTES)
        if is_complete and have:
            raise CorruptFile("the file goes on behind its last entry", advice=_WHOLE)
    if not is_complete:
        raise CorruptFile("the file ends within an entry", advice=_WHOLE)


def _parsed(buffer: bytes, executor: ExecutorName, *, has_kinds: bool) -> tuple[int, int, bool, Changes]:
    """Parse the changes that are whole in a buffer.

    Returns:
        Where the rest begins; how many bytes the first change of it needs at least; whether the file ends there; and
        the changes.
    """
    if executor is ExecutorName.NUMBA and not has_kinds:
        from .entry_search import find_rows  # has numpy and numba

        if (found := find_rows(buffer)) is not None:
            *rest, rows, of_rows = found
            return *rest, ((), rows, of_rows)  # type: ignore[return-value]
    kinds: list[int] = []
    keys: list[bytes] = []
    values: list[bytes | None] = []
    size_at, end, at, kind = _SIZE.unpack_from, len(buffer), 0, PUT
    while True:
        start = at + has_kinds
        if has_kinds and start <= end:
            kind = buffer[at]
            if kind == _END:
                return start, 0, True, (kinds, keys, values)
        if start + _SIZE.size > end:
            return at, 1 + end - at, False, (kinds, keys, values)
        key_size = size_at(buffer, start)[0]
        if key_size == -1 and not has_kinds:
            return start + _SIZE.size, 0, True, (kinds, keys, values)
        if key_size < 0 or kind not in _KINDS:
            raise CorruptFile(f"a change of the kind {kind} has a key with a size of {key_size}", advice=_WHOLE)
        key_end = start + _SIZE.size + key_size
        value_start = key_end + _SIZE.size
        if value_start > end:
            return at, value_start - at, False, (kinds, keys, values)
        value_size = size_at(buffer, key_end)[0]
        if has_kinds and (value_size < 0) is not (kind == _REMOVE):
            raise CorruptFile(f"a change of the kind {kind} has a value with a size of {value_size}", advice=_WHOLE)
        value_end = value_start + max(value_size, 0)
        if value_end > end:
            return at, value_end - at, False, (kinds, keys, values)
        kinds.append(kind)
        keys.append(buffer[start + _SIZE.size : key_end])
        values.append(None if value_size < 0 else buffer[value_start:value_end])
        at = value_end


def in_blocks(entries: Iterable[Entry]) -> Iterator[Entries]:
    """Yield entries in blocks of some MiB."""
    for some in in_batches(entries, lambda one: max(pair_bytes(one), _LEAST_BYTES), BLOCK_BYTES):
        yield [key for key, _ in some], [value for _, value in some]


def joined_blocks(blocks: Iterable[Entries]) -> Iterator[Entries]:
    """Yield small blocks of entries together."""
    for some in in_batches(blocks, _block_bytes, BLOCK_BYTES):
        yield list(chain.from_iterable(keys for keys, _ in some)), list(chain.from_iterable(of for _, of in some))


def _block_bytes(block: Entries) -> int:
    return max(sum(map(len, chain(*block))), _LEAST_BYTES * len(block[0]))


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
