"""Arrays of primitives and of objects: Flink's bytes, the rules of sequences, and Python's hint for them."""

import array
import enum
import struct
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    Array,
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    DeclarationError,
    Field,
    Float32,
    Int8,
    Int16,
    Int32,
    StateShiftError,
    ValueNotConvertible,
    Verdict,
    enum_options,
    record,
    serializer_for,
)
from stateshift.serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from stateshift.serializers.containers.lists import ArrayListSerializer, ListSerializer, SetSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.containers.wrappers import ANY_CLASS, OptionalSerializer, array_class_of, java_class_of
from stateshift.serializers.primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from stateshift.serializers.primitives.text import CharSerializer, StringSerializer

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()
LONGS, INTS = PrimitiveArraySerializer(LONG), PrimitiveArraySerializer(INT)
STRINGS = StringArraySerializer(nullable_elements=True)
BOXED = GenericArraySerializer(INT, nullable_elements=True)


class TestBytes:
    @pytest.mark.parametrize(
        ("element", "value", "expected"),
        [
            (BooleanSerializer(), [True, False], "00000002 01 00"),
            (CharSerializer(), ["c", "中", "\ud83d"], "00000003 0063 4e2d d83d"),
            (ShortSerializer(), [1, -2], "00000002 0001 fffe"),
            (INT, [1, -2], "00000002 00000001 fffffffe"),
            (LONG, [], "00000000"),
            (LONG, [1], "00000001 0000000000000001"),
            (FloatSerializer(), [0.5, 1], "00000002 3f000000 3f800000"),
            (DoubleSerializer(), [0.5, 1], "00000002 3fe0000000000000 3ff0000000000000"),
        ],
    )
    def test_an_array_of_primitives_is_a_count_and_the_elements(self, write, read, copied, element, value, expected):
        serializer, data = PrimitiveArraySerializer(element), bytes.fromhex(expected)

        assert data == write(serializer, value) == write(serializer, tuple(value))
        assert value == read(serializer, data)
        assert data == copied(serializer, data)

    @pytest.mark.parametrize(
        ("serializer", "value", "expected"),
        [
            (STRINGS, ["", None, "z"], "00000003 01 00 02 7a"),
            (BOXED, [5, None], "00000002 01 00000005 00"),
            (GenericArraySerializer(TupleSerializer((STRING, INT))), [("a", 1)], "00000001 01 02 61 00000001"),
            (GenericArraySerializer(BOXED), [[None]], "00000001 01 00000001 00"),
        ],
    )
    def test_an_element_of_an_array_of_objects_comes_after_a_flag_that_it_is_present(
        self, write, read, copied, serializer, value, expected
    ):
        data = bytes.fromhex(expected)

        assert data == write(serializer, value)
        assert value == read(serializer, data)
        assert data == copied(serializer, data)

    def test_an_array_of_the_standard_library_is_written_as_well(self, write):
        assert write(LONGS, [1, 2]) == write(LONGS, array.array("q", [1, 2]))

    @pytest.mark.parametrize(
        ("serializer", "value", "message"),
        [
            (LONGS, "12", "'12' is not a list"),
            (LONGS, {1}, "is not a list"),
            (INTS, [1, 2**31], "2147483648 does not fit an int"),
            (INTS, [1, None], "None does not fit an int"),
            (INTS, [1.5], "1.5 does not fit an int"),
            (PrimitiveArraySerializer(BooleanSerializer()), [True, 1], "1 is not a boolean"),
            (PrimitiveArraySerializer(DoubleSerializer()), [2**53 + 1], "not exact as a double"),
            (PrimitiveArraySerializer(FloatSerializer()), [1e300], "does not fit a float"),
            (PrimitiveArraySerializer(CharSerializer()), ["ab"], "is not a char"),
            (BOXED, [2**31], "2147483648 does not fit an int"),
            (StringArraySerializer(), ["a", None], "found null in an array"),
            (GenericArraySerializer(INT), [1, None], "found null in an array"),
            (STRINGS, [1], "1 is not a string"),
        ],
    )
    def test_a_value_that_does_not_fit_is_reported_with_its_step(self, write, serializer, value, message):
        with pytest.raises(ValueNotConvertible, match=message) as caught:
            write(serializer, value)

        assert ("$" if "list" in message else "$[]") == caught.value.where.get("path", "$")

    @pytest.mark.parametrize("serializer", [StringArraySerializer(), GenericArraySerializer(INT)])
    def test_a_stored_null_fails_where_elements_are_not_declared_optional(self, write, read, serializer):
        nullable = attrs.evolve(serializer, nullable_elements=True)

        with pytest.raises(ValueNotConvertible, match=r"declare the element optional: Array\[… \| None\]") as caught:
            read(serializer, write(nullable, [None]))
        assert "$[]" == caught.value.where["path"]

    @pytest.mark.parametrize(
        "serializer", [LONGS, PrimitiveArraySerializer(BooleanSerializer()), STRINGS, BOXED, ListSerializer(BOXED)]
    )
    @pytest.mark.parametrize("count", ["7fffffff", "ffffffff", "00000009"])
    def test_a_count_beyond_the_bytes_is_refused_before_anything_is_allocated(self, serializer, count):
        data = bytes.fromhex(count) + bytes(4)

        for use in (serializer.deserialize, lambda source: serializer.copy_bytes(source, DataOutputView())):
            with pytest.raises(CorruptSavepoint, match="declared") as caught:
                use(DataInputView(data))
            assert 0 == caught.value.where["offset"]

    def test_a_byte_that_is_no_boolean_is_found_with_its_offset(self, read):
        with pytest.raises(CorruptSavepoint, match="0x07 where a boolean") as caught:
            read(PrimitiveArraySerializer(BooleanSerializer()), bytes.fromhex("00000003 010007"))

        assert (6, "$[]") == (caught.value.where["offset"], caught.value.where["path"])

    @given(st.lists(st.floats(width=32, allow_nan=False) | st.integers(-(2**24), 2**24)))
    def test_numbers_written_at_once_have_the_bytes_of_numbers_written_one_by_one(self, write, values):
        for element in (FloatSerializer(), DoubleSerializer()):
            one_by_one = b"".join(write(element, value) for value in values)

            assert struct.pack(">i", len(values)) + one_by_one == write(PrimitiveArraySerializer(element), values)


