"""Copies of unchanged streams: written to a file under an attempt name, and checked on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..formats.flink.sources import PassedOn
from .sink import StreamSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..formats.flink.sources import ByteSource
    from ..storage.files import Folder
    from .sink import StoredBytes


def copied_stream(
    stream: ByteSource, target: Folder, name: str, look: Callable[[ByteSource], object] = lambda _: None
) -> StoredBytes:
    """Copy a stream: each piece is checked, added to the digest and written while it is in the processor's cache.

    Args:
        stream: The stream to copy.
        target: The folder to write to.
        name: The final name of the file.
        look: Checks the stream, of which it may read any part; the rest is read and written after it. It raises the
            errors that it finds.

    Raises:
        CorruptSavepoint: The stream has fewer bytes than when it was opened.
        StorageFailed: A store failed; the written part is removed.
    """
    with StreamSink(target, name, inline_bytes=0) as sink:
        whole = PassedOn(stream, sink.write)
        look(whole)
        whole.finish()
        return sink.finish()
