"""Stores: which store a place is in, how it is opened, and how its errors are converted.

    s3://bucket/folder?endpoint_override=127.0.0.1:9000&scheme=http      connection options follow the `?`

pyarrow is imported where it is first needed. Local files are read without it, because its import, with numpy, takes as
long as a check of several hundred states.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ...serializers.errors import NoSpaceLeft, SavepointNotFound, StateShiftError, StorageFailed
from ...serializers.wording import _SECRET, masked

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "gcs": "gs"}
_OBJECT_STORES = {"s3", "gs", "abfs", "abfss"}
_NO_SPACE = {errno.ENOSPC: "no space left on the device", errno.EDQUOT: "the disk quota is exceeded"}
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_KEEPS_USER = {"hdfs", "viewfs", "abfs", "abfss"}  # the name of a user or of a container
_FAILURES = (
    (
        re.compile(r"Unrecognized filesystem type"),
        "this kind of store is not supported",
        "use a local path, or a URI that begins with s3://, gs://, abfs:// or hdfs://",
    ),
    (
        re.compile(r"NO_SUCH_BUCKET|Bucket '[^']*' not found"),
        "the bucket does not exist",
        "check its name, or create the bucket first: stateshift creates folders, but not buckets",
    ),
    (
        re.compile(r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID|status 403"),
        "the store rejects the credentials, or they do not permit this",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, for the driver and for every worker",
    ),
    (
        re.compile(r"NETWORK_CONNECTION|curlCode: \d+"),
        "the store does not answer",
        "check the address (?endpoint_override=host:port&scheme=http, or AWS_ENDPOINT_URL) and the network",
    ),
)


def is_uri(place: str) -> bool:
    """Whether a place is a URI, not a local path."""
    return _URI.match(place) is not None


def store_of(place: str) -> str:
    """Return the scheme of a URI as pyarrow spells it, such as `s3` for `s3a://…`; for a local path "file"."""
    found = _URI.match(place)
    scheme = found[1].lower() if found else "file"
    return _SAME_STORE.get(scheme, scheme)


def shows_whole_files_only(place: str) -> bool:
    """Whether the store shows a file only when it is complete: an object store, which cannot rename."""
    return store_of(place) in _OBJECT_STORES


def parted(place: str) -> tuple[str, str]:
    """Split a place into the part without the options of its URI, and the options with their `?`."""
    if not is_uri(place):
        return place, ""
    base, mark, options = place.partition("?")
    return base.rstrip("/"), mark + options


def below(place: str, name: str) -> str:
    """Return the place of a file or folder inside a folder."""
    base, options = parted(place)
    return f"{base.rstrip('/')}/{name}{options}"


def refuse_secrets(uri: str) -> None:
    """Refuse a URI with credentials in it, because places are written to messages, reports and lineages.

    Raises:
        StorageFailed: The URI has credentials, which are not in the message, or is malformed.
    """
    parts = _of_a_store(uri)
    names = [name for name, value in parse_qsl(parts.query) if _SECRET.search(name) or "@" in value]
    user, at, _ = parts.netloc.rpartition("@")
    has_user = bool(at) and (":" in unquote(user) or store_of(uri) not in _KEEPS_USER)
    if not has_user and not names:
        return
    raise StorageFailed.before_writing(
        f"the {parts.scheme} URI contains credentials, which would appear in messages, reports and lineages",
        advice="remove them, and set them in the environment of the driver and of every worker"
        " (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    )


def _split(uri: str) -> SplitResult:
    """Split a URI.

    Raises:
        StorageFailed: The URI is malformed, or has a fragment, which would be ignored; the message does not show it,
            because it may contain credentials.
    """
    if "#" in uri:
        raise StorageFailed(
            f"the {store_of(uri)} URI has a #, and what follows it is not part of the path",
            advice="write %23 for a # that is part of a name",
        )
    try:
        return urlsplit(uri)
    except ValueError as error:  # all that is checked is the host
        raise StorageFailed(
            f"the {store_of(uri)} URI has an invalid host name",
            advice="write it as scheme://host/folder; put an IPv6 address in brackets: [::1]",
        ) from error


def _of_a_store(uri: str) -> SplitResult:
    """Split the URI of a store; refuse one without a bucket or path, which would be read as a local path."""
    parts = _split(uri)
    if not parts.netloc and not parts.path.strip("/"):
        raise StorageFailed(
            f"the {store_of(uri)} URI does not name a folder", advice="write it as scheme://host/folder"
        )
    return parts


def bare(uri: str) -> str:
    """Return an untrusted URI for a message: without credentials, and without its options."""
    end = min((at for at in map(uri.find, "?#") if at >= 0), default=len(uri))
    return masked(uri[:end]) + uri[end : end + 1] + ("…" if end < len(uri) else "")


class _Asking:
    """The context manager of `asking`; one from a generator would take as long as some of the reads within."""

    __slots__ = ("_name", "_place")

    def __init__(self, place: str, name: str) -> None:
        self._place, self._name = place, name

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StateShiftError) or not isinstance(error, Exception):
            return
        # Some of pyarrow's errors are not subclasses of Python's.
        if isinstance(error, (OSError, ValueError)) or type(error).__module__.partition(".")[0] == "pyarrow":
            raise _store_error(error, self._place, self._name) from error


def asking(place: str, name: str) -> _Asking:
    """Convert a store's errors in a `with` block to errors that name the file."""
    return _Asking(place, name)


