"""The completed checkpoints of a running job, and the files of one subtask, which are linked before they are read.

    WORK/OPERATOR-SUBTASK/snapshot-7-…/     000012.sst … MANIFEST-… OPTIONS-… CURRENT, header
                          snapshot.json     written last: whose files they are, and where each was found

The job deletes files of checkpoints that it needs no more. A linked file stays, and takes space, until it is applied.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import attrs
from xxhash import xxh3_128

from ...serializers.errors import CorruptFile, CorruptSavepoint, SavepointNotFound, StorageFailed, UnsupportedFormat
from ..formats.flink.handles import (
    AbsoluteFileHandle,
    DatabaseFile,
    DatabaseHandle,
    InlineHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from ..formats.flink.metadata import METADATA
from ..formats.flink.sources import file_of, open_stream
from ..rocksdb.database import FileNames, is_table
from ..rocksdb.manifest import Manifest, read_manifest
from ..storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ..formats.flink.handles import StreamHandle

_CHECKPOINT, _JOB = re.compile(r"chk-([0-9]+)"), re.compile(r"[0-9a-f]{32}")
_FACTS, _HEADER, _PART = "snapshot.json", "header", ".part"
_UNIQUE_ID = 12
"""The field of a MANIFEST with the unique id of a file, which is made of the database, the session and the number."""
Identities = frozenset[tuple[object, ...]]
"""What identifies the bytes of a file in two ways; files are the same if they share one."""


def newest_checkpoint(place: Folder) -> Folder | None:
    """Return the newest completed checkpoint of a job; None if there is none yet.

    Args:
        place: The folder of the job's checkpoints (`ROOT/JOB`), or the one that has those of its restarts
            (`ROOT`): then the job is the one of which a checkpoint was completed last.

    Raises:
        SavepointNotFound: The folder does not exist.
        UnsupportedFormat: It is one snapshot, which nothing follows.
    """
    if place.exists(METADATA):
        raise UnsupportedFormat(
            "it is one snapshot; a job is followed by the folder of its checkpoints",
            advice="name the folder that has its chk-N; for a snapshot, migrate without following",
            savepoint=place.place,
        )
    jobs = [place, *(place.folder(name) for name in place.names() if _JOB.fullmatch(name))]
    found = [newest for job in jobs if (newest := _newest_of(job)) is not None]
    return max(found, key=_order)[2] if found else None


def _newest_of(job: Folder) -> tuple[float, int, Folder] | None:
    """Return the newest completed checkpoint of one job, and when it was completed.

    Not that of the highest number: a job that starts again from an older one, under its id, goes on from that number.
    """
    try:
        numbers = [int(found[1]) for name in job.names() if (found := _CHECKPOINT.fullmatch(name))]
    except (SavepointNotFound, StorageFailed):
        return None
    completed = list[tuple[float, int, Folder]]()
    for number in numbers:
        folder = job.folder(f"chk-{number}")
        with suppress(SavepointNotFound):  # it is not complete, or was deleted
            completed.append((folder.written_s(METADATA), number, folder))
    return max(completed, key=_order) if completed else None


def _order(found: tuple[float, int, Folder]) -> tuple[float, int]:
    return found[0], found[1]


@attrs.frozen(slots=False)
class LinkedSnapshot:
    """The database of one subtask in a snapshot, whose files are ours. Created with `linked` or `read`.

    Attributes:
        folder: The folder of the files.
        place: The place of the snapshot, for messages.
        checkpoint_id: The id of the checkpoint.
        backend_id: The id of the backend that wrote it.
        key_groups: The key groups of the subtask.
        origins: Where each file with entries was found, by its name.
    """

    folder: Path
    place: str
    checkpoint_id: int
    backend_id: str
    key_groups: range
    origins: Mapping[str, str] = attrs.field(repr=False)

    @classmethod
    def linked(
        cls,
        handle: DatabaseHandle,
        manifest: Manifest,
        source: Folder,
        target: Path,
        before: Iterable[LinkedSnapshot] = (),
    ) -> Self:
        """Link the files of a database, or copy them where that cannot be done.

        Args:
            handle: From `_metadata`, perhaps without some families.
            manifest: The files of all families.
            source: The folder of that `_metadata`.
            target: The folder to make.
            before: Snapshots whose files are ours already.

        Raises:
            SavepointNotFound: A file is missing, as when the job has deleted the checkpoint.
            CorruptSavepoint: A file has another size.
            StorageFailed: The files cannot be linked or copied.
        """
        part = target.with_name(target.name + _PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        FileNames.of([file.name for file in handle.files])  # which are trusted from here on
        origins = {file.name: _origin(file.stream, source) for file in handle.shared}
        held = {each: one.folder / name for one in before for name, all_of in one.identities.items() for each in all_of}
        wanted = _identities(manifest, origins, handle.backend_id)
        try:
            for file in handle.shared:
                ours = (held[each] for each in wanted.get(file.name, ()) if each in held)
                _link(file, source, part / file.name, next(ours, None))
            for file in handle.private:
                (part / file.name).write_bytes(_content(file.stream, source))
            (part / _HEADER).write_bytes(_content(handle.stream, source))
        except OSError as error:
            if isinstance(error, SavepointNotFound | StorageFailed):
                raise
            raise StorageFailed(f"{error.filename or part} cannot be written: {error.strerror}") from error
        facts = {
            "place": source.place,
            "checkpoint_id": handle.checkpoint_id,
            "backend_id": handle.backend_id,
            "key_groups": [handle.key_groups.start, handle.key_groups.stop],
            "origins": origins,
        }
        Folder.at(part).write(_FACTS, json.dumps(facts).encode())
        part.rename(target)
        return cls.read(target)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return a snapshot that was linked before; raises `CorruptFile` where its notes are damaged."""
        try:
            facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
            facts["key_groups"] = range(*facts["key_groups"])
            return cls(folder, **facts)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CorruptFile("the notes on a linked snapshot are damaged", file=str(folder / _FACTS)) from error

    @property
    def source(self) -> Folder:
        """The folder of the files."""
        return Folder.at(self.folder)

    @cached_property
    def handle(self) -> DatabaseHandle:
        """The handle of the database, by the names of our files."""
        sizes = self.source.sizes()

        def file(name: str) -> DatabaseFile:
            return DatabaseFile(name, RelativeFileHandle(name, sizes[name]))

        private = sorted(sizes.keys() - {*self.origins, _FACTS, _HEADER})
        return DatabaseHandle(
            tag=11,
            checkpoint_id=self.checkpoint_id,
            backend_id=self.backend_id,
            key_groups=self.key_groups,
            stream=RelativeFileHandle(_HEADER, sizes[_HEADER]),
            shared=tuple(file(name) for name in self.origins),
            private=tuple(file(name) for name in private),
        )

    @cached_property
    def manifest(self) -> Manifest:
        """The files of each family."""
        name = FileNames.of([file.name for file in self.handle.files]).manifest
        return read_manifest((self.folder / name).read_bytes(), name)

    @cached_property
    def identities(self) -> dict[str, Identities]:
        """What identifies each file with entries, by its name."""
        return _identities(self.manifest, self.origins, self.backend_id)

    @property
    def table_bytes(self) -> int:
        """The bytes of the files with entries."""
        return sum(file.stream.size for file in self.handle.shared)


