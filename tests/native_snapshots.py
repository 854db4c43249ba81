"""Native snapshots of RocksDB and ForSt that real Flink wrote: where they lie, what is in them, and changed copies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs

from stateshift.state.formats.flink.handles import (
    AbsoluteFileHandle,
    DatabaseFile,
    InlineHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.formats.flink.roots import with_moved
from stateshift.state.storage.files import Folder

FIXTURES = Path(__file__).parent / "fixtures"
RELEASES = {
    file.parent.name: release
    for release in ("2.3", "1.20")
    for file in sorted((FIXTURES / f"flink-{release}-native").glob("*/expected.json"))
    if "-heap-timers-" not in file.parent.name  # which are of another job: tests/state/savepoint/test_heap_timers.py
}
"""The release of Flink that wrote a snapshot, by the name of that."""
NAMES = list(RELEASES)
CHECKPOINTS = [name for name in NAMES if "-incremental-" in name]
ORIGINAL_ROOT = "/tmp/checkpoints"  # noqa: S108 - where the machine that wrote them had them
KEYED = "keyed-op"


def home(name):
    """The folder of a snapshot, with all files of its checkpoints and `expected.json`."""
    return FIXTURES / f"flink-{RELEASES[name]}-native" / name


def expected(name):
    """What the job of a snapshot read back itself; the file does not list broadcast states without entries."""
    found = json.loads((home(name) / "expected.json").read_text(encoding="utf-8"))
    for operator in found["operators"]:
        if operator["uid"] == KEYED:
            operator["broadcast"] = {"rules": [{"$map": []}] * found["parallelism"]} | operator["broadcast"]
    return found


def snapshot(name):
    """The folder with the `_metadata` of a snapshot."""
    return home(name) / expected(name)["snapshot"]


def copied(name, target):
    """Copy a snapshot, with all files of its checkpoints, below a new folder; give the folder with `_metadata`."""
    shutil.copytree(home(name), target)
    return target / expected(name)["snapshot"]


def keyed_handles(folder):
    """The handles of the databases of a snapshot, by subtask."""
    metadata = read_metadata((folder / METADATA).read_bytes())
    return {
        subtask.index: subtask.managed_keyed
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.managed_keyed is not None
    }


def with_keyed_handles(folder, change):
    """Write `_metadata` with other handles: `change(subtask index, handle)` gives the new one."""
    metadata = read_metadata((folder / METADATA).read_bytes())

    def subtask(one):
        if one.managed_keyed is None:
            return one
        return attrs.evolve(one, managed_keyed=change(one.index, one.managed_keyed))

    operators = tuple(attrs.evolve(one, subtasks=tuple(map(subtask, one.subtasks))) for one in metadata.operators)
    (folder / METADATA).write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))


def local_path(stream, folder):
    """Where the file of a stream lies that a snapshot names; and the first byte and the size of the stream in it."""
    if isinstance(stream, RelativeFileHandle):
        return folder / stream.path, 0, stream.size
    metadata = read_metadata((folder / METADATA).read_bytes())
    path = stream.uri.removeprefix("file:")
    for old, new in with_moved(metadata, Folder.at(folder)).roots:
        if path.startswith(f"{old}/"):
            path = f"{new}{path.removeprefix(old)}"
            break
    start = stream.start if isinstance(stream, SegmentHandle) else 0
    return Path(path), start, stream.size


def content_of(stream, folder):
    """The bytes of a stream."""
    if isinstance(stream, InlineHandle):
        return stream.data
    path, start, size = local_path(stream, folder)
    return path.read_bytes()[start : start + size]


def unpacked(folder, target, subtask=0):
    """Copy the files of a database into a folder, under the names that the database gives them."""
    target.mkdir()
    for file in keyed_handles(folder)[subtask].files:
        (target / file.name).write_bytes(content_of(file.stream, folder))
    return target


def repacked(folder, database, subtask=0):
    """Let a snapshot name the files of a changed database, which are copied beside its `_metadata`."""

    def files(suffixes):
        found = []
        for path in sorted(database.iterdir()):
            if path.name.endswith(".sst") if suffixes else path.name.startswith(("CURRENT", "MANIFEST-", "OPTIONS-")):
                stored = f"changed-{subtask}-{path.name}"
                shutil.copyfile(path, folder / stored)
                found.append(DatabaseFile(path.name, RelativeFileHandle(stored, path.stat().st_size)))
        return tuple(found)

    def change(index, handle):
        return attrs.evolve(handle, shared=files(True), private=files(False)) if index == subtask else handle

    with_keyed_handles(folder, change)


def rooted(stream, base):
    """The same stream in another folder: its name stays."""
    if isinstance(stream, AbsoluteFileHandle | SegmentHandle):
        return attrs.evolve(stream, uri=f"{base}/{stream.uri.rpartition('/')[2]}")
    return stream


def apart(name, target):
    """A copy of a snapshot of which every file lies by itself, as larger ones do."""
    folder = copied(name, target)

    def each(index, handle):
        def put(file):
            name, data = f"apart-{index}-{file.name}", content_of(file.stream, folder)
            (folder / name).write_bytes(data)
            return attrs.evolve(file, stream=RelativeFileHandle(name, len(data)))

        return attrs.evolve(handle, shared=tuple(map(put, handle.shared)))

    with_keyed_handles(folder, each)
    return folder
