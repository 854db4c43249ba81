"""A stream that stays as it is: copied into a file under an attempt's name, with its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sink import StreamSink
from .sources import ahead

if TYPE_CHECKING:
    from .files import Folder
    from .sink import StoredBytes
    from .sources import ByteSource


def copied_stream(stream: ByteSource, target: Folder, name: str) -> StoredBytes:
    """Copy a stream; a thread reads, while what it has read is looked at for the digest, and written.

    Args:
        stream: What is copied.
        target: The folder to write to.
        name: What the file will be called.

    Raises:
        CorruptSavepoint: The stream has fewer bytes than when it was opened.
        StorageFailed: A store failed; what was written is removed.
    """
    most = stream.piece_bytes
    pieces = (stream.read_at(start, min(most, stream.size - start)) for start in range(0, stream.size, most))
    with StreamSink(target, name, inline_bytes=0) as sink:
        for data in ahead(pieces):
            sink.write(data)
        return sink.finish()
