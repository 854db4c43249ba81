"""Rows: Flink's mask and kinds, values by position and by name, and the rules ROW-1 to ROW-7."""

import pickle
from typing import Annotated, NamedTuple, Optional

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    Array,
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    DeclarationError,
    Field,
    Int16,
    Int32,
    Row,
    RowKind,
    StateShiftError,
    ValueNotConvertible,
    Verdict,
    row_of,
    serializer_for,
)
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.rows.serializers import RowSerializer, RowSerializerSnapshot
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()
KINDLESS = attrs.evolve(RowSerializer.of([INT, STRING]), supports_row_kind=False)


class TestRow:
    def test_values_are_read_by_position_and_by_name(self):
        row = Row(id=7, title="seven")

        assert (7, "seven", "seven", 2) == (row[0], row["title"], row.title, len(row))
        assert [7, "seven"] == list(row)
        assert {"id": 7, "title": "seven"} == row._asdict()
        assert ("id", "title") == row._names
        assert {} == Row(7)._asdict()

    def test_a_name_that_is_not_there_is_reported(self):
        with pytest.raises(AttributeError, match="the row has no column 'x'"):
            _ = Row(id=7).x
        with pytest.raises(KeyError, match="x"):
            Row(id=7)["x"]
        with pytest.raises(TypeError, match="by position or by name"):
            Row(7, title="seven")

    def test_rows_are_equal_by_kind_and_values(self):
        deleted = Row(1)._with_kind(RowKind.DELETE)

        assert Row(1) == Row(id=1)
        assert {Row(1)} == {Row(id=1), Row(1)}
        assert Row(1) != deleted
        assert Row(1) != (1,)
        assert (RowKind.INSERT, RowKind.DELETE) == (Row(1)._kind, deleted._kind)

    def test_it_has_the_methods_of_pyflink(self):
        row = Row(1, [Row(2)])
        row.set_field_names(["id", "parts"])
        row["parts"][0].set_field_names(("n",))

        assert {"id": 1, "parts": [Row(2)]} == row.as_dict()
        assert {"id": 1, "parts": [{"n": 2}]} == row.as_dict(recursive=True)
        assert [[Row(2)], 1] == row.get_fields_by_names(["parts", "id"])
        assert ("id" in row, 1 in row, 1 in Row(1)) == (True, False, True)
        assert (1,) == row[:1]

    def test_it_changes_as_in_pyflink(self):
        row = Row.of_kind(RowKind.DELETE, id=7, title="seven")
        row["title"], row[0] = "eight", 8
        row.set_row_kind(RowKind.UPDATE_AFTER)

        assert (8, "eight", RowKind.UPDATE_AFTER) == (row.id, row.title, row.get_row_kind())
        assert ["+I", "-U", "+U", "-D"] == [str(kind) for kind in RowKind]

    def test_a_row_of_names_makes_rows(self):
        person = Row("name", "age")

        assert ("Alice", 11) == (person("Alice", 11).name, person("Alice", 11).age)
        with pytest.raises(ValueError, match="3 values are given for the 2 columns"):
            person("Alice", 11, True)

    @pytest.mark.parametrize(
        ("wrong", "error", "match"),
        [
            (lambda row: row.as_dict(), TypeError, "a row without names cannot become a dict"),
            (lambda row: row.set_field_names(["a", "b"]), ValueError, "2 names are given for the 1 columns"),
            (lambda row: row("x").get_fields_by_names(["b"]), KeyError, "b"),
            (lambda row: row.__setitem__("a", 1), KeyError, "a"),
        ],
    )
    def test_what_it_refuses(self, wrong, error, match):
        with pytest.raises(error, match=match):
            wrong(Row(7))

    @pytest.mark.parametrize("row", [Row(), Row(1, None), Row(id=1), Row(a=Row(2))._with_kind(RowKind.UPDATE_BEFORE)])
    def test_a_row_pickles_and_its_text_makes_it_again(self, row):
        shipped = pickle.loads(pickle.dumps(row))

        assert (row, row._names, row._kind) == (shipped, shipped._names, shipped._kind)
        assert row == eval(repr(row).replace("<RowKind.UPDATE_BEFORE: 1>", "RowKind.UPDATE_BEFORE"))  # noqa: S307


