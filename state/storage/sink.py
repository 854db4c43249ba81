"""Where a task puts the stream that it writes: in memory while it is small, else a file under an attempt's name."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

import attrs
from xxhash import xxh3_128

from ...serializers.errors import StateShiftError
from .lineage import FileDigest
from .publish import INLINE_BYTES

if TYPE_CHECKING:
    from types import TracebackType

    from .files import FileOutput, Folder


@attrs.frozen
class StoredBytes:
    """A stream that was written.

    Attributes:
        name: What it will be called.
        size: In bytes.
        data: The bytes themselves, if it is small enough to be kept inside `_metadata`.
        attempt: The file that holds them otherwise, to be renamed to `name` when the run is published.
        digest: Of that file.
    """

    name: str
    size: int
    data: bytes | None = attrs.field(default=None, repr=False)
    attempt: str = ""
    digest: FileDigest | None = None


class StreamSink:
    """Takes the bytes of one stream. Used in a `with` block: if that fails, the attempt's file is removed.

    Args:
        folder: The target.
        name: What the stream's file will be called.
        inline_bytes: Up to which size the stream is kept in memory, to lie inside `_metadata`.
    """

    def __init__(self, folder: Folder, name: str, *, inline_bytes: int = INLINE_BYTES) -> None:
        self._folder = folder
        self._inline_bytes = inline_bytes
        self._name = name
        self._attempt = ""
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
            self._attempt = self._folder.attempt_name(self._name)
            self._output = self._open.enter_context(self._folder.output(self._attempt))
            self._put(self._output, bytes(self._buffer))
            self._buffer.clear()
        self._put(self._output, data)
        return len(data)

    def _put(self, output: FileOutput, data: bytes | memoryview) -> None:
        self._hash.update(data)
        output.write(data)

    def finish(self) -> StoredBytes:
        """Close the file once it outlasts a power cut, and say what was written."""
        if self._output is not None:
            self._output.sync()
        self._open.close()
        if self._output is None:
            return StoredBytes(self._name, self._size, data=bytes(self._buffer))
        digest = FileDigest(self._size, self._hash.hexdigest())
        return StoredBytes(self._name, self._size, attempt=self._attempt, digest=digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._open.close()
            return
        with suppress(StateShiftError):  # the failure that led here is the one to tell
            self._open.close()
        if self._attempt:
            with suppress(StateShiftError):
                self._folder.delete(self._attempt)
