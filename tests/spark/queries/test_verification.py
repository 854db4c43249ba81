"""Copies of checkpoints are verified: planted damages and faults of encoders are found and named; without Spark."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import spark_copies
from damaged_checkpoints import HDFS
from spark_changes import Probe, copy_of, fields, fields_in
from spark_checkpoints import place
from spark_copies import altered, rewrite, with_a_note

from stateshift.compat.queries.changes import Backfill, FieldChanges
from stateshift.serializers.errors import (
    CorruptFile,
    DeclarationError,
    MigrationFailed,
    SavepointNotFound,
    UntrustedPlace,
)
from stateshift.serializers.spark_rows.row_encoder import encode_rows, rows_of
from stateshift.serializers.spark_rows.spark_types import SparkField, SparkType
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.spark.queries.verification import _fields, _unknown, verify_checkpoint
from stateshift.state.formats.spark import layout_encoder
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.store_writer import stored_rows
from stateshift.state.migration.queries import compared_entries, entries, variable_entries
from stateshift.state.migration.queries.checkpoint_copy import UNFINISHED
from stateshift.state.migration.queries.conversion import not_repeated
from stateshift.state.migration.queries.expected_entries import odd_keys
from stateshift.state.migration.queries.record import RECORD, CopyRecord, RecordedOperator
from stateshift.state.storage.files import Folder

KEY = fields(k="string", l="string")


def statuses(report):
    return Counter(str(one.status) for one in report.checks)


def failed(report):
    """What the checks say that failed."""
    return "; ".join(f"{one.where}: {one.detail}" for one in report.checks if one.status == "failed")


def dropped(rows):
    return rows[1:]


def added(rows):
    partition, key, value = rows[0]
    return [*rows, (partition, key | {"l": "never"}, value)]


def moved(rows):
    partition, key, value = rows[0]
    return [(1 - partition, key, value), *rows[1:]]


@pytest.mark.parametrize("name", ["aggregation", "rocksdb"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dropped, "it is missing"),
        (added, "{'k': .*'l': 'never'}: it should not be there"),
        (altered, "{'k': .*}: its value is another one"),
        (moved, "{'k': .*}: it is in partition"),
    ],
)
def test_a_planted_damage_is_found_and_its_key_is_named(tmp_path, name, change, said):
    copy = with_a_note(name, tmp_path)
    assert {"ok": 3} == statuses(verify_checkpoint(copy))
    rewrite(copy, lambda rows: rows)
    assert {"ok": 3} == statuses(verify_checkpoint(copy))

    rewrite(copy, change)
    report = verify_checkpoint(copy)

    assert ({"ok": 2, "failed": 1}, False) == (statuses(report), report.ok)
    assert pc.match_substring_regex([failed(report)], said)[0].as_py(), failed(report)


def test_a_fault_of_the_encoder_is_found_though_it_writes_the_same_again(tmp_path, monkeypatch):
    """An encoder that writes 0 for each sum: encoding both sides would hide it."""

    def faulty(column, of):
        if "note" not in of.names:
            return encode_rows(column, of)
        columns = column.flatten()
        zeros = pc.multiply(columns[0], pa.scalar(0, columns[0].type))
        return encode_rows(pa.StructArray.from_arrays([zeros, *columns[1:]], fields=[*column.type]), of)

    with monkeypatch.context() as patch:
        patch.setattr(entries, "encode_rows", faulty)
        copy = with_a_note("aggregation", tmp_path)

    assert "its value is another one" in failed(verify_checkpoint(copy))


def test_a_fault_of_the_hash_of_partitions_is_found(tmp_path, monkeypatch):
    like = copy_of("aggregation", tmp_path / "like", KEY[::-1], fields_in("aggregation")[1])
    right = variable_entries.partitions_of
    renames = {"key.k": "key.k", "key.l": "key.l"}
    with monkeypatch.context() as patch:
        patch.setattr(variable_entries, "partitions_of", lambda keys, of, count: 1 - right(keys, of, count))
        patch.setattr(variable_entries, "require_placed", lambda *_: None)
        migrate_checkpoint(
            place("aggregation"), tmp_path / "copy", like=like, changes={0: FieldChanges(renames=renames)}
        )

    assert "it is in partition" in failed(verify_checkpoint(tmp_path / "copy"))


def _in_lists(found):
    found["names"][1] = {"type": "struct", "fields": fields(n="decimal(20,0)", l="string")}


@pytest.mark.parametrize("name", ["transform", "transform-avro"])
def test_the_elements_of_lists_are_compared_in_their_order(tmp_path, monkeypatch, name):
    probe = Probe.of(name, tmp_path / "probe").change(_in_lists)
    migrate_checkpoint(place(name), tmp_path / "sound", like=probe.folder)
    assert verify_checkpoint(tmp_path / "sound").ok
    encode = layout_encoder.LayoutEncoder.encode

    def turned(self, rows, of, **more):
        found = encode(self, rows, of, **more)
        return found[::-1] if of.names == ("n", "l") and of.fields[0].type.word == "decimal" else found

    with monkeypatch.context() as patch:
        patch.setattr(layout_encoder.LayoutEncoder, "encode", turned)
        migrate_checkpoint(place(name), tmp_path / "copy", like=probe.folder)

    assert ", names: " in failed(verify_checkpoint(tmp_path / "copy"))


def test_keys_that_became_equal_are_merged_again(tmp_path):
    value = fields(sum="long")
    like = copy_of("aggregation", tmp_path / "like", KEY[:1], value)
    migrate_checkpoint(
        place("aggregation"), tmp_path / "copy", like=like,
        changes={0: FieldChanges(merges={"value.sum": "sum"}, renames={"value.sum": "value.sum"})},
    )  # fmt: skip
    assert {"ok": 3} == statuses(verify_checkpoint(tmp_path / "copy"))

    rewrite(tmp_path / "copy", altered)

    assert "its value is another one" in failed(verify_checkpoint(tmp_path / "copy"))


def test_what_functions_and_data_frames_made_is_unproven_and_all_else_is_compared(tmp_path):
    key, value = fields_in("aggregation")
    like = copy_of("aggregation", tmp_path / "like", key, [*value, *fields(rows="long")])
    rows = Backfill(pa.table({"k": ["x"], "l": ["a"], "n": [3]}), "n", is_complete=False)
    changes = FieldChanges(fills={"value.rows": rows}, converters={"value.sum": lambda old: pc.add(old, 1)})
    migrate_checkpoint(place("aggregation"), tmp_path / "copy", like=like, changes={0: changes})

    report = verify_checkpoint(tmp_path / "copy")

    assert {"ok": 3, "unproven": 2} == statuses(report)
    unproven = [one.detail for one in report.checks if one.status == "unproven"]
    assert "value.sum is not compared: it is of the function" in unproven[0]
    assert "value.rows is not compared: it is of column 'n' of a DataFrame" == unproven[1]

    rewrite(tmp_path / "copy", lambda rows: [(at, key, value | {"max": -1.5}) for at, key, value in rows])
    assert "its value is another one" in failed(verify_checkpoint(tmp_path / "copy"))


@pytest.mark.parametrize("is_equal", [True, False])
def test_keys_that_a_function_made_must_lie_in_their_partitions(tmp_path, is_equal):
    key, value = fields_in("aggregation")
    like = copy_of("aggregation", tmp_path / "like", key, value)
    function = (lambda old: pa.array(["same"] * len(old))) if is_equal else pc.utf8_upper
    rules = {f"value.{name}": "sum" for name in ("sum", "max", "count", "sum#2", "count#2")}
    changes = FieldChanges(converters={"key.k": function, "key.l": function}, merges=rules)
    report = migrate_checkpoint(place("aggregation"), tmp_path / "copy", like=like, changes={0: changes})
    assert is_equal is (report.states[0].merged > 0)

    assert verify_checkpoint(tmp_path / "copy").ok
    rewrite(tmp_path / "copy", moved)
    assert "belong to others" in failed(verify_checkpoint(tmp_path / "copy"))


def test_a_key_in_other_bytes_than_spark_looks_for_is_found_though_it_is_read_as_the_same(tmp_path, monkeypatch):
    """Bytes that no value is in: behind a text, up to the next word."""

    def odd(column, of):
        rows = rows_of(encode_rows(column, of))
        return stored_rows([rows[0][:-1] + b"\7", *rows[1:]] if "k" in of.names else rows)

    copy = with_a_note("aggregation", tmp_path)
    monkeypatch.setattr(spark_copies, "encode_rows", odd)
    rewrite(copy, lambda rows: rows)

    said = failed(verify_checkpoint(copy))

    assert (True, True) == ("in other bytes than Spark looks for: it should not be there" in said, "is missing" in said)


@pytest.mark.parametrize("name", HDFS)
def test_spark_writes_no_key_in_odd_bytes(name):
    """So none is taken for one; keys are of all types that the fixtures have."""
    stores = [store for operator in SparkCheckpoint.open(place(name)).operators for store in operator.stores]
    assert {None} == {
        one if (one := odd_keys(store, block)) is None else "odd" for store in stores for block in store.blocks()
    }


def test_a_value_that_is_not_known_hides_the_whole_field_around_it_and_no_other():
    """Also where a variable or a field begins with the name of another one."""
    f, g = "the function f", "the function g"
    said = {"value.deep.list[].x": f, "value.deep.y": g, "value.deeper": f, "counter[].n": g, "count[]": f}
    record = CopyRecord("", "", 0, False, (RecordedOperator(0, 0, unknown=said),), ())
    of = SparkType("struct", tuple(SparkField(name, None) for name in ("deep", "deeper", "de")))

    both = f"{f}, in value.deep.list[].x; {g}, in value.deep.y"
    assert {"value.deep": both, "value.deeper": f} == _unknown(record, 0, {"value": of, "key": of})
    assert {"count[]": f} == _unknown(record, 0, {"count[]": of})
    assert {"counter[]": f"{g}, in counter[].n"} == _unknown(record, 0, {"counter[]": None})
    assert {} == _unknown(record, None, {"value": of})
    changes = FieldChanges(converters=dict.fromkeys(said, not_repeated))
    assert frozenset({0, 1}) == _fields(changes, "value", of)


def test_of_many_wrong_entries_the_first_are_named_and_few_are_held(tmp_path, monkeypatch):
    """Where all is wrong, the entries of one bucket; a key in a wrong partition is looked for in both."""
    copy, held = with_a_note("aggregation", tmp_path), []
    by_key = compared_entries._by_key
    monkeypatch.setattr(compared_entries, "_MOST_COMPARED", 0)
    monkeypatch.setattr(compared_entries, "_by_key", lambda *given: held.append(by_key(*given)) or held[-1])
    rewrite(copy, lambda rows: [(at, key, value | {"sum": 12345}) for at, key, value in rows])

    said = failed(verify_checkpoint(copy))

    assert [1, 1] == list(map(len, held))
    assert ("its value is another one; and others", True) == (said.partition("}: ")[2], said.count("another") == 1)
    rewrite(copy, moved)
    assert "it is in partition" in failed(verify_checkpoint(copy))


class TestWhatIsComparedWhenTime:
    """Queries go on, files go away."""

    @pytest.fixture
    def copy(self, tmp_path):
        shutil.copytree(place("aggregation"), tmp_path / "old")
        (tmp_path / "old" / "sources" / "0").mkdir(parents=True)
        (tmp_path / "old" / "sources" / "0" / "1").write_text('v1\n{"path":"a"}')
        key, value = fields_in("aggregation")
        like = copy_of("aggregation", tmp_path / "like", key, [*value, *fields(note="string")])
        changes = {0: FieldChanges(fills={"value.note": None})}
        migrate_checkpoint(tmp_path / "old", tmp_path / "copy", like=like, changes=changes)
        return tmp_path / "copy"

    @pytest.mark.parametrize("name", ["old", "copy"])
    def test_has_passed_the_batch_that_was_copied_is(self, tmp_path, copy, name):
        for log in ("offsets", "commits"):
            shutil.copy(tmp_path / name / log / "2", tmp_path / name / log / "3")

        report = verify_checkpoint(copy)

        assert report.ok
        assert "has gone on to batch 3: batch 2 is compared" in report.checks[0].detail
        assert "logs of sources are not compared" in report.checks[1].detail

    @pytest.mark.parametrize("name", ["old", "copy"])
    @pytest.mark.parametrize("gone", ["commits/2", "state/0/1/3.*"])
    def test_deleted_the_batch_that_is_an_error_with_advice(self, tmp_path, copy, name, gone):
        for log in ("offsets", "commits"):
            shutil.copy(tmp_path / name / log / "2", tmp_path / name / log / "3")
        for file in (tmp_path / name).glob(gone):
            file.unlink()

        with pytest.raises(SavepointNotFound, match="minBatchesToRetain"):
            verify_checkpoint(copy)

    def test_exchanged_the_source_that_is_an_error(self, tmp_path, copy):
        (tmp_path / "old" / "metadata").write_text('{"id": "00000000-0000-0000-0000-000000000000"}')

        with pytest.raises(CorruptFile, match="is the checkpoint of query 0000"):
            verify_checkpoint(copy)

    def test_lost_a_file_of_the_copy_that_is_a_failed_check(self, copy):
        for file in copy.glob("state/0/1/3.*"):
            file.unlink()

        assert "missing" in failed(verify_checkpoint(copy))

    @pytest.mark.parametrize("log", ["offsets/2", "offsets/1", "commits/2", "commits/0", "sources/0/1"])
    @pytest.mark.parametrize("data", [b"v1\n{}", None])
    def test_altered_a_log_of_the_copy_that_is_found(self, copy, log, data):
        (copy / log).unlink()
        if data is not None:
            (copy / log).write_bytes(data)

        if data is None and log.endswith("s/2"):
            with pytest.raises(SavepointNotFound, match="no log of batch 2"):
                verify_checkpoint(copy)
        elif log == "offsets/2":
            assert "it is not the copy that its record describes" in failed(verify_checkpoint(copy))  # nor its settings
        else:
            assert f"batch 2: {log} {'is missing' if data is None else 'differs'}" in failed(verify_checkpoint(copy))

    @pytest.mark.parametrize("log", ["sources/0/2", "sources/1/0", "offsets/00"])
    def test_given_a_further_log_the_copy_is_none_of_the_migration(self, copy, log):
        (copy / log).parent.mkdir(exist_ok=True)
        (copy / log).write_text('v1\n{"path":"a"}')

        assert f"batch 2: {log} is not in the source" in failed(verify_checkpoint(copy))

    def test_given_other_types_the_copy_is_none_of_the_migration(self, copy):
        shutil.copy(place("aggregation-v1") / "state/0/0/_metadata/schema", copy / "state/0/0/_metadata/schema")

        assert "it is not the copy that its record describes" in failed(verify_checkpoint(copy))


class TestTheRecord:
    @pytest.fixture
    def copy(self, tmp_path):
        migrate_checkpoint(place("aggregation"), tmp_path / "copy", like=place("aggregation"))
        return tmp_path / "copy"

    def test_that_is_missing_is_said_with_what_to_do(self, copy):
        (copy / RECORD).unlink()

        with pytest.raises(DeclarationError, match="an earlier release of stateshift made it"):
            verify_checkpoint(copy)

    @pytest.mark.parametrize(
        "damage",
        [
            lambda said: said | {"batch": 1},
            lambda said: said | {"operators": 5},
            lambda said: [said],
            lambda said: said | {"seal": None},
        ],
    )
    def test_that_was_edited_is_refused(self, copy, damage):
        said = json.loads((copy / RECORD).read_text())
        (copy / RECORD).write_text(json.dumps(damage(said)))

        with pytest.raises(CorruptFile):
            verify_checkpoint(copy)

    def test_that_names_another_store_contacts_nobody(self, copy):
        said = CopyRecord.read(Folder.at(copy))
        (copy / RECORD).unlink()
        attrs.evolve(said, source="s3://elsewhere/c?endpoint_override=evil.example").write(Folder.at(copy))

        with pytest.raises(UntrustedPlace):
            verify_checkpoint(copy)

    def test_has_no_options_of_a_store(self, copy):
        assert "?" not in json.loads((copy / RECORD).read_text())["source"]

    def test_of_an_unfinished_copy_is_not_asked_for(self, copy):
        (copy / "metadata").write_text(f"{UNFINISHED}\n{{}}\n")

        with pytest.raises(MigrationFailed, match="unfinished"):
            verify_checkpoint(copy)
