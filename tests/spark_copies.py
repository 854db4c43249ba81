"""Migrated copies of the checkpoints in tests/fixtures/spark-4.3, and damages that are planted in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from spark_changes import copy_of, fields, fields_in, writing
from spark_checkpoints import place

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.spark_rows.row_encoder import encode_rows
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.storage.files import Folder


def with_a_note(name, folder, **changes):
    """A copy of a fixture with a new field in its values, in folder/copy."""
    key, value = fields_in(name)
    like = copy_of(name, folder / "like", key, [*value, *fields(note="string")])
    migrate_checkpoint(
        place(name), folder / "copy", like=like, changes={0: FieldChanges(fills={"value.note": "ü"}, **changes)}
    )
    return folder / "copy"


def rewrite(copy, change):
    """Write the entries of the first store of a copy again, after a function has changed keys, values, partitions."""
    store = SparkCheckpoint.open(copy).operators[0].stores[0]
    rows = [
        (one.partition, key, value)
        for one in store.blocks()
        for key, value in zip(one.key.to_pylist(), one.value.to_pylist(), strict=True)
    ]
    types = [next(iter(getattr(one, side).type for one in store.blocks())) for side in ("key", "value")]
    rows = change(rows)
    partitions, keys, values = zip(*rows, strict=True)
    for file in copy.glob("state/0/*/[0-9]*"):
        file.unlink()
    folders = [Folder.at(copy / "state" / "0" / str(one)) for one in range(store.partitions)]
    with writing(copy, folders, store) as write:
        columns = (pa.array(one, of) for one, of in zip((keys, values), types, strict=True))
        schemas = (store.schema.key, store.schema.value)
        encoded = (encode_rows(one, of) for one, of in zip(columns, schemas, strict=True))
        write(*encoded, np.asarray(partitions, np.int64))


def altered(rows):
    partition, key, value = rows[0]
    return [(partition, key, value | {"sum": 12345}), *rows[1:]]
