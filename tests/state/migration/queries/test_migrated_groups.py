"""Migrations of what has several entries for a key: sessions, and rows of joins in four stores; without Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter

import pytest
from spark_changes import Probe, fields, schema_file
from spark_checkpoints import place

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import IncompatibleState, MigrationFailed, UnsupportedFormat
from stateshift.serializers.spark_rows.json_values import json_values
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.partitioning import partitions_of
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries import entries, providers

LEFT = fields(k="string", n="integer", at="timestamp", d="double", matched="boolean")
RIGHT = fields(k2="string", l2="string", at2="timestamp", matched="boolean")
JOINED = {"left-keyWithIndexToValue": LEFT, "right-keyWithIndexToValue": RIGHT}
SESSION = [
    *fields(session_window={"type": "struct", "fields": fields(start="timestamp", end="timestamp")}),
    *fields(k="string", sum="long"),
]


def like(name, folder, key=("string",), **stores):
    """A copy of a fixture in which each store has other types: the keys of a join, and the rows of each side."""
    shutil.copytree(place(name), folder)
    keys = fields(**{f"field{index}": of for index, of in enumerate(key)})
    for store, value in (JOINED | {one.replace("_", "-"): of for one, of in stores.items()}).items():
        at = folder / "state" / "0" / "0"
        (at / store / "_metadata" / "schema").write_bytes(schema_file([*keys, *fields(index="long")], value))
        numbers = store.replace("WithIndexToValue", "ToNumValues")
        (at / numbers / "_metadata" / "schema").write_bytes(schema_file(keys, fields(value="long")))
    return folder


def rows_of(checkpoint):
    """The entries of each store, as JSON; a key lies in the partition of its first columns."""
    found = {}
    (operator,) = SparkCheckpoint.open(checkpoint).operators
    for store in operator.stores:
        of = found.setdefault(store.name, {})
        has_more = store.schema.key.names[-1] in {"index", "sessionStartTime"}
        grouping = type(store.schema.key)("struct", store.schema.key.fields[: -1 if has_more else None])
        for block in store.blocks():
            assert (partitions_of(block.key, grouping, store.partitions) == block.partition).all()
            pairs = zip(
                json_values(block.key, store.schema.key), json_values(block.value, store.schema.value), strict=True
            )
            of.update((json.dumps(key), value) for key, value in pairs)
    return found


def numbered(rows, side):
    """The number of rows of each key of a side."""
    keys = (json.loads(key) for key in rows[f"{side}-keyWithIndexToValue"])
    return Counter(json.dumps({name: of for name, of in key.items() if name != "index"}) for key in keys)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("join-inner", RIGHT),
        ("join-outer", RIGHT),
        ("join-semi", [one for one in RIGHT if one["name"] != "l2"]),
        ("rocksdb-join", RIGHT),
    ],
)
def test_rows_of_a_join_change_on_both_sides_and_all_stores_stay_consistent(tmp_path, name, right):
    left = fields(at="timestamp", note="string", amount="long", k="string", matched="boolean")
    probe = like(
        name,
        tmp_path / "like",
        left_keyWithIndexToValue=left,
        right_keyWithIndexToValue=[*right[1:-1], right[0], right[-1]],
    )
    before = rows_of(place(name))
    changes = FieldChanges(renames={"left.value.amount": "left.value.n"}, fills={"left.value.note": "ü"})

    report = migrate_checkpoint(place(name), tmp_path / "new", like=probe, changes={0: changes})

    after = rows_of(tmp_path / "new")
    assert after["left-keyWithIndexToValue"] == {
        key: {"at": row["at"], "note": "ü", "amount": row["n"], "k": row["k"], "matched": row["matched"]}
        for key, row in before["left-keyWithIndexToValue"].items()
    }
    assert after["right-keyWithIndexToValue"] == before["right-keyWithIndexToValue"]
    for side in ("left", "right"):
        assert after[f"{side}-keyToNumValues"] == before[f"{side}-keyToNumValues"]
        assert {key: row["value"] for key, row in after[f"{side}-keyToNumValues"].items()} == numbered(after, side)
    assert [one.action for one in report.states] == ["copy", "convert", "copy", "convert"]


@pytest.mark.parametrize(
    ("key", "changes", "said"),
    [
        (("string", "long"), {"fills": {"key.field1": 0}}, "key.field1  the join is on more columns"),
        (("string", "long"), {}, r"key.field1  \(none\) -> bigint  the join is on more columns"),
        (
            (),
            {},
            "the state of one group becomes that of several|key.field0  .*keys may become equal without it: rows would",
        ),
        (
            ("string",),
            {"fills": {"value.n": 0}},
            "value.n  the new types have no such field; those of rows begin with left",
        ),
        (("string",), {"fills": {"left.number.x": 0}}, "left.number.x  the new types have no such field"),
    ],
)
def test_what_a_join_cannot_take_over_is_refused(tmp_path, key, changes, said):
    probe = like("join-inner", tmp_path / "like", key)

    with pytest.raises(IncompatibleState, match=said) as refused:
        migrate_checkpoint(place("join-inner"), tmp_path / "new", like=probe, changes={0: FieldChanges(**changes)})

    lines = [line for line in str(refused.value).splitlines() if "operator 0" in line]
    assert len(lines) == len(set(lines))
    assert not (tmp_path / "new").exists()


def test_a_dead_run_of_four_stores_is_resumed(tmp_path, monkeypatch):
    left = [*fields(n="long"), *(one for one in LEFT if one["name"] != "n")]
    probe = like("join-outer", tmp_path / "like", left_keyWithIndexToValue=left, right_keyWithIndexToValue=RIGHT[1:])
    whole = migrate_checkpoint(place("join-outer"), tmp_path / "whole", like=probe)
    run = entries.EntryCopy.run

    def die_in_the_second(copy):
        if copy.provider.operator.stores[0].was.name.startswith("right"):
            raise KeyboardInterrupt
        return run(copy)

    with monkeypatch.context() as patch:
        patch.setattr(entries.EntryCopy, "run", die_in_the_second)
        with pytest.raises(KeyboardInterrupt):
            migrate_checkpoint(place("join-outer"), tmp_path / "new", like=probe)

    report = migrate_checkpoint(place("join-outer"), tmp_path / "new", like=probe)

    assert [one.written for one in report.states] == [one.written for one in whole.states]
    assert rows_of(tmp_path / "new") == rows_of(tmp_path / "whole")


def rows_by_time(change):
    """A function that changes the fields of the left rows of a join of format 4."""

    def run(found):
        found["left-keyWithTsToValues"][1]["fields"] = change(found["left-keyWithTsToValues"][1]["fields"])

    return run


@pytest.mark.parametrize("name", ["join-v3", "join-v4"])
def test_rows_of_a_join_change_in_column_families_and_a_dead_run_is_resumed(tmp_path, monkeypatch, name):
    def change(found):
        rows = next(one for one in found if one in {"left-keyWithIndexToValue", "left-keyWithTsToValues"})
        k, n, at, d, matched = found[rows][1]["fields"]
        found[rows][1]["fields"] = [at, n | {"type": "long"}, *fields(note="string"), k | {"name": "key"}, d, matched]

    def die_in_the_second(provider, partitions):
        if partitions != [0]:
            raise KeyboardInterrupt
        return opened(provider, partitions)

    probe = Probe.of(name, tmp_path / "like").change(change)
    changes = {0: FieldChanges(renames={"left.value.key": "left.value.k"}, fills={"left.value.note": "ü"})}
    opened = providers._Databases.open
    with monkeypatch.context() as patch:
        patch.setattr(providers._Databases, "open", die_in_the_second)
        with pytest.raises(KeyboardInterrupt):
            migrate_checkpoint(place(name), tmp_path / "new", like=probe.folder, changes=changes)

    report = migrate_checkpoint(place(name), tmp_path / "new", like=probe.folder, changes=changes)

    before, after = entries_of_families(place(name)), entries_of_families(tmp_path / "new")
    assert before.keys() == after.keys()
    for store, rows in before.items():
        for _, value in rows:
            if "at" in value:
                value |= {"key": value.pop("k"), "note": "ü"}
        assert after[store] == rows
    assert {one.state: one.action for one in report.states} == dict.fromkeys(before, "convert")


def entries_of_families(folder):
    """The entries of each column family, as JSON."""
    return {
        store.name: [
            pair
            for block in store.blocks()
            for pair in zip(
                json_values(block.key, store.schema.key), json_values(block.value, store.schema.value), strict=True
            )
        ]
        for store in SparkCheckpoint.open(folder).operators[0].stores
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda of: [one | {"metadata": {}} for one in of], "left.value.at  .*the event time .* is none now"),
        (
            lambda of: [*of[:2], *fields(then="timestamp"), *of[2:]],
            "left.value.then  .*the field is new",
        ),
        (
            lambda of: [*(one | {"metadata": {}} for one in of[:4]), of[2] | {"name": "then"}, of[4]],
            "left.value.then  .*the event time .* was left.value.at, and is left.value.then now",
        ),
    ],
)
def test_rows_of_a_join_do_not_get_another_event_time_in_state_format_4(tmp_path, change, said):
    probe = Probe.of("join-v4", tmp_path / "like").change(rows_by_time(change))

    with pytest.raises(IncompatibleState, match=said):
        migrate_checkpoint(place("join-v4"), tmp_path / "new", like=probe.folder)


def sessions(folder, key, value):
    shutil.copytree(place("session"), folder)
    (folder / "state" / "0" / "0" / "_metadata" / "schema").write_bytes(
        schema_file([*key, *fields(sessionStartTime="timestamp")], value)
    )
    return folder


def test_sessions_of_a_renamed_key_and_another_type_stay_in_the_partition_of_their_key(tmp_path):
    value = [SESSION[0], *fields(user="string", least="double", sum="decimal(20,0)")]
    probe = sessions(tmp_path / "like", fields(user="string"), value)
    before = rows_of(place("session"))["default"]
    renames = {f"{part}.user": f"{part}.k" for part in ("key", "value")}

    migrate_checkpoint(
        place("session"),
        tmp_path / "new",
        like=probe,
        changes={0: FieldChanges(renames=renames, fills={"value.least": None})},
    )

    assert rows_of(tmp_path / "new")["default"] == {
        json.dumps({"user": json.loads(key)["k"], "sessionStartTime": json.loads(key)["sessionStartTime"]}): {
            "session_window": row["session_window"],
            "user": row["k"],
            "least": None,
            "sum": {"$bigdec": [str(row["sum"]), 0]},
        }
        for key, row in before.items()
    }


def test_a_key_more_is_a_column_more_before_the_start_of_a_session(tmp_path):
    probe = sessions(
        tmp_path / "like", fields(shop="string", k="string"), [SESSION[0], *fields(shop="string"), *SESSION[1:]]
    )
    metadata = probe / "state" / "0" / "_metadata" / "metadata"
    metadata.write_text(metadata.read_text().replace('"numColsPrefixKey":1', '"numColsPrefixKey":2'))
    fills = {"key.shop": "first", "value.shop": "first"}

    migrate_checkpoint(place("session"), tmp_path / "new", like=probe, changes={0: FieldChanges(fills=fills)})

    assert {json.loads(key)["shop"] for key in rows_of(tmp_path / "new")["default"]} == {"first"}
    assert (tmp_path / "new" / "state" / "0" / "_metadata" / "metadata").read_text() == metadata.read_text()


@pytest.mark.parametrize(
    ("key", "changes", "said"),
    [
        ((), {}, "key.k  .*keys may become equal without it: sessions of one key may overlap"),
        (("k", "l"), {"fills": {"key.l": "a", "value.l": "b"}}, "value.l  it repeats key.l: say the same of both"),
        (("user",), {"renames": {"key.user": "key.k"}}, "value.user  it repeats key.user"),
    ],
)
def test_what_sessions_cannot_take_over_is_refused(tmp_path, key, changes, said):
    columns = fields(**dict.fromkeys(key, "string"))
    probe = sessions(tmp_path / "like", columns, [SESSION[0], *columns, SESSION[2]])

    with pytest.raises(IncompatibleState, match=said):
        migrate_checkpoint(place("session"), tmp_path / "new", like=probe, changes={0: FieldChanges(**changes)})


def test_a_checkpoint_that_does_not_name_its_operators_needs_a_batch_of_spark_4(tmp_path):
    shutil.copytree(place("dedup"), tmp_path / "old")
    shutil.rmtree(tmp_path / "old" / "state" / "0" / "_metadata")

    with pytest.raises(UnsupportedFormat, match=r"(?s)before Spark 4.0.*run one batch of the old query"):
        migrate_checkpoint(tmp_path / "old", tmp_path / "new", like=place("dedup"))


def test_a_query_without_state_has_nothing_to_migrate(tmp_path):
    shutil.copytree(place("dedup"), tmp_path / "old")
    shutil.rmtree(tmp_path / "old" / "state")

    with pytest.raises(MigrationFailed, match=r"(?s)no stateful operator.*start the new query with the old checkpoint"):
        migrate_checkpoint(tmp_path / "old", tmp_path / "new", like=place("dedup"))


def test_state_of_scala_is_copied_and_never_changed(tmp_path):
    """Its files are those of any state; only the name of the operator is another one."""

    def of_scala(folder, value=None):
        shutil.copytree(place("pandas"), folder)
        metadata = folder / "state" / "0" / "_metadata" / "metadata"
        metadata.write_text(metadata.read_text().replace("applyInPandasWithState", "flatMapGroupsWithState"))
        if value is not None:
            schema = folder / "state" / "0" / "0" / "_metadata" / "schema"
            schema.write_bytes(schema_file(fields(k="string"), value))
        return folder

    old = of_scala(tmp_path / "old")
    (report,) = migrate_checkpoint(old, tmp_path / "same", like=of_scala(tmp_path / "probe")).states
    other = of_scala(tmp_path / "other", [*fields(groupState="binary", timeoutTimestamp="long")])

    assert (report.operator, report.action) == ("0 (flatMapGroupsWithState)", "copy")
    with pytest.raises(IncompatibleState, match=re.escape("operator 0 (flatMapGroupsWithState)")):
        migrate_checkpoint(old, tmp_path / "new", like=other)
