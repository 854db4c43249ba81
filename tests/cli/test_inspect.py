"""`stateshift inspect` shows all there is, whatever it can read of it."""

from __future__ import annotations

import pytest

UNKNOWN = (b"StringSerializer$StringSerializerSnapshot", b"StrungSerializer$StringSerializerSnapshot")


def operator_of(ran, uid):
    return next(operator for operator in ran.data["operators"] if operator["uid"] == uid)


def state_of(ran, uid, name):
    return next(state for state in operator_of(ran, uid)["states"] if state["name"] == name)


def test_it_lists_operators_states_types_and_sizes(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"))

    assert (ran.status, ran.stderr) == (0, "")
    assert "operator account-state (bdab0fa58a5abd3de224d7421ec2edc6)" in ran.stdout
    assert "key long, parallelism 2, max parallelism 200" in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert ["account", "value", "fx.evo.Account", "10", "435"] in rows
    assert ["pending", "split_list", "fx.evo.Account", "10", "245"] in rows


def test_json_holds_the_same_and_the_fields_of_records(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"), "--json")

    assert (ran.status, ran.stderr) == (0, "")
    assert (ran.data["version"], ran.data["checkpoint_id"], ran.data["written_by"]) == (6, 1, "flink")
    account = state_of(ran, "account-state", "account-by-name")
    assert (account["kind"], account["type"], account["entries"]) == ("map", "map<string, fx.evo.Account>", 20)
    assert account["records"] == [
        {
            "name": "fx.evo.Account",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "name", "type": "string"},
                {"name": "obsolete", "type": "string"},
                {"name": "visits", "type": "int"},
            ],
        }
    ]


def test_entries_agree_with_what_flink_read(run, savepoint_of, expected_of):
    ran = run("inspect", savepoint_of("hashmap-zoo-p1-m128"), "--json")

    operator = next(operator for operator in expected_of("hashmap-zoo-p1-m128")["operators"] if "keyed" in operator)
    expected = {
        name: sum(len(entry[-1]["$map"]) for entry in state["entries"])
        if state["kind"] == "MAP"
        else len(state["entries"])
        for name, state in operator["keyed"].items()
    }
    counted = {state["name"]: state["entries"] for state in operator_of(ran, operator["uid"])["states"]}
    assert {name: counted[name] for name in expected} == expected


def test_operators_without_state_are_shown(run, savepoint_of):
    ran = run("inspect", savepoint_of("rocksdb-account-v1"))

    assert "  src-rules (2c37da802981fc3916b13689938bc630), Source: rules: parallelism 1" in ran.stdout


def test_a_state_that_cannot_be_read_is_one_line_with_its_class(run, kryo_in_pojo):
    ran = run("inspect", kryo_in_pojo)

    line = next(line for line in ran.stdout.splitlines() if line.strip().startswith("thing"))
    assert ran.status == 0
    assert line.endswith("unsupported")
    (why,) = (line for line in ran.stdout.splitlines() if line.strip().startswith("unsupported: "))
    assert "values of kryo<fx.Scenarios$Thing>" in why
    assert why.endswith("at $.inner (thing)")


def test_an_unknown_class_hides_its_operator_and_nothing_else(run, savepoint_copy, damage):
    savepoint = savepoint_copy("hashmap-windows-p2-m128")
    damage(savepoint / "_metadata", replace=(b"TimeWindow$Serializer$", b"TameWindow$Serializer$"))

    text = run("inspect", savepoint)
    ran = run("inspect", savepoint, "--json")

    assert (text.status, ran.status) == (0, 0)
    unsupported = [operator for operator in ran.data["operators"] if operator["unsupported"]]
    assert unsupported
    assert "TameWindow$Serializer$TimeWindowSerializerSnapshot" in unsupported[0]["unsupported"]
    assert "unsupported: the snapshot class 'org.apache.flink." in text.stdout
    assert unsupported[0]["parallelism"] == 2


def test_a_native_savepoint_shows_what_it_would_have_in_canonical_entries(run, savepoint_of):
    ran = run("inspect", savepoint_of("hashmap-native-string-snappy"), "--json")

    count, counts = state_of(ran, "keyed-op", "count"), state_of(ran, "keyed-op", "counts")
    assert ran.status == 0
    assert ("long", 12) == (count["type"], count["entries"])
    assert counts["entries"] == 36
    assert state_of(ran, "keyed-op", "rules")["entries"] == 5


def test_a_missing_file_hides_its_operator_and_ends_with_3(run, savepoint_copy):
    savepoint = savepoint_copy("hashmap-string-p2-m128-files")
    largest = max((file for file in savepoint.iterdir() if file.name != "_metadata"), key=lambda f: f.stat().st_size)
    largest.unlink()

    ran = run("inspect", savepoint)
    as_json = run("inspect", savepoint, "--json")

    assert (ran.status, as_json.status) == (3, 3)
    assert "damaged: see below" in ran.stdout
    assert "offsets" in ran.stdout
    assert f"there is no file {largest.name}" in ran.stderr
    assert operator_of(as_json, "keyed-op")["error"]["type"] == "SavepointNotFound"
    assert as_json.stderr == ""


@pytest.mark.parametrize("name", ["hashmap-account-v1", "hashmap-string-p2-m128-snappy", "rocksdb-tuple-p2-m200-files"])
def test_savepoints_of_flink_1_20_are_read(run, savepoint_of, name):
    ran = run("inspect", savepoint_of(name, version="1.20"), "--json")

    assert ran.status == 0
    assert sum(len(operator["states"]) for operator in ran.data["operators"]) > 0


def test_a_path_that_ends_in_metadata_names_the_same_savepoint(run, savepoint_of):
    folder = savepoint_of("hashmap-account-v1")

    assert run("inspect", folder / "_metadata").stdout == run("inspect", folder).stdout


def test_control_characters_in_names_do_not_reach_the_terminal(run, savepoint_copy, damage):
    savepoint = savepoint_copy("hashmap-account-v1")
    damage(savepoint / "_metadata", replace=(b"version-free", b"version\x1b[2J!"))

    ran = run("inspect", savepoint)

    assert ran.status == 0
    assert "\x1b" not in ran.stdout
    assert r"version\x1b[2J!" in ran.stdout