class Level(enum.Enum):
    LOW = 1


@enum_options(java_class="com.acme.Level")
class JavaLevel(enum.Enum):
    LOW = 1


@attrs.frozen
class Own:
    id: int


@record(java_class="com.acme.Click")
@attrs.frozen
class Click:
    at: Annotated[Array[int] | None, Field(name="times")]
    ids: Array[Int32]
    notes: Array[str | None]


class TestHint:
    @pytest.mark.parametrize(
        ("hint", "expected", "words"),
        [
            (Array[bool], PrimitiveArraySerializer(BooleanSerializer()), "array<boolean>"),
            (Array[Int16], PrimitiveArraySerializer(ShortSerializer()), "array<short>"),
            (Array[Int32], INTS, "array<int>"),
            (Array[int], LONGS, "array<long>"),
            (Array[Float32], PrimitiveArraySerializer(FloatSerializer()), "array<float>"),
            (Array[float], PrimitiveArraySerializer(DoubleSerializer()), "array<double>"),
            (Array[Int32 | None], BOXED, "array<optional<int>>"),
            (
                Array[Int8 | None],
                GenericArraySerializer(ByteSerializer(), nullable_elements=True),
                "array<optional<byte>>",
            ),
            (Array[str], StringArraySerializer(), "array<string>"),
            (Array[bytes], GenericArraySerializer(BytesSerializer(), "[B"), "array<bytes>"),
            (Array[Array[int]], GenericArraySerializer(LONGS, "[J"), "array<array<long>>"),
            (Array[int] | None, OptionalSerializer(LONGS), "optional<array<long>>"),
            (list[Array[int]], ListSerializer(LONGS), "list<array<long>>"),
        ],
    )
    def test_it_names_the_array_that_a_java_job_has(self, hint, expected, words):
        assert expected == serializer_for(hint)
        assert words == serializer_for(hint).describe()

    @pytest.mark.parametrize("hint", [Array[str | None], Array[Int32 | None], Array[Own | None]])
    def test_none_among_the_elements_is_declared(self, write, hint):
        assert bytes.fromhex("00000001 00") == write(serializer_for(hint), [None])

    def test_a_field_of_a_pojo_can_be_an_array(self, write, read):
        serializer = serializer_for(Click)
        value = Click([1, 2], [3], [None])

        assert value == read(serializer, write(serializer, value))
        assert {"ids": "array<int>", "notes": "array<string>", "times": "array<long>"} == {
            field.name: field.snapshot.describe() for field in serializer.snapshot_configuration().stored_fields()
        }

    def test_what_it_cannot_say_is_refused(self):
        with pytest.raises(DeclarationError, match=r"write bytes instead of Array\[Int8\]"):
            serializer_for(Array[Int8])
        with pytest.raises(DeclarationError, match="needs type arguments"):
            serializer_for(Array)
        with pytest.raises(DeclarationError, match="string is not a primitive type of Java"):
            PrimitiveArraySerializer(STRING)

    @pytest.mark.parametrize(
        ("hint", "expected"),
        [
            (int, "java.lang.Long"),
            (Int32 | None, "java.lang.Integer"),
            (tuple[int, str], "org.apache.flink.api.java.tuple.Tuple2"),
            (tuple[()], "org.apache.flink.api.java.tuple.Tuple0"),
            (list[int], "java.util.List"),
            (Click, "com.acme.Click"),
            (JavaLevel, "com.acme.Level"),
            (Level, ANY_CLASS),
            (Own, ANY_CLASS),
            (bytes, "[B"),
            (Array[str], "[Ljava.lang.String;"),
            (Array[Click], "[Lcom.acme.Click;"),
            (Array[Array[int]], "[[J"),
        ],
    )
    def test_the_class_of_the_elements_is_that_of_java(self, hint, expected):
        assert expected == java_class_of(serializer_for(hint).snapshot_configuration())
        assert expected == GenericArraySerializer(serializer_for(hint)).component_class

    def test_the_class_of_an_array_is_that_of_its_elements_in_brackets(self):
        assert ["[Ljava.lang.Long;", "[[J"] == [array_class_of("java.lang.Long"), array_class_of("[J")]

    @pytest.mark.parametrize("version", ["2.3", "1.20"])
    def test_flink_gives_its_arrays_the_same_classes(self, stored_states, version):
        states = stored_states("hashmap-zoo-p1-m128", version)

        for name, hint in {"boxedlongs": Array[int | None], "objarray": Array[tuple[str, Int32] | None]}.items():
            assert states[name].description.value.snapshot == serializer_for(hint).snapshot_configuration()


