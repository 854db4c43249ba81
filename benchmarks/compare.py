"""The rewriting of state, side by side in one run: Flink's own serializers, ours, fastavro, and a copy of the file.

    python -m benchmarks.compare [--entries 2000000] [--rounds 5] [--shapes S1,S2,…] [--json]

For each shape a savepoint with one stream is written into a memory file system. Each way through it is a process of its
own that keeps running; round by round each makes one pass, after two rounds to warm up. Each round has an order of its
own: who comes after a large process finds the processor's caches full of its data. Figures are medians. Every result is
compared with Flink's, byte by byte, from the first entry on.

Ways that take tens of microseconds an entry (objects, fastavro) go through a twentieth of the entries, and so
does Flink once for the comparison. Without Flink's jars and a JDK the rest is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from stateshift.state.transcode.executor_choice import ExecutorName

from .machine import arguments_of, facts, print_table, scratch_folder, told
from .passes import stream_of
from .peers import ROOT, Peers, Unavailable, find_peers
from .shapes import REFERENCE_TIME_S, SHAPES, Shape, write_savepoint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

WARM_UP = 2
SLOWER = 20
LEAST_ENTRIES = 1000
"""A stream of fewer bytes than these have would lie within `_metadata`."""
EXECUTORS = ("numba", "objects")
SLOW = {"objects", "fastavro"}
_PIECE = 8 << 20
RECORDS = {"side": ("record",), "join": ("record", "counted"), "aggregate": ("totals",)}
"""Shapes of rows -> the shapes of records of as many fields: as values, and in the same place of an entry."""


@attrs.frozen
class Source:
    """A savepoint to go through.

    Attributes:
        savepoint: Its folder.
        stream: The file of its one stream.
        offsets: A file with the place of each key group in it, and of its end.
        entries: How many it has.
        size: Bytes of the stream.
        start: Where its entries begin.
    """

    savepoint: Path
    stream: Path
    offsets: Path
    entries: int
    size: int
    start: int

    @classmethod
    def of(cls, shape: Shape, entries: int, place: Path) -> Source:
        """Write it."""
        write_savepoint(shape, entries, place)
        stream, offsets = stream_of(place)
        size = stream.stat().st_size
        file = place.with_suffix(".offsets")
        file.write_bytes(struct.pack(f">{len(offsets) + 1}q", *offsets, size))
        return cls(place, stream, file, entries, size, offsets[0])


class Process:
    """A way through a stream: a process that makes a pass for each line that it gets."""

    def __init__(self, name: str, command: list[str], *, executor: str = "", folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        environment = os.environ | ({"STATESHIFT_EXECUTOR": executor} if executor else {})
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def wait_until_ready(self) -> None:
        """Wait until it takes lines."""
        self._answer()

    def end(self) -> None:
        """End it, and wait for that."""
        self._process.communicate()

    def clear(self) -> None:
        """Remove what the last pass has written."""
        for file in self.folder.iterdir():
            file.unlink()

    def one(self, source: Source, *, kernel: bool = False) -> dict[str, Any]:
        """Make a pass; what the one before has written is removed first."""
        self.clear()
        answer = self._ask(source, kernel=kernel)
        return answer | {"ns": answer["seconds"] / source.entries * 1e9}

    def _ask(self, source: Source, *, kernel: bool) -> dict[str, Any]:
        asked = {"savepoint": str(source.savepoint), "target": str(self.folder), "kernel": kernel}
        return self._tell(json.dumps(asked))

    def _tell(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} has ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class JavaProcess(Process):
    """The peer in Java; its kernel's time is that of the last pass."""

    def _ask(self, source: Source, *, kernel: bool) -> dict[str, Any]:
        file = self.folder / "result"
        answer = self._tell(f"{source.stream}\t{source.offsets}\t{file}")
        seconds = answer["kernel_seconds" if kernel else "seconds"]
        return answer | {"seconds": seconds, "file": str(file), "start": 0}


def executors() -> tuple[str, ...]:
    """Give the names of the project's executors that can run here, the fastest first."""
    known = [name for name in EXECUTORS if name in set(ExecutorName)]
    return tuple(name for name in known if name != "numba" or find_spec("numba"))


