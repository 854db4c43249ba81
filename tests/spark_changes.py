"""Checkpoints with other schemas and other entries than Spark wrote, to be migrated without Spark."""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import ExitStack, contextmanager

import attrs
import numpy as np
import pyarrow as pa
from spark_checkpoints import place

from stateshift.serializers.spark_rows.json_values import json_values
from stateshift.serializers.spark_rows.row_encoder import encode_rows
from stateshift.state.formats.spark.partitioning import partitions_of
from stateshift.state.formats.spark.reader import ROCKSDB, SparkCheckpoint
from stateshift.state.formats.spark.rocksdb_writer import DatabaseWriter
from stateshift.state.formats.spark.store_writer import EntryBlock, snapshots
from stateshift.state.migration.queries.providers import write_rows
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
    with writing(folder, folders, store) as write:
        for start in range(0, entries, 1 << 16):
            numbers = range(start, min(start + (1 << 16), entries))
            keys = _rows([text.format(one) for one in numbers], [f"l{one % 7}" for one in numbers])
            values = _rows(pa.array(numbers, pa.int64()), pa.array([one / 2 for one in numbers], pa.float64()))
            at = partitions_of(keys, store.schema.key, partitions)
            write(encode_rows(keys, store.schema.key), encode_rows(values, store.schema.value), at)
            counts += np.bincount(at, minlength=partitions)
    return counts.tolist()


@contextmanager
def writing(checkpoint, folders, store):
    """Open the third version of partitions, of the provider that the checkpoint has."""
    if SparkCheckpoint.open(checkpoint).log.last.provider == ROCKSDB:
        ids = _new_ids(checkpoint, len(folders))
        with ExitStack() as stack:
            writers = [
                stack.enter_context(DatabaseWriter(one, version=3, unique_id=ids[number], buffer_bytes=4 << 20))
                for number, one in enumerate(folders)
            ]
            yield lambda keys, values, at: write_rows(dict(enumerate(writers)), store, keys, values, at)
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


def families(data):
    """The column families of a schema file: name, key, value, layout and user key, as JSON."""
    at = 4

    def text():
        nonlocal at
        size = int.from_bytes(data[at : at + 2], "big")
        at += 2 + size
        return data[at - size : at].decode()

    def number(size):
        nonlocal at
        at += size
        return int.from_bytes(data[at - size : at], "big")

    def chunks():
        return json.loads("".join(text() for _ in range(number(4))))

    found = {}
    for _ in range(number(4)):
        name, _, key, _, value, layout, user = text(), number(2), chunks(), number(2), chunks(), chunks(), chunks()
        found[name] = [key, value, layout, user]
    return found


def schema_bytes(found):
    def text(said):
        return struct.pack(">H", len(said.encode())) + said.encode()

    def chunks(said):
        return struct.pack(">i", 1) + text(json.dumps(said))

    parts = [
        text(name) + b"\0\0" + chunks(key) + b"\0\0" + chunks(value) + chunks(layout) + chunks(user)
        for name, (key, value, layout, user) in found.items()
    ]
    return text("v3") + struct.pack(">i", len(parts)) + b"".join(parts)


@attrs.define
class Probe:
    """A copy of a fixture whose types a new query could have written."""

    folder: object

    @classmethod
    def of(cls, name, folder):
        return cls(shutil.copytree(place(name), folder))

    @property
    def schema(self):
        (file,) = self.folder.glob("state/0/_stateSchema/default/*")
        return file

    def change(self, function):
        """Call a function with the families, and keep what it makes of them."""
        found = families(self.schema.read_bytes())
        function(found)
        self.schema.write_bytes(schema_bytes(found))
        return self

    def variables(self, **changed):
        """Add, drop (None) or change variables in the metadata: their kinds, and whether they expire."""
        (file,) = self.folder.glob("state/0/_metadata/v2/*")
        said = json.loads(file.read_text().partition("\n")[2])
        properties = json.loads(said["operatorPropertiesJson"])
        kept = [one for one in properties["stateVariables"] if one["stateName"] not in changed]
        for name, of in changed.items():
            if of is not None:
                kept.append({"stateName": name, "stateVariableType": of[0], "ttlEnabled": of[1]})
        properties["stateVariables"] = kept
        file.write_text("v2\n" + json.dumps(said | {"operatorPropertiesJson": json.dumps(properties)}))
        return self
