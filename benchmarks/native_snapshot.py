"""A native snapshot, read beside a bare iteration of its database: counted, and migrated to the canonical format.

    python -m benchmarks.native_snapshot [--entries 10000000] [--rounds 3] [--on-s3] [--json]

One operator, one database with the entries of S2 (about 100 bytes each). All ways run in processes of their own, which
take turns; figures are medians of the rounds, memory is the greatest of any round.

    bare iteration    `rocksdict` alone: key, value, next, for every entry
    bare by two       the same by two processes, each half of the key groups: what two cores of this machine can give
    counted           `measure()` of the operator, as `inspect` does it
    canonical         migrated with the types as they are, in one process
    converted         migrated with the change of S2, in one process
    one core          canonical, on Spark, Java and workers on one core: only the phase that goes through the state
    two cores         canonical, on Spark, two tasks at a time, which read ranges of key groups of the same database

The two on Spark migrate a small snapshot first, so that the start of Java and of its workers is not in the figures.

With `--on-s3` all ways begin with a snapshot on an S3 server on this machine, and download its files: the bare
iteration by `pyarrow`, all at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pyarrow import fs

from stateshift.serializers.views import DataOutputView
from stateshift.state.formats.flink.handles import DATABASE, DatabaseFile, DatabaseHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.keyed_stream import write_keyed_header
from stateshift.state.formats.flink.metadata import METADATA, write_metadata
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.storage.files import Folder

from .machine import arguments_of, facts, peak_bytes, print_table, scratch_folder, told
from .shapes import SHAPES, write_savepoint

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = SHAPES["S2"]
BARE, BY_TWO = "bare iteration", "bare by two"
WAYS = (BARE, BY_TWO, "counted", "canonical", "converted", "one core", "two cores")
_FEW = 200_000
_MASTERS = {"one core": "local[1]", "two cores": "local[2]"}


def write_native(source: Path, target: Path, compression: str = "snappy") -> None:
    """Write the keyed state of a savepoint as a native snapshot: a database of each subtask, beside `_metadata`."""
    target.mkdir()
    savepoint = Savepoint.open(source)
    operators = []
    for stored in savepoint.metadata.operators:
        subtasks = []
        for subtask in stored.subtasks:
            handle = subtask.managed_keyed
            new = (
                None if handle is None else _database_of(savepoint, handle, stored.max_parallelism, target, compression)
            )
            subtasks.append(attrs.evolve(subtask, managed_keyed=new))
        operators.append(attrs.evolve(stored, subtasks=tuple(subtasks)))
    metadata = attrs.evolve(savepoint.metadata, operators=tuple(operators))
    (target / METADATA).write_bytes(write_metadata(metadata))


def _database_of(
    savepoint: Savepoint, handle: Any, max_parallelism: int, target: Path, compression: str
) -> DatabaseHandle:
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    place = target / f"database-{handle.first_key_group}"
    with open_keyed(handle, savepoint.folder, max_parallelism) as reader:
        header = DataOutputView()
        write_keyed_header(reader.header, header)
        database = rocksdict.Rdict(str(place), options)
        families = []
        for info in reader.header.states:
            database.create_column_family(info.name, options).close()
            families.append(database.get_column_family_handle(info.name))
        for block in reader.blocks():
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in block.items():
                batch.put(key, value, families[block.state_id])
            database.write(batch)
        for info in reader.header.states:
            database.get_column_family(info.name).flush()
        del families
        database.close()
    return _handle(place, handle.key_groups, header.getvalue(), target)


def _handle(place: Path, key_groups: range, header: bytes, target: Path) -> DatabaseHandle:
    """Bring the files of a database beside `_metadata`, and return their handle."""
    (target / f"{place.name}-header").write_bytes(header)
    shared, private = [], []
    options = max(place.glob("OPTIONS-*"))
    for file in sorted(place.iterdir()):
        is_private = file.name == "CURRENT" or file.name.startswith("MANIFEST-") or file == options
        if is_private or file.suffix == ".sst":
            name = f"{place.name}-{file.name}"
            stream = RelativeFileHandle(name, file.stat().st_size)
            (private if is_private else shared).append(DatabaseFile(file.name, stream))
            file.rename(target / name)
    shutil.rmtree(place)
    stream = RelativeFileHandle(f"{place.name}-header", len(header))
    return DatabaseHandle(DATABASE, 1, "backend", key_groups, stream, tuple(shared), tuple(private), 0, "handle")


@contextmanager
def on_s3(folder: Path) -> Iterator[str]:
    """Copy the snapshot to a server of the tests, and yield its URI there; the server ends with the `with` block."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from object_store import ACCESS_KEY, SECRET_KEY, running_server

    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_EC2_METADATA_DISABLED="true")
    (folder / "s3").mkdir()
    with running_server(folder / "s3") as server:
        place, source = server.place("native"), Folder.at(folder / "native")
        for name in source.names():
            source.copy(name, Folder.at(place))
        yield place


def iterate(place: str, folder: Path, processes: int) -> int:
    """Go through the databases of a snapshot by `rocksdict` alone; return the number of entries."""
    savepoint = Savepoint.open(place)
    count = 0
    for stored in savepoint.metadata.operators:
        for handle in keyed_handles(stored):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _fetch(place, handle, folder)
            size = len(handle.key_groups) // processes
            bounds = [*range(handle.key_groups.start, handle.key_groups.stop, size), handle.key_groups.stop]
            ranges = [(bytes([first]), bytes([after])) for first, after in pairwise(bounds)]
            if processes == 1:
                count += sum(iterated(folder, *bounds) for bounds in ranges)
            else:
                with ProcessPoolExecutor(processes) as pool:
                    count += sum(pool.map(iterated, [folder] * processes, *zip(*ranges, strict=True)))
    return count


