"""Recorded descriptions: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import base64
import bz2
import json

import attrs
import pytest

from stateshift import (
    CorruptFile,
    Job,
    Operator,
    Savepoint,
    TypeSerializerConfigSnapshot,
    UnknownSnapshot,
    UnsupportedFormat,
    ValueStateDescriptor,
)
from stateshift.compat.gate.recording import digest, from_json, to_json

SAVEPOINTS = ["rocksdb-account-v1", "hashmap-zoo-p1-m128", "hashmap-long-p2-m128-snappy", "hashmap-windows-p2-m128",
              "hashmap-kryo", "rocksdb-subclass-unregistered", "hashmap-native-string-snappy"]  # fmt: skip


@pytest.fixture
def recorded(savepoint_of):
    return to_json(Savepoint.open(savepoint_of("rocksdb-account-v1")).describe())


@pytest.mark.parametrize("name", SAVEPOINTS)
def test_a_savepoint_is_read_back_as_it_was_recorded(savepoint_of, name):
    description = Savepoint.open(savepoint_of(name)).describe()

    again = from_json(to_json(description))

    assert to_json(description) == to_json(again)
    assert [(op.uid, op.max_parallelism, op.is_flink_restorable) for op in description.operators] == [
        (op.uid, op.max_parallelism, op.is_flink_restorable) for op in again.operators
    ]


def test_a_job_and_its_record_have_the_same_digest():
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("a", str), ValueStateDescriptor("b", float)])])
    turned = Job([Operator("op", key=int, states=[ValueStateDescriptor("b", float), ValueStateDescriptor("a", str)])])
    other = Job([Operator("op", key=int, states=[ValueStateDescriptor("a", str), ValueStateDescriptor("b", int)])])

    assert digest(job.describe()) == digest(from_json(to_json(job.describe())))
    assert digest(job.describe()) == digest(turned.describe())
    assert digest(job.describe()) != digest(other.describe())


def test_the_types_are_reported_in_words(recorded):
    document = json.loads(recorded)
    operator, types = document["operators"][0], document["types"]

    states = {state["name"]: types[state["value"]]["type"] for state in operator["states"]}
    assert "pojo fx.evo.Account{id: long, name: string, obsolete: string, visits: int}" == states["account"]
    assert "long" == types[operator["key"]]["type"]


@pytest.mark.parametrize("name", ["Zähler 計", "half \ud800 a pair"])
def test_names_of_any_text_are_kept(name):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("a", str)])]).describe()
    (operator,) = job.operators
    state = attrs.evolve(operator.states[0], name=name)
    named = attrs.evolve(job, operators=(attrs.evolve(operator, states=(state,)),))

    text = to_json(named)

    assert (name in text) is ("half" not in name)
    assert name == from_json(text.encode()).operators[0].states[0].name


def edited(text, change):
    data = json.loads(text)
    operator = data["operators"][0]
    state = operator["states"][2]
    change(data=data, operator=operator, state=state, type=data["types"][state["value"]])
    return json.dumps(data)


def update(what, **facts):
    """An edit of the document, its first operator, or one of that one's states."""
    return lambda **places: places[what].update(facts)


def packed(data, times=1):
    return base64.b64encode(bz2.compress(data) * times).decode()


EDITS = {
    "a state gets another name": (update("state", name="x"), "its content does not match its sha256"),
    "bytes of another snapshot": (
        update("type", bzip2=packed(b"x")),
        "do not match its sha256",
    ),
    "bytes that are not compressed": (update("type", bzip2="AAAA"), "are not compressed by bzip2"),
    "compressed bytes that go on": (
        lambda **places: places["type"].update(bzip2=packed(b"x", 2)),
        "do not end where they should",
    ),
    "a type under another name": (
        lambda **places: places["data"]["types"].update(
            {places["state"]["value"]: places["data"]["types"][places["operator"]["key"]]}
        ),
        "is named",
    ),
    "a type that is not there": (update("state", value="long"), "which is not in the table of types"),
    "a type that nothing is of": (
        lambda **places: places["data"]["types"].update({"long": places["type"]}),
        "the type 'long' is not used",
    ),
    "bytes that are no base64": (update("type", bzip2="?"), "are not base64"),
    "a kind that is none": (update("state", kind="heap"), "'heap' is not a kind of state"),
    "a field too many": (update("state", more=1), "which this release does not know"),
    "a field too few": (lambda **places: places["state"].pop("value"), "lacks 'value'"),
    "a number for a text": (update("state", name=3), "'name' of an item of 'states' is 3"),
    "a number below 0": (update("operator", parallelism=-1), "a number from 0"),
    "an operator twice": (lambda **places: places["data"]["operators"].append(places["operator"]), "listed twice"),
    "another format": (update("data", format="stateshift plan"), "its format is 'stateshift plan'"),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_was_edited_is_refused_with_the_place(recorded, name):
    change, message = EDITS[name]

    with pytest.raises(CorruptFile, match=message) as error:
        from_json(edited(recorded, change), file="state.json")

    assert "state.json" == error.value.where["file"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("[]", "it has no format"),
        ("[" * 100_000, "nested too deep"),
        ('{"format": "stateshift snapshot", "version": NaN}', "NaN is not valid JSON"),
        ('{"format": "stateshift snapshot", "version": 1e999}', "a number is too large"),
        ('{"format": "a", "format": "stateshift snapshot"}', "the name 'format' is given twice"),
        (b"\xff\xfe\x00", "not valid JSON"),
    ],
)
def test_what_is_no_record_is_refused(text, message):
    with pytest.raises(CorruptFile, match=message):
        from_json(text)


def test_a_later_version_says_so(recorded):
    later = edited(recorded, update("data", version=4))

    with pytest.raises(UnsupportedFormat, match="has version 4, but this release reads 3"):
        from_json(later)


def test_a_snapshot_of_a_class_that_is_not_registered_is_named():
    """Flink's snapshots and those of others have no frame that could be skipped; their module must be imported."""

    class Foreign(TypeSerializerConfigSnapshot):
        snapshot_id = "com.acme.ForeignSnapshot"

        def write(self, target):
            target.write_int(1)

        def read(self, source):
            source.read_int()

        def restore_serializer(self):
            raise AssertionError

    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("a", str)])]).describe()
    state = job.operators[0].states[0]
    foreign = type(state.value)(Foreign())
    text = to_json(_with_value(job, foreign))

    with pytest.raises(UnknownSnapshot, match=r"com\.acme\.ForeignSnapshot") as error:
        from_json(text)

    assert "a" == error.value.where["state"]


def _with_value(job, value):
    (operator,) = job.operators
    (state,) = operator.states
    return attrs.evolve(job, operators=(attrs.evolve(operator, states=(attrs.evolve(state, value=value),)),))
