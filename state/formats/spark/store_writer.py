"""Snapshot files of the HDFS-backed provider, written by blocks: the state of a partition in one file.

`store_files` has the format, and reads it. A block of entries is put together in one buffer, in the order of their
partitions, so that each partition's share is a slice of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ....serializers.errors import LibraryNotFound
from ....serializers.spark_rows.row_encoder import Encoded, copy
from ....serializers.spark_rows.rows import Rows
from .compression import Compressing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ...storage.files import FileOutput, Folder

    Numbers = NDArray[Any]

_END = b"\xff\xff\xff\xff"


def stored_rows(rows: Sequence[bytes]) -> Encoded:
    """Prepare rows that are written as they are."""
    found = Rows.of(rows)

    def write(buffer: Numbers, starts: Numbers) -> None:
        copy(found.data, found.starts, buffer, starts, found.sizes)

    return Encoded(found.sizes, write, rows)


@attrs.frozen
class EntryBlock:
    """Entries as a snapshot file has them, ordered by partition.

    Attributes:
        data: Their bytes.
        bounds: Where the entries of partition i begin and end: `bounds[i]`, `bounds[i + 1]`.
        counts: The number of entries of each partition.
    """

    data: memoryview
    bounds: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(
        cls, keys: Encoded, values: Encoded, partition: Numbers, partitions: int, *, has_checksums: bool
    ) -> EntryBlock:
        """Put entries together.

        Args:
            keys: The keys.
            values: The values.
            partition: The partition of each entry.
            partitions: The number of partitions.
            has_checksums: Whether each entry gets a checksum.

        Raises:
            LibraryNotFound: Checksums are needed, and their library is not installed.
        """
        more = 4 if has_checksums else 0
        sizes = 8 + keys.sizes + more + values.sizes
        order = np.argsort(partition, kind="stable")
        starts = np.empty(len(sizes), np.int64)
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        buffer = np.zeros(int(sizes.sum()), np.uint8)
        quads = buffer.view(np.uint32)
        quads[starts >> 2] = keys.sizes.astype(np.uint32).byteswap()
        keys.write(buffer, starts + 4)
        quads[(starts + 4 + keys.sizes) >> 2] = (more + values.sizes).astype(np.uint32).byteswap()
        values.write(buffer, starts + 8 + keys.sizes + more)
        if has_checksums:
            _set_checksums(buffer, starts + 4, keys.sizes, values.sizes)
        counts = np.bincount(partition, minlength=partitions)
        lengths = np.bincount(partition, weights=sizes, minlength=partitions).astype(np.int64)
        bounds = (0, *np.cumsum(lengths).tolist())
        return cls(buffer.data, bounds, tuple(counts.tolist()))

    def share(self, partition: int) -> memoryview:
        """Return the bytes of a partition's entries."""
        return self.data[self.bounds[partition] : self.bounds[partition + 1]]


def _set_checksums(buffer: Numbers, starts: Numbers, key_sizes: Numbers, value_sizes: Numbers) -> None:
    try:
        from google_crc32c import value as crc32c
    except ImportError as error:
        raise LibraryNotFound(
            "the entries of this checkpoint have checksums, whose library is not installed: google_crc32c",
            advice="pip install 'stateshift[rocksdb]'",
        ) from error
    data = buffer.tobytes()
    quads = buffer.view(np.uint32)
    for start, key, value in zip(starts.tolist(), key_sizes.tolist(), value_sizes.tolist(), strict=True):
        at = start + key + 4
        quads[at >> 2] = crc32c(data[start : start + key] + data[at + 4 : at + 4 + value])


def snapshot_name(version: int) -> str:
    """Return the name of the snapshot file of a version."""
    return f"{version}.snapshot"


@contextmanager
def snapshots(folders: Sequence[Folder], version: int, codec: str) -> Iterator[list[Compressing]]:
    """Open a snapshot in each of some folders; they get their names when the `with` block ends, all complete.

    Raises:
        UnsupportedFormat: The codec is not one that this release writes.
    """
    name = snapshot_name(version)
    open_files: list[tuple[Folder, str, FileOutput, Any]] = []
    try:
        for folder in folders:
            folder.create()
            attempt = folder.attempt_name(name)
            context = folder.output(attempt)
            open_files.append((folder, attempt, context.__enter__(), context))
        streams = [Compressing(file, codec) for _, _, file, _ in open_files]
        yield streams
        for stream, (_, _, file, _) in zip(streams, open_files, strict=True):
            stream.write(_END)
            stream.finish()
            file.sync()
    except BaseException:
        for folder, attempt, _, context in open_files:
            context.__exit__(None, None, None)
            folder.delete(attempt)
        raise
    for folder, attempt, _, context in open_files:
        context.__exit__(None, None, None)
        folder.rename(attempt, name)
