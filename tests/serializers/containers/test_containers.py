"""Lists, sets, maps and tuples: Flink's bytes, real snapshots, and the rules LIST, MAP, TUP and OPT-4."""

import pickle
import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    DeclarationError,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    ValueNotConvertible,
    Verdict,
    serializer_for,
)
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.containers.lists import (
    ArrayListSerializer,
    ArrayListSerializerSnapshot,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from stateshift.serializers.containers.tuples import (
    Tuple0SerializerSnapshot,
    TupleSerializer,
    TupleSerializerSnapshot,
)
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer, VoidSerializer
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    LongSerializerSnapshot,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.snapshot import read_versioned_snapshot, snapshot_from_bytes, snapshot_to_bytes

LONG, INT, BYTE, STRING = LongSerializer(), IntSerializer(), ByteSerializer(), StringSerializer()


class TestBytes:
    @pytest.mark.parametrize(
        ("serializer", "value", "expected"),
        [
            (ListSerializer(BYTE), [3, 1], "00000002 03 01"),
            (ListSerializer(BYTE), [], "00000000"),
            (ArrayListSerializer(BYTE), [3, 1], "00000002 03 01"),
            (SetSerializer(BYTE), {3, 1}, "00000002 0001 0003"),
            (SetSerializer(BYTE, nullable_elements=True), {3, None}, "00000002 0003 01"),
            (MapSerializer(BYTE, INT), {3: 4, 1: 2}, "00000002 03 00 00000004 01 00 00000002"),
            (MapSerializer(BYTE, INT, nullable_values=True), {3: None, 1: 2}, "00000002 03 01 01 00 00000002"),
            (TupleSerializer((BYTE, INT)), (1, 2), "01 00000002"),
            (TupleSerializer(()), (), "2a"),
            (ListSerializer(TupleSerializer((BYTE, STRING))), [(1, "ab")], "00000001 01 036162"),
        ],
    )
    def test_values_have_the_bytes_that_flink_writes(self, write, read, stored, serializer, value, expected):
        data = bytes.fromhex(expected)

        assert data == write(serializer, value)
        assert value == read(serializer, data)
        assert value == read(stored(serializer).restore_serializer(), data)

    def test_a_null_goes_by_the_flag_of_the_map_or_set_even_where_the_value_could_write_it(self, write, read):
        optional = OptionalSerializer(BYTE)

        assert bytes.fromhex("00000001 01 01") == write(MapSerializer(BYTE, optional), {1: None})
        assert bytes.fromhex("00000001 01") == write(SetSerializer(optional), {None})
        assert {1: None} == read(MapSerializer(BYTE, optional), bytes.fromhex("00000001 01 00 01"))

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ((LONG, INT), 12),
            ((LONG, STRING), -1),
            ((LONG, VoidNamespaceSerializer()), -1),
            ((TupleSerializer((BYTE, BYTE)), BooleanSerializer()), 3),
            ((), 1),
        ],
    )
    def test_a_tuple_declares_the_length_that_flink_declares(self, fields, expected):
        assert expected == TupleSerializer(fields).length

    def test_a_map_keeps_its_order_as_flink_writes_it(self, write, read):
        by_length = {"b": 1, "a": 2, "": 3}
        serializer = MapSerializer(STRING, LONG)

        assert [*by_length] == [*read(serializer, write(serializer, by_length))]

    def test_equal_sets_have_equal_bytes_whatever_their_order(self, write):
        numbers = [8, 0]  # in one slot of a hash table of eight: iterated in order of insertion

        assert write(SetSerializer(LONG), set(numbers)) == write(SetSerializer(LONG), frozenset(reversed(numbers)))

    def test_a_restored_set_is_frozen_so_that_it_can_be_an_element_or_a_key(self, write, read, stored):
        nested = SetSerializer(SetSerializer(BYTE, frozen=True))
        value = {frozenset({1, 2}), frozenset()}

        assert value == read(nested, write(nested, value))
        assert frozenset(value) == read(stored(nested).restore_serializer(), write(nested, value))
        assert isinstance(read(nested, write(nested, value)), set)

    def test_copying_passes_over_values_without_objects(self, write):
        serializer = ListSerializer(MapSerializer(BYTE, SetSerializer(STRING), nullable_values=True))
        data = write(serializer, [{1: {"a", "b"}, 2: None}, {}]) + b"rest"
        source, target = DataInputView(data), DataOutputView()

        serializer.copy_bytes(source, target)

        assert data == target.getvalue() + b"rest"
        assert serializer.layout.can_skip