class TestRules:
    @pytest.mark.parametrize("serializer", [LONGS, STRINGS, BOXED])
    def test_the_same_is_compatible(self, ask, serializer):
        """LIST-1."""
        assert CompatibilityResult.compatible() == ask(serializer, serializer)

    def test_elements_are_judged_by_their_own_rules(self, ask, migrate, rules):
        """LIST-2."""
        boxed = GenericArraySerializer(LONG, nullable_elements=True)

        assert [("$[]", "PRIM-2")] == rules(ask(LONGS, INTS)) == rules(ask(boxed, BOXED))
        assert [1, -2] == migrate(LONGS, INTS, [1, -2])
        assert [1, None] == migrate(boxed, BOXED, [1, None])
        assert [("$[]", "PRIM-3")] == rules(ask(INTS, LONGS))

    @pytest.mark.parametrize(
        ("new", "old"),
        [
            (ListSerializer(INT), INTS),
            (INTS, ListSerializer(INT)),
            (ArrayListSerializer(INT), BOXED),
            (BOXED, ArrayListSerializer(INT)),
            (BOXED, INTS),
            (INTS, BOXED),
        ],
    )
    def test_arrays_and_lists_of_equal_elements_become_each_other(self, ask, migrate, rules, new, old):
        """FAM-4: equal descriptors in other bytes."""
        assert [("$", "FAM-4")] == rules(ask(new, old))
        assert [1, 2] == migrate(new, old, [1, 2])

    def test_an_array_of_strings_and_one_of_objects_become_each_other(self, ask, migrate, rules):
        """FAM-4."""
        objects = GenericArraySerializer(STRING, nullable_elements=True)

        for new, old in ((objects, STRINGS), (STRINGS, objects)):
            assert [("$", "FAM-4")] == rules(ask(new, old))
            assert ["a", None] == migrate(new, old, ["a", None])

    def test_it_composes_with_the_change_of_the_elements(self, ask, migrate, rules):
        """FAM-4 and LIST-2."""
        assert [("$", "FAM-4"), ("$[]", "PRIM-2")] == rules(ask(ListSerializer(LONG), INTS))
        assert [7] == migrate(ListSerializer(LONG), INTS, [7])
        assert [("$", "FAM-4"), ("$[]", "PRIM-4")] == rules(ask(STRINGS, LONGS))
        assert ask(STRINGS, LONGS).is_incompatible()

    def test_a_null_that_the_new_type_cannot_hold_fails_when_it_is_met(self, ask, migrate):
        """FAM-4, with `may_fail_per_value`: the stored type does not show whether there is one."""
        result = ask(ListSerializer(INT), BOXED)

        assert (("$", "may_fail_per_value"),) == result.flags
        assert "a null among them" in result.findings[0].reason
        with pytest.raises(ValueNotConvertible, match="None does not fit an int"):
            migrate(ListSerializer(INT), BOXED, [None])

    @pytest.mark.parametrize("new", [serializer_for(list[Int32 | None]), GenericArraySerializer(INT)])
    def test_nulls_go_by_the_flag_that_the_new_sequence_has(self, ask, migrate, new):
        old = BOXED if isinstance(new, ListSerializer) else serializer_for(list[Int32 | None])
        new = new if isinstance(new, ListSerializer) else attrs.evolve(new, nullable_elements=True)

        assert () == ask(new, old).flags
        assert [1, None] == migrate(new, old, [1, None])

    def test_a_second_null_flag_of_the_stored_elements_is_kept(self, ask, rules):
        """OPT-3."""
        twice = GenericArraySerializer(OptionalSerializer(INT), nullable_elements=True)

        assert [("$[]", "OPT-3")] == rules(ask(BOXED, twice))
        assert twice == ask(BOXED, twice).reconfigured_serializer

    def test_a_stored_component_class_is_kept(self, ask, rules):
        """LIST-1: Flink takes over an array of that class alone."""
        stored = GenericArraySerializer(LONG, "java.lang.Number")
        result = ask(GenericArraySerializer(LONG), stored)

        assert [("$", "LIST-1")] == rules(result)
        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION is result.verdict
        assert stored == result.reconfigured_serializer

    def test_the_class_of_renamed_elements_follows_them(self, ask, rules):
        """REC-11 within LIST-1."""
        new = serializer_for(Click)
        old = attrs.evolve(new, name="com.acme.old.Click")
        new = attrs.evolve(new, aliases=("com.acme.old.Click",))
        result = ask(GenericArraySerializer(new), GenericArraySerializer(old))

        assert ("$[]", "REC-11") in rules(result)
        assert "com.acme.Click" == result.reconfigured_serializer.component_class

    @pytest.mark.parametrize("other", [SetSerializer(LONG), TupleSerializer((LONG, LONG))])
    def test_arrays_do_not_convert_to_or_from_sets_and_tuples(self, ask, rules, other):
        """LIST-3."""
        for serializer in (LONGS, BOXED, STRINGS):
            assert [("$", "LIST-3")] == rules(ask(serializer, other)) == rules(ask(other, serializer))

    def test_an_array_becomes_nothing_else(self, ask, rules):
        """FAM-2."""
        for other in (BytesSerializer(), DecimalSerializer()):
            assert [("$", "FAM-2")] == rules(ask(LONGS, other)) == rules(ask(other, LONGS))

    def test_a_fallback_reads_the_elements_of_an_old_array(self, write):
        """READ-3: the array is read with the fallback of its elements."""
        fallback = _Counted()
        new = GenericArraySerializer(_WithFallback(fallback))
        result = new.ensure_compatibility(GenericArraySerializer(LONG).snapshot_configuration())

        assert Verdict.REQUIRES_MIGRATION_WITH_FALLBACK is result.verdict
        data = write(GenericArraySerializer(LONG), [3, 4])
        assert [-3, -4] == result.fallback.deserialize(DataInputView(data))


