"""Where the bytes of a state stream come from: inside `_metadata`, or a file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, assert_never

import attrs

from ...serializers.errors import CorruptSavepoint
from .files import check_range
from .handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle
from .roots import local_file, stored_file

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
        UntrustedPlace: It lies where the savepoint may not lead; see `roots`.
        CorruptSavepoint: Its size is not the one in the handle, or its name leaves the folder.
    """
    match handle:
        case InlineHandle():
            yield InlineBytes(handle.data)
        case RelativeFileHandle():
            place, name = _followed(handle.path, folder)
            with place.open_range(name) as source:
                _check_size(source, handle.size)
                yield source
        case AbsoluteFileHandle():
            place, name = stored_file(handle.uri, folder)
            with place.open_range(name) as source:
                _check_size(source, handle.size)
                yield source
        case _:
            assert_never(handle)


def _followed(name: str, folder: Folder) -> tuple[Folder, str]:
    """Give the folder and the name of a file of a savepoint; a link must not lead out of its roots."""
    real = folder.real(name)
    return (folder, name) if real is None else local_file(real, folder)


def _check_size(source: ByteSource, size: int) -> None:
    if source.size != size:
        raise CorruptSavepoint(f"the file has {source.size} bytes and should have {size}", file=source.name)
