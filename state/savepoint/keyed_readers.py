"""Which reader takes a keyed handle: chosen by the kind of the handle, and all of them give the same blocks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ...serializers.errors import StateShiftError
from ..storage.prefetch import ahead
from ..transcode.choice import choose_executor
from .handles import NATIVE, NATIVE_OLD
from .keyed_stream import KeyedStreamReader, read_stream_header
from .sources import open_proven, open_stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..storage.files import Folder
    from ..transcode.choice import ExecutorName
    from .blocks import Block
    from .handles import KeyedHandle
    from .keyed_stream import KeyedStreamHeader
    from .sources import ByteSource

_BYTES = 1 << 20


class KeyedReader(Protocol):
    """Reads the keyed state of one subtask, whatever format it is stored in, as canonical blocks."""

    @property
    def header(self) -> KeyedStreamHeader:
        """Keys and states; the place of a state is its id in the blocks."""
        ...

    @property
    def name(self) -> str:
        """What messages call the bytes."""
        ...

    @property
    def executor(self) -> ExecutorName:
        """Who goes through the entries."""
        ...

    @property
    def hidden(self) -> dict[str, str]:
        """The states whose entries cannot be reached, each with the reason; of a canonical stream none."""
        ...

    def blocks(self, key_groups: range | None = None, state_ids: Collection[int] | None = None) -> Iterator[Block]:
        """Give the blocks of some key groups and states (by default all), key groups ascending.

        Raises:
            OldReaderUnavailable: A wanted state has entries that cannot be told apart (native formats only).
            CorruptSavepoint: The bytes are damaged.
        """
        ...


def read_header(handle: KeyedHandle, folder: Folder) -> KeyedStreamHeader:
    """Read only the header of a keyed stream, of whatever format; errors as `open_keyed`."""
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
) -> Iterator[KeyedReader]:
    """Open the keyed state that a handle points at, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        max_parallelism: Number of key groups of the operator: it decides how canonical keys begin.
        xxh128: As of `open_proven`.
        executor: Who goes through the entries; None: it is chosen by the size of the stream.

    Raises:
        UnknownSnapshot: A snapshot class is not registered; nothing of the stream can be read then.
        UnsupportedFormat: The stream or a state is of a kind that is not known.
        CorruptSavepoint: The header or an offset is damaged; or the digest is another one.
    """
    with open_proven(handle.stream, folder, xxh128) as source:
        yield keyed_reader(source, handle, max_parallelism, executor)


def keyed_reader(
    source: ByteSource, handle: KeyedHandle, max_parallelism: int, executor: ExecutorName | None = None
) -> KeyedReader:
    """Make the reader of keyed state whose bytes are at hand; arguments and errors as of `open_keyed`."""
    executor = executor or choose_executor(handle.stream.size)
    if handle.tag in {NATIVE, NATIVE_OLD}:
        from .native_stream import NativeStreamReader  # for a header nobody needs it, nor for a canonical stream

        return NativeStreamReader.open(source, handle, max_parallelism, executor)
    return KeyedStreamReader.open(source, handle, executor)


def blocks_ahead(
    reader: KeyedReader, key_groups: range | None = None, state_ids: Collection[int] | None = None
) -> Iterator[Block]:
    """Give blocks as a reader does; while they are worked on, a thread reads and finds the next ones."""
    for batch in ahead(batches(reader.blocks(key_groups, state_ids))):
        yield from batch


def batches(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Put blocks together to lists of about as many bytes as are best worked on at once."""
    batch: list[Block] = []
    size = 0
    try:
        for block in blocks:
            batch.append(block)
            size += len(block.data)
            if size >= _BYTES:
                yield batch
                batch, size = [], 0
    except StateShiftError:
        if batch:
            yield batch  # what lies before the damage comes before the error
        raise
    if batch:
        yield batch
