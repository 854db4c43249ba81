"""Reading what real Flink wrote: operators, states, entries, and what is said of that which cannot be read."""

import attrs
import pytest

from stateshift import (
    CorruptSavepoint,
    OldReaderUnavailable,
    Savepoint,
    SavepointNotFound,
    StateNotFound,
    TtlValue,
    UnsupportedFormat,
)
from stateshift.compat.description import StateKind
from stateshift.state.savepoint.json_encoding import timer_label

READ_WHOLE = (
    "hashmap-account-v1",
    "hashmap-collections",
    "hashmap-subclass-registered",
    "rocksdb-subclass-unregistered",
)


def unread(savepoint):
    return {
        (operator.operator_id, state.kind.scope, state.name): state.unsupported
        for operator in savepoint.operators
        for state in operator.states
        if state.unsupported
    }


def test_all_that_can_be_read_equals_what_flink_read(canonical, contents, flink_read):
    savepoint = Savepoint.open(canonical)

    left_out = unread(savepoint)
    expected = {
        operator_id: {
            room: {name: state for name, state in states.items() if (operator_id, room, name) not in left_out}
            for room, states in rooms.items()
        }
        for operator_id, rooms in flink_read(canonical).items()
    }
    expected = {
        operator_id: {room: states for room, states in rooms.items() if states}
        for operator_id, rooms in expected.items()
    }
    assert {i: rooms for i, rooms in expected.items() if rooms} == contents(savepoint)


def test_what_cannot_be_read_is_types_of_later_releases(canonical):
    left_out = unread(Savepoint.open(canonical))

    for (_, _, name), reason in left_out.items():
        assert "not read" in reason or "does not read" in reason, (name, reason)
        assert "values of" in reason, (name, reason)


@pytest.mark.parametrize("name", READ_WHOLE)
def test_records_collections_and_subclasses_are_read_whole(savepoint_of, name):
    left_out = unread(Savepoint.open(savepoint_of(name)))

    assert [] == [state for _, _, state in left_out]


def test_a_state_that_cannot_be_read_names_its_class_and_the_others_can(kryo_in_pojo, expected_of):
    operator = Savepoint.open(kryo_in_pojo).operator("keyed-op")

    thing, plain = operator.state("thing"), operator.state("plain")
    assert "fx.Scenarios$Thing" in thing.unsupported
    assert plain.unsupported == ""
    with pytest.raises(OldReaderUnavailable, match=r"fx\.Scenarios\$Thing") as caught:
        list(thing.read_entries())
    assert {"operator": "keyed-op", "state": "thing", "path": "$.inner"}.items() <= caught.value.where.items()
    expected = expected_of("hashmap-kryo")["operators"][0]["keyed"]
    assert expected["plain"]["entries"] == sorted([entry.key, entry.value] for entry in plain.read_entries())
    assert len(expected["thing"]["entries"]) == thing.measure().entries


def test_every_operator_and_state_of_flink_is_listed(canonical, flink_read):
    savepoint = Savepoint.open(canonical)

    expected = {
        operator_id: {(room, name) for room, states in rooms.items() if room != "timers" for name in states}
        for operator_id, rooms in flink_read(canonical).items()
    }
    found = {
        operator.operator_id: {
            (state.kind.scope, state.name) for state in operator.states if state.kind is not StateKind.TIMERS
        }
        for operator in savepoint.operators
        if operator.states
    }
    assert expected == found


def test_measures_count_what_is_there_without_reading_it(canonical, flink_read):
    expected = flink_read(canonical)
    for operator in Savepoint.open(canonical).operators:
        for state in operator.states:
            measure = state.measure()
            assert (measure.entries > 0) == (measure.size_bytes > 0)
            if state.kind is StateKind.TIMERS:
                timers = expected.get(operator.operator_id, {}).get("timers", {})
                assert measure.entries == len(timers.get(timer_label(operator, state), ()))
                continue
            known = expected[operator.operator_id][state.kind.scope]
            match state.kind:
                case StateKind.MAP:
                    entries = sum(len(row[-1]["$map"]) for row in known[state.name]["entries"])
                case StateKind.SPLIT_LIST | StateKind.UNION_LIST:
                    entries = sum(map(len, known[state.name]["subtasks"]))
                case StateKind.BROADCAST:
                    entries = sum(len(one["$map"]) for one in known[state.name])
                case _:
                    entries = len(known[state.name]["entries"])
            assert entries == measure.entries, state.name