class TestBytes:
    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            (Row(5, "a"), "00 00000005 02 61"),
            (Row(None, "a"), "20 02 61"),
            (Row(5, None), "10 00000005"),
            (Row(None, None), "30"),
            (Row(5, "a")._with_kind(RowKind.UPDATE_BEFORE), "80 00000005 02 61"),
            (Row(5, "a")._with_kind(RowKind.UPDATE_AFTER), "40 00000005 02 61"),
            (Row(5, None)._with_kind(RowKind.DELETE), "d0 00000005"),
        ],
    )
    def test_a_mask_of_kind_and_nulls_comes_before_the_columns(self, write, read, copied, row, expected):
        serializer, data = RowSerializer.of([INT, STRING]), bytes.fromhex(expected)

        assert data == write(serializer, row)
        assert row == read(serializer, data)
        assert data == copied(serializer, data)

    def test_the_example_of_the_format_notes(self, write):
        """Format notes 7: INSERT with six fields, the second null, is 0x10."""
        assert 0x10 == write(RowSerializer.of([INT] * 6), Row(1, None, 3, 4, 5, 6))[0]

    @pytest.mark.parametrize(("columns", "size"), [(0, 1), (6, 1), (7, 2), (14, 2), (15, 3)])
    def test_the_mask_takes_full_bytes(self, write, read, copied, columns, size):
        serializer, row = RowSerializer.of([INT] * columns), Row(*[None] * columns)

        assert size == len(write(serializer, row))
        assert row == read(serializer, write(serializer, row))
        assert write(serializer, row) == copied(serializer, write(serializer, row))

    @pytest.mark.parametrize(("row", "expected"), [(Row(5, "a"), "00 00000005 02 61"), (Row(None, "a"), "80 02 61")])
    def test_rows_without_kinds_have_a_mask_of_nulls_alone(self, write, read, copied, row, expected):
        data = bytes.fromhex(expected)

        assert data == write(KINDLESS, row)
        assert row == read(KINDLESS, data)
        assert data == copied(KINDLESS, data)

    def test_a_kind_is_refused_where_the_bytes_have_none(self, write):
        with pytest.raises(ValueNotConvertible, match="kind DELETE cannot be stored"):
            write(KINDLESS, Row(5, "a")._with_kind(RowKind.DELETE))

    @pytest.mark.parametrize(("version", "has_kind"), [(1, False), (2, False), (3, True), (4, None)])
    def test_older_outer_versions_say_whether_rows_have_kinds(self, read, version, has_kind):
        """Format notes 6.1."""
        stored = RowSerializerSnapshot((INT.snapshot_configuration(),))
        data = bytearray(snapshot_to_bytes(stored))
        start = data.index((911108).to_bytes(4, "big")) + 4
        data[start : start + 5] = version.to_bytes(4, "big") + (b"\1" if has_kind is None else b"")

        restored = snapshot_from_bytes(bytes(data)).restore_serializer()

        assert Row(7) == read(restored, b"\0" + bytes.fromhex("00000007"))
        assert restored.supports_row_kind is (has_kind is not False)

    def test_bits_beyond_the_last_column_are_damage(self, read):
        with pytest.raises(CorruptSavepoint, match="bits beyond its last column") as caught:
            read(RowSerializer.of([INT]), bytes.fromhex("01 00000005"))
        assert 0 == caught.value.where["offset"]

    def test_named_rows_are_written_by_name(self, write, read):
        serializer = row_of({"id": Int32, "note": str})

        assert write(serializer, Row(5, "a")) == write(serializer, Row(note="a", id=5))
        assert ("id", "note") == read(serializer, write(serializer, Row(5, "a")))._names

    @pytest.mark.parametrize(
        ("value", "message", "path"),
        [
            ((5, "a"), r"\(5, 'a'\) is not a Row", "$"),
            (Row(5), "has 1 columns, but 2 are declared", "$"),
            (Row(id=5, other="a"), "has no column 'note'", "$"),
            (Row(5, 6), "6 is not a string", "$.note"),
            (Row(None, "a"), "null, but not declared optional", "$.id"),
        ],
    )
    def test_a_value_that_does_not_fit_is_reported_with_its_step(self, write, value, message, path):
        with pytest.raises(ValueNotConvertible, match=message) as caught:
            write(row_of({"id": Int32, "note": str}), value)
        assert path == caught.value.where.get("path", "$")

    def test_a_stored_null_fails_where_the_column_is_not_declared_optional(self, write, read):
        data = write(serializer_for(Row[Int32 | None, str]), Row(None, "a"))

        with pytest.raises(ValueNotConvertible, match=r"declare the column optional: … \| None") as caught:
            read(serializer_for(Row[Int32, str]), data)
        assert "$(0)" == caught.value.where["path"]

    @pytest.mark.parametrize("version", ["2.3", "1.20"])
    def test_the_rows_of_flink_are_written_again_byte_for_byte(self, stored_states, write, version):
        state = stored_states("hashmap-zoo-p1-m128", version)["widerow"]
        serializer = state.description.value.snapshot.restore_serializer()

        rows = [entry.value for entry in state.read_entries()]

        assert 6 == len(rows)
        assert {10} == set(map(len, rows))
        assert any(None in row for row in rows)
        assert rows == [serializer.deserialize(DataInputView(write(serializer, row))) for row in rows]


