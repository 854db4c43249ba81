"""A stream that stays as it is: copied into a file under an attempt's name, with its digest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from ...serializers.errors import CorruptSavepoint, StateShiftError
from .files import FileRange, attempt_name
from .lineage import FileDigest
from .sink import StoredBytes, StreamSink
from .sources import ahead

if TYPE_CHECKING:
    from .files import Folder
    from .sources import ByteSource


def copied_stream(stream: ByteSource, target: Folder, name: str) -> StoredBytes:
    """Copy a stream; from one local file to another the operating system does it, and a thread takes the digest.

    Args:
        stream: What is copied.
        target: The folder to write to.
        name: What the file will be called.

    Raises:
        CorruptSavepoint: The stream has another size than when it was opened.
        StorageFailed: A store failed; what was written is removed.
    """
    if isinstance(stream, FileRange) and stream.path and target.is_local:
        return _copied_file(stream, target, name)
    most = stream.piece_bytes
    pieces = (stream.read_at(start, min(most, stream.size - start)) for start in range(0, stream.size, most))
    with StreamSink(target, name, inline_bytes=0) as sink:
        for data in ahead(pieces):
            sink.write(data)
        return sink.finish()


def _copied_file(file: FileRange, target: Folder, name: str) -> StoredBytes:
    attempt = attempt_name(name)
    try:
        with ThreadPoolExecutor(1) as thread:
            digest = thread.submit(FileDigest.of_stream, file)
            target.take(file.path, attempt)
        size = target.size(attempt)
        if size != file.size:
            raise CorruptSavepoint(
                f"the file had {file.size:,} bytes, and {size:,} of it were copied: it was changed meanwhile",
                advice="see who writes into the savepoint, and run the same command again",
                file=file.name,
            )
        return StoredBytes(name, size, attempt=attempt, digest=digest.result())
    except BaseException:
        with suppress(StateShiftError):  # the failure that led here is the one to tell
            target.delete(attempt)
        raise