def test_values_with_ttl_keep_their_stamps(savepoint_of, expected_of):
    expected = expected_of("hashmap-long-p1-m128")
    savepoint = Savepoint.open(savepoint_of("hashmap-long-p1-m128"))
    stamped = [
        value
        for operator in savepoint.operators
        for state in operator.states
        if state.kind is StateKind.VALUE and not state.unsupported
        for value in (entry.value for entry in state.read_entries())
        if isinstance(value, TtlValue)
    ]

    assert stamped
    for value in stamped:
        assert expected["job_start_ms"] <= value.last_access_ms <= expected["savepoint_time_ms"]


def test_an_unknown_snapshot_class_makes_its_operator_unreadable_and_no_other(savepoint_copy, contents):
    folder = savepoint_copy("hashmap-long-p1-m128")
    known, unknown = b"base.MapSerializerSnapshot", b"base.MapSerializerSnapshoq"
    data = (folder / "_metadata").read_bytes()
    assert known in data
    (folder / "_metadata").write_bytes(data.replace(known, unknown))
    savepoint = Savepoint.open(folder)

    unreadable = [operator for operator in savepoint.operators if operator.unreadable]
    assert unreadable
    for operator in unreadable:
        assert "MapSerializerSnapshoq" in operator.unreadable
        assert not any(state.kind.is_keyed for state in operator.states)
        assert (operator.key, operator.description.is_flink_restorable) == (None, None)
        assert operator.size_bytes > 0
        assert operator.parallelism == 1
    others = {operator.operator_id for operator in savepoint.operators} - {o.operator_id for o in unreadable}
    expected = contents(folder)
    assert others
    assert all(expected[operator_id] for operator_id in others if operator_id in expected)


def test_the_folder_and_the_path_of_the_metadata_are_the_same_savepoint(savepoint_of):
    folder = savepoint_of("hashmap-account-v1")

    one, other = Savepoint.open(folder), Savepoint.open(folder / "_metadata")
    assert one.metadata == other.metadata
    assert one.place == other.place