class OrderV1(NamedTuple):
    id: Int32
    first: str
    last: str


class OrderV2(NamedTuple):
    last: str
    id: int
    tag: Annotated[str, Field(aliases=("first",))]
    total: float = 0.5
    lines: Array[Int16] | None = None


class TestHint:
    def test_columns_have_no_names(self):
        serializer = serializer_for(Row[int, str | None])

        assert ((), "row<long, string>") == (serializer.names, serializer.describe())
        assert [False, True] == [column.optional for column in serializer.columns]
        assert RowSerializer(()) == serializer_for(Row[()])
        assert OptionalSerializer(RowSerializer(serializer.columns[:1])) == serializer_for(Row[int] | None)

    def test_columns_have_the_names_of_a_class_or_of_a_dict(self):
        """The order is the declared one, other than in a record."""
        assert ("last", "id", "tag", "total", "lines") == row_of(OrderV2).names
        assert ("order total", "id") == row_of({"order total": float, "id": int}).names

    def test_what_it_cannot_say_is_refused(self):
        class Converting(NamedTuple):
            a: Annotated[int, Field(on_none=0)]

        with pytest.raises(DeclarationError, match="Row needs type arguments"):
            serializer_for(Row)
        with pytest.raises(DeclarationError, match="int is not a class with fields"):
            row_of(int)
        with pytest.raises(DeclarationError, match="columns keep nulls"):
            row_of(Converting)
        with pytest.raises(DeclarationError, match="stored must be a tuple of names"):
            row_of({"a": int}, stored="a")
        with pytest.raises(DeclarationError, match="give each column a name of its own"):
            RowSerializer.of([INT, INT], ["a", "a"])
        with pytest.raises(DeclarationError, match="2 names are given for 1 columns"):
            RowSerializer.of([INT], ["a", "b"])
        with pytest.raises(DeclarationError, match="stored columns have names"):
            attrs.evolve(RowSerializer.of([INT]), stored_names=("a",))


OLD = row_of(OrderV1)
STORED = Row(1, "Ada", "Lovelace")


