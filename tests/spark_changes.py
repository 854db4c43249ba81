"""Checkpoints with other schemas and other entries than Spark wrote, to be migrated without Spark."""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import ExitStack, contextmanager

import numpy as np
import pyarrow as pa
from spark_checkpoints import place

from stateshift.spark.checkpoint.json_values import json_values
from stateshift.spark.checkpoint.migrating.partitioning import partitions_of
from stateshift.spark.checkpoint.migrating.providers import write_rows
from stateshift.spark.checkpoint.migrating.rocksdb_writer import DatabaseWriter
from stateshift.spark.checkpoint.migrating.row_encoder import encode_rows
from stateshift.spark.checkpoint.migrating.store_writer import EntryBlock, snapshots
from stateshift.spark.checkpoint.reader import ROCKSDB, SparkCheckpoint
from stateshift.state.storage.files import Folder


def fields(**types):
    """Fields of a schema; two underscores and a number behind a name make it another field of that name."""
    return [
        {"name": name.partition("__")[0], "type": of, "nullable": True, "metadata": {}} for name, of in types.items()
    ]


def struct_of(*parts):
    return {"type": "struct", "fields": list(parts)}


def schema_file(key, value):
    """The schema file of a store: what Spark writes for the fields of keys and values."""
    texts = (json.dumps(struct_of(*parts)).encode() for parts in (key, value))
    return b"\0\2v2" + b"".join(struct.pack(">iH", 1, len(text)) + text for text in texts)


def fields_in(name):
    """The fields of keys and of values in the schema file of a fixture's first store."""
    data = (place(name) / "state" / "0" / "0" / "_metadata" / "schema").read_bytes()
    found, at = [], 4
    while at < len(data):
        count, at, text = int.from_bytes(data[at : at + 4], "big"), at + 4, b""
        for _ in range(count):
            size = int.from_bytes(data[at : at + 2], "big")
            text, at = text + data[at + 2 : at + 2 + size], at + 2 + size
        found.append(json.loads(text)["fields"])
    return found


def copy_of(name, folder, key=None, value=None):
    """A copy of a fixture, with another schema of its first store; None: as it is."""
    shutil.copytree(place(name), folder)
    if key is not None:
        (folder / "state" / "0" / "0" / "_metadata" / "schema").write_bytes(schema_file(key, value))
    return folder


def fill(folder, entries, partitions=2, text="key-{}"):
    """Replace the entries of a copy of an aggregation by many; return their number in each partition."""
    (folder / "state" / "0" / "0" / "_metadata" / "schema").write_bytes(
        schema_file(fields(k="string", l="string"), fields(sum="long", max="double"))
    )
    store = SparkCheckpoint.open(folder).operators[0].stores[0]
    for file in folder.glob("state/0/*/[0-9]*"):
        file.unlink()
    counts = np.zeros(partitions, np.int64)
    folders = [Folder.at(folder / "state" / "0" / str(one)) for one in range(partitions)]
    metadata = folder / "state" / "0" / "_metadata" / "metadata"
    metadata.write_text(metadata.read_text().replace('"numPartitions":2', f'"numPartitions":{partitions}'))
    with _writing(folder, folders) as write:
        for start in range(0, entries, 1 << 16):
            numbers = range(start, min(start + (1 << 16), entries))
            keys = _rows([text.format(one) for one in numbers], [f"l{one % 7}" for one in numbers])
            values = _rows(pa.array(numbers, pa.int64()), pa.array([one / 2 for one in numbers], pa.float64()))
            at = partitions_of(keys, store.schema.key, partitions)
            write(encode_rows(keys, store.schema.key), encode_rows(values, store.schema.value), at)
            counts += np.bincount(at, minlength=partitions)
    return counts.tolist()


@contextmanager
def _writing(checkpoint, folders):
    """Open the third version of partitions, of the provider that the checkpoint has."""
    if SparkCheckpoint.open(checkpoint).log.last.provider == ROCKSDB:
        ids = _new_ids(checkpoint, len(folders))
        with ExitStack() as stack:
            writers = [
                stack.enter_context(DatabaseWriter(one, version=3, unique_id=ids[number], buffer_bytes=4 << 20))
                for number, one in enumerate(folders)
            ]
            yield lambda keys, values, at: write_rows(dict(enumerate(writers)), keys, values, at)
        return
    with snapshots(folders, 3, "lz4") as streams:

        def write(keys, values, at):
            block = EntryBlock.of(keys, values, at, len(folders), has_checksums=False)
            for one, stream in enumerate(streams):
                stream.write(block.share(one))

        yield write


def _new_ids(checkpoint, partitions):
    """Write an id for each partition into the log of commits, where that has some; return them."""
    commit = checkpoint / "commits" / "2"
    version, text = commit.read_text().split("\n")
    said = json.loads(text)
    if "stateUniqueIds" not in said:
        return [""] * partitions
    ids = [f"id-{one}" for one in range(partitions)]
    commit.write_text(f"{version}\n{json.dumps(said | {'stateUniqueIds': {'0': [[one] for one in ids]}})}")
    return ids


def _rows(*columns):
    return pa.StructArray.from_arrays([pa.array(one) for one in columns], names=[str(n) for n in range(len(columns))])


def entries_of(folder):
    """All entries of the first store, as JSON: key to value."""
    store = SparkCheckpoint.open(folder).operators[0].stores[0]
    found = {}
    for block in store.blocks():
        at = partitions_of(block.key, store.schema.key, store.partitions)
        assert (at == block.partition).all()
        keys, values = json_values(block.key, store.schema.key), json_values(block.value, store.schema.value)
        found.update({json.dumps(key): value for key, value in zip(keys, values, strict=True)})
    return found
