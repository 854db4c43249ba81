"""One way through a stream, in a process of its own: a line of JSON for each pass on standard input and output.

    python -m benchmarks.passes WAY SHAPE      with STATESHIFT_EXECUTOR=NAME for the ways of the project

    rewrite   the project's own path, from a stored stream to a new one
    beside    the same for a state that stays as it is, beside one that changes
    copied    the same for an operator of which nothing changes: its file is copied
    copy      a copy of the file by the operating system (shutil.copyfile)
    pieces    a copy of the file in pieces of 4 MiB: what reading and writing cost
    fastavro  a plain loop with fastavro: each value read by the new schema, and written

A pass is `{"savepoint": …, "target": …, "kernel": false}`. Its answer tells the seconds, on the clock and of all
processors, the entries, the peak of the process's memory so far, the file that was written, and where its entries
begin. With `kernel` the blocks are read before the clock starts, and nothing is written.

Before the clock starts, two threads are busy for a moment, whatever the way: the kernels of some virtual machines keep
all threads of a process that was idle on one core for about as long as a short pass takes. With one core (`taskset -c 0
python -m benchmarks.compare …`) nothing is to be woken.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .machine import peak_bytes
from .shapes import REFERENCE_TIME_S, SHAPES, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from stateshift.state.migration.tasks import CopyTask, KeyedTask

    Way = Callable[[Path, Path], dict[str, Any]]

T = TypeVar("T")
PIECE_BYTES = 4 << 20
_AWAKE_S = 0.05
_LENGTH = struct.Struct(">i")


def task_of(savepoint: Path, shape: Shape, *, same: bool = False) -> KeyedTask | CopyTask:
    """Give the one task that a migration of the savepoint has: it rewrites the stream, or copies it where `same`."""
    from stateshift.state.migration.options import MigrationOptions
    from stateshift.state.migration.preparation import prepare
    from stateshift.state.savepoint.reader import Savepoint

    job = shape.before() if same else shape.after()
    options = MigrationOptions(parallelism=1, reference_time=datetime.fromtimestamp(REFERENCE_TIME_S, UTC))
    (task,) = prepare(Savepoint.open(savepoint), job, options).tasks
    return task  # type: ignore[return-value]  # one operator with keyed state only


def stream_of(savepoint: Path) -> tuple[Path, list[int]]:
    """Give the file of the savepoint's one stream, and where each of its key groups begins."""
    from stateshift.state.savepoint.reader import Savepoint

    (operator,) = Savepoint.open(savepoint).metadata.operators
    handle = operator.subtasks[0].managed_keyed
    offsets = [offset for offset in handle.offsets if offset]
    return savepoint / handle.stream.path, offsets


def timed(work: Callable[[], T]) -> tuple[T, dict[str, Any]]:
    """Do some work; give what came out, and the seconds that it took: on the clock, and of all processors."""
    started, used = time.perf_counter(), time.process_time()
    result = work()
    return result, {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - used}


def _rewrite(shape: Shape, *, beside: bool = False) -> Way:
    import attrs

    from stateshift.state.migration.run_task import perform
    from stateshift.state.storage.files import Folder

    def one(savepoint: Path, target: Path) -> dict[str, Any]:
        task = task_of(savepoint, shape)
        if beside:
            task = attrs.evolve(task, plan=attrs.evolve(task.plan, states=()))
        source, sink = Folder.at(savepoint), Folder.at(target)
        result, times = timed(lambda: perform(task, source, sink))
        file = target / (result.stored.attempt or "inline")
        if result.stored.data is not None:
            file.write_bytes(result.stored.data)
        start = min(offset for offset in result.offsets if offset)
        return times | {"entries": result.counts[0].read, "file": str(file), "start": start}

    return one


def _kernel(shape: Shape) -> Way:
    """Time the transcoder alone, on blocks that are in memory."""
    from stateshift.state.formats.flink.keyed_readers import open_keyed
    from stateshift.state.migration.block_rewriter import BlockRewriter
    from stateshift.state.storage.files import Folder

    def one(savepoint: Path, _: Path) -> dict[str, Any]:
        task = task_of(savepoint, shape)
        with open_keyed(task.handles[0], Folder.at(savepoint), task.max_parallelism) as reader:
            (info,) = reader.header.states
            plan = task.plan.state(info.name, keyed=True)
            rewriter = BlockRewriter.of(info, plan, reader.header.key_snapshot, task.max_parallelism, reader.executor)
            seconds, entries = 0.0, 0
            for block in reader.blocks(task.key_groups):
                started = time.perf_counter()
                entries += rewriter.transcoder.transcode(block.data).entries
                seconds += time.perf_counter() - started
        return {"seconds": seconds, "entries": entries}

    return one


