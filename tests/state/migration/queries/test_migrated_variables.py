"""Variables of transformWithState, migrated without Spark: their entries, and the families that follow from them."""

from __future__ import annotations

import json
import shutil

import attrs
import pyarrow as pa
import pytest
from spark_changes import Probe, families
from spark_checkpoints import place

from stateshift.compat.queries.changes import Backfill, FieldChanges
from stateshift.serializers.errors import IncompatibleState, UnsupportedFormat, what_text
from stateshift.serializers.spark_rows.json_values import json_values
from stateshift.serializers.ways_out import on_command_line
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries import variable_entries
from stateshift.state.migration.queries.entries import EntryCopy

FRESH = ["transform", "transform-avro", "transform-checksums", "transform-event-time", "transform-pandas"]


def field(name, of):
    return {"name": name, "type": of, "nullable": True, "metadata": {}}


def struct_of(**types):
    return {"type": "struct", "fields": [field(*one) for one in types.items()]}


@pytest.fixture
def migrated(tmp_path):
    """`migrated("transform", probe, …)`: the copy of a fixture, and the report."""

    def run(name, probe, **changes):
        target = tmp_path / "target"
        report = migrate_checkpoint(place(name), target, like=probe.folder, changes={0: FieldChanges(**changes)})
        return target, {one.state: one for one in report.states}, report.plan.operators[0].states

    return run