def test_operators_without_a_uid_come_last(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    first, *others = savepoint.operators
    stored = tuple(
        attrs.evolve(one, uid="") if one.operator_id.hex() == first.operator_id else one
        for one in savepoint.metadata.operators
    )

    found = attrs.evolve(savepoint, metadata=attrs.evolve(savepoint.metadata, operators=stored), lineage=None).operators

    assert others
    assert [one.operator_id for one in (*others, first)] == [one.operator_id for one in found]


def test_operators_are_found_by_uid_and_by_id(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-account-v1"))
    by_uid = savepoint.operator("account-state")

    assert by_uid.operator_id == savepoint.operator(by_uid.operator_id).operator_id
    assert (by_uid.uid, by_uid.title) == ("account-state", "account-state")


def test_a_uid_finds_its_operator_where_the_metadata_has_no_uids(savepoint_of):
    operator = Savepoint.open(savepoint_of("hashmap-account-v1", version="1.20")).operator("account-state")

    assert operator.uid == ""
    assert operator.title == operator.operator_id
    assert operator.state("account").kind is StateKind.VALUE


def test_a_name_that_is_not_there_is_answered_with_those_that_are(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-account-v1"))

    with pytest.raises(StateNotFound, match="account-state"):
        savepoint.operator("acount-state")
    with pytest.raises(StateNotFound, match="account-by-name, accounts, version-free"):
        savepoint.operator("account-state").state("acount")


def test_a_place_without_metadata_is_no_savepoint(tmp_path):
    with pytest.raises(SavepointNotFound, match="no savepoint in"):
        Savepoint.open(tmp_path)
    with pytest.raises(SavepointNotFound, match="no savepoint in"):
        Savepoint.open(tmp_path / "nowhere")


NOT_COMPLETED = (
    "this checkpoint was never completed, or was not downloaded whole; "
    "the last checkpoint beside it is chk-9: name that folder"
)


@pytest.fixture
def two_jobs(tmp_path):
    """The folders of two jobs, with completed checkpoints 4, 9 and 10, and one that was not completed."""
    for name in ("a/chk-4", "a/chk-9", "b/chk-10", "b/shared"):
        (tmp_path / name).mkdir(parents=True)
        if "chk" in name:
            (tmp_path / name / "_metadata").touch()
    (tmp_path / "a" / "chk-11").mkdir()
    (tmp_path / "a" / "notes").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("place", "why", "advice"),
    [
        ("", "the file _metadata is missing", "it holds checkpoints; the last one is b/chk-10: name that folder"),
        ("a", "the file _metadata is missing", "it holds checkpoints; the last one is chk-9: name that folder"),
        ("a/chk-5", "the folder does not exist", "the last checkpoint beside it is chk-9: name that folder"),
        (
            "a/chk-11",
            "the file _metadata is missing",
            NOT_COMPLETED,
        ),
        ("c/chk-5", "the folder does not exist", SavepointNotFound.advice),
        ("b/shared", "the file _metadata is missing", SavepointNotFound.advice),
    ],
)
def test_where_there_is_no_savepoint_the_last_checkpoint_is_named(two_jobs, place, why, advice):
    with pytest.raises(SavepointNotFound) as refused:
        Savepoint.open(two_jobs / place)

    assert (f": {why}", advice) == (refused.value.what[-len(why) - 2 :], refused.value.advice)


def test_a_checkpoint_that_was_not_completed_and_is_the_only_one(tmp_path):
    (tmp_path / "chk-1").mkdir()

    with pytest.raises(SavepointNotFound) as refused:
        Savepoint.open(tmp_path / "chk-1")

    assert refused.value.advice.endswith("; take an earlier one of the job")


def test_opening_reads_no_state_files(savepoint_copy):
    folder = savepoint_copy("rocksdb-long-p2-m200-files")
    for file in folder.iterdir():
        if file.name != "_metadata":
            file.unlink()

    savepoint = Savepoint.open(folder)
    assert savepoint.operators
    with pytest.raises(SavepointNotFound, match=r"the file .* is missing in ") as caught:
        _ = next(op for op in savepoint.operators if op.size_bytes).states
    assert {"savepoint", "file", "operator"} <= caught.value.where.keys()


def test_a_value_that_cannot_be_decoded_names_its_key_and_place(savepoint_copy):
    folder = savepoint_copy("hashmap-account-v1")
    data = (folder / "_metadata").read_bytes()
    entry = next(iter(Savepoint.open(folder).operator("account-state").state("account").read_entries()))
    begin = b"\x00" + entry.value.id.to_bytes(8, "big") + b"\x00\x05" + entry.value.name.encode()
    (folder / "_metadata").write_bytes(data.replace(b"\x02" + begin, b"\x40" + begin))
    operator = Savepoint.open(folder).operator("account-state")

    with pytest.raises(CorruptSavepoint, match="flags 0x40") as caught:
        [list(operator.state(name).read_entries()) for name in ("account", "accounts", "account-by-name")]
    assert {"savepoint", "operator", "state", "key", "file"} <= caught.value.where.keys()


def test_read_entries_and_read_elements_are_not_confused(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-account-v1"))

    with pytest.raises(TypeError, match="read_entries"):
        savepoint.operator("account-state").state("account").read_elements()
    with pytest.raises(TypeError, match="read_elements"):
        list(savepoint.operator("account-state-lists").state("pending").read_entries())


def test_reading_changes_nothing(savepoint_copy, contents):
    folder = savepoint_copy("rocksdb-long-p2-m200-files")
    before = {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}
    contents(folder)

    assert before == {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}
    assert [folder] == list(folder.parent.iterdir())


def test_another_version_is_refused_with_what_to_do(savepoint_copy):
    folder = savepoint_copy("hashmap-account-v1")
    data = bytearray((folder / "_metadata").read_bytes())
    data[7] = 9
    (folder / "_metadata").write_bytes(bytes(data))

    with pytest.raises(UnsupportedFormat, match="version 9"):
        Savepoint.open(folder)
