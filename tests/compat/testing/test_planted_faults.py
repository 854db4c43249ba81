"""A contract is worth what it catches: faults planted into built-in serializers, each found by the case that is to."""

# ruff: noqa: ARG001, ARG005 - what is put in place of a method has its arguments

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st
from measures import Measure, Measures, MeasureSerializer, MeasureSnapshot

from stateshift import CompatibilityResult
from stateshift.compat.testing import SerializerContract
from stateshift.serializers.containers.lists import ListSerializer, SetSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, IntSerializerSnapshot, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer, StringSerializerSnapshot
from stateshift.serializers.serializer import unrelated


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


def stored_as_zero(self, value, target):
    target.write_short(0 if value is None else value.steps)
    target.write_int(0 if value is None else len(value.notes))
    for note in () if value is None else value.notes:
        target.write_utf(note)


def cut(self, value, target):
    """The lowest bits of steps that do not fit."""
    target.write_short((value.steps + 2**15) % 2**16 - 2**15)
    target.write_int(len(value.notes))
    for note in value.notes:
        target.write_utf(note)


def without_size(self, source):
    """One byte of what follows is taken for its own."""
    found = Measure(source.read_short(), tuple(source.read_utf() for _ in range(source.read_int())))
    source.skip_bytes(min(source.remaining(), 1))
    return found


def notes_left(self, source):
    found = Measure(source.read_short())
    source.read_int()
    return found


def changeable_notes(self, source):
    steps = source.read_short()
    return Measure(steps, [source.read_utf() for _ in range(source.read_size("notes", least_bytes_each=2))])


def asks_anything(self, snapshot):
    return CompatibilityResult.compatible() if snapshot.scale == self.scale else unrelated(self, snapshot)


OF_USERS = {
    "restore_serializer forgets a parameter that changes the bytes": (
        MeasureSnapshot, "restore_serializer", lambda self: MeasureSerializer(self.scale),
        "test_own_snapshot_is_compatible", "pass them on",
    ),
    "restore_serializer forgets a parameter that changes the meaning": (
        MeasureSnapshot, "restore_serializer", lambda self: MeasureSerializer(wide=self.wide),
        "test_own_snapshot_is_compatible", "pass them on",
    ),
    "the snapshot does not write a parameter": (
        MeasureSnapshot, "write", lambda self, target: (target.write_int(self.scale), target.write_boolean(False)),
        "test_own_snapshot_is_compatible", "it lacks a parameter",
    ),
    "the snapshot does not read a parameter": (
        MeasureSnapshot, "read", lambda self, source: (source.read_int(), source.read_boolean()),
        "test_own_snapshot_is_compatible", "reads back differently",
    ),
    "the snapshot is not given a parameter": (
        MeasureSerializer, "snapshot_configuration", lambda self: MeasureSnapshot(1, self.wide),
        "test_own_snapshot_is_compatible", "it lacks a parameter",
    ),
    "shipping loses a parameter": (
        MeasureSerializer, "__reduce__", lambda self: (MeasureSerializer, ()),
        "test_serializer_equality_and_shipping", "loses a parameter",
    ),
    "compatible with other parameters": (
        MeasureSerializer, "ensure_compatibility",
        lambda self, snapshot: (
            CompatibilityResult.compatible() if isinstance(snapshot, MeasureSnapshot) else unrelated(self, snapshot)
        ),
        "test_answers_about_others_are_true", "it accepts what .* wrote as compatible",
    ),
    "an error about foreign snapshots": (
        MeasureSerializer, "ensure_compatibility", asks_anything,
        "test_answers_about_others_are_true", "ensure_compatibility fails on the snapshot of",
    ),
    "None stored as zero": (
        MeasureSerializer, "serialize", stored_as_zero, "test_nullability_is_declared", "Measure\\(0|is None",
    ),
    "numbers cut to their lowest bits": (
        MeasureSerializer, "serialize", cut, "test_values_of_the_declared_type_fit_or_are_refused", "was read",
    ),
    "a byte of the next value read": (
        MeasureSerializer, "deserialize", without_size, "test_round_trip_stream",
        "cannot read bytes that it wrote|was read",
    ),
    "a part not read": (
        MeasureSerializer, "deserialize", notes_left, "test_round_trip_one_by_one", "left over",
    ),
    "a part that can be changed, of a type declared immutable": (
        MeasureSerializer, "deserialize", changeable_notes, "test_immutable_types_are_declared", "declared immutable",
    ),
    "a copy of the first bytes only": (
        MeasureSerializer, "copy_bytes", lambda self, source, target: target.write(source.read_fully(2)),
        "test_binary_copy_one", "copy_bytes copies other bytes",
    ),
    "a copy past the end": (
        MeasureSerializer, "copy_bytes", lambda self, source, target: target.write(source.read_fully(100)),
        "test_binary_copy_one", "the serializer cannot copy bytes that it wrote",
    ),
    "a length that is not that of every value": (
        MeasureSerializer, "length", 6, "test_declared_length_is_true", "6 == 11",
    ),
}  # fmt: skip
"""Faults of a user's serializer with parameters: where they are, the case that finds them, and its words."""


def test_a_users_serializer_without_a_fault_holds_every_case():
    assert [] == failing(Measures)


@pytest.mark.parametrize("fault", OF_USERS)
def test_a_fault_of_a_users_serializer_is_named_as_its_own(monkeypatch, fault):
    owner, name, wrong, case, words = OF_USERS[fault]
    monkeypatch.setattr(owner, name, wrong)

    with pytest.raises(AssertionError, match=words) as caught:
        getattr(Measures(), case)()
    assert "the file" not in str(caught.value)


class Half:
    """An object that is not whole."""

    def __repr__(self):
        return self.name


def test_a_value_that_cannot_be_printed_is_found(monkeypatch):
    monkeypatch.setattr(LongSerializer, "deserialize", lambda self, source: (source.read_long(), Half())[1])

    assert "test_repr_of_result_is_sound" in failing(Longs)