def held_bytes(snapshots: Iterable[LinkedSnapshot]) -> int:
    """Return the bytes that only some snapshots hold: of files that the job has deleted since, and of copies."""
    facts = list[os.stat_result]()
    for path in (one.folder / name for one in snapshots for name in one.origins):
        with suppress(FileNotFoundError):  # another process has applied it, and has deleted it
            facts.append(path.stat())
    links = Counter(one.st_ino for one in facts)
    return sum({one.st_ino: one.st_size for one in facts if one.st_nlink == links[one.st_ino]}.values())


def _identities(manifest: Manifest, origins: Mapping[str, str], backend_id: str) -> dict[str, Identities]:
    """Return what identifies files: where they were found, and what the MANIFEST of a backend says of them."""
    found: dict[str, Identities] = {}
    for files in manifest.families.values():
        for file in files:
            names: set[tuple[object, ...]] = {(origins.get(file.name, ""),)}
            unique = dict(file.fields).get(_UNIQUE_ID, b"")
            if unique.strip(b"\0") and backend_id:
                names.add((backend_id, file.number, file.size, file.least, file.greatest, *file.sequences, unique))
            found[file.name] = frozenset(names)
    return found


def _origin(stream: StreamHandle, source: Folder) -> str:
    """Return what identifies the bytes of a file among the checkpoints of a job."""
    match stream:
        case AbsoluteFileHandle():
            return f"{stream.uri} {stream.size}"
        case SegmentHandle():
            return f"{stream.uri} {stream.start} {stream.size}"
        case RelativeFileHandle():
            return f"{source.place}/{stream.path} {stream.size}"
        case InlineHandle():
            return f"{xxh3_128(stream.data).hexdigest()} {stream.size}"
    return ""


def _link(file: DatabaseFile, source: Folder, target: Path, held: Path | None) -> None:
    if not is_table(file.name):
        raise CorruptSavepoint(f"{file.name!r} is not the name of a file with entries")
    stream = file.stream
    if held is not None:
        os.link(held, target)
        return
    if isinstance(stream, RelativeFileHandle | AbsoluteFileHandle):
        place, name = file_of(stream, source)
        if place.is_local:
            path = os.path.realpath(f"{place.place}/{name}")
            try:
                os.link(path, target)
            except FileNotFoundError as error:
                raise SavepointNotFound(f"the file {name} is missing in {place.place}", file=name) from error
            except OSError:  # on another disk, or of another user
                pass
            else:
                if target.stat().st_size != stream.size:
                    raise CorruptSavepoint("a file has another size than the snapshot says", file=path)
                return
    with open_stream(stream, source) as found, target.open("wb") as copy:
        for piece in found.pieces():
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())


def _content(stream: StreamHandle, source: Folder) -> bytes:
    with open_stream(stream, source) as found:
        return found.read_at(0, found.size)