class TestValuesThatDoNotFit:
    @pytest.mark.parametrize(
        ("serializer", "value", "path", "message"),
        [
            (ListSerializer(STRING), "abc", "$", "'abc' is not a list"),
            (ListSerializer(LONG), [1, "x"], "$[]", "'x' does not fit a long"),
            (SetSerializer(LONG), [1], "$", r"\[1\] is not a set"),
            (SetSerializer(LONG), {1, None}, "$[]", r"set\[… \| None\]"),
            (SetSerializer(LONG), {1, "x"}, "$[]", "'x' does not fit a long"),
            (SetSerializer(FloatSerializer()), {0.1, 0.1 + 1e-12}, "$[]", "two elements of a set are written the same"),
            (MapSerializer(LONG, LONG), [(1, 2)], "$", "is not a map"),
            (MapSerializer(LONG, LONG), {1: None}, "${}", "at key 1 of a map is null(.|\n)*declare the value optional"),
            (MapSerializer(LONG, BYTE), {1: 300}, "${}", "300 does not fit a byte"),
            (MapSerializer(BYTE, BYTE), {300: 1}, "$<key>", "300 does not fit a byte"),
            (TupleSerializer((LONG, LONG)), (1,), "$", "is not a tuple of 2 items"),
            (TupleSerializer((LONG, BYTE)), (1, 300), "$(1)", "300 does not fit a byte"),
            (ListSerializer(MapSerializer(LONG, TupleSerializer((BYTE,)))), [{1: (300,)}], "$[]{}(0)", "300"),
        ],
    )
    def test_an_error_says_what_and_where(self, write, serializer, value, path, message):
        with pytest.raises(ValueNotConvertible, match=message) as caught:
            write(serializer, value)

        assert path == caught.value.where.get("path", "$")

    def test_a_stored_null_where_values_are_not_optional_names_key_and_path(self, write, read):
        data = write(MapSerializer(LONG, LONG, nullable_values=True), {7: None})

        with pytest.raises(ValueNotConvertible, match="key 7 of a map is null") as caught:
            read(MapSerializer(LONG, LONG), data)

        assert "${}" == caught.value.where["path"]

    def test_stored_elements_that_are_equal_in_python_are_not_merged_in_silence(self, write, read):
        zeros = write(ListSerializer(DoubleSerializer()), [0.0, -0.0])
        as_set = zeros[:4] + b"\0" + zeros[4:12] + b"\0" + zeros[12:]
        as_map = zeros[:4] + zeros[4:12] + b"\0\1" + zeros[12:] + b"\0\2"

        with pytest.raises(ValueNotConvertible, match=r"two stored elements of a set are, for Python, the same: -?0.0"):
            read(SetSerializer(DoubleSerializer()), as_set)
        with pytest.raises(ValueNotConvertible, match=r"two stored keys of a map are, for Python, the same: -?0.0"):
            read(MapSerializer(DoubleSerializer(), BYTE), as_map)

    def test_elements_and_keys_that_python_cannot_hash_are_an_error_that_says_so(self, read):
        lists = ListSerializer(BYTE)
        as_set = bytes.fromhex("00000001 00 00000000")

        with pytest.raises(ValueNotConvertible, match=r"unhashable type: 'list'(.|\n)*a tuple or a frozenset"):
            read(SetSerializer(lists), as_set)
        with pytest.raises(ValueNotConvertible, match="unhashable type: 'list'"):
            read(MapSerializer(lists, BYTE), bytes.fromhex("00000001 00000000 00 01"))

    @pytest.mark.parametrize(
        ("serializer", "data", "path"),
        [
            (ListSerializer(LONG), "7fffffff", "$"),
            (ListSerializer(LONG), "ffffffff", "$"),
            (ListSerializer(LONG), "00000002 0000000000000001 00", "$[]"),
            (SetSerializer(LONG), "00000001 02 0000000000000001", "$"),
            (MapSerializer(LONG, LONG), "40000000 00", "$"),
            (MapSerializer(BYTE, LONG), "00000001 01 00 00", "${}"),
            (MapSerializer(INT, BYTE), "00000001 01 00", "$<key>"),
            (TupleSerializer((BYTE, LONG)), "01 00", "$(1)"),
            (TupleSerializer(()), "2b", "$"),
        ],
    )
    def test_damaged_bytes_are_an_error_with_path_and_offset(self, read, serializer, data, path):
        with pytest.raises(CorruptSavepoint) as caught:
            read(serializer, bytes.fromhex(data))

        assert path == caught.value.where.get("path", "$")
        assert "offset" in caught.value.where

    def test_a_tuple_of_more_than_25_items_is_refused_when_it_is_declared(self):
        assert 25 == len(TupleSerializer((LONG,) * 25).fields)
        with pytest.raises(DeclarationError, match=r"a tuple of 26 items(.|\n)*use a record"):
            TupleSerializer((LONG,) * 26)


