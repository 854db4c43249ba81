"""`stateshift check --scan`: the stored values answer what types alone cannot (rule V-3)."""

from __future__ import annotations

import sys
from importlib import import_module
from uuid import UUID

import pytest

from stateshift import SavepointWriter

PEOPLE = """
import attrs
from stateshift import *

@record(java_class="shop.Person")
@attrs.frozen
class Old:
    id: int
    name: str | None = None

@record(java_class="shop.Person")
@attrs.frozen
class New:
    id: int
    name: str

def job(person, text, data):
    keyed = [ValueStateDescriptor("person", person), ListStateDescriptor("people", person),
             MapStateDescriptor("by_city", str, person), MapStateDescriptor("notes", str, text),
             ValueStateDescriptor("tags", set[text])]
    lists = [ListStateDescriptor("split", person)]
    cast = [MapStateDescriptor("cast", int, person)]
    raw = [ValueStateDescriptor("raw", data)]
    return Job([Operator("people", key=int, states=keyed, list_states=lists, broadcast_states=cast),
                Operator("raw", key=int, states=raw)])

before, after, text = job(Old, str | None, bytes), job(New, str, bytes), job(Old, str | None, str)
"""


@pytest.fixture
def people(job_folder):
    """The module of the jobs, in the current folder."""
    return module(job_folder, "people", PEOPLE)


def module(job_folder, name, text):
    (job_folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(job_folder))  # of the fixture `job_folder`, as is what follows
    return import_module(name)


def write(people, place, *, nulls):
    """Write nine entries a state; with `nulls` the keys 0, 3 and 6 have a null, and bytes that are no text."""
    with SavepointWriter(place, people.before, parallelism=2) as writer:
        for key in range(9):
            name = None if nulls and key % 3 == 0 else f"n{key}"
            writer.put("people", "person", key, people.Old(key, name))
            writer.put("people", "people", key, [people.Old(key, "x"), people.Old(key, name)])
            writer.put("people", "by_city", key, {"a": people.Old(key, "x"), "b": people.Old(key, name)})
            writer.put("people", "notes", key, {"a": "x", "b": name})
            writer.put("people", "tags", key, {"x", name})
            writer.put("raw", "raw", key, b"\xff" if name is None else b"ok")
        for number in (1, 2):
            someone = people.Old(number, None if nulls and number == 1 else "a")
            writer.add("people", "split", someone)
            writer.put_broadcast("people", "cast", number, someone)
    return place


def scanned(run, *arguments):
    ran = run("check", *arguments, "--scan", "--json")
    found = {one["state"]: (one["failing"], one["entries"]) for one in ran.data["scan"]["states"]}
    return ran, found


ALL = {
    "person": (3, 9), "people": (3, 9), "by_city": (3, 18), "notes": (3, 18), "tags": (3, 9),
    "split": (1, 2), "cast": (2, 4),
}  # fmt: skip


@pytest.mark.parametrize("executor", ["numba", "objects"])
def test_a_scan_counts_in_every_kind_of_state_what_would_fail(run, people, tmp_path, monkeypatch, executor):
    monkeypatch.setenv("STATESHIFT_EXECUTOR", executor)
    place = write(people, tmp_path / "sp", nulls=True)

    checked = run("check", place, "--job", "people:after")
    ran, found = scanned(run, place, "--job", "people:after")

    assert (0, 1) == (checked.status, ran.status)
    assert checked.stdout.startswith("start, if no stored value is null (")
    assert f"read the stored values first: stateshift check {place} --job people:after --scan" in checked.stdout
    assert ALL == found
    assert ("refuse", 18, 69) == (ran.data["decision"], ran.data["scan"]["failing"], ran.data["scan"]["entries"])
    (person,) = (one for one in ran.data["scan"]["states"] if one["state"] == "person")
    (path,) = person["places"]
    assert ("$.name", 3, {"0", "3", "6"}) == (path["path"], path["count"], set(path["keys"]))


def test_a_scan_that_finds_nothing_answers_every_flag(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=False)

    ran = run("check", place, "--job", "people:after", "--scan", "--forbid", "may_fail_per_value")
    data = run("check", place, "--job", "people:after", "--scan", "--json").data

    assert 0 == ran.status
    assert ran.stdout.startswith("start: every state can be used as it is; none of 69 scanned entries would fail\n")
    assert "--scan" not in ran.stdout
    assert (None, 0) == (data["condition"], data["scan"]["failing"])


def test_forbidden_without_a_scan_it_is_refused_and_the_scan_is_the_first_way_out(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=False)

    ran = run("check", place, "--job", "people:after", "--forbid", "may_fail_per_value")

    assert 1 == ran.status
    assert "ways out: find out whether a stored value fails: stateshift check SAVEPOINT --scan; or " in ran.stdout


def test_values_that_a_migration_converts_are_scanned_as_it_converts_them(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=True)

    ran, found = scanned(run, place, "--job", "people:text", "--allow-migration")

    assert (1, (3, 9)) == (ran.status, found["raw"])


def test_what_a_converter_refuses_is_counted_though_no_flag_says_that_it_may(run, people, job_folder, tmp_path):
    place = write(people, tmp_path / "sp", nulls=True)
    text = "from people import *\n\ndef size(data):\n    return int(data.decode())\n\n"
    state = "ValueStateDescriptor('raw', int, converter=size)"
    module(job_folder, "sizes", f"{text}job = Job([Operator('raw', key=int, states=[{state}])])\n")

    ran, found = scanned(run, place, "--job", "sizes:job", "--allow-migration")

    assert (1, {"raw": (9, 9)}) == (ran.status, found)


