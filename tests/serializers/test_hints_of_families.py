"""Every built-in serializer is reached by a type hint, or has a reason why none leads to it."""

from __future__ import annotations

import enum
import pickle
from importlib import import_module

import attrs
import built_in
import pytest

import stateshift
from stateshift import Ability, Array, Either, Int32, Row, TypeSerializer, enum_options, record, serializer_for
from stateshift.serializers.families import families

EXCUSED = {
    "ArrayListSerializer": "it is the list of Flink's operator state, which a descriptor asks for",
    "AvroSerializer": "it needs a schema",
    **{
        f"{name}Serializer": "`coder_for` makes it from a hint"
        for name in ("CoderDate", "CoderDecimal", "CoderString", "CoderTime", "CoderTimestamp")
    },
    "CloudPickleSerializer": "it needs a decision to trust",
    "KryoBytesSerializer": "only Flink's metadata name it",
    "PickleSerializer": "it needs a decision to trust",
    **dict.fromkeys(("PyFlinkBytes", "PyFlinkElements", "PyFlinkKey"), "`coder_for` says what they hold"),
    "PyFlinkPickle": "`java_type` says what it holds",
    "RecordReference": "it stands within a record that contains itself",
    "TimerSerializer": "timers are no values of a state",
    "TtlSerializer": "a descriptor says that a state has TTL",
    "UnopenedPickleSerializer": "it reads what cannot be opened",
    **{
        f"{name}Serializer": "a query of SQL declares its state"
        for name in (
            "ArrayData",
            "DecimalData",
            "External",
            "LinkedList",
            "MapData",
            "Null",
            "RawValueData",
            "RowData",
            "SortedMap",
            "SqlGlobalWindow",
            "SqlTimeWindow",
            "StringData",
            "TimestampData",
        )
    },
}


class Level(enum.Enum):
    LOW = 1


@enum_options(java_class="acme.Level")
class JavaLevel(enum.Enum):
    LOW = 1


@attrs.frozen
class Account:
    owner: str


@record(java_class="acme.Account")
@attrs.frozen
class JavaAccount:
    owner: str


@attrs.frozen
class Tree:
    left: Tree | None = None


ALIASES = {
    name: getattr(stateshift, name)
    for name in ("AwareDatetime", "BigInt", "Char", "Float32", "Int8", "Int16", "Int32", "NaiveDatetime")
}
GENERIC = [list[int], set[int], frozenset[str], dict[str, int], tuple[int, str], Row[int, str], Either[int, str]]
COMPOSED = [*GENERIC, int | None, Array[Int32], Array[str], Array[list[int]]]
CLASSES = [Level, JavaLevel, Account, JavaAccount, Tree]


def tables():
    """The tables of hints, by the package of their family."""
    return {package: family.table(Ability.HINTS) for package, family in families.built_in.items()}


def test_each_built_in_serializer_has_a_hint_or_an_excuse():
    given = [known for table in tables().values() for known in table.values() if isinstance(known, TypeSerializer)]
    hints = [*ALIASES.values(), stateshift.ByteArrayWrapper, *COMPOSED, *CLASSES]
    reached = {type(serializer) for serializer in (*given, *map(serializer_for, hints))}

    assert {cls.__name__ for cls in built_in.serializers()} - set(EXCUSED) == {cls.__name__ for cls in reached}


def test_no_hint_belongs_to_two_families():
    hints = [hint for table in tables().values() for hint in table]

    assert len(hints) == len(set(hints))


@pytest.mark.parametrize("hint", GENERIC, ids=str)
def test_a_generic_hint_without_its_types_is_told_how_it_is_written(hint):
    bare = hint.__origin__

    with pytest.raises(stateshift.DeclarationError, match=rf"write {bare.__qualname__}\[...\] with its item types"):
        serializer_for(bare)


@pytest.mark.parametrize("name", [*ALIASES, "Array"])
def test_an_alias_is_found_where_it_was(name):
    """Code of users, and classes that were pickled whole, name the module in which all of them were."""
    assert getattr(stateshift, name) == getattr(import_module("stateshift.serializers.hints"), name)


def test_a_stored_mark_of_an_array_is_found():
    """A class that cloudpickle stored whole has its hints with it."""
    (mark,) = Array.__metadata__
    stored = pickle.dumps(mark, protocol=2).replace(b"serializers.containers.abilities", b"serializers.hints")

    assert b"stateshift.serializers.hints\n_AsArray" in stored
    assert type(mark) is type(pickle.loads(stored))
