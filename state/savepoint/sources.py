"""Where the bytes of a state stream come from: inside `_metadata`, or a file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, assert_never

import attrs

from ...serializers.errors import CorruptSavepoint
from .files import check_range, open_uri
from .handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .files import Folder
    from .handles import StreamHandle


class ByteSource(Protocol):
    """Bytes that can be read at any offset; `FileRange` and `InlineBytes` are such."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...

    @property
    def piece_bytes(self) -> int:
        """How many bytes are best read at once, where they are gone through but once."""
        ...

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`; raises `CorruptSavepoint` where there are fewer."""
        ...

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Read all once, from the start to the end; a piece is what it is until the next one is asked for."""
        ...


@attrs.frozen
class InlineBytes:
    """Bytes that are at hand, as those inside `_metadata`."""

    data: bytes = attrs.field(repr=False)
    name: str = "_metadata (inline)"

    @property
    def size(self) -> int:
        """Their number."""
        return len(self.data)

    @property
    def piece_bytes(self) -> int:
        """All of them."""
        return max(len(self.data), 1)

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        check_range(offset, size, len(self.data), self.name)
        return self.data[offset : offset + size]

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Give all of them at once."""
        yield self.data


@contextmanager
def open_stream(handle: StreamHandle, folder: Folder) -> Iterator[ByteSource]:
    """Open what a stream handle points at, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        SavepointNotFound: The file is missing.
        CorruptSavepoint: Its size is not the one in the handle, or its name leaves the folder.
    """
    match handle:
        case InlineHandle():
            yield InlineBytes(handle.data)
        case RelativeFileHandle():
            with folder.open_range(handle.path) as source:
                _check_size(source, handle.size)
                yield source
        case AbsoluteFileHandle():
            with open_uri(handle.uri) as source:
                _check_size(source, handle.size)
                yield source
        case _:
            assert_never(handle)


def _check_size(source: ByteSource, size: int) -> None:
    if source.size != size:
        raise CorruptSavepoint(f"the file has {source.size} bytes and should have {size}", file=source.name)
