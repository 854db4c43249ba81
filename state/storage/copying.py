"""A stream that stays as it is: copied into a file under an attempt's name, and looked at meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..savepoint.sources import PassedOn
from .sink import StreamSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..savepoint.sources import ByteSource
    from .files import Folder
    from .sink import StoredBytes


def copied_stream(
    stream: ByteSource, target: Folder, name: str, look: Callable[[ByteSource], object] = lambda _: None
) -> StoredBytes:
    """Copy a stream: what was read is looked at for the digest, and written, while a processor's cache has it.

    Args:
        stream: What is copied.
        target: The folder to write to.
        name: What the file will be called.
        look: Reads of the stream what it likes, which is then written, too; what it finds wrong it raises.

    Raises:
        CorruptSavepoint: The stream has fewer bytes than when it was opened.
        StorageFailed: A store failed; what was written is removed.
    """
    with StreamSink(target, name, inline_bytes=0) as sink:
        whole = PassedOn(stream, sink.write)
        look(whole)
        whole.finish()
        return sink.finish()
