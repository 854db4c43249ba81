"""A stream that stays as it is: copied into a file under an attempt's name, with its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sink import StreamSink

if TYPE_CHECKING:
    from .files import Folder
    from .sink import StoredBytes
    from .sources import ByteSource


def copied_stream(stream: ByteSource, target: Folder, name: str) -> StoredBytes:
    """Copy a stream: what was read is looked at for the digest, and written, while a processor's cache has it.

    Args:
        stream: What is copied.
        target: The folder to write to.
        name: What the file will be called.

    Raises:
        CorruptSavepoint: The stream has fewer bytes than when it was opened.
        StorageFailed: A store failed; what was written is removed.
    """
    with StreamSink(target, name, inline_bytes=0) as sink:
        for data in stream.pieces():
            sink.write(data)
        return sink.finish()
