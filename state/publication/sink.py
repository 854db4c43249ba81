"""The output of a task's stream: in memory while it is small, else in a file under an attempt name."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import attrs
from xxhash import xxh3_128

from ...serializers.errors import CorruptSavepoint, StateShiftError
from ..formats.flink.handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle
from ..formats.flink.sources import PassedOn, file_of, open_stream
from .lineage import FileDigest
from .publish import INLINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.sources import ByteSource
    from ..storage.files import FileOutput, Folder


@attrs.frozen
class StoredBytes:
    """A stream that was written.

    Attributes:
        name: The final name of the stream.
        size: The size in bytes.
        data: The bytes, if the stream is small enough to be stored inside `_metadata`.
        attempt: The file with the bytes otherwise, which is renamed to `name` on publication.
        digest: The digest of that file; of one that was linked its size alone.
    """

    name: str
    size: int
    data: bytes | None = attrs.field(default=None, repr=False)
    attempt: str = ""
    digest: FileDigest | None = None


class StreamSink:
    """Writes one stream. Used in a `with` block: if that fails, the attempt file is removed.

    Args:
        folder: The target.
        name: The final name of the stream's file.
        inline_bytes: The size up to which the stream is kept in memory, to be stored inside `_metadata`.

    Attributes:
        attempt: The name of the file with the bytes; "" while they are in memory.
    """

    def __init__(self, folder: Folder, name: str, *, inline_bytes: int = INLINE_BYTES) -> None:
        self._folder = folder
        self._inline_bytes = inline_bytes
        self._name = name
        self.attempt = ""
        self._buffer = bytearray()
        self._hash = xxh3_128()
        self._size = 0
        self._output: FileOutput | None = None
        self._open = ExitStack()

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes."""
        self._size += len(data)
        if self._output is None and self._size <= self._inline_bytes:
            self._buffer += data
            return len(data)
        if self._output is None:
            self.attempt = self._folder.attempt_name(self._name)
            self._output = self._open.enter_context(self._folder.output(self.attempt))
            self._put(self._output, bytes(self._buffer))
            self._buffer.clear()
        self._put(self._output, data)
        return len(data)

    def _put(self, output: FileOutput, data: bytes | memoryview) -> None:
        self._hash.update(data)
        output.write(data)

    def finish(self) -> StoredBytes:
        """Sync and close the file; return the stored stream."""
        if self._output is not None:
            self._output.sync()
        self._open.close()
        if self._output is None:
            return StoredBytes(self._name, self._size, data=bytes(self._buffer))
        digest = FileDigest(self._size, self._hash.hexdigest())
        return StoredBytes(self._name, self._size, attempt=self.attempt, digest=digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._open.close()
            return
        self.discard()

    def discard(self) -> None:
        """Remove what was written, as far as the store allows it."""
        with suppress(StateShiftError):  # the original failure is the one to report
            self._open.close()
        if self.attempt:
            with suppress(StateShiftError):
                self._folder.delete(self.attempt)


def linked_stream(stream: StreamHandle, source: Folder, target: Folder, name: str) -> StoredBytes:
    """Link a file, or copy it within its store, neither of which reads it; copy its bytes where this cannot be done.

    Args:
        stream: The file, or the part of one; bytes within `_metadata` stay there.
        source: The folder of the savepoint that has the handle.
        target: The folder to write to.
        name: The final name of the file.

    Raises:
        CorruptSavepoint: The file does not have the size that the handle says.
        SavepointNotFound, UntrustedPlace: It is missing, or may not be read.
        StorageFailed: A store failed; what was written is removed.
    """
    if isinstance(stream, InlineHandle):
        return StoredBytes(name, stream.size, data=stream.data)
    if isinstance(stream, RelativeFileHandle | AbsoluteFileHandle):
        (place, file), attempt = file_of(stream, source), target.attempt_name(name)
        is_linked = False
        if place.is_local and target.is_local:
            with suppress(OSError):  # on another disk, or of another user
                Path(target.place, attempt).hardlink_to(Path(place.place, file).resolve())
                is_linked = True
        if is_linked or place.copy_within_store(file, target, attempt):
            return _of_size(target, StoredBytes(name, stream.size, attempt=attempt))
    with open_stream(stream, source) as found:
        return copied_stream(found, target, name)


def _of_size(target: Folder, stored: StoredBytes) -> StoredBytes:
    """Return a linked file with its size, which is all that is known of it; a file of another size is removed."""
    size = target.size(stored.attempt)
    if size == stored.size:
        return attrs.evolve(stored, digest=FileDigest(size, ""))
    with suppress(StateShiftError):
        target.delete(stored.attempt)
    raise CorruptSavepoint(f"the file has {size:,} bytes and should have {stored.size:,}")


def copied_stream(
    stream: ByteSource,
    target: Folder,
    name: str,
    look: Callable[[ByteSource], object] = lambda _: None,
    *,
    inline_bytes: int = 0,
) -> StoredBytes:
    """Copy a stream: each piece is checked, added to the digest and written while it is in the processor's cache.

    Args:
        stream: The stream to copy.
        target: The folder to write to.
        name: The final name of the file.
        look: Checks the stream, of which it may read any part; the rest is read and written after it. It raises the
            errors that it finds.
        inline_bytes: As of `StreamSink`.

    Raises:
        CorruptSavepoint: The stream has fewer bytes than when it was opened.
        StorageFailed: A store failed; the written part is removed.
    """
    with StreamSink(target, name, inline_bytes=inline_bytes) as sink:
        whole = PassedOn(stream, sink.write)
        look(whole)
        whole.finish()
        return sink.finish()
