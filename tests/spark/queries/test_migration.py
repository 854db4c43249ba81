"""What a migration of a Spark checkpoint refuses, keeps and writes; that Spark goes on from it is tested elsewhere."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pytest
from spark_changes import copy_of, entries_of, fields, fields_in, fill, struct_of
from spark_checkpoints import names, place

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import (
    CorruptFile,
    CorruptSavepoint,
    IncompatibleState,
    SourceChanged,
    TargetExists,
    what_text,
)
from stateshift.serializers.ways_out import on_command_line
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.spark.queries.verification import verify_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries.checkpoint_copy import UNFINISHED
from stateshift.state.migration.queries.record import RECORD

COPIED = [name for name in names() if not name.startswith(("join-v", "transform", "pandas-v1"))]
PROVIDERS = ["aggregation", "rocksdb-format-2"]  # a fixture of each, which `fill` can fill
KEY = fields(k="string", l="string")
SAME_NAMES = {"key.k": "key.k", "key.l": "key.l"}
"""The fields are those of before, and not others that exchanged their names."""
VALUE = fields(sum="long", max="double", count="long", sum__2="double", count__2="long")


@pytest.fixture
def migrate(tmp_path):
    """`migrate("aggregation", key, value, …)`: a fixture migrated to other fields; return the target and the report."""

    def run(name, key, value, **changes):
        like = copy_of(name, tmp_path / "like", key, value)
        target = tmp_path / "target"
        return target, migrate_checkpoint(place(name), target, like=like, changes={0: FieldChanges(**changes)})

    return run


@pytest.mark.parametrize("name", COPIED)
def test_what_does_not_change_is_copied_file_by_file(tmp_path, name):
    report = migrate_checkpoint(place(name), tmp_path / "new", like=place(name))

    assert {one.action for one in report.states} == {"copy"}
    files = {file.relative_to(tmp_path / "new") for file in (tmp_path / "new").rglob("*") if file.is_file()}
    for file in files - {Path(RECORD)}:
        assert (tmp_path / "new" / file).read_bytes() == (place(name) / file).read_bytes()
    assert {file.parts[0] for file in files} == {RECORD, *(file.name for file in place(name).iterdir())}
    assert {"ok"} == {str(one.status) for one in verify_checkpoint(tmp_path / "new").checks}


@pytest.mark.parametrize(
    "name",
    [
        "checksums",
        "zstd",
        "snappy",
        "snapshots",
        "rocksdb",
        "rocksdb-changelog",
        "rocksdb-checksums",
        "rocksdb-format-2",
        "rocksdb-zips-2",
    ],
)
def test_a_copy_is_written_as_the_provider_is_set(migrate, name):
    key, _ = fields_in(name)
    before = entries_of(place(name))

    target, report = migrate(
        name, key, [*fields(note="string"), *fields(sum="decimal(20,0)")], fills={"value.note": "ü"}
    )

    assert entries_of(target) == {
        key: {"note": "ü", "sum": {"$bigdec": [str(value["sum"]), 0]}} for key, value in before.items()
    }
    assert report.states[0].read == report.states[0].written
    (snapshot,) = target.glob("state/0/0/*.*")
    (last,) = {file.stem for file in place(name).glob("state/0/0/3*") if file.suffix != ".crc"}
    assert snapshot.name == f"{last}.zip" if name.startswith("rocksdb") else f"{last}.snapshot"


@pytest.mark.parametrize("name", ["aggregation", "rocksdb-checksums", "rocksdb-zips-2"])
def test_keys_in_another_order_lie_where_spark_looks_for_them(migrate, name):
    before = entries_of(place(name))

    target, report = migrate(name, KEY[::-1], fields_in(name)[1], renames=SAME_NAMES)

    moved = {json.dumps(dict(reversed(json.loads(key).items()))): value for key, value in before.items()}
    assert entries_of(target) == moved
    assert report.states[0].written == len(before)


@pytest.mark.parametrize(
    ("key", "value", "changes", "said"),
    [
        (KEY, [*VALUE, *fields(min="long")], {}, r"value.min  .*the field is new"),
        (KEY, VALUE[:3], {}, "value.sum  .*several fields are called 'sum'"),
        (KEY, [*fields(sum="integer"), *VALUE[1:]], {}, "bigint -> int  neither Spark nor stateshift converts"),
        (KEY, VALUE, {"fills": {"value.mim": 0}}, "value.mim  the new types have no such field"),
        (KEY, [*VALUE, *fields(min="long")], {"renames": {"value.min": "value.least"}}, "no field 'value.least'"),
        (KEY, [*VALUE, *fields(min="long")], {"fills": {"value.min": "x"}}, "value.min  'x' is no bigint"),
        (KEY, [*VALUE, *fields(min="long")], {"fills": {"value.min": True}}, "True is no bigint"),
        (KEY[:1], VALUE, {}, r"key.l .*keys may become equal without it"),
        ([], VALUE, {}, "the state of one group becomes that of several"),
    ],
)
def test_what_types_do_not_say_must_be_said(tmp_path, migrate, key, value, changes, said):
    with pytest.raises(IncompatibleState, match=said):
        migrate("aggregation", key, value, **changes)

    assert not (tmp_path / "target").exists()


def test_a_type_that_only_a_function_converts_asks_for_a_function_and_for_no_value(migrate):
    with pytest.raises(IncompatibleState) as asked:
        migrate("aggregation", fields(k="long", l="string"), VALUE)

    told = what_text(asked.value, on_command_line)
    assert "ways out: convert it with a function of yours: --convert-field 0:key.k=module:function; or keep" in told


def test_sums_are_told_apart_by_what_is_said(migrate):
    before = entries_of(place("aggregation"))

    new = [*fields(sum="double"), *VALUE[1:3]]

    target, _ = migrate("aggregation", KEY, new, renames={"value.sum": "value.sum#2"}, fills={"value.count": 0})

    assert entries_of(target) == {
        key: {"sum": value["sum#2"], "max": value["max"], "count": 0} for key, value in before.items()
    }


@pytest.mark.parametrize(
    ("of", "said", "kept"),
    [
        ("decimal(30,2)", "12.5", {"$bigdec": ["1250", 2]}),
        ("date", "2026-01-31", {"$localdate": [2026, 1, 31]}),
        ("timestamp", "2026-01-31T12:00:00Z", {"$instant": [1769860800, 0]}),
        ("timestamp", dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), {"$instant": [1769860800, 0]}),
        ("timestamp_ntz", "2026-01-31T12:00:00", {"$localdatetime": [2026, 1, 31, 12, 0, 0, 0]}),
        ("binary", {"$bytes": "00ff"}, {"$bytes": "00ff"}),
        ("boolean", True, True),
        ({"type": "array", "elementType": "string", "containsNull": True}, ["a", None], ["a", None]),
        (struct_of(*fields(a="integer")), {"a": 3}, {"a": 3}),
        ({"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}, None, None),
    ],
)
def test_a_constant_of_any_type_fills_a_new_field(migrate, of, said, kept):
    target, _ = migrate("aggregation", KEY, [*VALUE, *fields(new=of)], fills={"value.new": said})

    assert {json.dumps(value["new"]) for value in entries_of(target).values()} == {json.dumps(kept)}


def test_fields_within_arrays_change_by_their_paths(tmp_path):
    key, value = fields_in("types")
    (nested,) = [one for one in value[0]["type"]["fields"] if one["name"] == "nested"]
    nested["type"]["elementType"] = struct_of(
        *fields(c="integer", d="string"), nested["type"]["elementType"]["fields"][1]
    )
    like = copy_of("types", tmp_path / "like", key, value)
    path = f"value.{value[0]['name']}.nested[]"
    before = entries_of(place("types"))

    changes = FieldChanges(renames={f"{path}.d": f"{path}.a"}, fills={f"{path}.c": 5})
    migrate_checkpoint(place("types"), tmp_path / "new", like=like, changes={0: changes})

    name = value[0]["name"]
    for key, value in entries_of(tmp_path / "new").items():
        old = before.pop(key)
        changed = [{"c": 5, "d": one["a"], "b": one["b"]} for one in old[name]["nested"]]
        assert json.dumps(value) == json.dumps(old | {name: old[name] | {"nested": changed}})
    assert not before


@pytest.mark.parametrize("name", PROVIDERS)
def test_values_of_keys_that_become_equal_are_merged_by_rules(tmp_path, name):
    source = copy_of(name, tmp_path / "source")
    fill(source, 1000, partitions=5)
    like = copy_of(name, tmp_path / "like", KEY[1:], fields(sum="long", max="double"))

    report = migrate_checkpoint(
        source,
        tmp_path / "new",
        like=like,
        changes={0: FieldChanges(merges={"value.sum": "sum", "value.max": "max"})},
    )

    assert entries_of(tmp_path / "new") == {
        json.dumps({"l": f"l{one}"}): {"sum": sum(range(one, 1000, 7)), "max": max(range(one, 1000, 7)) / 2}
        for one in range(7)
    }
    assert (report.states[0].read, report.states[0].written, report.states[0].merged) == (1000, 7, 993)


def test_another_query_is_refused(tmp_path):
    with pytest.raises(IncompatibleState, match="no operator of the kind"):
        migrate_checkpoint(place("aggregation"), tmp_path / "new", like=place("dedup"))
    with pytest.raises(IncompatibleState, match=r"aggregation\.stateFormatVersion: 2 -> 1"):
        migrate_checkpoint(place("aggregation"), tmp_path / "new", like=place("aggregation-v1"))
    with pytest.raises(IncompatibleState, match="HDFSBackedStateStoreProvider -> RocksDBStateStoreProvider"):
        migrate_checkpoint(place("aggregation"), tmp_path / "new", like=place("rocksdb"))


@pytest.mark.parametrize(
    "name",
    [
        "aggregation",
        "limit",
        "rocksdb",
        "rocksdb-format-2",
        "rocksdb-limit",
        "rocksdb-join",
        "join-v3",
        "join-v4",
        "transform",
    ],
)
def test_an_operator_without_an_old_one_starts_empty_in_each_partition(tmp_path, name):
    report = migrate_checkpoint(place(name), tmp_path / "new", like=place(name), operators={0: None})

    old, new = (SparkCheckpoint.open(one).operators[0] for one in (place(name), tmp_path / "new"))
    assert [one.name for one in new.stores] == [one.name for one in old.stores]
    for before, after in zip(old.stores, new.stores, strict=True):
        assert after.schema == before.schema
        sizes = after.measure()
        assert [one.entries for one in sizes] == [0] * before.partitions
    assert {one.action for one in report.states} == {"new"}
    assert len(report.query.warnings) == 1
    ids = {one.unique_id(0) for one in new.stores}
    assert (ids == {""}) is (name != "rocksdb-format-2")
    assert not ids & {one.unique_id(0) for one in old.stores} - {""}


def test_ids_of_files_go_with_an_operator_to_its_new_number(tmp_path):
    probe = tmp_path / "like"
    shutil.copytree(place("rocksdb-format-2"), probe)
    (probe / "state" / "0").rename(probe / "state" / "1")
    metadata = probe / "state" / "1" / "_metadata" / "metadata"
    metadata.write_text(metadata.read_text().replace('"operatorId":0', '"operatorId":1'))

    report = migrate_checkpoint(place("rocksdb-format-2"), tmp_path / "new", like=probe, operators={0: 1})

    both = (SparkCheckpoint.open(one) for one in (place("rocksdb-format-2"), report.target))
    old, new = (one.operators[0].stores[0] for one in both)
    assert (new.operator, new.log.ids) == (1, {1: old.log.ids[0]})
    assert [one.to_pylist() for block in new.blocks() for one in (block.key, block.value)] == [
        one.to_pylist() for block in old.blocks() for one in (block.key, block.value)
    ]


@pytest.mark.parametrize("name", PROVIDERS)
def test_keys_that_a_function_makes_equal_are_merged_by_rules_or_refused(tmp_path, name):
    def of_ten(keys):
        return pc.utf8_slice_codeunits(keys, 0, 5)

    fill(copy_of(name, tmp_path / "old"), 100, text="key-{:02}")
    apart = FieldChanges(converters={"key.k": pc.utf8_upper})
    merged = FieldChanges(converters={"key.k": of_ten}, merges={"value.sum": "sum", "value.max": "max"})

    migrate_checkpoint(tmp_path / "old", tmp_path / "apart", like=tmp_path / "old", changes={0: apart})
    report = migrate_checkpoint(tmp_path / "old", tmp_path / "merged", like=tmp_path / "old", changes={0: merged})
    without = FieldChanges(converters=merged.converters)
    said = r"30 keys became equal .* key\.k, .* value\.sum, value\.max"
    with pytest.raises(IncompatibleState, match=said) as refused:
        migrate_checkpoint(tmp_path / "old", tmp_path / "refused", like=tmp_path / "old", changes={0: without})

    assert entries_of(tmp_path / "apart") == {
        key.replace("key-", "KEY-"): value for key, value in entries_of(tmp_path / "old").items()
    }
    found = entries_of(tmp_path / "merged")
    assert (len(found), sum(one["sum"] for one in found.values())) == (70, sum(range(100)))
    assert report.states[0].merged == 30
    assert "unfinished copy" in refused.value.written


@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        ("session", "key.k", "sessions of one key may overlap"),
        ("join-inner", "key.field0", "rows would match that did not"),
        ("transform", "key.k", "the states of two keys are not merged"),
    ],
)
def test_keys_are_not_converted_by_a_function_where_equal_ones_could_not_be_merged(tmp_path, name, path, told):
    changes = {0: FieldChanges(converters={path: lambda keys: keys})}
    with pytest.raises(IncompatibleState, match=f"{path}  .*keys may become equal by a function.*{told}"):
        migrate_checkpoint(place(name), tmp_path / "new", like=place(name), changes=changes)


@pytest.mark.parametrize("name", ["aggregation", "rocksdb-zips-2", "rocksdb-changelog"])
def test_a_damaged_source_ends_the_run_and_spark_refuses_what_there_is(tmp_path, name):
    source = copy_of(name, tmp_path / "source")
    (file, *_) = [
        one
        for one in sorted(source.glob("state/0/0/**/*"))
        if one.suffix in {".delta", ".sst", ".changelog"} and one.stat().st_size > 100
    ]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x40
    file.write_bytes(data)
    like = copy_of(name, tmp_path / "like", KEY[::-1], fields_in(name)[1])

    with pytest.raises((CorruptFile, CorruptSavepoint)) as raised:
        migrate_checkpoint(source, tmp_path / "new", like=like, changes={0: FieldChanges(renames=SAME_NAMES)})

    assert "Spark refuses to start" in str(raised.value)
    assert (tmp_path / "new" / "metadata").read_text().startswith(UNFINISHED)
    assert not list((tmp_path / "new").rglob("*.attempt-*"))


def test_a_target_that_is_in_use_is_refused(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    source = copy_of("aggregation", tmp_path / "source")

    with pytest.raises(TargetExists, match="not empty"):
        migrate_checkpoint(source, tmp_path / "used", like=source)
    with pytest.raises(TargetExists):
        migrate_checkpoint(source, source / "copy", like=source)

    assert [file.name for file in (tmp_path / "used").iterdir()] == ["file"]
    assert not (source / "copy").exists()


def test_a_query_that_goes_on_while_it_is_copied_is_found(tmp_path, monkeypatch):
    source = copy_of("aggregation", tmp_path / "source")
    from stateshift.state.migration.queries import checkpoint_copy as copying

    def go_on(folder):
        shutil.copy(source / "offsets" / "2", source / "offsets" / "3")
        return reads(folder)

    reads = copying.read_logs
    monkeypatch.setattr(copying, "read_logs", go_on)

    with pytest.raises(SourceChanged, match="gone on to batch 3"):
        migrate_checkpoint(source, tmp_path / "new", like=place("aggregation"))

    assert (tmp_path / "new" / "metadata").read_text().startswith(UNFINISHED)


def test_a_dry_run_writes_nothing(tmp_path):
    report = migrate_checkpoint(place("aggregation"), tmp_path / "new", like=place("aggregation"), dry_run=True)

    assert report.dry_run
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("left", [["metadata"], []])
def test_what_a_run_left_that_died_as_it_wrote_the_first_or_the_last_file_is_deleted(tmp_path, monkeypatch, left):
    target = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr("stateshift.state.migration.queries.checkpoint_copy.read_logs", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            migrate_checkpoint(place("aggregation"), target, like=place("aggregation"))
    for file in target.iterdir():
        if file.name not in left:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    for name in ("metadata", "_claim-0123456789ab"):
        (target / f"{name}.attempt-fedcba987654-0123456789ab").touch()

    migrate_checkpoint(place("aggregation"), target, like=place("aggregation"))

    assert entries_of(target) == entries_of(place("aggregation"))
    assert {RECORD, *(file.name for file in place("aggregation").iterdir())} == {file.name for file in target.iterdir()}


KILLED = """
import sys
from stateshift.compat.queries.changes import FieldChanges
from stateshift.spark.queries.migration import migrate_checkpoint