def _copied(shape: Shape) -> Way:
    from stateshift.state.migration.run_task import perform
    from stateshift.state.storage.files import Folder

    def one(savepoint: Path, target: Path) -> dict[str, Any]:
        task, start = task_of(savepoint, shape, same=True), min(stream_of(savepoint)[1])
        source, sink = Folder.at(savepoint), Folder.at(target)
        result, times = timed(lambda: perform(task, source, sink))
        return times | {"file": str(target / result.stored.attempt), "start": start}

    return one


def _copy(copy: Callable[[Path, Path], object]) -> Way:
    def one(savepoint: Path, target: Path) -> dict[str, Any]:
        source, offsets = stream_of(savepoint)
        _, times = timed(lambda: copy(source, target / "copy"))
        return times | {"file": str(target / "copy"), "start": min(offsets)}

    return one


def _in_pieces(source: Path, target: Path) -> None:
    buffer = memoryview(bytearray(PIECE_BYTES))
    with source.open("rb", buffering=0) as reader, target.open("wb", buffering=0) as writer:
        while size := reader.readinto(buffer):
            writer.write(buffer[:size])


def _fastavro() -> Way:
    """What a person would write: framing by struct, each value through fastavro."""
    import fastavro

    from . import states_after, states_before

    old, new = fastavro.parse_schema(states_before.AVRO), fastavro.parse_schema(states_after.AVRO)

    def one(savepoint: Path, target: Path) -> dict[str, Any]:
        source, offsets = stream_of(savepoint)
        entries, times = timed(lambda: rewrite(source, offsets, target / "fastavro"))
        return times | {"entries": entries, "file": str(target / "fastavro"), "start": 0}

    def rewrite(source: Path, offsets: list[int], file: Path) -> int:
        data, entries = source.read_bytes(), 0
        with file.open("wb", buffering=PIECE_BYTES) as out:
            for first in offsets:
                at, is_last = first + 2, False
                out.write(data[first:at])
                while not is_last:
                    value_at = at + 8 + _LENGTH.unpack_from(data, at)[0]
                    end = value_at + _LENGTH.unpack_from(data, value_at - 4)[0]
                    is_last = data[at + 4] >= 0x80
                    value = io.BytesIO()
                    record = fastavro.schemaless_reader(io.BytesIO(data[value_at:end]), old, new)
                    fastavro.schemaless_writer(value, new, record)
                    encoded = value.getvalue()
                    out.write(data[at : value_at - 4])
                    out.write(_LENGTH.pack(len(encoded)))
                    out.write(encoded)
                    entries, at = entries + 1, end
                out.write(data[at : at + 2])
        return entries

    return one


WAYS: dict[str, Callable[[Shape], Way]] = {
    "rewrite": _rewrite,
    "beside": lambda shape: _rewrite(shape, beside=True),
    "copied": _copied,
    "copy": lambda _: _copy(shutil.copyfile),
    "pieces": lambda _: _copy(_in_pieces),
    "fastavro": lambda _: _fastavro(),
}


def wake_cores() -> None:
    """Keep two threads busy, so that the next two have cores of their own at once, where there are two."""
    from stateshift.state.storage.prefetch import cores

    if cores() == 1:
        return
    until, data = time.perf_counter() + _AWAKE_S, bytes(1 << 20)

    def work() -> None:
        while time.perf_counter() < until:
            hashlib.sha256(data)  # without Python's lock

    other = threading.Thread(target=work)
    other.start()
    work()
    other.join()


def main() -> None:
    """Answer passes until standard input ends."""
    name, shape = sys.argv[1], SHAPES[sys.argv[2]]
    way, kernel = WAYS[name](shape), _kernel(shape)
    print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        wake_cores()
        answer = (kernel if asked["kernel"] else way)(Path(asked["savepoint"]), Path(asked["target"]))
        print(json.dumps(answer | {"peak_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
