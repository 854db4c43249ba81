"""Where a task puts the stream that it writes: in memory while it is small, else a file under an attempt's name."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

import attrs
from xxhash import xxh3_128

from ...serializers.errors import StateShiftError
from .files import attempt_name
from .lineage import FileDigest
from .publish import INLINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
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


_WITHOUT_THREAD_BYTES = 1 << 20
_BATCH_BYTES = 1 << 20
_UNDERWAY_BYTES = 8 << 20


class StreamSink:
    """Takes the bytes of one stream. Used in a `with` block: if that fails, the attempt's file is removed.

    A large stream is hashed and written by a thread, while what follows is made: at most 8 MiB and a piece are on their
    way. What fails there is raised by a later call, at the latest by `finish`.

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
        self._thread: ThreadPoolExecutor | None = None
        self._batch: list[bytes | memoryview] = []
        self._batch_bytes = 0
        self._underway: deque[tuple[int, Future[None]]] = deque()
        self._underway_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes."""
        self._size += len(data)
        if self._output is None and self._size <= self._inline_bytes:
            self._buffer += data
            return len(data)
        if self._output is None:
            self._attempt = attempt_name(self._name)
            self._output = self._open.enter_context(self._folder.output(self._attempt))
            self._put(self._output, bytes(self._buffer))
            self._buffer.clear()
        self._put(self._output, data)
        return len(data)

    def _put(self, output: FileOutput, data: bytes | memoryview) -> None:
        if self._size < _WITHOUT_THREAD_BYTES:
            self._take(output, (data,))
            return
        self._batch.append(data)
        self._batch_bytes += len(data)
        if self._batch_bytes >= _BATCH_BYTES:
            self._begin(output)
            self._wait(_UNDERWAY_BYTES)

    def _begin(self, output: FileOutput) -> None:
        """Give the pieces that have come together to the thread."""
        if self._thread is None:
            self._thread = self._open.enter_context(ThreadPoolExecutor(1))
        batch, size = self._batch, self._batch_bytes
        self._underway.append((size, self._thread.submit(self._take, output, batch)))
        self._underway_bytes += size
        self._batch, self._batch_bytes = [], 0

    def _take(self, output: FileOutput, batch: Iterable[bytes | memoryview]) -> None:
        for data in batch:
            self._hash.update(data)
            output.write(data)

    def _wait(self, most_bytes: int) -> None:
        """Wait until no more bytes than that are on their way."""
        while self._underway_bytes > most_bytes:
            size, begun = self._underway.popleft()
            self._underway_bytes -= size
            begun.result()

    def finish(self) -> StoredBytes:
        """Close the file, and say what was written."""
        if self._output is not None and self._batch:
            self._begin(self._output)
        self._wait(0)
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
