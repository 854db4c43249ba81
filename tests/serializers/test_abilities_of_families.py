"""Every built-in type has the abilities of its family, or a reason why it has none."""

from __future__ import annotations

import built_in
import pytest

from stateshift import Ability
from stateshift.serializers.containers.pieces import SequenceSnapshot
from stateshift.serializers.families import families
from stateshift.serializers.snapshot import CompositeTypeSerializerSnapshot

FIXED = "it is a namespace, a timer or void, which no migration converts"
OF_SQL = (
    "ArrayDataSerializer", "DecimalDataSerializer", "ExternalSerializer", "MapDataSerializer", "NullSerializer",
    "RawValueDataSerializer", "RowDataSerializer", "StringDataSerializer", "TimestampDataSerializer",
    "LinkedListSerializer", "SortedMapSerializer",
)  # fmt: skip
EXCUSED = {
    Ability.REWRITES: {
        "CloudPickleSerializer": "its values are objects of any class",
        "CoderDecimalSerializer": "Python looks at its text",
        "CountWindowSerializer": FIXED,
        "GlobalWindowSerializer": FIXED,
        "KryoBytesSerializer": "only Kryo knows where a value ends",
        "PickleSerializer": "its values are objects of any class",
        **dict.fromkeys(("PyFlinkBytes", "PyFlinkElements", "PyFlinkKey"), "it compares sizes, value by value"),
        "PyFlinkPickle": "a pickle is opened, value by value",
        "RecordReference": "it stands within a record that contains itself",
        "RecursiveRecordSerializer": "its operations would have no end",
        "SqlGlobalWindowSerializer": FIXED,
        "SqlTimeWindowSerializer": FIXED,
        "SqlTimestampSerializer": "Flink reads its null wrongly, so that plain Python looks at each value",
        "TimeWindowSerializer": FIXED,
        "TimerSerializer": FIXED,
        "UnopenedPickleSerializer": "it reads what cannot be opened, and writes nothing",
        "VoidNamespaceSerializer": FIXED,
        "VoidSerializer": FIXED,
        **dict.fromkeys(
            ("ArrayDataSerializer", "LinkedListSerializer", "MapDataSerializer", "RawValueDataSerializer"),
            "values of SQL that are alone, which are read one by one",
        ),
    },
    Ability.COLUMNS: {
        "AvroSerializer": "its values are columns of the counterpart",
        "RecursiveRecordSerializer": "no column holds a record that contains itself, so it is JSON",
        "TimerSerializer": "timers are read part by part",
    },
    Ability.JSON_FORMS: {
        "AvroSerializerSnapshot": "values that Flink coded as Avro are not read",
        "RecordedContentSnapshot": "a reader gets the snapshot for which it stands",
        "TimerSerializerSnapshot": "a queue is written as keys, namespaces and times, each in its own form",
    },
    Ability.SOURCES: {
        "AvroSerializerSnapshot": "values that Flink coded as Avro are not read",
        "AvroSnapshot": "it needs a schema, which `init` does not write",
        "CloudPickleSnapshot": "it needs a decision to trust",
        "KryoSerializerSnapshot": "only Flink's metadata name it",
        "LazyMigrationSnapshot": "it marks state that is not in its own form yet",
        "PickleSnapshot": "it needs a decision to trust",
        "RecordedContentSnapshot": "a reader gets the snapshot for which it stands",
        "SqlGlobalWindowSerializerSnapshot": "a query of SQL declares its state, and no job of Python does",
        "TimerSerializerSnapshot": "timers are declared by their service",
        "TtlSerializerSnapshot": "a descriptor says that a state has TTL",
        **{f"{name}Snapshot": "a query of SQL declares its state, and no job of Python does" for name in OF_SQL},
    },
    Ability.NULLS: {
        "ExternalSerializerSnapshot": "a query of SQL declares its state",
        "LinkedListSerializerSnapshot": "a query of SQL declares its state",
        "RawValueDataSerializerSnapshot": "a query of SQL declares its state",
        "StringArraySerializerSnapshot": "elements of arrays are declared nullable anyway, and strings have no parts",
        "TimerSerializerSnapshot": "timers are not read for nulls",
    },
    Ability.STRATEGIES: {
        "AvroSerializer": "its values depend on a schema, and on the class that is bound to it",
        "CloudPickleSerializer": "its values are objects of any class",
        "KryoBytesSerializer": "its values have no meaning here",
        "PickleSerializer": "its values are objects of any class",
        "TimerSerializer": "timers are no values of a state",
        "UnopenedPickleSerializer": "it reads what cannot be opened, and writes nothing",
    },
}
"""By ability, the classes without it; hints, which belong to types, have a test of their own."""
OF_SERIALIZERS = {Ability.REWRITES, Ability.COLUMNS, Ability.STRATEGIES}


def has_parts(cls):
    is_primitive = "PrimitiveArray" in cls.__name__
    return issubclass(cls, CompositeTypeSerializerSnapshot | SequenceSnapshot) and not is_primitive


def classes_for(ability):
    if ability in OF_SERIALIZERS:
        return built_in.serializers()
    return [cls for cls in built_in.snapshots() if ability is not Ability.NULLS or has_parts(cls)]


def test_every_ability_is_asked_for():
    assert set(Ability) - {Ability.HINTS} == set(EXCUSED)


@pytest.mark.parametrize(
    ("ability", "cls"), [(ability, cls) for ability in EXCUSED for cls in classes_for(ability)], ids=str
)
def test_a_built_in_class_has_the_ability_or_an_excuse(ability, cls):
    find = families.find_nearest if ability is Ability.JSON_FORMS else families.find
    has_it = find(ability, cls) is not None

    assert (cls.__name__ not in EXCUSED[ability]) == has_it


@pytest.mark.parametrize("ability", EXCUSED)
def test_each_excuse_is_of_a_class_that_exists(ability):
    assert set(EXCUSED[ability]) <= {cls.__name__ for cls in classes_for(ability)}


@pytest.mark.parametrize("ability", EXCUSED)
def test_all_tables_are_of_classes_of_their_family(ability):
    """A class of values, which has a form in JSON, may be one of the library's public names."""
    public = {"stateshift"} if ability is Ability.JSON_FORMS else set()
    for package, family in families.built_in.items():
        for cls in family.table(ability):
            assert cls.__module__.startswith(f"{package}.") or cls.__module__ in public