def entries(folder, partitions=True):
    """All families with their entries: partition, key, value."""
    found = {}
    for store in SparkCheckpoint.open(folder).operators[0].stores:
        rows = found[store.name] = []
        for block in store.blocks():
            keys, values = json_values(block.key, store.schema.key), json_values(block.value, store.schema.value)
            rows += ([block.partition if partitions else 0, *pair] for pair in zip(keys, values, strict=True))
    return found


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("name", FRESH)
def test_what_follows_from_entries_is_what_spark_made_of_them(tmp_path, monkeypatch, name, is_same):
    probe = Probe.of(name, tmp_path / "probe")
    plan = variable_entries.VariableConversion.entries
    if not is_same:
        monkeypatch.setattr(
            variable_entries.VariableConversion, "entries",
            lambda self, source: plan(attrs.evolve(self, variable=attrs.evolve(self.variable, is_same=False)), source),
        )  # fmt: skip
    report = migrate_checkpoint(place(name), tmp_path / "target", like=probe.folder)

    assert entries(tmp_path / "target") == entries(place(name))
    assert all(one.read == one.written > 0 for one in report.states)
    (metadata,) = (tmp_path / "target").glob("state/0/_metadata/v2/*")
    said = json.loads(metadata.read_text().partition("\n")[2])
    (uri,) = said["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert uri.removeprefix("file:") == str(next((tmp_path / "target").glob("state/0/_stateSchema/default/*")))


@pytest.mark.parametrize("name", ["transform", "transform-avro", "transform-checksums"])
def test_fields_of_values_lists_and_maps_change(tmp_path, migrated, name):
    def change(found):
        found["total"][1] = struct_of(d="double", note="string", n="double")
        found["names"][1] = struct_of(number="long", l="string")
        found["by_name"][1] = struct_of(part="string")
        for family in ("seen", "$ttl_seen"):
            key = found[family][0] if family == "seen" else found[family][0]["fields"][1]["type"]
            key["fields"][1]["type"] = struct_of(d="double", n="long")
        found["last"][1]["fields"][0]["type"] = struct_of(l="string", more=struct_of(a="integer"))

    probe = Probe.of(name, tmp_path / "probe").change(change)
    with pytest.raises(IncompatibleState, match=r"total\.n  bigint -> double"):
        migrated(name, probe)
    probe.change(lambda found: found["total"].__setitem__(1, struct_of(d="double", note="string", n="decimal(20,0)")))
    before = entries(place(name))

    target, _, states = migrated(
        name, probe,
        fills={"total.note": "ü", "last.more": {"a": 5}}, renames={"names[].number": "names[].n"},
    )  # fmt: skip

    after = entries(target)
    assert after["total"] == [
        [p, key, {"d": one["d"], "note": "ü", "n": {"$bigdec": [str(one["n"]), 0]}}] for p, key, one in before["total"]
    ]
    assert after["names"] == [[p, key, {"number": one["n"], "l": one["l"]}] for p, key, one in before["names"]]
    assert after["by_name"] == [[p, key, {"part": one["part"]}] for p, key, one in before["by_name"]]
    assert {json.dumps(key["userKey"]) for _, key, _ in after["seen"]} == {
        json.dumps({"d": key["userKey"]["d"], "n": key["userKey"]["n"]}) for _, key, _ in before["seen"]
    }
    assert [one["value"] for _, _, one in after["last"]] == [
        {"l": one["value"]["l"], "more": {"a": 5}} for _, _, one in before["last"]
    ]
    for kept in ("$ttl_last", "$ttl_recent", "$min_recent", "$count_recent", "$rowCounter_names", "recent"):
        assert after[kept] == before[kept]
    assert any("$.by_name{}.n" in one.drops for one in states)


@pytest.mark.parametrize("name", ["transform", "transform-avro"])
def test_fields_of_values_are_filled_by_a_dataframe(tmp_path, migrated, name):
    def change(found):
        found["total"][1]["fields"].append(field("note", "string"))
        found["names"][1]["fields"].append(field("note", "string"))

    probe = Probe.of(name, tmp_path / "like").change(change)
    before = entries(place(name))["total"]
    keys = [key["k"] for _, key, _ in before]
    notes = pa.table({"k": [*keys[1:], "other"], "text": [f"note of {one}" for one in [*keys[1:], "other"]]})

    with pytest.raises(IncompatibleState, match=r"names\[\]\.note  a DataFrame fills whole fields of a value"):
        migrated(name, probe, fills={"total.note": None, "names[].note": Backfill(notes, "text")})
    with pytest.raises(IncompatibleState, match=r"1 of .* keys in a block have no row .* total\.note"):
        migrated(name, probe, fills={"total.note": Backfill(notes, "text"), "names[].note": ""})
    shutil.rmtree(tmp_path / "target")
    fills = {"total.note": Backfill(notes, "text", is_complete=False), "names[].note": ""}
    target, _, states = migrated(name, probe, fills=fills)

    found = {key["k"]: one["note"] for _, key, one in entries(target)["total"]}
    assert found == {keys[0]: None} | {one: f"note of {one}" for one in keys[1:]}
    told = [(one.path, one.reason) for state in states for one in state.findings]
    assert ("$.total.note", "it is new: from column 'text' of a DataFrame") in told


def test_a_grouping_key_that_changes_takes_its_variables_and_timers_along(tmp_path, migrated):
    def renamed(one):
        if isinstance(one, dict):
            if one.get("name") == "k":
                one["name"] = "user"
            for inner in one.values():
                renamed(inner)
        elif isinstance(one, list):
            for inner in one:
                renamed(inner)

    def change(found):
        for key, *_ in found.values():
            renamed(key)
            for of in (key, *(one["type"] for one in key["fields"])):
                if isinstance(of, dict) and [one["name"] for one in of["fields"]] == ["user"]:
                    of["fields"].insert(0, field("shop", "integer"))
                elif isinstance(of, dict):
                    for one in of["fields"]:
                        if isinstance(one["type"], dict) and [x["name"] for x in one["type"]["fields"]] == ["user"]:
                            one["type"]["fields"].insert(0, field("shop", "integer"))

    probe = Probe.of("transform", tmp_path / "probe").change(change)
    before = entries(place("transform"), partitions=False)

    target, *_ = migrated("transform", probe, renames={"key.user": "key.k"}, fills={"key.shop": 7})

    after = entries(target, partitions=False)
    assert {name: len(rows) for name, rows in after.items()} == {name: len(rows) for name, rows in before.items()}
    assert sorted(map(json.dumps, after["total"])) == sorted(
        json.dumps([0, {"shop": 7, "user": key["k"]}, one]) for _, key, one in before["total"]
    )
    places = [
        {name: sorted(row[0] for row in rows) for name, rows in entries(folder).items()}
        for folder in (target, place("transform"))
    ]
    assert places[0] != places[1]
    timers = {json.dumps([key["expiryTimestampMs"], key["key"]]) for _, key, _ in after["$procTimers_keyToTimestamp"]}
    assert timers == {
        json.dumps([key["expiryTimestampMs"], key["key"]]) for _, key, _ in after["$procTimers_timestampToKey"]
    }


def expiring(found, name, value):
    """Make a value of a variable that expires, with its index."""
    found[name][1] = {"type": "struct", "fields": [field("value", value), field("ttlExpirationMs", "long")]}
    key = {"type": "struct", "fields": [field("expirationMs", "long"), field("elementKey", found[name][0])]}
    found[f"$ttl_{name}"] = [key, *found["$ttl_last"][1:]]


def test_times_to_live_are_turned_on_and_off_and_moved(tmp_path, migrated):
    later = str(10**12)

    def change(found):
        expiring(found, "total", found["total"][1])
        expiring(found, "by_name", found["by_name"][1])
        found["names"][1] = {
            "type": "struct",
            "fields": [field("value", found["names"][1]), field("ttlExpirationMs", "long")],
        }
        for word in ("ttl", "min", "count"):
            found[f"${word}_names"] = found[f"${word}_recent"]
        found["recent"][1] = struct_of(l="string")
        for name in ("$ttl_recent", "$min_recent", "$count_recent", "$ttl_last"):
            del found[name]
        found["last"][1] = struct_of(l="string")

    probe = Probe.of("transform", tmp_path / "probe").change(change).variables(
        total=("ValueState", True), by_name=("MapState", True), names=("ListState", True),
        recent=("ListState", False), last=("ValueState", False),
    )  # fmt: skip
    with pytest.raises(IncompatibleState, match="say how long after the last batch stored ones expire") as raised:
        migrated("transform", probe, ttls={"last": "5", "seen": "60", "names": "10"})
    assert "last  the new variable has no time to live" in str(raised.value)
    assert "seen  its entries expire already" in str(raised.value)
    assert "names  10 ms after the last batch" in str(raised.value)
    before = entries(place("transform"))
    at_ms = SparkCheckpoint.open(place("transform")).log.last.time_ms + int(later)

    target, *_ = migrated("transform", probe, ttls={"total": later, "by_name": later, "names": later, "seen": "+60000"})

    after = entries(target)
    for name in ("total", "by_name", "names"):
        assert after[name] == [[p, key, {"value": one, "ttlExpirationMs": at_ms}] for p, key, one in before[name]]
    for name in ("total", "by_name"):
        assert sorted(map(json.dumps, after[f"$ttl_{name}"])) == sorted(
            json.dumps([p, {"expirationMs": at_ms, "elementKey": key}, {"__empty__": None}])
            for p, key, _ in before[name]
        )
    assert after["$count_names"] == before["$rowCounter_names"]
    assert after["$rowCounter_recent"] == before["$count_recent"]
    assert after["recent"] == [[p, key, one["value"]] for p, key, one in before["recent"]]
    assert after["last"] == [[p, key, one["value"]] for p, key, one in before["last"]]
    assert [one["ttlExpirationMs"] for *_, one in after["seen"]] == [
        one["ttlExpirationMs"] + 60_000 for *_, one in before["seen"]
    ]
    assert len(after["$ttl_seen"]) == len(before["$ttl_seen"])


def test_variables_are_renamed_added_and_dropped(tmp_path, migrated):
    def change(found):
        found["sum"] = found.pop("total")
        found["events"] = found.pop("names")
        found["$rowCounter_events"] = found.pop("$rowCounter_names")
        del found["by_name"]
        found["more"] = found["sum"]

    probe = Probe.of("transform", tmp_path / "probe").change(change).variables(
        total=None, names=None, by_name=None, sum=("ValueState", False), events=("ListState", False),
        more=("ValueState", False),
    )  # fmt: skip
    before = entries(place("transform"))

    renames = {"sum": "total", "events": "names"}
    with pytest.raises(IncompatibleState) as caught:
        migrated("transform", probe, renames=renames)
    with pytest.raises(IncompatibleState, match="unknown  there is no variable that could be dropped"):
        migrated("transform", probe, renames=renames, drops=["by_name", "unknown"])
    target, counts, _ = migrated("transform", probe, renames=renames, drops=["by_name"])

    assert "$<by_name>  by_name -> (gone)  only one of both queries has" in str(caught.value)
    assert 'FieldChanges(drops=["by_name"])' in str(caught.value)
    assert "--drop-variable 0:by_name" in what_text(caught.value, on_command_line)
    after = entries(target)
    assert (after["sum"], after["events"], after["more"]) == (before["total"], before["names"], [])
    assert after["$rowCounter_events"] == before["$rowCounter_names"]
    assert (counts["by_name"].action, counts["more"].action) == ("drop", "new")
    assert "by_name" not in after


def test_keys_of_a_map_that_become_equal_are_refused_or_merged(tmp_path, migrated):
    def change(found):
        for family in ("seen", "$ttl_seen"):
            key = found[family][0] if family == "seen" else found[family][0]["fields"][1]["type"]
            key["fields"][1]["type"] = struct_of(none="string")

    probe = Probe.of("transform", tmp_path / "probe").change(change)
    with pytest.raises(
        IncompatibleState, match=r"seen\{key\}\.n .*keys may become equal without it .*\n.*\"seen\{\}\.l\": \"RULE\""
    ):
        migrated("transform", probe, fills={"seen{key}.none": "x"})

    target, counts, _ = migrated("transform", probe, fills={"seen{key}.none": "x"}, merges={"seen{}.l": "max"})

    seen, before = entries(target)["seen"], entries(place("transform"))["seen"]
    assert len(seen) == 4 == len(entries(target)["$ttl_seen"])
    assert counts["seen"].merged == len(before) - 4
    latest = {}
    for _, key, one in before:
        latest[key["key"]["k"]] = max(one["ttlExpirationMs"], latest.get(key["key"]["k"], 0))
    assert {key["key"]["k"]: one["ttlExpirationMs"] for _, key, one in seen} == latest


def test_what_cannot_be_taken_over_is_said(tmp_path, migrated):
    probe = Probe.of("transform", tmp_path / "probe").variables(total=("ListState", False))
    probe.change(lambda found: found.update({"$rowCounter_total": found["$rowCounter_names"]}))
    with pytest.raises(IncompatibleState, match="total  value -> list  a value becomes a list"):
        migrated("transform", probe, renames={"totl": "total"}, fills={"names.x": 1})
    with pytest.raises(UnsupportedFormat, match="several versions of the query"):
        migrate_checkpoint(place("transform-evolved"), tmp_path / "other", like=place("transform-evolved"))


def test_a_processor_that_keeps_nothing_is_refused(tmp_path, migrated):
    probe = Probe.of("transform", tmp_path / "like").change(lambda found: found.clear())

    with pytest.raises(UnsupportedFormat, match="keeps nothing"):
        migrated("transform", probe)


def test_values_of_several_versions_become_those_of_one(tmp_path):
    probe = Probe.of("transform-avro", tmp_path / "probe")
    old = families(max(place("transform-evolved").glob("state/0/_stateSchema/default/*")).read_bytes())
    probe.change(lambda found: found.update(old))

    migrate_checkpoint(place("transform-evolved"), tmp_path / "target", like=probe.folder)

    assert entries(tmp_path / "target") == entries(place("transform-evolved"))


@pytest.mark.parametrize("name", ["transform", "transform-checksums"])
def test_a_run_that_died_is_resumed_and_complete_partitions_are_not_written_again(tmp_path, monkeypatch, name):
    probe, target = Probe.of(name, tmp_path / "probe"), tmp_path / "target"
    write = EntryCopy._route

    def die_at_the_second(self, sources, targets):
        if targets == [1]:
            raise KeyboardInterrupt
        write(self, sources, targets)

    with monkeypatch.context() as patch:
        patch.setattr(EntryCopy, "_route", die_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            migrate_checkpoint(place(name), target, like=probe.folder)
    before = {file: file.stat().st_mtime_ns for file in target.glob("state/0/0/**/*") if file.is_file()}
    assert before

    migrate_checkpoint(place(name), target, like=probe.folder)

    assert entries(target) == entries(place(name))
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_a_dry_run_says_what_is_done_of_each_variable(tmp_path):
    probe = Probe.of("transform", tmp_path / "probe").change(
        lambda found: found["total"].__setitem__(1, struct_of(n="long"))
    )

    report = migrate_checkpoint(place("transform"), tmp_path / "target", like=probe.folder, dry_run=True)

    states = {one.name: one for one in report.plan.operators[0].states}
    assert set(states) == {"by_name", "last", "names", "recent", "seen", "total", "$procTimers_keyToTimestamp"}
    assert states["total"].drops == ("$.total.d",)
    assert not (tmp_path / "target").exists()