class TestRules:
    def test_the_same_named_columns_are_compatible(self, ask):
        """ROW-1, for a job that names the stored columns."""
        assert ask(row_of(OrderV1, stored=OrderV1), OLD).is_compatible_as_is()

    @pytest.mark.parametrize("rule", ["ROW-2", "ROW-6"])
    def test_columns_in_another_order_are_rewritten(self, ask, migrate, rules, rule):
        """ROW-2; ROW-6 for those of one type, which a reader by position, as Flink is one, swaps in silence."""
        new = row_of({"id": Int32, "last": str, "first": str}, stored=OrderV1)
        result = ask(new, OLD)

        assert [("$", "ROW-2"), ("$", "ROW-8")] == rules(result)
        assert result.is_migration_required()
        row = migrate(new, OLD, STORED)
        assert (1, "Lovelace", "Ada") == tuple(row), rule
        assert ("Ada", "Lovelace") == (row.first, row.last), rule

    def test_types_may_show_that_columns_are_not_in_their_new_order_yet(self, ask, rules):
        """ROW-8."""
        stored = {"id": Int32, "name": str}
        told = ask(row_of({"name": str, "id": Int32}, stored=tuple(stored)), row_of(stored))

        assert [("$", "ROW-2")] == rules(told)

    def test_a_new_column_gets_its_default(self, ask, migrate, rules):
        """ROW-3."""

        class WithNote(NamedTuple):
            id: Int32
            first: str
            last: str
            note: str = "none"

        new = row_of(WithNote, stored=OrderV1)

        assert [("$.note", "ROW-3")] == rules(ask(new, OLD))
        assert "none" == migrate(new, OLD, STORED).note

    def test_a_new_column_without_default_is_refused(self, ask, rules):
        """ROW-3: also where it may be null."""
        new = row_of({"id": Int32, "first": str, "last": str, "note": str | None}, stored=OrderV1)

        assert [("$.note", "ROW-3")] == rules(ask(new, OLD))
        assert ask(new, OLD).is_incompatible()

    def test_a_column_that_is_gone_is_dropped(self, ask, migrate, rules):
        """ROW-4."""
        new = row_of({"id": Int32, "last": str}, stored=OrderV1)
        result = ask(new, OLD)

        assert [("$.first", "ROW-4")] == rules(result)
        assert ("$.first", "drops:$.first") == result.flags[0]
        assert Row(id=1, last="Lovelace") == migrate(new, OLD, STORED)

    def test_several_changes_are_all_reported_and_made_in_one_migration(self, ask, migrate, rules):
        """ROW-2 to ROW-4 with PRIM-2; a column with an alias keeps its values."""
        new = row_of(OrderV2, stored=OrderV1)
        result = ask(new, OLD)

        assert {("$.total", "ROW-3"), ("$.lines", "ROW-3"), ("$.id", "PRIM-2")} == set(rules(result))
        migrated = migrate(new, OLD, STORED._with_kind(RowKind.DELETE))
        assert Row("Lovelace", 1, "Ada", 0.5, None)._with_kind(RowKind.DELETE) == migrated

    @pytest.mark.parametrize("new", [Row[int], Row[int, str, str, str]])
    def test_another_number_of_unnamed_columns_is_refused(self, ask, rules, new):
        """ROW-5: as for a tuple."""
        result = ask(serializer_for(new), OLD)

        assert [("$", "ROW-5")] == rules(result)
        assert result.is_incompatible()

    def test_unnamed_columns_pair_by_position(self, ask, migrate, rules):
        """ROW-5: as the items of a tuple."""
        new = serializer_for(Row[int, str, str])

        assert [("$(0)", "PRIM-2")] == rules(ask(new, OLD))
        assert STORED == migrate(new, OLD, STORED)
        assert [("$(0)", "PRIM-4")] == rules(ask(serializer_for(Row[str, str, str]), OLD))

    def test_names_over_a_savepoint_that_has_none_are_unverified(self, ask, migrate, rules):
        """ROW-7."""
        swapped = row_of({"id": int, "last": str, "first": str})
        result = ask(swapped, OLD)

        assert [("$", "ROW-7"), ("$.id", "PRIM-2")] == rules(result)
        assert ("$", "unverified") == result.flags[0]
        assert any("row_of(…, stored=(…))" in way for way in map(str, result.findings[0].ways_out))
        assert "Ada" == migrate(swapped, OLD, STORED).last

    def test_another_number_of_named_columns_needs_the_stored_names(self, ask, rules):
        """ROW-7."""
        result = ask(row_of({"id": Int32}), OLD)

        assert [("$", "ROW-7")] == rules(result)
        assert result.is_incompatible()
        assert any("stored=" in way for way in map(str, result.findings[0].ways_out))

    def test_stored_names_of_another_number_are_refused(self, ask, rules):
        """ROW-7: as after the migration that they were given for."""
        result = ask(row_of(OrderV2, stored=OrderV1), row_of(OrderV2))

        assert [("$", "ROW-7")] == rules(result)
        assert result.is_incompatible()
        assert "3 stored columns are named, and the savepoint has 5" == result.findings[0].reason
        assert any("leave `stored=` out" in way for way in map(str, result.findings[0].ways_out))

    def test_rows_without_kinds_get_them_by_migration(self, ask, migrate, rules):
        """ROW-1: the columns are the same, the bytes are not; Flink migrates as well."""
        new = RowSerializer.of([INT, STRING])

        assert [("$", "ROW-1")] == rules(ask(new, KINDLESS))
        assert Row(5, None) == migrate(new, KINDLESS, Row(5, None))
        assert new == ask(KINDLESS, new).reconfigured_serializer

    def test_a_second_null_flag_of_a_stored_column_is_kept(self, ask, rules):
        """OPT-3."""
        stored = RowSerializer.of([OptionalSerializer(INT)])

        assert [("$(0)", "OPT-3")] == rules(ask(serializer_for(Row[Int32 | None]), stored))
        assert stored == ask(serializer_for(Row[Int32 | None]), stored).reconfigured_serializer

    def test_a_row_becomes_nothing_else(self, ask, rules):
        """FAM-2."""
        other = TupleSerializer((INT, STRING))
        row = RowSerializer.of([INT, STRING])

        assert [("$", "FAM-2")] == rules(ask(row, other)) == rules(ask(other, row))

    def test_a_conversion_that_fails_names_its_column(self, ask):
        new = row_of({"id": str, "first": str, "last": str}, stored=OrderV1)
        old = RowSerializer.of([serializer_for(bytes), STRING, STRING])

        with pytest.raises(ValueNotConvertible, match="is not UTF-8") as caught:
            ask(new, old).conversion(Row(b"\xff", "", ""))
        assert "$.id" == caught.value.where["path"]

    def test_a_fallback_reads_one_column_and_the_snapshot_the_others(self, write):
        """READ-3."""
        new = attrs.evolve(RowSerializer.of([_WithFallback(), STRING]))
        result = new.ensure_compatibility(RowSerializer.of([LONG, STRING]).snapshot_configuration())

        assert Verdict.REQUIRES_MIGRATION_WITH_FALLBACK is result.verdict
        data = write(RowSerializer.of([LONG, STRING]), Row(3, "x"))
        assert Row(-3, "x") == result.fallback.deserialize(DataInputView(data))


