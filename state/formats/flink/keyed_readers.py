"""Readers of keyed state: chosen by the kind of the handle, and all of them yield the same blocks."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...storage.prefetch import ahead, in_batches
from ...transcode.executor_choice import choose_executor
from .handles import NATIVE, NATIVE_OLD, DatabaseHandle
from .keyed_stream import KeyedReader, KeyedStreamReader, read_stream_header
from .sources import open_proven, open_stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from contextlib import AbstractContextManager

    from ...storage.files import Folder
    from ...transcode.executor_choice import ExecutorName
    from .blocks import Block
    from .handles import KeyedHandle, KeyGroupsHandle
    from .keyed_stream import KeyedStreamHeader
    from .sources import ByteSource

_BYTES = 1 << 20
_MOST_FILES = 256
"""How many files of databases are kept open: processes may often open no more than 1,024."""


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
        opened = _open_database(handle, folder, max_parallelism, xxh128, executor or choose_executor(handle.size), few)
        kept = _kept.get()
        with opened if kept is None else kept.reader(opened, handle, folder, executor, xxh128, few) as reader:
            yield reader
        return
    with open_proven(handle.stream, folder, xxh128) as source:
        yield keyed_reader(source, handle, max_parallelism, executor)


@contextmanager
def _open_database(
    handle: DatabaseHandle,
    folder: Folder,
    max_parallelism: int,
    xxh128: str,
    executor: ExecutorName,
    few: bool,  # noqa: FBT001 - as in `open_keyed`
) -> Iterator[KeyedReader]:
    from .database_files import FewOfDatabase, open_database_of  # an optional library
    from .database_stream import DatabaseStreamReader

    with open_proven(handle.stream, folder, xxh128) as source:
        header = read_stream_header(source, handle)
    with FewOfDatabase.opened(handle, folder) if few else open_database_of(handle, folder) as database:
        yield DatabaseStreamReader.open(database, header, handle, max_parallelism, executor, few=few)


class _Kept:
    """The readers of databases that are open until the end of a `databases_once`."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self._readers: dict[tuple[Any, ...], tuple[DatabaseHandle, KeyedReader]] = {}
        self._files, self._lock = 0, Lock()

    @contextmanager
    def reader(
        self, opened: AbstractContextManager[KeyedReader], handle: DatabaseHandle, folder: Folder, *key: object
    ) -> Iterator[KeyedReader]:
        """Return the reader of a database with this key, for which it is opened if it is not kept yet."""
        from .database_files import stored_names

        with self._lock:
            found = self._readers.get((id(handle), *key))
            if found is None and self._files + len(handle.files) <= _MOST_FILES:
                found = self._readers[(id(handle), *key)] = handle, self.stack.enter_context(opened)
                self._files += len(handle.files)
        with opened if found is None else nullcontext(found[1]) as reader, stored_names(handle.files, folder):
            yield reader


_kept: ContextVar[_Kept | None] = ContextVar("_kept", default=None)


@contextmanager
def databases_once() -> Iterator[None]:
    """Keep databases that are read open until the `with` block ends, so that each is opened once for all its states.

    If they have very many files, the later ones are closed after each state.
    """
    kept = _Kept()
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        kept.stack.close()  # without the error of the block, to which each would add the names of its own files


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
