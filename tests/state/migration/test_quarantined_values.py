"""Values in quarantine are read by the types that they had, and come back as a savepoint (RUN-4)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stateshift import (
    AggregatingStateDescriptor,
    BadValues,
    CorruptSavepoint,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    StateTransform,
    StateTtlConfig,
    TtlValue,
    UnsupportedFormat,
    ValueStateDescriptor,
)
from stateshift.compat.edits import Edits, NewIdentity
from stateshift.state.savepoint.quarantine import is_types_line
from stateshift.state.savepoint.quarantine_savepoint import write_quarantine
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import migrate_in_process

QUARANTINE = MigrationOptions(bad_values=BadValues.QUARANTINE)
BAD = b"\xff\xfe"
TTL = StateTtlConfig.new_builder(timedelta(days=1)).build()


def with_ttl(descriptor):
    descriptor.enable_time_to_live(TTL)
    return descriptor


STATES = {
    "value": (lambda hint: ValueStateDescriptor("s", hint), BAD, BAD),
    "reducing": (lambda hint: ReducingStateDescriptor("s", None, hint), BAD, BAD),
    "aggregating": (lambda hint: AggregatingStateDescriptor("s", None, hint), BAD, BAD),
    "list": (lambda hint: ListStateDescriptor("s", hint), [b"a", BAD, b"c"], [b"a", BAD, b"c"]),
    "map": (lambda hint: MapStateDescriptor("s", str, hint), {"a": b"a", "b": BAD}, {"b": BAD}),
    "map with nulls": (lambda hint: MapStateDescriptor("s", str, hint | None), {"a": None, "b": BAD}, {"b": BAD}),
    "value with ttl": (lambda hint: with_ttl(ValueStateDescriptor("s", hint)), TtlValue(7, BAD), TtlValue(7, BAD)),
    "map with ttl": (lambda hint: with_ttl(MapStateDescriptor("s", str, hint)), {"b": TtlValue(7, BAD)}, None),
    "list of maps": (lambda hint: ListStateDescriptor("s", dict[str, hint]), [{"a": BAD}], [{"a": BAD}]),
}


def job_of(state, **facts):
    return Job([Operator("op", **{"key": str, "states": [state]} | facts)])


def write(place, job, value):
    with SavepointWriter(place, job, max_parallelism=300) as writer:
        writer.put("op", "s", "ann", value)
    return Savepoint.open(place)


def quarantined(source, place, job, options=QUARANTINE):
    migrate_in_process(source, place, job, options)
    return Savepoint.open(place)


@pytest.mark.parametrize("kind", STATES)
def test_a_value_of_keyed_state_is_read_and_comes_back_as_it_was(tmp_path, kind):
    make, value, aside = STATES[kind]
    source = write(tmp_path / "old", job_of(make(bytes)), value)

    new = quarantined(source, tmp_path / "new", job_of(make(str)))
    (bad,) = new.quarantine()
    back = write_quarantine(new, tmp_path / "back")

    read = bad.read()
    assert ("ann", None, value if aside is None else aside) == (read.key, read.namespace, read.value)
    assert [read] == list(back.operator("op").state("s").read_entries())
    assert source.operator("op").state("s").description == back.operator("op").state("s").description
    assert source.operator("op").operator_id == back.operator("op").operator_id
    assert verify(back).ok


@pytest.mark.parametrize("is_union", [False, True])
def test_the_elements_of_an_operators_list_come_back(tmp_path, is_union):
    role = "union_list_states" if is_union else "list_states"
    old, new = (Job([Operator("op", **{role: [ListStateDescriptor("s", hint)]})]) for hint in (bytes, str))
    with SavepointWriter(tmp_path / "old", old) as writer:
        for element in (b"a", BAD, b"c"):
            writer.add("op", "s", element)

    found = quarantined(Savepoint.open(tmp_path / "old"), tmp_path / "new", new)
    back = write_quarantine(found, tmp_path / "back")

    assert [BAD] == [bad.read().value for bad in found.quarantine()]
    assert [[BAD]] == back.operator("op").state("s").read_elements()
    assert verify(back).ok


def test_the_entries_of_a_broadcast_map_come_back_once(tmp_path):
    old, new = (Job([Operator("op", broadcast_states=[MapStateDescriptor("s", int, hint)])]) for hint in (bytes, str))
    with SavepointWriter(tmp_path / "old", old, parallelism=2) as writer:
        for key, value in {1: b"a", 2: BAD}.items():
            writer.put_broadcast("op", "s", key, value)

    found = quarantined(Savepoint.open(tmp_path / "old"), tmp_path / "new", new)
    back = write_quarantine(found, tmp_path / "back")

    assert [{2: BAD}] * 2 == [bad.read().value for bad in found.quarantine()]
    assert [[{2: BAD}]] == back.operator("op").state("s").read_elements()
    assert verify(back).ok


def test_a_map_whose_kind_would_have_changed_comes_back_whole(tmp_path):
    def total(values):
        return sum(map(int, values.values()))

    source = write(tmp_path / "old", job_of(MapStateDescriptor("s", str, str)), {"a": "1", "b": "x", "": "3"})
    becomes = ValueStateDescriptor("s", int, transform=StateTransform.from_map(total))

    new = quarantined(source, tmp_path / "new", job_of(becomes))
    (bad,) = new.quarantine()
    back = write_quarantine(new, tmp_path / "back")

    assert {"a": "1", "b": "x", "": "3"} == bad.read().value
    assert [bad.read()] == list(back.operator("op").state("s").read_entries())


def test_what_came_back_is_migrated_by_the_corrected_converter(tmp_path):
    make = STATES["value"][0]
    source = write(tmp_path / "old", job_of(make(bytes)), BAD)
    back = write_quarantine(quarantined(source, tmp_path / "new", job_of(make(str))), tmp_path / "back")

    corrected = job_of(ValueStateDescriptor("s", str, converter=lambda data: data.decode("latin-1")))
    fixed = quarantined(back, tmp_path / "fixed", corrected, MigrationOptions())

    assert ["\xff\xfe"] == [entry.value for entry in fixed.operator("op").state("s").read_entries()]


def test_after_renames_it_comes_back_under_its_former_names(tmp_path):
    source = write(tmp_path / "old", job_of(ValueStateDescriptor("s", bytes)), BAD)
    renamed = Job([Operator("new-op", key=str, states=[ValueStateDescriptor("t", str)])])
    identity = NewIdentity(renamed.operators[0].id, "new-op")
    edits = Edits(rename_states=(("s", "t"),), rename_operators=(("op", identity),))
    options = MigrationOptions(bad_values=BadValues.QUARANTINE, edits=edits)

    new = quarantined(source, tmp_path / "new", renamed, options)
    (bad,) = new.quarantine()
    back = write_quarantine(new, tmp_path / "back")

    assert ("new-op", "t", BAD) == (bad.operator, bad.state, bad.read().value)
    (operator,) = back.operators
    assert source.operator("op").operator_id == operator.operator_id
    assert [BAD] == [entry.value for entry in operator.state("s").read_entries()]


def stripped(line):
    """Return a line as an earlier release wrote it."""
    return line.replace(b', "types": ', b', "cut": ').rpartition(b', "cut"')[0] + b"}"


def test_a_quarantine_of_an_earlier_release_is_listed_and_says_that_it_has_no_types(tmp_path):
    make = STATES["value"][0]
    new = quarantined(write(tmp_path / "old", job_of(make(bytes)), BAD), tmp_path / "new", job_of(make(str)))
    (file,) = (tmp_path / "new").glob("*-quarantine-*")
    lines = [stripped(line) for line in file.read_bytes().splitlines() if not is_types_line(line)]
    file.write_bytes(b"\n".join(lines) + b"\n")

    (bad,) = new.quarantine()

    assert ("s", "'ann'", "") == (bad.state, bad.key, bad.types)
    with pytest.raises(UnsupportedFormat, match="an earlier release, without the types"):
        bad.read()
    with pytest.raises(UnsupportedFormat, match="an earlier release, without the types"):
        write_quarantine(new, tmp_path / "back")


def test_types_that_are_gone_are_damage(tmp_path):
    make = STATES["value"][0]
    new = quarantined(write(tmp_path / "old", job_of(make(bytes)), BAD), tmp_path / "new", job_of(make(str)))
    (file,) = (tmp_path / "new").glob("*-quarantine-*")
    file.write_bytes(b"".join(line for line in file.read_bytes().splitlines(keepends=True) if not is_types_line(line)))

    with pytest.raises(CorruptSavepoint, match="the types of a value in quarantine are missing"):
        list(new.quarantine())


def test_where_nothing_is_in_quarantine_nothing_is_written(tmp_path):
    source = write(tmp_path / "old", job_of(ValueStateDescriptor("s", bytes)), b"a")

    with pytest.raises(StateNotFound, match="nothing is in quarantine"):
        write_quarantine(source, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def keyed_by(key, hint, **facts):
    return Job([Operator("op", key=key, states=[ValueStateDescriptor("s", hint)], **facts)])


@pytest.mark.parametrize("merged", [False, True])
def test_a_merge_of_keys_of_which_one_part_is_in_quarantine_is_refused(tmp_path, merged):
    with SavepointWriter(tmp_path / "old", keyed_by(int, bytes)) as writer:
        for key, value in {11: b"a", 18: b"b", 25: BAD}.items():
            writer.put("op", "s", key, value)
    new = keyed_by(str, str, key_converter=lambda key: str(key // (10 if merged else 1)))
    repartition = Repartition(merge={"s": lambda one, other: one + other})
    options = MigrationOptions(bad_values=BadValues.QUARANTINE, repartition=repartition)

    if not merged:
        found = quarantined(Savepoint.open(tmp_path / "old"), tmp_path / "new", new, options)
        (bad,) = found.quarantine()
        assert (25, BAD) == (bad.read().key, bad.read().value)
        return
    with pytest.raises(MigrationFailed, match="a merged value that lacks one of its parts would look complete"):
        quarantined(Savepoint.open(tmp_path / "old"), tmp_path / "new", new, options)
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"operator_id": "', b'"operator_id": "../../'),
        (b'"max_parallelism": 300', b'"max_parallelism": 3000000000'),
        (b'"max_parallelism": 300', b'"max_parallelism": 1'),
        (b'"key": "', b'"key": "00'),
        (b'"state": "', b'"state": "ff'),
        (b'{"stored": {', b'{"stored": [], "x": {'),
    ],
)
def test_damaged_types_are_damage_and_nothing_is_written(tmp_path, old, new):
    make = STATES["value"][0]
    found = quarantined(write(tmp_path / "old", job_of(make(bytes)), BAD), tmp_path / "new", job_of(make(str)))
    (file,) = (tmp_path / "new").glob("*-quarantine-*")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line.replace(old, new, 1) if is_types_line(line) else line for line in lines))

    with pytest.raises(CorruptSavepoint):
        write_quarantine(found, tmp_path / "back")
    assert not (tmp_path / "back" / "_metadata").exists()