class _Counted:
    """A fallback that reads a long and changes its sign."""

    def deserialize(self, source: DataInputView) -> int:
        return -source.read_long()


@attrs.frozen
class _WithFallback(LongSerializer):
    """Asks for its fallback whatever is stored."""

    fallback: Any = None

    def ensure_compatibility(self, snapshot):
        return CompatibilityResult.requires_migration(fallback=self.fallback)


ELEMENTS = st.sampled_from([(LONG, st.integers(-9, 9)), (INT, st.integers(-9, 9)), (STRING, st.text(max_size=3))])


@given(st.data())
def test_a_migration_between_any_two_sequences_keeps_the_elements(ask, migrate, data):
    """FAM-4 with LIST-1 and LIST-2: what is promised is kept, for every pair."""
    element, values = data.draw(ELEMENTS)
    makers = [ListSerializer, ArrayListSerializer, lambda one: GenericArraySerializer(one, nullable_elements=True)]
    makers += [lambda _: STRINGS] if element is STRING else [PrimitiveArraySerializer]
    old, new = (data.draw(st.sampled_from(makers))(element) for _ in range(2))
    value = data.draw(st.lists(values))

    if ask(new, old).is_migration_required():
        assert value == migrate(new, old, value)
    else:
        assert ask(new, old).is_compatible_as_is()


@given(st.binary(max_size=60))
def test_garbage_gives_what_is_written_again_or_an_error_of_ours(write, data):
    for serializer in (LONGS, PrimitiveArraySerializer(CharSerializer()), STRINGS, BOXED):
        source = DataInputView(data)
        try:
            value = serializer.deserialize(source)
        except StateShiftError:
            continue
        again = write(serializer, value)

        assert len(again) <= source.position
        assert repr(value) == repr(serializer.deserialize(DataInputView(again)))