def flink_snapshots(folder) -> list[tuple[bytes, TypeSerializerConfigSnapshot[Any]]]:
    """Every snapshot of the families of this test in a `_metadata` that holds its state inline."""
    data = (folder / "_metadata").read_bytes()
    names = rb"(List|Set|Map|Tuple)SerializerSnapshot|(NullableSerializer|EnumSerializer|TtlStateFactory)\$\w+"
    snapshots = []
    for match in re.finditer(rb"org\.apache\.flink\.[a-z.]+(" + names + rb")", data):
        view = DataInputView(data, match.start() - 2)
        snapshot = read_versioned_snapshot(view)
        snapshots.append((view.span(match.start() - 2), snapshot))
    return snapshots


class TestSnapshots:
    @pytest.mark.parametrize(
        ("name", "types"),
        [
            (
                "hashmap-zoo-p1-m128",
                {
                    "list<long>",
                    "map<string, double>",
                    "map<int, list<tuple<string, boolean>>>",
                    "tuple<string, int, double, boolean, tuple<byte, short>>",
                    "list<ttl<string>>",
                    "map<string, ttl<long>>",
                    "enum Level",
                },
            ),
            (
                "hashmap-collections",
                {"optional<set<string>>", "optional<list<optional<int>>>", "optional<map<optional<string>, long>>"},
            ),
        ],
    )
    def test_snapshots_of_real_flink_are_read_restored_and_written_again(self, savepoint_of, name, types):
        found = flink_snapshots(savepoint_of(name))

        assert types <= {snapshot.describe() for _, snapshot in found}
        for data, snapshot in found:
            assert data == snapshot_to_bytes(snapshot)
            assert snapshot.is_flink
            restored = snapshot.restore_serializer()
            assert data == snapshot_to_bytes(restored.snapshot_configuration())
            assert restored.ensure_compatibility(snapshot).is_compatible_as_is()

    def test_type_hints_that_mean_flinks_types_are_compatible_with_real_snapshots(self, savepoint_of):
        zoo = {snapshot.describe(): snapshot for _, snapshot in flink_snapshots(savepoint_of("hashmap-zoo-p1-m128"))}

        assert serializer_for(list[int]).ensure_compatibility(zoo["list<long>"]).is_compatible_as_is()
        assert serializer_for(dict[str, float]).ensure_compatibility(zoo["map<string, double>"]).is_compatible_as_is()

    def test_the_tuple_class_is_that_of_the_arity(self, stored):
        expected = "org.apache.flink.api.java.tuple.Tuple3"

        assert expected == TupleSerializer((LONG, LONG, LONG)).snapshot_configuration().tuple_class
        assert Tuple0SerializerSnapshot() == stored(TupleSerializer(()))

    @pytest.mark.parametrize("count", [0, 26])
    def test_a_tuple_snapshot_of_an_impossible_arity_is_corrupt(self, count):
        snapshot = TupleSerializerSnapshot((LongSerializerSnapshot(),) * count, "Tuple")

        with pytest.raises(CorruptSavepoint, match=f"a tuple of {count} items"):
            snapshot_from_bytes(snapshot_to_bytes(snapshot))

    def test_a_snapshot_with_the_wrong_number_of_nested_ones_is_corrupt(self, stored):
        data = snapshot_to_bytes(attrs.evolve(stored(ListSerializer(LONG)), nested=(LongSerializerSnapshot(),) * 2))

        with pytest.raises(CorruptSavepoint, match="has 2 nested snapshots and should have 1"):
            snapshot_from_bytes(data)