class _Negative:
    def deserialize(self, source: DataInputView) -> int:
        return -source.read_long()


@attrs.frozen
class _WithFallback(LongSerializer):
    """Asks for its fallback whatever is stored."""

    def ensure_compatibility(self, snapshot):
        return CompatibilityResult.requires_migration(fallback=_Negative())


NAMES = st.lists(st.sampled_from("abcde"), unique=True, max_size=5)


@given(NAMES.filter(bool), NAMES, st.data())
def test_columns_that_stay_keep_their_values_whatever_the_others_do(ask, migrate, read, write, was, becomes, data):
    """ROW-1 to ROW-4: by name, for every pair of declarations."""
    old = row_of(dict.fromkeys(was, str | None))
    columns = attrs.make_class("Columns", {name: attrs.field(type=str | None, default=name * 2) for name in becomes})
    new = row_of(columns, stored=was)
    row = Row._of([data.draw(st.none() | st.text(max_size=3)) for _ in was], was)
    result = ask(new, old)

    if result.is_migration_required():
        found = migrate(new, old, row)
    else:
        taken = result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else new
        found = read(taken, write(old, row))

    expected = {name: row[name] if name in was else name * 2 for name in becomes}
    assert expected == found._asdict()


@given(st.binary(max_size=40))
def test_garbage_gives_what_is_written_again_or_an_error_of_ours(write, data):
    for serializer in (RowSerializer.of([INT, STRING, LONG]), KINDLESS, RowSerializer(())):
        source = DataInputView(data)
        try:
            row = serializer.deserialize(source)
        except StateShiftError:
            continue
        again = write(serializer, row)

        assert len(again) <= source.position
        assert row == serializer.deserialize(DataInputView(again))


def test_a_row_within_a_hint_may_have_a_default_that_cannot_be_hashed():
    @attrs.frozen
    class Columns:
        pair: tuple[list[int], int] = ([], 1)

    rows = row_of(Columns)

    assert rows is serializer_for(Annotated[Row, rows])


def test_a_hint_with_a_serializer_is_not_mistaken_for_one_that_takes_no_nulls():
    """Python keeps `Annotated` hints by equality, so serializers that read differently must not be equal."""
    rows = [row_of({"prices": dict[str, value], "tags": set[value]}) for value in (int, int | None)]
    hints = [Annotated[object, row] for row in rows]
    columns = [serializer_for(hint).columns for hint in hints]

    assert rows[0] != rows[1]
    assert [False, True] == [prices.serializer.nullable_values for prices, _ in columns]
    assert [False, True] == [tags.serializer.nullable_elements for _, tags in columns]


def test_a_row_with_a_default_that_cannot_be_hashed_may_be_null():
    """Python hashes the parts of a union."""

    @attrs.frozen
    class Prices:
        by_name: dict[str, int] = {}  # noqa: RUF008 - a default, which nothing changes

    hint = Optional[row_of({"prices": Prices})]  # noqa: UP045 - what this is about

    assert isinstance(serializer_for(hint), OptionalSerializer)