def _store_error(error: Exception, place: str, name: str) -> StateShiftError:
    name = masked(name)
    where: dict[str, Any] = {"savepoint": place or None, "file": name or None}
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        missing = f"there is no file {name}" if name else "the folder does not exist"
        is_file = not name and isinstance(error, NotADirectoryError)
        return SavepointNotFound("it is a file, or inside one, not a folder" if is_file else missing, **where)
    if isinstance(error, _NotRegularError):
        return StorageFailed(
            f"{error}, not a regular file",
            advice="only regular files are read, since others may never end; if it stands for a file, copy the file "
            "there",
            **where,
        )
    full = _NO_SPACE.get(getattr(error, "errno", None) or 0)
    if full is not None:
        return NoSpaceLeft(full, **where)
    text = masked(str(error))
    for pattern, what, advice in _FAILURES if is_uri(place or name) else ():
        if pattern.search(text):
            return StorageFailed(f"{what}: {text}", advice=advice, **where)
    return StorageFailed(f"the store says: {text}", **where)


@lru_cache(maxsize=64)
def opened(place: str) -> tuple[Any, str]:
    """Return the file system of a place, with pyarrow's methods, and the path in it."""
    if not is_uri(place):
        return LOCAL, place.rstrip("/")
    from pyarrow import fs

    _of_a_store(place)  # before a library of the store is loaded
    base, options = parted(place)
    store = store_of(place)
    uri = store + base[base.index(":") :] + options
    with asking(place, ""):
        try:
            files, path = fs.FileSystem.from_uri(_in_one_request(uri))
        except ValueError:  # before pyarrow 21; an upload in three requests is atomic, too
            files, path = fs.FileSystem.from_uri(uri)
    return files, str(path).rstrip("/")


def _in_one_request(uri: str) -> str:
    """Return the URI with the option to write a small file to S3 in a single request."""
    if not uri.startswith("s3:"):
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}allow_delayed_open=true"


def local_path(uri: str) -> str:
    """Return the path of `file:/a%20b`, as Java writes it, or `file:///a%20b`."""
    return str(Path(unquote(_split(uri).path)).absolute())


class _NotRegularError(OSError):
    """A folder, pipe, socket or device was found instead of a file."""


def require_regular(mode: int) -> None:
    """Refuse what is not a regular file, given its mode, in a `with asking(…)` block."""
    if not stat.S_ISREG(mode):
        raise _NotRegularError(f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}")


def _regular_file(path: str) -> FileIO:
    """Open a file for reading, only if it is a regular file: opening a pipe blocks, and some devices act on it."""
    require_regular(Path(path).stat().st_mode)
    file = FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    try:
        require_regular(os.fstat(file.fileno()).st_mode)  # it may have been replaced in the meantime
    except OSError:
        file.close()
        raise
    return file


class LocalOutput:
    """A local file that is written sequentially."""

    __slots__ = ("_file",)

    def __init__(self, path: str) -> None:
        self._file = FileIO(path, "wb")

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        while view:  # one call writes at most 2 GB, and less if a signal arrives
            view = view[self._file.write(view) or 0 :]

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class _LocalFile:
    """The methods of `pyarrow.NativeFile` that `FileRange` uses, and reads into an existing buffer."""

    __slots__ = ("_file", "path")

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.path = str(file.name)

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def read_at(self, size: int, offset: int) -> bytes:
        data = os.pread(self._file.fileno(), size, offset)
        if not data or len(data) == size:
            return data
        return data + self.read_at(size - len(data), offset + len(data))  # one call reads at most 2 GB

    def read_into(self, buffer: memoryview, offset: int) -> int:
        count = os.preadv(self._file.fileno(), [buffer], offset)
        if not count or count == len(buffer):
            return count
        return count + self.read_into(buffer[count:], offset + count)  # a network file system may read less at once

    def __enter__(self) -> None:
        """Enter the block, which does not close the file; its opener does."""

    def __exit__(self, *_: object) -> None:
        self._file.close()


class LocalFiles:
    """The local file system, with the methods of pyarrow's that `Folder` calls, and with `sync`.

    Written data survives a power cut once `sync` has been called: on the file for its bytes, on the folder for the
    names in it.
    """

    open_input_stream = staticmethod(_regular_file)
    open_output_stream = staticmethod(LocalOutput)
    move = staticmethod(os.replace)
    delete_file = staticmethod(os.unlink)
    delete_empty_dir = staticmethod(os.rmdir)
    create_dir = staticmethod(os.mkdir)

    @staticmethod
    def open_input_file(path: str) -> Any:
        return _LocalFile(_regular_file(path))

    @staticmethod
    def names(path: str) -> list[str]:
        return [found.name for found in os.scandir(path)]

    @staticmethod
    def sync_dir(path: str) -> None:
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


LOCAL = LocalFiles()
"""The local file system; tests of power cuts replace it."""
