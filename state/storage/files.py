"""Files on any store: local paths and, through `pyarrow.fs`, URIs (file:, s3:, gs:, hdfs:)."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from xxhash import xxh3_128

from ...serializers.errors import (
    CorruptFile,
    CorruptSavepoint,
    SavepointNotFound,
    StateShiftError,
    StorageFailed,
)
from ..progress import count_file_bytes
from .prefetch import ahead
from .stores import (
    LocalOutput,
    asking,
    below,
    is_uri,
    local_path,
    opened,
    parted,
    refuse_secrets,
    require_regular,
    shows_whole_files_only,
    store_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE_BYTES = 4 << 20
_LOCAL_PIECE_BYTES, _LOCAL_PASSING_BYTES = 3 << 19, 1 << 18
_LARGEST_COPY = 5 << 30  # the largest object that S3 copies in one request


Root = str | tuple[str, str]
"""A place that may contain files of a savepoint; or two places: the files of the first one lie in the second one."""


@attrs.frozen
class Folder:
    """A folder on any store. It has no open files or connections, so it can be pickled and used in another process.

    Created with `Folder.at`. All names are relative to the folder; a name that leaves it (absolute, or with `..`) is
    refused with `CorruptSavepoint`, because names come from savepoints.

    Every method raises `SavepointNotFound` where a file is missing, `StorageFailed` where the store does not answer.

    Attributes:
        place: An absolute local path without symbolic links, or a URI.
        run: The id of the run that writes here, 12 hexadecimal digits, which is part of attempt names; "" without one.
        given: The place as the caller spelled it, for messages.
        roots: Further places that may contain files of the savepoint in this folder; see `roots`. A pair of places says
            that the files which `_metadata` names in the first one lie in the second one.
    """

    place: str
    run: str = attrs.field(default="", eq=False)
    given: str = attrs.field(default="", eq=False, repr=False)
    roots: tuple[Root, ...] = attrs.field(default=(), eq=False, repr=False)

    @classmethod
    def at(cls, place: str | os.PathLike[str]) -> Folder:
        """Return the folder at a local path or URI; nothing is opened yet.

        Raises:
            StorageFailed: The place cannot be a folder.
        """
        text = os.fspath(place)
        if store_of(text) == "file":
            with asking(text, ""):
                return cls(os.path.realpath(local_path(text) if is_uri(text) else text), given=text)
        refuse_secrets(text)
        return cls("".join(parted(text)), given=text)

    def __str__(self) -> str:
        return self.place

    def folder(self, name: str) -> Folder:
        """Return a folder inside this one."""
        self._path(name)
        return Folder(below(self.place, name))

    @property
    def spelled(self) -> str:
        """The place, preceded by the caller's spelling if that differs."""
        return self.place if self.given in {"", self.place} else f"{self.given} ({self.place})"

    def above(self) -> Iterator[Folder]:
        """Yield the parent folders, nearest first; on a store the bucket is not a folder and is left out."""
        if self.is_local:
            yield from (Folder(str(folder)) for folder in Path(self.place).parents)
            return
        base, options = parted(self.place)
        start = base.index("://") + 3 if "://" in base else base.index(":") + 1
        head, *names = base[start:].split("/")
        for count in range(len(names) - 1, 0, -1):
            yield Folder("/".join((base[:start] + head, *names[:count])) + options)

    @property
    def is_local(self) -> bool:
        """Whether the folder is in the local file system."""
        return not is_uri(self.place)

    def _path(self, name: str) -> str:
        if not name or "\0" in name or any(part in {"", ".", ".."} for part in name.split("/")):
            raise CorruptSavepoint(
                f"the file name {name!r} is not valid, or outside the folder of the savepoint",
                savepoint=self.place,
                advice="do not trust this savepoint: Flink writes plain names beside _metadata",
            )
        return f"{opened(self.place)[1]}/{name}"

    @property
    def _store(self) -> Any:
        return opened(self.place)[0]

    def real(self, name: str) -> str | None:
        """Return the real path of a local file if symbolic links lead to another place; else None."""
        path = self._path(name)
        with asking(self.place, name):
            real = os.path.realpath(path) if self.is_local else path
            return None if real in {path, f"{os.path.realpath(self.place)}/{name}"} else real

    def read(self, name: str) -> bytes:
        """Return the whole content of a file."""
        path = self._path(name)
        with asking(self.place, name), self._store.open_input_stream(path) as stream:
            data: bytes = stream.read()
        count_file_bytes(len(data))
        return data

    @contextmanager
    def open_range(self, name: str) -> Iterator[FileRange]:
        """Open a file for reads at any offset, until the `with` block ends."""
        path = self._path(name)
        with _open_range(self._store, path, self.place, name) as reader:
            yield reader

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        with self.open_range(name) as reader:
            return reader.size

    def written_s(self, name: str) -> float:
        """Return the time of a file's last write, by the clock of its store, in seconds since 1970."""
        return self.version(name)[1] / 1e9

    def version(self, name: str) -> tuple[int, int]:
        """Return the size of a file in bytes and the time of its last write, in nanoseconds since 1970."""
        path = self._path(name)
        with asking(self.place, name):
            if self.is_local:
                facts = Path(path).stat()
                require_regular(facts.st_mode)
                return facts.st_size, facts.st_mtime_ns
            info = self._store.get_file_info(path)
            if not info.type.value:
                raise FileNotFoundError(name)
            return int(info.size or 0), int(info.mtime_ns or 0)

    def exists(self, name: str = "") -> bool:
        """Whether a file or folder of this name exists; without a name: whether this folder exists."""
        path = self._path(name) if name else opened(self.place)[1]
        with asking(self.place, name):
            if self.is_local:
                return Path(path).exists()
            return bool(self._store.get_file_info(path).type.value)

    def is_file(self) -> bool:
        """Whether there is a file, not a folder, at this place."""
        with asking(self.place, ""):
            if self.is_local:
                return Path(self.place).exists() and not Path(self.place).is_dir()
            from pyarrow.fs import FileType

            return bool(self._store.get_file_info(opened(self.place)[1]).type == FileType.File)

    def names(self) -> tuple[str, ...]:
        """Return the names of the files and folders directly inside, sorted; a missing folder is an error."""
        with asking(self.place, ""):
            if self.is_local:  # pyarrow requires names in UTF-8, which local names need not be
                return tuple(sorted(self._store.names(self.place)))
            from pyarrow.fs import FileSelector

            found = self._store.get_file_info(FileSelector(opened(self.place)[1]))
            return tuple(sorted(info.base_name for info in found))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files directly inside, in bytes, by name; a missing folder is an error."""
        with asking(self.place, ""):
            if self.is_local:
                with os.scandir(self.place) as found:
                    return {one.name: one.stat().st_size for one in found if one.is_file()}
            from pyarrow.fs import FileSelector, FileType

            listed = self._store.get_file_info(FileSelector(opened(self.place)[1]))
            return {one.base_name: int(one.size or 0) for one in listed if one.type == FileType.File}

    def require_sizes(self, expected: Mapping[str, int]) -> None:
        """Compare the sizes of files that were written; raises as `write_last`."""
        there = self.sizes()
        for name, size in expected.items():
            if there.get(name) != size:
                what = "does not have it" if name not in there else f"has {there[name]:,} bytes of {size:,}"
                raise _not_kept(what, self.place, name)

    def holds(self, name: str) -> bool:
        """Whether a file of this name is in this folder, or in any folder below it."""
        if self.is_local:
            for place, folders, names in os.walk(self.place):
                linked = (Path(place, folder) for folder in folders if Path(place, folder).is_symlink())
                if name in names or any((folder / name).exists() for folder in linked):
                    return True
            return False
        from pyarrow.fs import FileSelector

        with asking(self.place, ""):
            found = self._store.get_file_info(FileSelector(opened(self.place)[1], recursive=True, allow_not_found=True))
        return any(info.base_name == name for info in found)

    def names_below(self) -> tuple[str, ...]:
        """Return the names of all files in the folder and in those inside it, sorted; a missing folder is an error."""
        with asking(self.place, ""):
            if self.is_local:
                top = Path(self.place)
                if not top.is_dir():
                    raise FileNotFoundError(self.place)
                found = (Path(place, name).relative_to(top) for place, _, names in os.walk(top) for name in names)
                return tuple(sorted(name.as_posix() for name in found))
            from pyarrow.fs import FileSelector, FileType

            start = opened(self.place)[1]
            listed = self._store.get_file_info(FileSelector(start, recursive=True))
            return tuple(sorted(one.path[len(start) + 1 :] for one in listed if one.type == FileType.File))

    def create(self) -> tuple[Folder, ...]:
        """Create the folder and its parents where they are missing; return the created folders, this one first.

        Raises:
            StorageFailed: It cannot be created, as where a part of the place is a file.
        """
        try:
            return self._created()
        except SavepointNotFound as error:
            raise StorageFailed(
                error.what, advice="name a place where a folder can be created", savepoint=self.place
            ) from error

    def _created(self) -> tuple[Folder, ...]:
        made = tuple(takewhile(lambda folder: not folder.exists(), (self, *self.above())))
        with asking(self.place, ""):
            if not self.is_local:
                self._store.create_dir(opened(self.place)[1], recursive=True)
                return made
            for folder in reversed(made):
                with suppress(FileExistsError):
                    self._store.create_dir(folder.place)
            if not Path(self.place).is_dir():
                raise NotADirectoryError(self.place)
        return made

    def sync(self) -> None:
        """Wait until the names in the folder survive a power cut; other stores than a local disk guarantee that."""
        if self.is_local:
            with asking(self.place, ""):
                self._store.sync_dir(self.place)

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: under an attempt name, which is then renamed.

        An object store shows a file only when it is complete, and has no rename: there the file is written under its
        name in one request. A power cut leaves the complete file or none, too.
        """
        attempt = name if shows_whole_files_only(self.place) else self.attempt_name(name)
        try:
            with self.output(attempt) as stream:
                stream.write(data)
                stream.sync()
            if attempt != name:
                self.rename(attempt, name)
        except BaseException:
            with suppress(StateShiftError):  # the original failure is the one to report
                self.delete(attempt)
            raise

    def write_last(self, name: str, data: bytes) -> None:
        """Write the file that makes all others of a publication count, and read it back.

        Raises:
            StorageFailed: The store has acknowledged the file, and does not have it as it was written.
        """
        self.write(name, data)
        self.require_written(name, xxh3_128(data).digest())

    def require_written(self, name: str, digest: bytes) -> None:
        """Read a file that was written, and compare its digest, XXH3-128; raises as `write_last`."""
        found = xxh3_128()
        try:
            with self.open_range(name) as reader:
                for piece in reader.pieces():
                    found.update(piece)
        except SavepointNotFound as error:
            raise _not_kept("does not have it", self.place, name) from error
        if found.digest() != digest:
            raise _not_kept("has other bytes", self.place, name)

    def attempt_name(self, name: str) -> str:
        """Return a name for a file that is being written; it is unique, and contains the run's id."""
        return f"{name}.attempt-{self.run}{'-' if self.run else ''}{uuid.uuid4().hex[:12]}"

    @contextmanager
    def output(self, name: str) -> Iterator[FileOutput]:
        """Open a file for writing, replacing an existing one. Others may see an incomplete file before it is closed."""
        path = self._path(name)
        with _writing(self.place, name):
            stream = self._store.open_output_stream(path)
        output = FileOutput(stream, self.place, name)
        try:
            yield output
        finally:
            output.close()

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, replacing one that has the new name; atomic where the store supports it.

        On an object store the file is copied and the old one deleted, which is safe as long as `_metadata` is missing.
        """
        path, new_path = self._path(name), self._path(new_name)
        if shows_whole_files_only(self.place) and self.size(name) > _LARGEST_COPY:
            self.copy(name, self, new_name)
            self.delete(name)
            return
        with asking(self.place, name):
            self._store.move(path, new_path)

    def delete(self, name: str) -> None:
        """Delete a file; a missing file is not an error."""
        path = self._path(name)
        with asking(self.place, name):
            try:
                self._store.delete_file(path)
            except FileNotFoundError:
                return

    def delete_empty(self) -> None:
        """Delete a local folder if it is empty.

        Other stores can only delete a folder with its contents, which may have changed; there an empty folder stays.
        """
        if self.is_local:
            with suppress(OSError):
                self._store.delete_empty_dir(self.place)

    def copy(self, name: str, target: Folder, new_name: str = "") -> int:
        """Copy a file to another folder on any store, in pieces of at most 4 MiB; return its size in bytes.

        Args:
            name: The file.
            target: The folder to write to.
            new_name: The name there; by default the same.
        """
        with self.open_range(name) as reader, target.output(new_name or name) as stream:
            for piece in reader.pieces():
                stream.write(piece)
            return reader.size

    def link(self, name: str, target: Folder) -> int:
        """Copy a file that nobody changes to another folder, on a local disk as a hard link; return its size in bytes.

        Args:
            name: The file.
            target: The folder to write to.
        """
        if self.is_local and target.is_local:
            with suppress(OSError):  # another disk, or one without links
                os.link(self._path(name), target._path(name))
                return self.size(name)
        return self.copy(name, target)

    def copy_within_store(self, name: str, target: Folder, new_name: str) -> bool:
        """Let a store copy a file by itself; return whether it did.

        It does not where the folders are in different stores or on a disk, or the file is too large for one request.

        Args:
            name: The file.
            target: The folder to write to.
            new_name: The name there.
        """
        if self.is_local or target.is_local or self._store != target._store or self.size(name) > _LARGEST_COPY:
            return False
        with asking(self.place, name):
            self._store.copy_file(self._path(name), target._path(new_name))
        return True

    def free_space_bytes(self) -> int | None:
        """Return the free bytes on the disk of the folder, even if the folder is missing; None for other stores."""
        if not self.is_local:
            return None
        place = Path(self.place)
        while not place.exists():
            place = place.parent
        return shutil.disk_usage(place).free


class FileRange:
    """Reads at any offset of an open file. Created by `Folder.open_range`.

    Attributes:
        name: The name of the file in messages.
        size: The size in bytes.
    """

    __slots__ = ("_file", "_is_local", "_place", "name", "size")

    def __init__(self, file: Any, place: str, name: str) -> None:
        self._file = file
        self._place = place
        self.name = name
        self.size: int = file.size()
        self._is_local = bool(getattr(file, "path", ""))

    def read_at(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`; raises `CorruptSavepoint` where the file does not have them."""
        check_range(offset, size, self.size, self.name)
        with asking(self._place, self.name):
            data: bytes = self._file.read_at(size, offset)
        count_file_bytes(len(data))
        if len(data) != size:
            check_range(offset, size, offset + len(data), self.name)
        return data

    @property
    def piece_bytes(self) -> int:
        """The best number of bytes to read at once: for a local file as many as fit a processor's cache."""
        return _LOCAL_PIECE_BYTES if self._is_local else _PIECE_BYTES

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the file in pieces from start to end; a piece is valid until the next one is requested.

        A local file is read into one buffer, which fits a processor's cache; any other file is read ahead by a thread.
        """
        if not self._is_local:
            yield from ahead(self.read_at(*part) for part in self._parts(_PIECE_BYTES))
            return
        buffer = memoryview(bytearray(min(_LOCAL_PASSING_BYTES, self.size)))
        for start, size in self._parts(_LOCAL_PASSING_BYTES):
            yield self._read_into(start, buffer[:size])

    def _parts(self, most: int) -> Iterator[tuple[int, int]]:
        for start in range(0, self.size, most):
            yield start, min(most, self.size - start)

    def _read_into(self, offset: int, buffer: memoryview) -> memoryview:
        with asking(self._place, self.name):
            count: int = self._file.read_into(buffer, offset)
        count_file_bytes(count)
        check_range(offset, len(buffer), offset + count, self.name)
        return buffer


class FileOutput:
    """Writes a file sequentially. Created by `Folder.output`.

    Attributes:
        name: The name of the file in messages.
        size: The number of bytes written so far.
    """

    __slots__ = ("_file", "_place", "name", "size")

    def __init__(self, file: Any, place: str, name: str) -> None:
        self._file = file
        self._place = place
        self.name = name
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        """Append `data`; raises `NoSpaceLeft` on a full disk, `StorageFailed` on other failures."""
        with asking(self._place, self.name):
            self._file.write(data)
        self.size += len(data)
        return len(data)

    def sync(self) -> None:
        """Wait until the written bytes survive a power cut; other stores than a local disk guarantee it on `close`."""
        if isinstance(self._file, LocalOutput):
            with asking(self._place, self.name):
                self._file.sync()

    def close(self) -> None:
        """Finish the file."""
        with asking(self._place, self.name):
            self._file.close()


def check_range(offset: int, size: int, end: int, name: str) -> None:
    """Refuse a read of `size` bytes at `offset` that goes past `end`, before anything is allocated."""
    if offset < 0 or size < 0 or offset + size > end:
        raise CorruptSavepoint(
            f"{size} bytes were expected, but only {max(end - max(offset, 0), 0)} are left", file=name, offset=offset
        )


def folder_and_name(place: str) -> tuple[Folder, str]:
    """Return the folder and the name of a file at a local path or URI; nothing is opened yet."""
    if not is_uri(place):
        path = Path(place).absolute()
        return Folder(str(path.parent)), path.name
    base, options = parted(place)
    parent, _, name = base.rpartition("/")
    return Folder.at(parent + options), name


def read_file(place: str, *, most_bytes: int) -> bytes:
    """Return the whole content of a file at a local path or URI.

    Raises:
        SavepointNotFound: The file does not exist.
        CorruptFile: The file has more than `most_bytes`.
    """
    folder, name = folder_and_name(place)
    if not folder.exists(name):
        raise SavepointNotFound(f"there is no file {name}", advice="check its name", file=place)
    with folder.open_range(name) as reader:
        if reader.size > most_bytes:
            raise CorruptFile(f"it has {reader.size:,} bytes, but files of its kind have at most {most_bytes:,}")
        return reader.read_at(0, reader.size)


def _not_kept(what: str, place: str, name: str) -> StorageFailed:
    return StorageFailed(
        f"the store has acknowledged a file, and {what}",
        advice="find out why the store loses what is written, then run the same command again",
        savepoint=place,
        file=name,
    )


@contextmanager
def _writing(place: str, name: str) -> Iterator[None]:
    """Convert errors as `asking` when a file is created: then a missing file means that its folder is missing."""
    try:
        with asking(place, name):
            yield
    except SavepointNotFound as error:
        raise StorageFailed(
            "the folder to write to does not exist, or is a file",
            advice="find out what else writes there, and run the same command again",
            savepoint=place,
            file=name,
        ) from error


@contextmanager
def _open_range(store: Any, path: str, place: str, name: str) -> Iterator[FileRange]:
    with asking(place, name):
        file = store.open_input_file(path)
    with file:
        yield FileRange(file, place, name)
