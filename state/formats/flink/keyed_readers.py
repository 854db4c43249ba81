"""Readers of keyed state: chosen by the kind of the handle, and all of them yield the same blocks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...storage.prefetch import ahead, in_batches
from ...transcode.executor_choice import choose_executor
from .handles import NATIVE, NATIVE_OLD, DatabaseHandle
from .keyed_stream import KeyedReader, KeyedStreamReader, read_stream_header
from .sources import open_proven, open_stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ...storage.files import Folder
    from ...transcode.executor_choice import ExecutorName
    from .blocks import Block
    from .handles import KeyedHandle, KeyGroupsHandle
    from .keyed_stream import KeyedStreamHeader
    from .sources import ByteSource

_BYTES = 1 << 20


def read_header(handle: KeyedHandle, folder: Folder) -> KeyedStreamHeader:
    """Read only the header of a keyed stream of any format; raises as `open_keyed`."""
    with open_stream(handle.stream, folder) as source:
        return read_stream_header(source, handle)


@contextmanager
def open_keyed(
    handle: KeyedHandle,
    folder: Folder,
    max_parallelism: int,
    xxh128: str = "",
    *,
    executor: ExecutorName | None = None,
    few: bool = False,
) -> Iterator[KeyedReader]:
    """Open the keyed state that a handle points at, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        max_parallelism: The number of key groups of the operator: it determines the prefix of canonical keys.
        xxh128: As in `open_proven`.
        executor: The executor that finds the entries; None: it is chosen by the size of the stream.
        few: Whether only some keys are read: of a database, by ranges of its files where they lie, if RocksDB is not
            needed to read them.

    Raises:
        UnknownSnapshot: A snapshot class is not registered; nothing of the stream can be read then.
        UnsupportedFormat: The kind of the stream or of a state is not known.
        CorruptSavepoint: The header or an offset is damaged, or the digest differs; or a file of a database is damaged.
        LibraryNotFound: The state is in a database, and `rocksdict` is not installed.
    """
    if isinstance(handle, DatabaseHandle):
        from .database_files import FewOfDatabase, open_database_of  # an optional library
        from .database_stream import DatabaseStreamReader

        executor = executor or choose_executor(handle.size)
        with open_proven(handle.stream, folder, xxh128) as source:
            header = read_stream_header(source, handle)
        with FewOfDatabase.opened(handle, folder) if few else open_database_of(handle, folder) as database:
            yield DatabaseStreamReader.open(database, header, handle, max_parallelism, executor, few=few)
        return
    with open_proven(handle.stream, folder, xxh128) as source:
        yield keyed_reader(source, handle, max_parallelism, executor)


def keyed_reader(
    source: ByteSource, handle: KeyGroupsHandle, max_parallelism: int, executor: ExecutorName | None = None
) -> KeyedReader:
    """Return the reader of keyed state from an open byte source; arguments and errors as in `open_keyed`."""
    executor = executor or choose_executor(handle.stream.size)
    if handle.tag in {NATIVE, NATIVE_OLD}:
        from .heap_native_stream import NativeStreamReader  # not needed for headers and canonical streams

        return NativeStreamReader.open(source, handle, max_parallelism, executor)
    return KeyedStreamReader.open(source, handle, executor)


def blocks_ahead(
    reader: KeyedReader, key_groups: range | None = None, state_ids: Collection[int] | None = None
) -> Iterator[Block]:
    """Yield the blocks of a reader; while the caller works on them, a thread reads the next ones."""
    for batch in ahead(batches(reader.blocks(key_groups, state_ids))):
        yield from batch


def batches(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield lists of blocks, each of about as many bytes as are processed best at once; those before damage come."""
    return in_batches(blocks, lambda block: len(block.data), _BYTES)
