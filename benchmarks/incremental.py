"""How much incremental checkpoints write: a share of random keys changes before each, on RocksDB.

    python -m benchmarks.incremental [--keys 1000000] [--checkpoints 60] [--changed 0.01] [--key-ranges 8] [--level]

The share is the bytes that a checkpoint writes, as part of the size of all files of the first one. A checkpoint is
counted as a full rewrite if it writes half of that or more. Memory is that of the process, at its largest.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from stateshift import Operator, ValueStateDescriptor
from stateshift.serializers.hints import serializer_for
from stateshift.state.backends.configuration import Configuration
from stateshift.state.backends.rocksdb.backend import EmbeddedRocksDBStateBackend
from stateshift.state.backends.snapshots import OperatorSnapshot, SnapshotTarget, SubtaskSnapshot, publish_snapshot
from stateshift.state.publication.checkpoints import CheckpointStorage, open_checkpoints
from stateshift.state.publication.commit import Commit
from stateshift.state.publication.publish import stream_name
from stateshift.state.storage.files import Folder

from .machine import arguments_of, facts, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stateshift.state.backends.keyed_backend import KeyedStateBackend

GROUPS = 128
VALUE_BYTES = 100
OPERATOR = Operator("bench", key=int)


@contextmanager
def rocksdb_backend(options: dict[str, Any], key_ranges: int = 1) -> Iterator[EmbeddedRocksDBStateBackend]:
    """Make a backend with incremental checkpoints, and dispose of it."""
    values = {"execution.checkpointing.incremental": True, **options}
    configuration, of_all = Configuration.of(values, environment={}), (serializer_for(int), GROUPS, range(GROUPS))
    backend = EmbeddedRocksDBStateBackend(*of_all, configuration=configuration, key_ranges=key_ranges)
    try:
        yield backend
    finally:
        backend.dispose()


@attrs.frozen
class Taken:
    """A checkpoint.

    Attributes:
        new_bytes: What it wrote.
        all_bytes: All that it has.
        synchronous_s: The seconds of its synchronous part.
        asynchronous_s: The seconds of the other part.
    """

    new_bytes: int
    all_bytes: int
    synchronous_s: float
    asynchronous_s: float


def taken(storage: CheckpointStorage, backend: KeyedStateBackend) -> Taken:
    """Take a checkpoint."""
    number = storage.next_id
    with storage.checkpoint(number) as folder:
        commit, begin = Commit(folder), time.perf_counter()
        target = SnapshotTarget(number, 0, commit, stream_name(OPERATOR.id, "keyed", 0), storage.shared)
        future = backend.checkpoint_strategy().snapshot(target)
        synchronous_s = time.perf_counter() - begin
        begin = time.perf_counter()
        future.run()
        result = future.result()
        asynchronous_s = time.perf_counter() - begin
        publish_snapshot(commit, [OperatorSnapshot(OPERATOR, GROUPS, [SubtaskSnapshot(result)])], number)
    backend.checkpoint_strategy().notify_checkpoint_complete(number)
    handle: Any = result.handle
    size = handle.size
    return Taken(getattr(handle, "checkpointed_bytes", size), size, synchronous_s, asynchronous_s)


def measure(
    keys: int, checkpoints: int, changed: float, options: dict[str, Any], key_ranges: int = 1
) -> dict[str, Any]:
    """Return the shares of the checkpoints, and what else is of interest."""
    chance, shares, pauses = random.Random(1), [], []  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory() as place, rocksdb_backend(options, key_ranges) as backend:
        state: Any = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
        for key in range(keys):
            backend.set_current_key(key)
            state.update(chance.randbytes(VALUE_BYTES // 2).hex())
        with open_checkpoints(Folder.at(place)) as storage:
            first = taken(storage, backend)
            for _ in range(checkpoints):
                for key in chance.sample(range(keys), int(keys * changed)):
                    backend.set_current_key(key)
                    state.update(chance.randbytes(VALUE_BYTES // 2).hex())
                last = taken(storage, backend)
                shares.append(last.new_bytes / first.all_bytes)
                pauses.append(last.synchronous_s)
        return {
            "keys": keys,
            "checkpoints": checkpoints,
            "changed": changed,
            "first_bytes": first.new_bytes,
            "last_bytes": last.all_bytes,
            "median": statistics.median(shares),
            "mean": statistics.mean(shares),
            "largest": sorted(shares, reverse=True)[:6],
            "full_rewrites": {number: share for number, share in enumerate(shares, 1) if share >= 1 / 2},
            "synchronous_ms": {"median": statistics.median(pauses) * 1000, "largest": max(pauses) * 1000},
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--checkpoints", type=int, default=60)
    parser.add_argument("--changed", type=float, default=0.01)
    parser.add_argument("--level", action="store_true", help="with compaction by levels, Flink's default")
    parser.add_argument("--key-ranges", type=int, default=8, help="8 as on Spark; 1 as with checkpoints for Flink")
    chosen = arguments_of(parser)
    options = {"state.backend.rocksdb.compaction.style": "LEVEL"} if chosen.level else {}
    found = measure(chosen.keys, chosen.checkpoints, chosen.changed, options, chosen.key_ranges)
    if chosen.json:
        print(json.dumps(found))
        return
    print(told(facts()))
    largest = ", ".join(f"{share:.1%}" for share in found["largest"])
    print(f"{found['first_bytes']:,} bytes; median {found['median']:.1%}, mean {found['mean']:.1%}, largest {largest}")
    rewrites = ", ".join(f"{share:.0%} in the {number}th" for number, share in found["full_rewrites"].items())
    print(f"{found['checkpoints']} checkpoints; half of it or more: {rewrites or 'none'}")
    pause = found["synchronous_ms"]
    print(f"synchronous part {pause['median']:.0f} ms, at most {pause['largest']:.0f} ms")
    print(f"peak of the process {found['peak_mb']:.0f} MB")


if __name__ == "__main__":
    main()
