"""A contract is worth what it catches: faults planted into built-in serializers, each found by the case that is to."""

# ruff: noqa: ARG001, ARG005 - what is put in place of a method has its arguments

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st

from stateshift import CompatibilityResult
from stateshift.compat.testing import SerializerContract
from stateshift.serializers.containers.lists import ListSerializer, SetSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, IntSerializerSnapshot, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer, StringSerializerSnapshot


class Longs(SerializerContract):
    serializer = LongSerializer()
    values = st.integers(-(2**63), 2**63 - 1)
    edges = (0, -1, 2**63 - 1)


class Ints(SerializerContract):
    serializer = IntSerializer()
    values = st.integers(-(2**31), 2**31 - 1)
    edges = (0, -1)


class Texts(SerializerContract):
    serializer = StringSerializer()
    values = st.text()
    edges = ("", "é", "long enough to be cut")


class Lists(SerializerContract):
    serializer = ListSerializer(LongSerializer())
    values = st.lists(st.integers(-5, 5))
    edges = ([], [1, 2])


class Sets(SerializerContract):
    serializer = SetSerializer(StringSerializer())
    values = st.sets(st.text())
    edges = (set(), {"a", "b", "some", "more", "words"})


def cases_of(contract):
    return sorted(name for name in dir(contract) if name.startswith("test_"))


def failing(contract):
    """The cases that do not hold."""
    suite, found = contract(), []
    for name in cases_of(contract):
        try:
            getattr(suite, name)()
        except Exception:  # noqa: BLE001 - a fault may show in any way
            found.append(name)
    return found


def swapped(self, value, target):
    target.write(value.to_bytes(8, "little", signed=True))


def one_byte_more(self, value, target):
    target.write_int(value)
    target.write_byte(0)


def as_found(self, value, target):
    """A set in the order in which it lies in memory, which is another one in each process."""
    target.write_int(len(value))
    for item in value:
        self.element.serialize(item, target)


def without_last(self, source):
    found = [self.element.deserialize(source) for _ in range(source.read_int())]
    return found[:-1]


SHARED = []


def always_the_same(self, source):
    SHARED[:] = [self.element.deserialize(source) for _ in range(source.read_int())]
    return SHARED


def lenient(self, source):
    """What is cut off is taken for zeros."""
    return int.from_bytes(source.read_fully(min(source.remaining(), 8)).ljust(8, b"\0"), "big", signed=True)


def none_is_empty(self, value, target):
    text = value or ""
    target.write_byte(len(text.encode()) + 1)
    target.write(text.encode())


COUNTER = itertools.count()


def learns(self, value, target):
    """The bytes depend on what was written before (SNAP-11)."""
    target.write_int(value ^ next(COUNTER) & 1)


def wraps(self, value, target):
    """The lowest bits of what does not fit."""
    target.write_int((value + 2**31) % 2**32 - 2**31)


FAULTS = {
    "bytes in another order": (Longs, LongSerializer, "serialize", swapped, "test_round_trip_one_by_one"),
    "a byte more than declared": (Ints, IntSerializer, "serialize", one_byte_more, "test_declared_length_is_true"),
    "sets in no order": (Sets, SetSerializer, "serialize", as_found, "test_deterministic_bytes"),
    "the last element lost": (Lists, ListSerializer, "deserialize", without_last, "test_round_trip_one_by_one"),
    "one list for all reads": (Lists, ListSerializer, "deserialize", always_the_same, "test_values_are_not_shared"),
    "truncation taken for zeros": (Longs, LongSerializer, "deserialize", lenient, "test_garbage_is_rejected"),
    "None written as empty": (Texts, StringSerializer, "serialize", none_is_empty, "test_nullability_is_declared"),
    "bytes that depend on the past": (Ints, IntSerializer, "serialize", learns, "test_round_trip_one_by_one"),
    "its own version unknown": (
        Ints, IntSerializerSnapshot, "get_compatible_versions", lambda self: (99,),
        "test_snapshot_class_is_instantiable",
    ),
    "refuses its own snapshot": (
        Longs, LongSerializer, "ensure_compatibility", lambda self, snapshot: CompatibilityResult.incompatible(),
        "test_own_snapshot_is_compatible",
    ),
    "takes everything for its own": (
        Ints, IntSerializer, "ensure_compatibility", lambda self, snapshot: CompatibilityResult.compatible(),
        "test_answers_about_others_are_true",
    ),
    "numbers that wrap": (
        Ints, IntSerializer, "serialize", wraps, "test_values_of_the_declared_type_fit_or_are_refused",
    ),
    "asks for a migration from itself": (
        Texts, StringSerializer, "ensure_compatibility",
        lambda self, snapshot: CompatibilityResult.requires_migration(), "test_own_snapshot_is_compatible",
    ),
    "restores another serializer": (
        Texts, StringSerializerSnapshot, "restore_serializer", lambda self: LongSerializer(),
        "test_own_snapshot_is_compatible",
    ),
    "copies too much": (
        Lists, ListSerializer, "copy_bytes",
        lambda self, source, target: target.write(source.read_fully(source.remaining())), "test_binary_copy_stream",
    ),
    "never equal": (
        Longs, LongSerializer, "__eq__", lambda self, other: False, "test_serializer_equality_and_shipping",
    ),
}  # fmt: skip


@pytest.mark.parametrize("contract", [Longs, Ints, Texts, Lists, Sets])
def test_serializers_without_a_fault_hold_every_case(contract):
    assert [] == failing(contract)
    assert 14 <= len(cases_of(contract))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(monkeypatch, fault):
    contract, owner, name, wrong, case = FAULTS[fault]
    monkeypatch.setattr(owner, name, wrong)

    assert case in failing(contract)


class Half:
    """An object that is not whole."""

    def __repr__(self):
        return self.name


def test_a_value_that_cannot_be_printed_is_found(monkeypatch):
    monkeypatch.setattr(LongSerializer, "deserialize", lambda self, source: (source.read_long(), Half())[1])

    assert "test_repr_of_result_is_sound" in failing(Longs)