def processes(shape: Shape, peers: Peers | None, folder: Path, without: Collection[str]) -> Iterator[Process]:
    """Start the ways through a shape; Flink's comes first where it can be run."""
    is_simple = shape.name in {"S1", "S2"}
    if peers is not None:
        argument = {"S3": peers.classes, "ttl": REFERENCE_TIME_S * 1000}.get(shape.name, "")
        name = "Avro Java" if shape.is_avro else "Flink"
        yield JavaProcess(name, peers.command("Peer", shape.name, argument), folder=folder)
        if is_simple and "Flink same" not in without:
            yield JavaProcess("Flink same", peers.command("Peer", f"{shape.name}id"), folder=folder)
    ways = {name: ("rewrite", name) for name in executors()}
    ways |= {"unchanged beside": ("beside", ""), "unchanged file": ("copied", "")} if is_simple else {}
    ways |= {"fastavro": ("fastavro", "")} if shape.is_avro else {}
    ways |= {"copy": ("copy", ""), "copy in pieces": ("pieces", "")}
    for name, (way, executor) in ways.items():
        if name not in without:
            yield way_of(way, shape, folder, executor, name)


def way_of(way: str, shape: Shape, folder: Path, executor: str = "", name: str = "") -> Process:
    """Start one of the ways of `passes`; with the executor that a migration chooses, unless one is named."""
    command = [sys.executable, "-m", f"{__package__}.passes", way, shape.name]
    return Process(name or way, command, executor=executor, folder=folder)