class TestLists:
    @pytest.mark.parametrize("make", [ListSerializer, SetSerializer])
    def test_the_same_is_compatible(self, ask, make):
        """LIST-1."""
        assert ask(make(LONG), make(LONG)).is_compatible_as_is()

    @pytest.mark.parametrize(("make", "value"), [(ListSerializer, [1, 2]), (SetSerializer, {1, 2})])
    def test_elements_are_widened_one_by_one(self, ask, migrate, rules, make, value):
        """LIST-2."""
        result = ask(make(LONG), make(INT))

        assert [("$[]", "PRIM-2")] == rules(result)
        assert "collision_check" not in {flag for _, flag in result.flags}
        assert value == migrate(make(LONG), make(INT), value)

    def test_a_lossy_conversion_of_the_elements_of_a_set_is_checked_for_collisions(self, ask, migrate, rules):
        """LIST-2."""
        old, new = SetSerializer(LONG), SetSerializer(FloatSerializer())

        result = ask(new, old)

        assert [("$[]", "LIST-2"), ("$[]", "PRIM-2")] == rules(result)
        assert {("$[]", "collision_check"), ("$[]", "lossy")} <= set(result.flags)
        assert {1.0, 2.0} == migrate(new, old, {1, 2})
        with pytest.raises(ValueNotConvertible, match="two elements of a set become the same") as caught:
            migrate(new, old, {2**60, 2**60 + 1})
        assert ("$[]", "LIST-2") == (caught.value.where["path"], caught.value.where["rule"])

    @pytest.mark.parametrize("old", [ListSerializer(LONG), ArrayListSerializer(LONG)])
    @pytest.mark.parametrize("new", [ListSerializer(LONG), ArrayListSerializer(LONG)])
    def test_a_list_and_flinks_array_list_take_over_from_each_other(self, ask, old, new):
        assert ask(new, old).is_compatible_as_is()
        assert ask(attrs.evolve(new, element=BigIntSerializer()), old).is_migration_required()

    def test_a_snapshot_of_an_array_list_is_written_again_as_one(self, stored):
        snapshot = stored(ArrayListSerializer(LONG))

        assert isinstance(snapshot, ArrayListSerializerSnapshot)
        assert snapshot == stored(snapshot.restore_serializer())

    def test_nulls_are_left_to_the_new_type(self, migrate):
        old = ListSerializer(OptionalSerializer(INT))

        assert [1, None] == migrate(ListSerializer(OptionalSerializer(LONG)), old, [1, None])