print("ready", flush=True)
migrate_checkpoint(*sys.argv[1:3], like=sys.argv[3], changes={0: FieldChanges(fills={"value.count": 0})})
"""


@pytest.mark.faults
@pytest.mark.parametrize("name", PROVIDERS)
def test_a_run_that_is_killed_leaves_a_copy_that_is_finished_or_refused(tmp_path, facts_of, name):
    source = copy_of(name, tmp_path / "source")
    fill(source, 300_000, partitions=5)
    like = copy_of(name, tmp_path / "like", KEY[::-1], fields(max="double", sum="decimal(20,0)", count="long"))
    before, target = facts_of(source), tmp_path / "new"
    changes = {0: FieldChanges(fills={"value.count": 0})}
    start = time.perf_counter()
    whole = migrate_checkpoint(source, tmp_path / "whole", like=like, changes=changes)
    took = time.perf_counter() - start

    def is_complete():
        metadata = target / "metadata"
        return metadata.exists() and not metadata.read_text().startswith(UNFINISHED)

    draw, ends = random.Random(7), {"absent": 0, "unfinished": 0, "complete": 0}  # noqa: S311 - repeatable
    for _ in range(20):
        if draw.random() < 0.3 or is_complete():
            shutil.rmtree(target, ignore_errors=True)
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, *map(str, (source, target, like))], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(draw.uniform(0, 1.1 * took))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

        assert facts_of(source) == before
        if is_complete():
            ends["complete"] += 1
            assert (target / "metadata").read_bytes() == (source / "metadata").read_bytes()
            assert entries_of(target) == entries_of(tmp_path / "whole")
        elif (target / "metadata").exists():
            ends["unfinished"] += 1
        else:
            ends["absent"] += 1
            assert not [file for file in target.rglob("*") if not file.name.startswith(("_claim", "metadata"))]
    if is_complete():
        shutil.rmtree(target)
    report = migrate_checkpoint(source, target, like=like, changes=changes)
    assert report.states == whole.states
    assert entries_of(target) == entries_of(tmp_path / "whole")
    assert not [path for path in target.rglob("*") if ".attempt-" in path.name]
    assert len(list(target.rglob("*.sst"))) == len(list((tmp_path / "whole").rglob("*.sst")))
    print(ends)