def _fetch(place: str, handle: DatabaseHandle, folder: Path) -> None:
    """Bring the files of a database under their names: by links, or from a store all at once."""
    if "://" not in place:
        for file in handle.files:
            (folder / file.name).symlink_to(Path(place) / file.stream.path)
        return
    remote, root = fs.FileSystem.from_uri(place)

    def copied(file: DatabaseFile) -> None:
        fs.copy_files(f"{root}/{file.stream.path}", str(folder / file.name), remote, fs.LocalFileSystem())

    with ThreadPoolExecutor() as threads:
        list(threads.map(copied, handle.files))


def iterators(folder: Path, start: bytes = b"", stop: bytes | None = None) -> Iterator[Any]:
    """Yield an iterator over the entries of each column family of a database, at the first one."""
    import rocksdict

    options, families = rocksdict.Options.load_latest(str(folder), ignore_unknown_options=True)
    access = rocksdict.AccessType.read_only()
    database = rocksdict.Rdict(str(folder), options=options, column_families=families, access_type=access)
    reading = rocksdict.ReadOptions()
    if stop is not None:
        reading.set_iterate_upper_bound(stop)
    for name in families:
        entries = database.get_column_family(name).iter(reading)
        entries.seek(start)
        yield entries


def iterated(folder: Path, start: bytes = b"", stop: bytes | None = None) -> int:
    """Go through a database, or a range of its keys; return the number of entries."""
    count = 0
    for entries in iterators(folder, start, stop):
        while entries.valid():
            entries.key()
            entries.value()
            entries.next()
            count += 1
        entries.status()
    return count


def run(way: str, place: str, small: str, target: Path) -> None:
    """Do one way in this process; print the seconds, the entries and the peak of memory as JSON."""
    from stateshift import MigrationOptions, SavepointFormatType
    from stateshift.spark.migrate import migrate
    from stateshift.spark.sessions import session

    canonical = MigrationOptions(format=SavepointFormatType.CANONICAL)
    start = time.perf_counter()
    if way in {BARE, BY_TWO}:
        entries = iterate(place, target, 1 if way == BARE else 2)
    elif way == "counted":
        sizes = Savepoint.open(place).measure()
        entries = sum(state.measure.entries for one in sizes for state in one.states if state.measure is not None)
    elif way in _MASTERS:
        if way == "one core":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # a task has several threads
        spark = session(_MASTERS[way])
        migrate(small, target.with_name("small-target"), options=canonical, session=spark)
        report = migrate(place, target, options=canonical, session=spark)
        entries = sum(count.read for count in report.states)
        start = time.perf_counter() - report.phases["migrating"]
    else:
        report = migrate(place, target, SHAPE.after() if way == "converted" else None, canonical)
        entries = sum(count.read for count in report.states)
    print(json.dumps([time.perf_counter() - start, entries, peak_bytes()]))


def main() -> int:
    """Print the rates, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--on-s3", action="store_true", help="begin with a snapshot on an S3 server of this machine")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    parser.add_argument("--small", help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    arguments = arguments_of(parser)
    if arguments.way:
        run(arguments.way, arguments.source, arguments.small, arguments.target)
        return 0
    found: dict[str, list[tuple[float, int, int]]] = {way: [] for way in WAYS}
    with scratch_folder(arguments.folder) as folder, ExitStack() as stack:
        for entries, name in ((arguments.entries, "native"), (_FEW, "small")):
            write_savepoint(SHAPE, entries, folder / "canonical")
            write_native(folder / "canonical", folder / name)
            shutil.rmtree(folder / "canonical")
        place = stack.enter_context(on_s3(folder)) if arguments.on_s3 else str(folder / "native")
        for _ in range(arguments.rounds):
            for way in WAYS:
                target = folder / "target"
                command = [sys.executable, "-m", f"{__package__}.native_snapshot", "--way", way]
                command += ["--source", place, "--small", str(folder / "small"), "--target", str(target)]
                ran = subprocess.run(command, check=True, capture_output=True, text=True)
                found[way].append(tuple(json.loads(ran.stdout.splitlines()[-1])))
                shutil.rmtree(target, ignore_errors=True)
                shutil.rmtree(target.with_name("small-target"), ignore_errors=True)
    seconds = {way: statistics.median(one[0] for one in rounds) for way, rounds in found.items()}
    rows = [
        [
            way,
            f"{seconds[way]:.1f}",
            f"{arguments.entries / seconds[way] / 1e6:.2f}",
            f"{seconds[BARE] / seconds[way]:.2f}",
            f"{max(one[2] for one in rounds) / 1e6:.0f}",
        ]
        for way, rounds in found.items()
    ]
    if any(one[1] != arguments.entries for rounds in found.values() for one in rounds):
        print("a way found another number of entries", file=sys.stderr)
        return 1
    about = facts(entries=arguments.entries)
    if arguments.json:
        print(json.dumps({"facts": about, "seconds": seconds, "rounds": found}))
    else:
        columns = ["way", "s", "million/s", "of bare", "memory MB"]
        print(told(about))
        print_table("A native snapshot of RocksDB", columns, rows, markdown=arguments.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
