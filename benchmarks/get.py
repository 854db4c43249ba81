"""One key out of millions: `stateshift get` beside `stateshift --help`, and how many bytes it reads.

    python -m benchmarks.get [--entries 5000000] [--native-entries 10000000] [--rounds 5] [--on-s3] [--json]

A savepoint of S2 (about 100 bytes an entry) in eight forms: 128 and 32768 key groups, entries in the order of RocksDB
and of a hash table, plain and compressed. Beside them a native snapshot with 128 key groups, without compression, of
about a gigabyte. Each command is a process of its own; the two take turns; figures are medians of the rounds. The
seconds of CPU are those of all its threads; they say more than the others on a machine that is busy. The bytes are
those that the command says; they are compared with those of a key group.

With `--on-s3` the native snapshot lies on an S3 server on this machine, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from itertools import product
from typing import TYPE_CHECKING, Any

import attrs

from stateshift.state.formats.flink.blocks import Block, join_pieces
from stateshift.state.formats.flink.handles import CANONICAL, KeyGroupsHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.keyed_stream import KeyedStreamWriter
from stateshift.state.formats.flink.metadata import METADATA, write_metadata
from stateshift.state.savepoint.reader import Savepoint

from .machine import arguments_of, children_cpu_s, facts, print_table, scratch_folder, told
from .native_snapshot import on_s3, write_native
from .shapes import SHAPES, write_savepoint

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = SHAPES["S2"]
KEY = "u-{}"
_STEP = 17
"""How far the numbers in the keys of S2 are apart."""


def rewrite(source: Path, target: Path, *, is_sorted: bool, is_compressed: bool) -> None:
    """Write a savepoint of one operator again, with its entries in the order of their keys, or compressed."""
    savepoint = Savepoint.open(source)
    target.mkdir()
    operators = []
    for stored in savepoint.metadata.operators:
        subtasks = []
        for subtask in stored.subtasks:
            handle = subtask.managed_keyed
            assert isinstance(handle, KeyGroupsHandle)  # noqa: S101 - it is canonical
            name = f"stream-{subtask.index}"
            opened = open_keyed(handle, savepoint.folder, stored.max_parallelism)
            with opened as reader, (target / name).open("wb") as file:
                header = attrs.evolve(reader.header, compressed=is_compressed)
                writer = KeyedStreamWriter(header, handle.key_groups, file.write)
                for block in join_pieces(reader.blocks()):
                    items = sorted(block.items()) if is_sorted else block.items()
                    writer.add(Block.of(block.key_group, block.state_id, items))
                offsets = writer.finish()
            stream = RelativeFileHandle(name, (target / name).stat().st_size)
            new = KeyGroupsHandle(CANONICAL, handle.first_key_group, offsets, stream)
            subtasks.append(attrs.evolve(subtask, managed_keyed=new))
        operators.append(attrs.evolve(stored, subtasks=tuple(subtasks)))
    metadata = attrs.evolve(savepoint.metadata, operators=tuple(operators))
    (target / METADATA).write_bytes(write_metadata(metadata))


def measured(place: str, key: str, rounds: int) -> dict[str, Any]:
    """Run both commands in turns, and return their times in seconds and what was read."""
    times: dict[str, list[float]] = {"help": [], "get": [], "help_cpu": [], "get_cpu": []}
    found: dict[str, Any] = {}
    for _ in range(rounds + 1):
        for name, words in (("help", ["get", "--help"]), ("get", ["get", place, key, "--json"])):
            began, before = time.perf_counter(), children_cpu_s()
            ran = subprocess.run(
                [sys.executable, "-m", "stateshift", *words], check=True, capture_output=True, text=True
            )
            times[name].append(time.perf_counter() - began)
            times[f"{name}_cpu"].append(children_cpu_s() - before)
            if name == "get":
                found = json.loads(ran.stdout)
    (entry,) = found["operators"][0]["entries"]
    seconds = {name: statistics.median(of[1:]) for name, of in times.items()}  # the first round warms up
    return {"entry": entry, **seconds, **found["read"]}


def main() -> None:
    """Write the savepoints, measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--native-entries", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--on-s3", action="store_true", help="also a native snapshot on an S3 server of this machine")
    arguments = arguments_of(parser)
    results: dict[str, dict[str, Any]] = {}

    def measure(name: str, place: str, entries: int, group_bytes: float) -> None:
        key = KEY.format(_STEP * (entries * 2 // 3))
        results[name] = {**measured(place, key, arguments.rounds), "group": group_bytes}

    with scratch_folder(arguments.folder) as folder:
        for groups in (128, 32_768):
            source = folder / f"{groups}"
            write_savepoint(SHAPE, arguments.entries, source, key_groups=groups)
            for is_sorted, is_compressed in product((False, True), repeat=2):
                words = ("RocksDB" if is_sorted else "heap", "snappy" if is_compressed else "plain")
                place = folder / "-".join((f"{groups}", *words))
                rewrite(source, place, is_sorted=is_sorted, is_compressed=is_compressed)
                size = sum(file.stat().st_size for file in place.iterdir() if file.name != METADATA)
                measure(f"{groups:,}, {', '.join(words)}", str(place), arguments.entries, size / groups)
                shutil.rmtree(place)
            shutil.rmtree(source)
        source, native = folder / "source", folder / "native"
        write_savepoint(SHAPE, arguments.native_entries, source, key_groups=128)
        write_native(source, native, "none")
        shutil.rmtree(source)
        size = sum(file.stat().st_size for file in native.iterdir())
        for place in (nullcontext(str(native)), *([on_s3(folder)] if arguments.on_s3 else ())):
            with place as uri:
                where = " on S3" if "://" in uri else ""
                measure(f"native of {size / 1e9:.1f} GB{where}", uri, arguments.native_entries, size / 128)
    about = facts(entries=arguments.entries, rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps({"facts": about, "results": results}, indent=1))
        return
    print(told(about))
    columns = (
        "",
        "--help, s",
        "get, s",
        "more, s",
        "get / --help",
        "more CPU, s",
        "state read",
        "key groups",
        "all read",
    )
    rows = [
        [
            name,
            *(f"{seconds:.2f}" for seconds in (one["help"], one["get"], one["get"] - one["help"])),
            f"{one['get'] / one['help']:.2f}",
            f"{one['get_cpu'] - one['help_cpu']:.2f}",
            f"{one['state_bytes'] / 1000:,.1f} kB",
            f"{one['state_bytes'] / one['group']:.3f}",
            f"{(one['state_bytes'] + one['metadata_bytes']) / 1000:,.1f} kB",
        ]
        for name, one in results.items()
    ]
    print_table("One key", columns, rows, markdown=arguments.markdown)


if __name__ == "__main__":
    main()
