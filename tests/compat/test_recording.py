"""Recorded descriptions: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import json

import attrs
import pytest

from stateshift import Job, Operator, Savepoint, TypeSerializerConfigSnapshot, ValueStateDescriptor
from stateshift.compat.recording import digest, from_json, to_json
from stateshift.serializers.errors import CorruptFile, UnknownSnapshot, UnsupportedFormat

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


def test_the_types_are_told_in_words(recorded):
    operator = json.loads(recorded)["operators"][0]

    states = {state["name"]: state["value"]["type"] for state in operator["states"]}
    assert "pojo fx.evo.Account{id: long, name: string, obsolete: string, visits: int}" == states["account"]
    assert "long" == operator["key"]["type"]


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
    change(data=data, operator=operator, state=operator["states"][2])
    return json.dumps(data)


def update(what, **facts):
    """An edit of the document, its first operator, or one of that one's states."""
    return lambda **places: places[what].update(facts)


def of_value(**facts):
    return lambda **places: places["state"]["value"].update(facts)


EDITS = {
    "a state gets another name": (update("state", name="x"), "its content is not what its sha256 says"),
    "bytes of another snapshot": (of_value(base64="AAAA"), "are not those that its sha256 says"),
    "bytes that are no base64": (of_value(base64="?"), "are not base64"),
    "a kind that is none": (update("state", kind="heap"), "'heap' is no kind of state"),
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
        ("", "it is no JSON"),
        ("[]", "it names no format"),
        ("[" * 100_000, "nested too deep"),
        ('{"format": "stateshift snapshot", "version": NaN}', "NaN is no JSON"),
        ('{"format": "stateshift snapshot", "version": 1e999}', "a number is too large"),
        ('{"format": "a", "format": "stateshift snapshot"}', "the name 'format' is given twice"),
        (b"\xff\xfe\x00", "it is no JSON"),
    ],
)
def test_what_is_no_record_is_refused(text, message):
    with pytest.raises(CorruptFile, match=message):
        from_json(text)


def test_a_later_version_says_so(recorded):
    later = edited(recorded, update("data", version=3))

    with pytest.raises(UnsupportedFormat, match="is of version 3, and this release reads 2"):
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
