"""A job with state in RocksDB that writes incremental checkpoints as Flink does, but is quick and obeys a test.

The database is that of a native savepoint of ours, opened by rocksdict: its entries are put, deleted and compacted by
the test. Each checkpoint uploads new files under new names, and lists the others again.
"""

from __future__ import annotations

import shutil
import uuid

import attrs
import native_snapshots
import rocksdict

from stateshift import (
    BigInt,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointFormatType,
    SavepointWriter,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, DatabaseFile, RelativeFileHandle
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.formats.flink.properties import NATIVE_PROPERTIES

UID = "op"
JOB = "0123456789abcdef0123456789abcdef"


def old_job(user_key=str):
    states = [
        ValueStateDescriptor("count", int),
        ListStateDescriptor("events", int),
        MapStateDescriptor("counts", user_key, int),
        ValueStateDescriptor("note", str),
    ]
    return Job([Operator(UID, key=int, states=states)])


def new_job():
    """The same with wider numbers in one state."""
    return Job([Operator(UID, key=int, states=[ValueStateDescriptor("count", BigInt)])])


class RunningJob:
    """A job of one subtask, with some keys.

    Args:
        folder: A folder to make.
        keys: The number of its keys.
        user_keys: The keys of each map.
        user_key: Their type.
    """

    def __init__(self, folder, keys=300, user_keys=("a", "b"), user_key=str):
        self.folder, self.checkpoints = folder, folder / "checkpoints"
        self.number = 0
        folder.mkdir()
        with SavepointWriter(folder / "written", old_job(user_key), max_parallelism=16) as writer:
            for key in range(keys):
                writer.put(UID, "count", key, key)
                writer.put(UID, "events", key, [key, key + 1])
                writer.put(UID, "counts", key, dict(zip(user_keys, (key, 1), strict=True)))
                writer.put(UID, "note", key, f"note {key}")
        migrate(folder / "written", folder / "native", None, MigrationOptions(format=SavepointFormatType.NATIVE))
        self.start(folder / "native", JOB)

    def start(self, snapshot, job_id):
        """Start from a native snapshot, as another job: with a new backend, whose numbers of files begin again."""
        self.job_id, self.snapshot = job_id, snapshot
        self.uploaded = {}
        self.backend = str(uuid.uuid4())
        self.home = self.folder / f"database-{uuid.uuid4().hex}"
        native_snapshots.unpacked(snapshot, self.home)
        options, families = rocksdict.Options.load_latest(str(self.home))
        for one in (options, *families.values()):
            one.set_disable_auto_compactions(True)
        self.database = rocksdict.Rdict(str(self.home), options=options, column_families=families)
        self.quiet = rocksdict.WriteOptions()
        self.quiet.disable_wal = True

    def stop(self):
        for name in ("count", "events", "counts", "note"):
            self.family(name).close()
        self.database.close()

    def family(self, name):
        return self.database.get_column_family(name)

    def entries(self, name):
        """The raw entries of a state."""
        return dict(self.family(name).items())

    def put(self, name, key, value):
        self.family(name).put(key, value, self.quiet)

    def delete(self, name, key):
        self.family(name).delete(key, self.quiet)

    def delete_range(self, name, start, stop):
        self.family(name).delete_range(start, stop, self.quiet)

    def flush(self):
        for name in ("count", "events", "counts", "note"):
            self.family(name).flush(True)

    def compact(self, name):
        """Compact a state as a whole to the last level, where deletions vanish."""
        options = rocksdict.CompactOptions()
        options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
        self.flush()
        self.family(name).compact_range(None, None, options)

    def checkpoint(self):
        """Complete the next checkpoint; give its folder."""
        self.number += 1
        return self._write(
            self.checkpoints / self.job_id / f"chk-{self.number}", self.checkpoints / self.job_id / "shared"
        )

    def savepoint(self, folder, *, stops=False):
        """Take a native savepoint: all files under new names; it may say that it stops the job."""
        return self._write(folder, None, NATIVE_PROPERTIES.replace(b"\0\x04NONE", b"\0\x07SUSPEND") if stops else None)

    def _write(self, target, shared, properties=None):
        self.flush()
        files = self.folder / "taken"
        shutil.rmtree(files, ignore_errors=True)
        rocksdict.Checkpoint(self.database).create_checkpoint(str(files))
        target.mkdir(parents=True)
        if shared is not None:
            shared.mkdir(exist_ok=True)

        def stored(path):
            if shared is None:
                name = str(uuid.uuid4())
                shutil.copyfile(path, target / name)
                return RelativeFileHandle(name, path.stat().st_size)
            is_table = path.suffix == ".sst"
            if not is_table or path.name not in self.uploaded:
                name = str(uuid.uuid4())
                shutil.copyfile(path, shared / name)
                handle = AbsoluteFileHandle(f"file:{shared / name}", path.stat().st_size)
                if not is_table:
                    return handle
                self.uploaded[path.name] = handle
            return self.uploaded[path.name]

        paths = sorted(files.iterdir())
        tables = tuple(DatabaseFile(path.name, stored(path)) for path in paths if path.suffix == ".sst")
        newest = max(path.name for path in paths if path.name.startswith("OPTIONS-"))
        private = tuple(
            DatabaseFile(path.name, stored(path))
            for path in paths
            if path.name.startswith("MANIFEST-") or path.name in {"CURRENT", newest}
        )
        if shared is not None:
            self.uploaded = {file.name: file.stream for file in tables}
            self.newest = [file.stream for file in (*tables, *private)]
        metadata = read_metadata((self.snapshot / METADATA).read_bytes())
        changed = {"backend_id": self.backend, "handle_id": str(uuid.uuid4()), "checkpoint_id": self.number}

        def subtask(one):
            if one.managed_keyed is None:
                return one
            keyed = attrs.evolve(one.managed_keyed, shared=tables, private=private, **changed)
            return attrs.evolve(one, managed_keyed=keyed)

        operators = tuple(attrs.evolve(one, subtasks=tuple(map(subtask, one.subtasks))) for one in metadata.operators)
        properties = properties or metadata.properties
        changed = {"operators": operators, "checkpoint_id": self.number, "properties": properties}
        written = write_metadata(attrs.evolve(metadata, **changed))
        (target / METADATA).write_bytes(written)
        return target

    def subsume(self, checkpoint):
        """Delete a checkpoint, and the files that the newest one does not have."""
        shutil.rmtree(checkpoint)
        kept = {stream.uri.rpartition("/")[2] for stream in self.newest}
        for path in (checkpoint.parent / "shared").iterdir():
            if path.name not in kept:
                path.unlink()


def contents(place):
    """All entries of a snapshot, by state."""
    return {
        state.name: sorted((repr(entry.key), repr(entry.value)) for entry in state.read_entries())
        for state in Savepoint.open(place).operator(UID).states
        if state.kind.is_keyed
    }
