"""A native snapshot of RocksDB, migrated to a native one, beside RocksDB alone, all on one core.

    python -m benchmarks.native_migration [--entries 10000000] [--rounds 3] [--json]

One operator, one database with the entries of S2 (a record of six fields, about 100 bytes each). All ways run in
processes of their own, which take turns, once with files compressed by snappy and once without compression; figures
are medians of the rounds, memory is the greatest of any round.

    iterated          `rocksdict` alone: key, value, next, for every entry
    written           RocksDB's `SstFileWriter`, fed the same bytes ready-made, files as ours
    migrated          the phase of `stateshift migrate` that goes through the state, with the change of S2
    copied            the files of the database, copied by `shutil`
    kept              the same phase where the state stays as it is

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
from itertools import islice
from pathlib import Path
from typing import Any

from .machine import arguments_of, facts, peak_bytes, print_table, scratch_folder, told
from .native_snapshot import _fetch, iterated, iterators, write_native
from .shapes import SHAPES, write_savepoint

SHAPE = SHAPES["S2"]
WAYS = ("iterated", "written", "migrated", "copied", "kept")
COMPRESSIONS = ("none", "snappy")
_AT_ONCE = 50_000
_FILE_BYTES = 64 << 20
_FEW = 20_000


def written(folder: Path, compression: str) -> tuple[float, int]:
    """Write the entries of a database; return the seconds of that alone, and the number of entries."""
    import rocksdict

    options, blocks = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    blocks.set_format_version(5)
    blocks.set_checksum_type(rocksdict.ChecksumType.crc32c())
    options.set_block_based_table_factory(blocks)
    seconds, count, size, writer = 0.0, 0, 0, None
    for entries in map(_taken, iterators(folder)):
        while some := [*islice(entries, _AT_ONCE)]:
            start = time.perf_counter()
            if writer is None:
                writer = rocksdict.SstFileWriter(options)
                writer.open(str(folder / f"written-{count}"))
            for key, value in some:
                writer[key] = value
                size += len(key) + len(value)
            if size > _FILE_BYTES:
                writer.finish()
                writer, size = None, 0
            seconds += time.perf_counter() - start
            count += len(some)
    start = time.perf_counter()
    if writer is not None:
        writer.finish()
    return seconds + time.perf_counter() - start, count


def _taken(entries: Any) -> Any:
    while entries.valid():
        yield entries.key(), entries.value()
        entries.next()


def run(way: str, place: Path, small: Path, target: Path, compression: str) -> None:
    """Do one way in this process; print the seconds, the entries and the peak of memory as JSON."""
    from stateshift import migrate
    from stateshift.state.savepoint.reader import Savepoint
    from stateshift.state.savepoint.states import keyed_handles

    entries = 0
    if way in {"migrated", "kept"}:
        job = SHAPE.after() if way == "migrated" else None
        migrate(small, target.with_name("small-target"), job)  # machine code and libraries are loaded
        report = migrate(place, target, job)
        seconds, entries = report.phases["migrating"], sum(count.read for count in report.states)
    else:
        ((handle,),) = (keyed_handles(stored) for stored in Savepoint.open(place).metadata.operators)
        target.mkdir()
        start = time.perf_counter()
        if way == "copied":
            for file in handle.shared:
                shutil.copyfile(place / file.stream.path, target / file.name)
        else:
            _fetch(str(place), handle, target)
            entries = iterated(target) if way == "iterated" else 0
        seconds = time.perf_counter() - start
        if way == "written":
            seconds, entries = written(target, compression)
    print(json.dumps([seconds, entries, peak_bytes()]))


def main() -> int:
    """Print the seconds, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--small", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    arguments = arguments_of(parser)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments.way:
        run(arguments.way[0], arguments.source, arguments.small, arguments.target, arguments.way[1])
        return 0
    found: dict[tuple[str, str], list[tuple[float, int, int]]] = {}
    with scratch_folder(arguments.folder) as folder:
        for entries, name in ((arguments.entries, "native"), (_FEW, "small")):
            write_savepoint(SHAPE, entries, folder / "canonical")
            for compression in COMPRESSIONS:
                write_native(folder / "canonical", folder / f"{name}-{compression}", compression)
            shutil.rmtree(folder / "canonical")
        for _ in range(arguments.rounds):
            for compression in COMPRESSIONS:
                for way in WAYS:
                    target = folder / "target"
                    command = [sys.executable, "-m", f"{__package__}.native_migration", "--way", way, compression]
                    command += ["--source", str(folder / f"native-{compression}"), "--target", str(target)]
                    command += ["--small", str(folder / f"small-{compression}")]
                    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    found.setdefault((compression, way), []).append(json.loads(ran.stdout.splitlines()[-1]))
                    shutil.rmtree(target, ignore_errors=True)
                    shutil.rmtree(target.with_name("small-target"), ignore_errors=True)
    seconds = {which: statistics.median(one[0] for one in rounds) for which, rounds in found.items()}
    rows = []
    for (compression, way), rounds in found.items():
        bare = seconds[compression, "iterated"] + seconds[compression, "written"]
        rows.append([
            compression,
            way,
            f"{seconds[compression, way]:.2f}",
            f"{seconds[compression, way] / arguments.entries * 1e9:.0f}",
            f"{seconds[compression, way] / bare:.2f}",
            f"{seconds[compression, way] / seconds[compression, 'copied']:.2f}",
            f"{max(one[2] for one in rounds) / 1e6:.0f}",
        ])  # fmt: skip
    if any(one[1] not in {0, arguments.entries} for rounds in found.values() for one in rounds):
        print("a way found another number of entries", file=sys.stderr)
        return 1
    about = facts(entries=arguments.entries)
    if arguments.json:
        print(json.dumps({"facts": about, "rounds": [[*which, rounds] for which, rounds in found.items()]}))
    else:
        columns = ["compression", "way", "s", "ns/entry", "of iterated and written", "of copied", "memory MB"]
        print(told(about))
        print_table(
            "A native snapshot of RocksDB, migrated to a native one", columns, rows, markdown=arguments.markdown
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
