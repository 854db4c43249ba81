"""The checksums beside the files of a checkpoint. A file is compared with them before anything of it is used.

    NAME.crc     Spark's own, JSON: {"algorithm": "CRC32C", "value": of the whole file, "mainFileSize": its bytes, …}
    .NAME.crc    Hadoop's, on local disks: "crc" 0, i32 bytes of a chunk, u32 CRC-32 of each chunk, big-endian

A file without them is read without them, as Spark does it; so is one whose `.NAME.crc` does not begin as it should.
Source: `ChecksumCheckpointFileManager` of Spark 4.3, `ChecksumFileSystem` of Hadoop.
"""

from __future__ import annotations

import json
import struct
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ....serializers.errors import CorruptFile, cause_text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from ...storage.files import FileRange, Folder

_HEAD = struct.Struct(">4si")
_MAGIC, _SUM_BYTES = b"crc\0", 4
_MOST_CHUNK_BYTES = 64 << 20
_ADVICE = "take another copy of the checkpoint; Spark could not read this file either"


def crc32c() -> Callable[..., int] | None:
    """Return the function that extends a CRC-32C by some bytes; None: its library is not installed."""
    try:
        from google_crc32c import extend
    except ImportError:
        return None
    function: Callable[..., int] = extend
    return function


def sums_of(folder: Folder, name: str, beside: Container[str] | None = None) -> tuple[str, ...]:
    """Return the names of the checksums of a file.

    Args:
        folder: The folder.
        name: The file.
        beside: The names of the files in the folder, if the caller knows them.
    """
    parent, slash, last = name.rpartition("/")
    names = [f"{name}.crc", *([f"{parent}{slash}.{last}.crc"] if folder.is_local else [])]
    return tuple(one for one in names if (folder.exists(one) if beside is None else one in beside))


def require_sums(folder: Folder, name: str, beside: Container[str] | None = None) -> None:
    """Compare a file with its checksums, where it has some; arguments as in `sums_of`.

    Raises:
        CorruptFile: The file is damaged, or its checksum is.
    """
    for found in sums_of(folder, name, beside):
        with folder.open_range(name) as file:
            if found == f"{name}.crc":
                _require_whole(file, folder.read(found), found)
            else:
                _require_chunks(file, folder.read(found), found)


def read_checked(folder: Folder, name: str, beside: Container[str] | None = None) -> bytes:
    """Return the content of a file that its checksums show to be whole; arguments and errors as in `require_sums`."""
    require_sums(folder, name, beside)
    return folder.read(name)


@contextmanager
def open_checked(folder: Folder, name: str, beside: Container[str] | None = None) -> Iterator[FileRange]:
    """Open a file that its checksums show to be whole; arguments and errors as in `require_sums`."""
    require_sums(folder, name, beside)
    with folder.open_range(name) as file:
        yield file


def _require_whole(file: FileRange, stored: bytes, sums: str) -> None:
    try:
        said: dict[str, Any] = json.loads(stored)
        algorithm, value, size = said["algorithm"], int(said["value"]), int(said["mainFileSize"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"the checksum {sums} is damaged: {cause_text(error)}", advice=_ADVICE) from error
    if file.size != size:
        raise CorruptFile(f"the file has {file.size:,} bytes, and {size:,} by its checksum {sums}", advice=_ADVICE)
    extend = crc32c()
    if extend is None or algorithm != "CRC32C":
        return
    found = 0
    for piece in file.pieces():
        found = extend(found, bytes(piece))
    if found != value & 0xFFFFFFFF:
        raise CorruptFile(f"the file is damaged: it does not match its checksum {sums}", advice=_ADVICE)


def _require_chunks(file: FileRange, stored: bytes, sums: str) -> None:
    magic, chunk = _HEAD.unpack_from(stored) if len(stored) >= _HEAD.size else (b"", 0)
    if magic != _MAGIC or not 0 < chunk <= _MOST_CHUNK_BYTES:
        return
    count = -(-file.size // chunk)
    if len(stored) != _HEAD.size + _SUM_BYTES * count:
        raise CorruptFile(f"the file does not have the size for which {sums} has checksums", advice=_ADVICE)
    most = max(1, file.piece_bytes // chunk)
    for first in range(0, count, most):
        start = first * chunk
        data = memoryview(file.read_at(start, min(most * chunk, file.size - start)))
        for number, at in enumerate(range(0, len(data), chunk), first):
            of = _HEAD.size + _SUM_BYTES * number
            if zlib.crc32(data[at : at + chunk]) != int.from_bytes(stored[of : of + _SUM_BYTES], "big"):
                what = f"the file is damaged: it does not match its checksum in {sums}"
                raise CorruptFile(what, offset=start + at, advice=_ADVICE)