class TestMaps:
    def test_the_same_is_compatible(self, ask):
        """MAP-1."""
        assert ask(MapSerializer(STRING, LONG), MapSerializer(STRING, LONG)).is_compatible_as_is()

    def test_values_are_widened_one_by_one(self, ask, migrate, rules):
        """MAP-2."""
        old, new = MapSerializer(STRING, INT), MapSerializer(STRING, LONG)

        assert [("${}", "PRIM-2")] == rules(ask(new, old))
        assert {"a": 1} == migrate(new, old, {"a": 1})

    def test_migrating_keys_are_checked_for_collisions(self, ask, migrate, rules):
        """MAP-3."""
        old, new = MapSerializer(LONG, LONG), MapSerializer(FloatSerializer(), LONG)

        result = ask(new, old)

        assert [("$<key>", "MAP-3"), ("$<key>", "PRIM-2")] == rules(result)
        assert ("$<key>", "collision_check") in result.flags
        assert {1.0: 5} == migrate(new, old, {1: 5})
        with pytest.raises(ValueNotConvertible, match="two keys of a map become the same") as caught:
            migrate(new, old, {2**60: 1, 2**60 + 1: 2})
        assert ("$<key>", "MAP-3") == (caught.value.where["path"], caught.value.where["rule"])

    def test_an_incompatible_key_is_reported_without_a_collision_check(self, ask, rules):
        """MAP-3."""
        result = ask(MapSerializer(INT, LONG), MapSerializer(LONG, INT))

        assert [("$<key>", "PRIM-3"), ("${}", "PRIM-2")] == rules(result)
        assert result.is_incompatible()

    def test_values_and_elements_may_become_optional_without_a_change_of_bytes(self, ask):
        """OPT-4."""
        for old, new in [(dict[str, int], dict[str, int | None]), (set[int], set[int | None])]:
            assert CompatibilityResult.compatible() == ask(serializer_for(new), serializer_for(old))

    def test_a_null_flag_of_the_stored_values_is_kept_next_to_that_of_the_map(self, write, read, stored, ask, rules):
        """OPT-3, as for a POJO field `Map<String, List<Long>>` of Flink 2."""
        old = MapSerializer(STRING, OptionalSerializer(ListSerializer(LONG)))
        new = MapSerializer(STRING, ListSerializer(LONG), nullable_values=True)
        value = {"a": [1], "b": None}

        result = ask(new, old)

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION is result.verdict
        assert [("${}", "OPT-3")] == rules(result)
        assert stored(old) == stored(result.reconfigured_serializer)
        assert value == read(result.reconfigured_serializer, write(old, value))
        assert write(old, value) == write(result.reconfigured_serializer, value)

    def test_a_null_flag_of_the_stored_elements_is_kept_next_to_that_of_the_set(self, write, read, stored, ask):
        """OPT-3."""
        old = SetSerializer(OptionalSerializer(LONG, 8))
        new = SetSerializer(LONG, nullable_elements=True)

        result = ask(new, old)

        assert stored(old) == stored(result.reconfigured_serializer)
        assert {1, None} == read(result.reconfigured_serializer, write(old, {1, None}))

    def test_optional_values_of_another_type_migrate_and_lose_their_second_flag(self, ask, migrate, rules):
        """OPT-3."""
        old = MapSerializer(STRING, OptionalSerializer(INT))
        new = MapSerializer(STRING, LONG, nullable_values=True)

        assert [("${}", "OPT-3"), ("${}?", "PRIM-2")] == rules(ask(new, old))
        assert {"a": 1, "b": None} == migrate(new, old, {"a": 1, "b": None})

    def test_stored_optional_values_do_not_become_required_ones(self, ask, rules):
        """OPT-2."""
        result = ask(MapSerializer(STRING, LONG), MapSerializer(STRING, OptionalSerializer(LONG)))

        assert [("${}", "OPT-2")] == rules(result)
        assert result.is_incompatible()

    def test_that_values_and_elements_were_optional_is_not_stored_and_a_null_is_an_error_opt_2(self, ask, read, write):
        cases = [
            (dict[str, int], dict[str, int | None], {"a": None}, "the value at key 'a' of a map is null"),
            (set[int], set[int | None], {None}, "found null in a set"),
        ]
        for new, old, value, message in cases:
            assert ask(serializer_for(new), serializer_for(old)).is_compatible_as_is()
            with pytest.raises(ValueNotConvertible, match=message):
                read(serializer_for(new), write(serializer_for(old), value))

    def test_a_null_met_in_a_migration_to_required_values_is_an_error_with_its_key(self, migrate):
        old = MapSerializer(STRING, INT, nullable_values=True)

        with pytest.raises(ValueNotConvertible, match="key 'b' of a map is null"):
            migrate(MapSerializer(STRING, LONG), old, {"a": 1, "b": None})


class TestTuples:
    def test_the_same_is_compatible(self, ask):
        """TUP-1."""
        assert CompatibilityResult.compatible() == ask(TupleSerializer((LONG, STRING)), TupleSerializer((LONG, STRING)))
        assert CompatibilityResult.compatible() == ask(TupleSerializer(()), TupleSerializer(()))

    def test_items_are_converted_by_position(self, ask, migrate, rules):
        """TUP-2."""
        old, new = TupleSerializer((INT, STRING, INT)), TupleSerializer((LONG, STRING, DoubleSerializer()))

        assert [("$(0)", "PRIM-2"), ("$(2)", "PRIM-2")] == rules(ask(new, old))
        assert (1, "a", 2.0) == migrate(new, old, (1, "a", 2))

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_another_arity_is_incompatible(self, ask, rules, count):
        """TUP-3."""
        result = ask(TupleSerializer((LONG,) * count), TupleSerializer((LONG, LONG)))

        assert [("$", "TUP-3")] == rules(result)
        assert f"2 stored and {count} declared" in result.findings[0].reason
        assert "record" in " ".join(map(str, result.findings[0].ways_out))

    def test_swapped_items_are_judged_by_position(self, ask, rules):
        """TUP-4."""
        assert [("$(0)", "FAM-2"), ("$(1)", "FAM-2")] == rules(
            ask(TupleSerializer((LONG, ListSerializer(LONG))), TupleSerializer((ListSerializer(LONG), LONG)))
        )

    def test_a_java_class_of_its_own_is_kept(self, stored, ask):
        """TUP-1: a Java class that extends Tuple2 has the bytes of a tuple."""
        old = TupleSerializer((LONG, LONG), "com.acme.Pair")

        result = ask(TupleSerializer((LONG, LONG)), old)

        assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION is result.verdict
        assert stored(old) == stored(result.reconfigured_serializer)


