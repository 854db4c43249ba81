"""Rows packed by tasks and sorted by the writer: none is lost, whatever the cuts, and the writer agrees."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    Target,
    ValueStateDescriptor,
)
from stateshift.state.columnar import row_files as records
from stateshift.state.columnar.bootstrap import StateColumns
from stateshift.state.columnar.new_savepoint import NewSavepoint
from stateshift.state.columnar.row_files import PACKED_ROWS, packed, sorted_rows
from stateshift.state.columnar.row_sources import resolve
from stateshift.state.columnar.row_streams import RowCount, checksums, write_streams
from stateshift.state.columnar.rows import RowEncoder
from stateshift.state.storage.files import Folder

JOB = Job(
    [
        Operator(
            "o",
            key=str,
            states=[
                ValueStateDescriptor("number", Int32),
                ListStateDescriptor("list", str),
                MapStateDescriptor("map", str, int),
            ],
        )
    ]
)
SOURCES = [
    StateColumns("o", "number", key_by="key", value="value"),
    StateColumns("o", "list", key_by="key", order_by="place", value="value"),
    StateColumns("o", "map", key_by="key", user_key="item", value="value"),
]
SCHEMAS = [
    pa.schema({"key": pa.string(), "value": pa.int32()}),
    pa.schema({"key": pa.string(), "place": pa.int64(), "value": pa.string()}),
    pa.schema({"key": pa.string(), "item": pa.string(), "value": pa.int64()}),
]
ENCODERS = [
    RowEncoder(source, 16, lambda _: tuple) for source in resolve(JOB, list(zip(SOURCES, SCHEMAS, strict=True)))
]
KEYS = st.one_of(st.integers(0, 30).map("key {}".format), st.text(max_size=3))
TEXTS = st.one_of(st.text(max_size=4), st.just("x" * 700))


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    """Few rows fill the memory that is meant for many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "HELD_BYTES", 900)
        patch.setattr(records, "BATCH_BYTES", 120)
        yield


def packed_by_tasks(encoder, rows, cuts):
    """Records of all tasks, of which each gets the rows up to a cut, in batches of 7."""
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for begin, end in pairwise(edges):
        task = rows.slice(begin, end - begin)
        yield from packed(encoder.encode(task.to_batches(max_chunksize=7)))


def as_spark_brings_them(found, size):
    """Records by operator, key group and state, in batches of so many, with Spark's kind of binary."""
    order = [(name, "ascending") for name in ("operator", "key_group", "state")]
    table = pa.Table.from_batches(found, PACKED_ROWS).sort_by(order).combine_chunks()
    spark = pa.schema([(f.name, pa.binary() if f.type == pa.large_binary() else f.type) for f in PACKED_ROWS])
    return table.cast(spark).to_batches(max_chunksize=size)


def listed(elements):
    return pa.Table.from_pylist([dict(zip(("key", "place", "value"), e, strict=True)) for e in elements], SCHEMAS[1])


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 3), TEXTS), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
    st.integers(1, 9),
)
def test_rows_come_out_in_order_whatever_the_tasks_the_memory_and_the_batches(elements, cuts, size):
    rows, encoder = listed(elements), ENCODERS[1]

    found = list(packed_by_tasks(encoder, rows, cuts))
    in_order = pa.Table.from_batches(list(sorted_rows(as_spark_brings_them(found, size)))).to_pylist()

    encoded = pa.Table.from_batches(list(encoder.encode(rows.to_batches())))
    expected = encoded.sort_by([("key", "ascending"), ("place", "ascending"), ("value", "ascending")]).to_pylist()
    assert [{name: row[name] for name in in_order[0]} for row in expected] == in_order
    told = pa.Table.from_batches(found)
    assert len(elements) == sum(told["rows"].to_pylist())
    assert sum(len(row["key"]) + len(row["value"]) + 8 for row in expected) == sum(told["size"].to_pylist())
    (batch,) = encoded.combine_chunks().to_batches()
    assert int(checksums(batch).sum()) == sum(told["checksum"].to_pylist())


def test_records_are_as_many_as_key_groups_and_pieces_of_memory_and_not_as_rows(monkeypatch):
    monkeypatch.setattr(records, "HELD_BYTES", 1 << 20)
    monkeypatch.setattr(records, "BATCH_BYTES", 1 << 20)

    def of_so_many(count):
        rows = listed([(f"key {number}", 0, "") for number in range(count)])
        return sum(batch.num_rows for batch in packed(ENCODERS[1].encode(rows.to_batches())))

    assert [16, 16] == [of_so_many(1000), of_so_many(8000)]


def test_an_error_is_a_record_and_nothing_follows_it():
    rows = pa.table({"key": ["a", None, "b"], "value": [1, 2, 3]}, SCHEMAS[0])

    *before, last = packed(ENCODERS[0].encode([*rows.slice(0, 1).to_batches(), *rows.slice(1).to_batches()]))

    assert not before
    assert [True] == [error is not None for error in last["error"].to_pylist()]


ENTRIES = st.dictionaries(
    KEYS,
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.lists(TEXTS, max_size=4),
        st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=3),
    ),
    min_size=1,
    max_size=25,
)


def tables_of(entries):
    numbers = [{"key": key, "value": number} for key, (number, _, _) in entries.items()]
    lists = [
        {"key": key, "place": at, "value": text}
        for key, (_, texts, _) in entries.items()
        for at, text in enumerate(texts)
    ]
    maps = [
        {"key": key, "item": item, "value": value}
        for key, (_, _, items) in entries.items()
        for item, value in items.items()
    ]
    return [pa.Table.from_pylist(rows, schema) for rows, schema in zip((numbers, lists, maps), SCHEMAS, strict=True)]


def streams_of(place):
    """All files but the lineage; in the savepoint as in the files next to it streams have their bytes."""
    return {file.name: file.read_bytes() for file in place.iterdir() if file.name != "_stateshift.json"}


@settings(max_examples=30)
@given(ENTRIES, st.lists(st.integers(0, 60), max_size=3), st.integers(1, 9), st.integers(1, 3))
def test_what_is_packed_and_put_in_order_is_what_the_writer_writes(entries, cuts, size, parallelism):
    with tempfile.TemporaryDirectory() as scratch:
        place, expected = Path(scratch, "new"), Path(scratch, "written")
        with SavepointWriter(expected, JOB, parallelism=parallelism, max_parallelism=16) as writer:
            for key, (number, texts, items) in entries.items():
                writer.put("o", "number", key, number)
                writer.put("o", "list", key, texts)
                writer.put("o", "map", key, items)
        found = []
        for encoder, rows in zip(ENCODERS, tables_of(entries), strict=True):
            found += packed_by_tasks(encoder, rows.sort_by([("key", "descending")]), cuts)
        new, folder = NewSavepoint(JOB, [], 16, parallelism, Target.ANY), Folder.at(place)
        operators = new.operators({})
        folder.create()
        results = list(write_streams(sorted_rows(as_spark_brings_them(found, size)), operators, folder))
        encoded = {}
        for record in pa.Table.from_batches(found).to_pylist():
            count = RowCount(record["rows"], record["checksum"])
            encoded[0, record["state"]] = encoded.get((0, record["state"]), RowCount()) + count
        new.publish(folder, operators, results, encoded)

        assert streams_of(expected) == streams_of(place)
        assert Savepoint.open(place).lineage.files == Savepoint.open(expected).lineage.files