def test_it_reads_with_a_probe_too(run, people, tmp_path):
    place, probe = write(people, tmp_path / "sp", nulls=True), tmp_path / "probe"
    with SavepointWriter(probe, people.after) as writer:
        writer.put("people", "person", 1, people.New(1, "a"))

    ran, _ = scanned(run, place, "--like", probe)

    assert 0 == ran.status


def test_no_key_is_shown_where_values_are_redacted(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=True)

    ran = run("check", place, "--job", "people:text", "--scan", "--redact")

    assert 1 == ran.status
    assert "3 of 9 entries would fail" in ran.stdout
    assert "keys <redacted>" in ran.stdout
    assert "xff" not in ran.stdout


@pytest.mark.parametrize("arguments", ["spark:nowhere --query a:b", "--job people:after --against 1"])
def test_where_there_are_no_values_of_a_savepoint_it_says_so(run, arguments):
    ran = run("check", *arguments.split(), "--scan")

    assert 2 == ran.status
    assert "--scan reads the values of a savepoint" in ran.stderr


def test_a_migration_says_which_values_it_did_not_read(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=True)

    ran = run("migrate", place, tmp_path / "new", "--job", "people:after")

    assert 0 == ran.status
    assert "if no stored value is null (13 places): this run did not read these values" in ran.stdout
    assert f"stateshift check {place} --job people:after --scan" in ran.stdout


def test_a_run_that_fails_on_a_value_counts_them(run, people, tmp_path):
    place = write(people, tmp_path / "sp", nulls=True)

    ran = run("migrate", place, tmp_path / "new", "--job", "people:text")

    assert 6 == ran.status
    assert "in all: 3 of 9 entries of raw do not fit" in ran.stderr


def test_verify_counts_the_values_that_do_not_match_their_type(run, job_folder, tmp_path):
    """In keyed state of every form and in an operator's list, with a reader that refuses values."""
    even, place = module(job_folder, "even", EVEN), tmp_path / "sp"
    with SavepointWriter(place, even.job) as writer:
        for key in range(9):
            writer.put("op", "value", key, key)
            writer.put("op", "list", key, [0, key])
            writer.put("op", "map", key, {"a": 0, "b": key})
            writer.add("op", "split", key)

    ran = run("verify", place, "--values", "--json", "--import", "even")
    text = run("verify", place, "--values", "--import", "even")

    failed = [one for one in ran.data["checks"] if one["status"] == "failed"]
    assert (1, {"values"}) == (ran.status, {one["name"] for one in failed})
    assert {f"op, state {state}": of for state, of in {"value": 9, "list": 9, "map": 18, "split": 9}.items()} == {
        one["where"].partition(", key")[0].partition(", file")[0]: int(one["detail"].split()[2]) for one in failed
    }
    assert all(one["detail"].startswith("4 of ") and ": an odd number" in one["detail"] for one in failed)
    assert "4 of 9 values do not match their type; the first: " in text.stdout


EVEN = """
import attrs
from stateshift import *


@attrs.frozen
class EvenSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_int(value)

    def deserialize(self, source):
        value = source.read_int()
        if value % 2:
            raise ValueNotConvertible("an odd number")
        return value

    def snapshot_configuration(self):
        return EvenSnapshot()


@register_snapshot
@attrs.define
class EvenSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "stateshift/tests.even"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return EvenSerializer()


even = EvenSerializer()
states = [ValueStateDescriptor("value", even), ListStateDescriptor("list", even), MapStateDescriptor("map", str, even)]
job = Job([Operator("op", key=int, states=states, list_states=[ListStateDescriptor("split", even)])])
"""


def test_a_uuid_of_avro_is_scanned_like_a_null(run, job_folder, tmp_path):
    ids, place = module(job_folder, "ids", IDS), tmp_path / "sp"
    with SavepointWriter(place, ids.before) as writer:
        for key in range(9):
            writer.put("ids", "id", key, "no uuid" if key % 3 == 0 else str(UUID(int=key)))

    checked, found = scanned(run, place, "--job", "ids:after")

    assert (1, {"id": (3, 9)}) == (checked.status, found)
    assert checked.data["condition"] == "if every stored value fits its type (1 place)"


IDS = """
from stateshift import *

def job(schema):
    return Job([Operator("ids", key=int, states=[ValueStateDescriptor("id", AvroSerializer(schema))])])

before, after = job('"string"'), job('{"type": "string", "logicalType": "uuid"}')
"""


def test_keys_are_scanned_once_for_each_state_that_has_them(run, job_folder, tmp_path):
    keyed, place = module(job_folder, "keyed", KEYED), tmp_path / "sp"
    with SavepointWriter(place, keyed.before) as writer:
        for number in range(9):
            key = keyed.Row(number, None if number % 3 == 0 else "a")
            writer.put("op", "count", key, number)
            writer.put("op", "own", key, keyed.Own(number))
            writer.register_event_time_timer("op", number, key)

    ran, found = scanned(run, place, "--job", "keyed:after")
    text = run("check", place, "--job", "keyed:after", "--scan")

    assert (1, {"": (9, 27)}) == (ran.status, found)
    assert "    scan: 9 of 27 entries would fail\n      $<key>(1): 9, keys " in text.stdout


KEYED = """
import attrs
from stateshift import *

@record()
@attrs.frozen
class Own:
    id: int

def job(key):
    states = [ValueStateDescriptor("count", int), ValueStateDescriptor("own", Own)]
    return Job([Operator("op", key=key, states=states, timers=[TimerServiceDescriptor()])])

before, after = job(Row[int, str | None]), job(Row[int, str])
"""