LEAVES: list[tuple[TypeSerializer[Any], TypeSerializer[Any], st.SearchStrategy[Any]]] = [
    (INT, LONG, st.integers(-(2**31), 2**31 - 1)),
    (LONG, BigIntSerializer(), st.integers(-(2**63), 2**63 - 1)),
    (STRING, STRING, st.text(max_size=5)),
    (STRING, BytesSerializer(), st.text(st.characters(codec="utf-8"), max_size=5)),
    (VoidSerializer(), VoidSerializer(), st.none()),
]


@attrs.frozen
class Evolution:
    """An old type, a new one that it converts to, and values of the old."""

    old: TypeSerializer[Any]
    new: TypeSerializer[Any]
    values: st.SearchStrategy[Any]


def containers(inner: st.SearchStrategy[Evolution]) -> st.SearchStrategy[Evolution]:
    keys = st.sampled_from([Evolution(*leaf) for leaf in LEAVES[:4]])
    return st.one_of(
        inner.map(lambda e: Evolution(ListSerializer(e.old), ListSerializer(e.new), st.lists(e.values, max_size=3))),
        keys.map(lambda e: Evolution(SetSerializer(e.old), SetSerializer(e.new), st.sets(e.values, max_size=3))),
        st.tuples(keys, inner).map(
            lambda pair: Evolution(
                MapSerializer(pair[0].old, pair[1].old, nullable_values=True),
                MapSerializer(pair[0].new, pair[1].new, nullable_values=True),
                st.dictionaries(pair[0].values, st.none() | pair[1].values, max_size=3),
            )
        ),
        st.lists(inner, max_size=3).map(
            lambda parts: Evolution(
                TupleSerializer(tuple(part.old for part in parts)),
                TupleSerializer(tuple(part.new for part in parts)),
                st.tuples(*(part.values for part in parts)),
            )
        ),
        inner.map(
            lambda e: Evolution(OptionalSerializer(e.old), OptionalSerializer(e.new), st.none() | e.values),
        ),
    )


EVOLUTIONS = st.recursive(st.sampled_from([Evolution(*leaf) for leaf in LEAVES]), containers, max_leaves=5)


def as_stored(value: Any) -> Any:
    """The value in the terms that old and new share: text as its bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict):
        return {as_stored(key): as_stored(item) for key, item in value.items()}
    return type(value)(map(as_stored, value)) if isinstance(value, list | tuple | set | frozenset) else value


@given(st.data(), EVOLUTIONS)
def test_read_after_write_is_the_same_value(write, read, stored, data, evolution):
    value = data.draw(evolution.values)
    written = write(evolution.old, value)
    restored = stored(evolution.old).restore_serializer()

    assert value == read(evolution.old, written)
    assert value == read(restored, written)
    assert written == write(restored, read(restored, written))
    assert evolution.old == pickle.loads(pickle.dumps(evolution.old))


@given(st.data(), EVOLUTIONS)
def test_the_verdict_predicts_what_conversion_does(write, read, stored, ask, data, evolution):
    value = data.draw(evolution.values)
    result = ask(evolution.new, evolution.old)
    found = read(stored(evolution.old).restore_serializer(), write(evolution.old, value))

    if result.is_compatible_as_is():
        assert value == read(evolution.new, write(evolution.old, value))
        return
    assert result.is_migration_required()
    converted = found if result.conversion is None else result.conversion(found)
    migrated = write(evolution.new, converted)
    assert as_stored(value) == as_stored(read(evolution.new, migrated))
    assert ask(evolution.new, evolution.new).is_compatible_as_is()


@given(EVOLUTIONS, st.binary(max_size=60))
def test_garbage_is_a_value_or_an_error_of_ours(evolution, garbage):
    try:
        value = evolution.old.deserialize(DataInputView(garbage))
    except (CorruptSavepoint, ValueNotConvertible):
        return
    repr(value)