def measure(shape: Shape, peers: Peers | None, scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Go through one shape in all ways; give medians in nanoseconds an entry, peaks, and who agrees with whom."""
    whole = Source.of(shape, max(arguments.entries, LEAST_ENTRIES), scratch / "whole")
    few = Source.of(shape, max(arguments.entries // SLOWER, LEAST_ENTRIES), scratch / "few")
    ways = list(processes(shape, peers, scratch, arguments.without))
    for way in ways:
        way.wait_until_ready()
    reference = ways[0]
    asked = {way.name: few if way.name in SLOW else whole for way in ways}
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    used: dict[str, list[float]] = {way.name: [] for way in ways}
    kernels: dict[str, list[float]] = {way.name: [] for way in ways}
    last: dict[str, dict[str, Any]] = {}
    for round_ in range(WARM_UP + arguments.rounds):
        for way in random.Random(round_).sample(ways, len(ways)):  # noqa: S311 - no secret
            last[way.name] = way.one(asked[way.name])
            if round_ >= WARM_UP:
                times[way.name].append(last[way.name]["ns"])
                used[way.name].append(last[way.name]["cpu_seconds"] / asked[way.name].entries * 1e9)
            if "kernel_seconds" in last[way.name]:
                kernels[way.name].append(last[way.name]["kernel_seconds"] / whole.entries * 1e9)
    same = {way.name: _agrees(way, reference, last, asked, whole) for way in ways}
    for _ in range(WARM_UP + arguments.rounds):
        for way in ways:
            if way.name in executors():
                kernels[way.name].append(way.one(asked[way.name], kernel=True)["ns"])
    for way in ways:
        way.end()
    return {
        "title": shape.title,
        "entries": whole.entries,
        "bytes": whole.size,
        "ways": {
            name: {
                "entries": asked[name].entries,
                "ns": statistics.median(found),
                "least_ns": min(found),
                "cpu_ns": statistics.median(used[name]),
                "kernel_ns": statistics.median(kernels[name][WARM_UP:]) if kernels[name] else None,
                "peak_bytes": last[name]["peak_bytes"],
                "same_bytes": same[name],
            }
            for name, found in times.items()
        },
    }


def _agrees(
    way: Process, reference: Process, last: dict[str, dict[str, Any]], asked: dict[str, Source], whole: Source
) -> bool:
    """Whether a way has written what the reference has; those that change nothing, what was there."""
    answer, source = last[way.name], asked[way.name]
    if way is reference:
        return True
    if way.name.startswith(("unchanged", "copy", "Flink same")):
        return _is_same((answer["file"], answer["start"]), (str(source.stream), source.start))
    expected = last[reference.name] if source is whole else reference.one(source)
    return _is_same((answer["file"], answer["start"]), (expected["file"], expected["start"]))


def _is_same(one: tuple[str, int], other: tuple[str, int]) -> bool:
    with Path(one[0]).open("rb") as first, Path(other[0]).open("rb") as second:
        first.seek(one[1])
        second.seek(other[1])
        while piece := first.read(_PIECE):
            if piece != second.read(_PIECE):
                return False
        return not second.read(1)


def print_shape(name: str, found: dict[str, Any], *, markdown: bool) -> None:
    """Print one table: times beside Flink's, and beside a copy of the file."""
    ways = found["ways"]
    flink = ways.get("Flink") or ways.get("Avro Java")
    copy = ways["copy"]
    rows = []
    for way, one in ways.items():
        kernel = one["kernel_ns"]
        rows.append(
            (
                way,
                f"{one['ns']:,.0f}",
                f"{found['bytes'] / found['entries'] / one['ns'] * 1e3:,.0f}",
                _times(flink, one, "ns"),
                _times(one, copy, "ns"),
                f"{one['cpu_ns']:,.0f}",
                _times(flink, one, "cpu_ns"),
                f"{kernel:,.0f}" if kernel else "",
                _times(flink, one, "kernel_ns"),
                f"{one['peak_bytes'] / 1e6:,.0f}",
                "yes" if one["same_bytes"] else "NO",
            )
        )
    title = f"{name}: {found['title']}; {found['entries']:,} entries, {found['bytes'] / 1e6:,.1f} MB"
    columns = ("way", "ns", "MB/s", "x Flink", "x copy", "CPU ns", "x Flink", "kernel ns", "x Flink", "peak MB", "same")
    print_table(title, columns, rows, markdown=markdown)


def print_rows_beside_records(shapes: dict[str, Any], *, markdown: bool) -> None:
    """Print how much processor time rows take beside records of as many fields, where both were measured."""
    used = {name: found["ways"]["numba"]["cpu_ns"] for name, found in shapes.items() if "numba" in found["ways"]}
    rows = [
        (name, f"{used[name]:,.0f}", other, f"{used[other]:,.0f}", f"{used[name] / used[other]:.2f} x")
        for name, others in RECORDS.items()
        for other in others
        if name in used and other in used
    ]
    if rows:
        print_table("rows beside records", ("rows", "CPU ns", "records", "CPU ns", "x"), rows, markdown=markdown)


def _times(one: dict[str, Any] | None, other: dict[str, Any], figure: str) -> str:
    """Say how many times as much one has as another; nothing of what was not measured, or was too short to be."""
    return f"{one[figure] / other[figure]:.2f} x" if one and other[figure] else ""


def main() -> int:
    """Print a table for each shape; give 1 where a result has other bytes than Flink's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", default="", help="ways to leave out, as in objects,fastavro")
    parser.add_argument("--shapes", default=",".join(name for name in SHAPES if name != "wide"))
    arguments = arguments_of(parser)
    arguments.without = set(arguments.without.split(","))
    try:
        peers = find_peers()
    except Unavailable as error:
        print(f"without Flink: {error}", file=sys.stderr)
        peers = None
    java = {} if peers is None else {"java": peers.version, "flink": peers.flink}
    found = facts(**java, rounds=arguments.rounds)
    shapes: dict[str, Any] = {}
    for name in arguments.shapes.split(","):
        with scratch_folder(arguments.folder) as scratch:
            shapes[name] = measure(SHAPES[name], peers, scratch, arguments)
        if not arguments.json:
            print_shape(name, shapes[name], markdown=arguments.markdown)
    if arguments.json:
        print(json.dumps({"machine": found, "shapes": shapes}, indent=2))
    else:
        print_rows_beside_records(shapes, markdown=arguments.markdown)
        print(told(found))
    return 0 if all(way["same_bytes"] for one in shapes.values() for way in one["ways"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
