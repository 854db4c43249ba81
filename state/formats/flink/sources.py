"""Byte sources of state streams: inside `_metadata`, or in a file."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, assert_never

import attrs
from xxhash import xxh3_128

from ....serializers.errors import CorruptSavepoint, SavepointNotFound
from ....serializers.ways_out import Option, Told, WayOut
from ...storage.files import check_range
from ...storage.stores import bare
from .handles import AbsoluteFileHandle, EmptyHandle, InlineHandle, RelativeFileHandle, SegmentHandle
from .roots import local_file, stored_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...storage.files import FileRange, Folder
    from .handles import StreamHandle


class ByteSource(Protocol):
    """Bytes that can be read at any offset, such as `FileRange` and `InlineBytes`."""

    @property
    def name(self) -> str:
        """The name of the source in messages."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    @property
    def piece_bytes(self) -> int:
        """The best number of bytes to read at once in a single sequential pass."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`; raises `CorruptSavepoint` where there are fewer."""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes from start to end; a piece is valid until the next one is requested."""


@attrs.frozen
class InlineBytes:
    """Bytes in memory, such as those inside `_metadata`."""

    data: bytes = attrs.field(repr=False)
    name: str = "_metadata (inline)"

    @property
    def size(self) -> int:
        """Their number."""
        return len(self.data)

    @property
    def piece_bytes(self) -> int:
        """The number of all bytes."""
        return max(len(self.data), 1)

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        check_range(offset, size, len(self.data), self.name)
        return self.data[offset : offset + size]

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes at once."""
        yield self.data


@attrs.frozen
class Segment:
    """A part of a byte source.

    Attributes:
        whole: The source.
        start: The position of the first byte.
        size: The number of bytes.
    """

    whole: ByteSource = attrs.field(repr=False)
    start: int
    size: int

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return f"{self.whole.name} from byte {self.start}"

    @property
    def piece_bytes(self) -> int:
        """The best number of bytes to read at once; see `ByteSource`."""
        return self.whole.piece_bytes

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        check_range(offset, size, self.size, self.name)
        return self.whole.read_at(self.start + offset, size)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes from start to end."""
        for at in range(0, self.size, self.piece_bytes):
            yield self.read_at(at, min(self.piece_bytes, self.size - at))


class PassedOn:
    """A byte source that passes each byte once and in order to a function, while it is read at any offsets.

    Args:
        source: The bytes.
        take: Takes the bytes; its argument is valid until it returns.
    """

    def __init__(self, source: ByteSource, take: Callable[[bytes | memoryview], object]) -> None:
        self._source, self._take = source, take
        self._passed = 0
        self.name, self.size, self.piece_bytes = source.name, source.size, source.piece_bytes

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        data = self._source.read_at(offset, size)
        if offset <= self._passed < offset + size:
            self._take(memoryview(data)[self._passed - offset :] if offset < self._passed else data)
            self._passed = offset + size
        return data

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes from start to end and pass them on; no bytes may have been read before."""
        for piece in self._source.pieces():
            self._take(piece)
            self._passed += len(piece)
            yield piece

    def finish(self) -> None:
        """Pass on the bytes that have not been read yet."""
        if not self._passed:
            for _ in self.pieces():
                pass
        while self._passed < self.size:
            self.read_at(self._passed, min(self.piece_bytes, self.size - self._passed))


@contextmanager
def open_proven(handle: StreamHandle, folder: Folder, xxh128: str) -> Iterator[ByteSource]:
    """Open a stream as `open_stream`; at the end of the `with` block read the rest and check the digest.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        xxh128: The expected digest; "": it is not checked.

    Raises:
        CorruptSavepoint: The digest differs; or as `open_stream`.
    """
    with open_stream(handle, folder) as source:
        if not xxh128:
            yield source
            return
        digest = xxh3_128()
        whole = PassedOn(source, digest.update)
        yield whole
        whole.finish()
        require_digest(source.name, digest.hexdigest(), xxh128)


def require_digest(file: str, found: str, wanted: str) -> None:
    """Refuse a file whose digest is not the one in its savepoint's lineage.

    Raises:
        CorruptSavepoint: The digests differ.
    """
    if found != wanted:
        raise CorruptSavepoint(
            "the file does not match its lineage: the digest differs",
            advice=(
                "use another copy of the savepoint",
                WayOut("if the file was changed on purpose: migrate with", (Told(Option.NO_SOURCE_DIGESTS),)),
                "if it was: remove _stateshift.json",
            ),
            file=file,
        )


@contextmanager
def open_stream(handle: StreamHandle, folder: Folder) -> Iterator[ByteSource]:
    """Open the bytes that a stream handle points at, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        SavepointNotFound: The file is missing.
        UntrustedPlace: The file is outside the savepoint's allowed folders; see `roots`.
        CorruptSavepoint: The size of the file is not the one in the handle, or its name leaves the folder.
    """
    match handle:
        case InlineHandle():
            yield InlineBytes(handle.data)
        case EmptyHandle():
            yield InlineBytes(b"")
        case RelativeFileHandle() | AbsoluteFileHandle():
            with _opened(handle, folder) as source:
                _check_size(source, handle, folder)
                yield source
        case SegmentHandle():
            with _opened(handle, folder) as source:
                check_range(handle.start, handle.size, source.size, path_of(handle, folder))
                yield Segment(source, handle.start, handle.size)
        case _:
            assert_never(handle)


@contextmanager
def _opened(handle: RelativeFileHandle | AbsoluteFileHandle | SegmentHandle, folder: Folder) -> Iterator[FileRange]:
    """Open the file that a handle points at; a missing one is named as `_metadata` names it."""
    place, name = file_of(handle, folder)
    with ExitStack() as opened:
        try:
            source = opened.enter_context(place.open_range(name))
        except SavepointNotFound as error:
            named, moved = "", []
            if not isinstance(handle, RelativeFileHandle):
                named = f"; _metadata names it as {bare(handle.uri)}"
                moved = [WayOut.telling("if it lies elsewhere, say where:", Option.CHECKPOINT_ROOT, "OLD", "NEW")]
            raise SavepointNotFound(
                f"the file {name} is missing in {place.place}{named}",
                file=name,
                advice=("bring the file there (a copy or a download may be incomplete)", *moved),
            ) from error
        yield source


def file_of(handle: RelativeFileHandle | AbsoluteFileHandle | SegmentHandle, folder: Folder) -> tuple[Folder, str]:
    """Return the folder and the name of the file that a handle points at; errors as in `open_stream`."""
    return _followed(handle.path, folder) if isinstance(handle, RelativeFileHandle) else stored_file(handle.uri, folder)


def _followed(name: str, folder: Folder) -> tuple[Folder, str]:
    """Return the folder and the name of a file of a savepoint; a link must not lead out of its roots."""
    real = folder.real(name)
    return (folder, name) if real is None else local_file(real, folder)


def _check_size(source: ByteSource, handle: RelativeFileHandle | AbsoluteFileHandle, folder: Folder) -> None:
    if source.size != handle.size:
        raise CorruptSavepoint(
            f"the file has {source.size:,} bytes and should have {handle.size:,}", file=path_of(handle, folder)
        )


def path_of(handle: RelativeFileHandle | AbsoluteFileHandle | SegmentHandle, folder: Folder) -> str:
    """Return the path of the file that a handle points at, for messages: its name in the savepoint's own folder."""
    place, name = file_of(handle, folder)
    return name if place == folder else f"{place.place}/{name}"
