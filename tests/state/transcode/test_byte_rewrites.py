"""Every byte rewrite has the same result by every executor and by objects, on drawn values and on damaged bytes."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_executor import PlainExecutor, plainly
from transcoding import block, planned, transcoder, written

from stateshift import AvroSerializer, JavaDate, Left, Right, Row, RowKind, SqlDate, StateShiftError, Symbol
from stateshift.compat.description import StateKind
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.defaults import Default
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.temporal.serializers import DateSerializer, InstantSerializer, SqlDateSerializer
from stateshift.state.transcode import memory, ops
from stateshift.state.transcode.block_transcoder import BlockTranscoder
from stateshift.state.transcode.elements import ElementBlocks
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.factory import make_element_transcoder, make_transcoder
from stateshift.state.transcode.interpreter import DONE, ODD
from stateshift.state.transcode.objects import ObjectTranscoder

INT, LONG, DOUBLE, TEXT = IntSerializer(), LongSerializer(), DoubleSerializer(), StringSerializer()

ints = st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=6)
letters = st.text("abcdefgh", min_size=60, max_size=70)
characters = st.text(st.characters() | st.sampled_from("aé\u07ff\u0800語\uffff𝄞\ud834\udd1e"), max_size=6)


def column(name, serializer, **more):
    return RecordField(name, serializer, **{"optional": True, **more})


@st.composite
def rows(draw, *items, with_kinds=True):
    kind = draw(st.sampled_from(RowKind)) if with_kinds else RowKind.INSERT
    return Row(*(draw(st.none() | item) for item in items))._with_kind(kind)


ID_AND_TITLE = RowSerializer((column("", INT), column("", TEXT)))
WIDE = RowSerializer.of([LONG] * 9)


def fields(*types, **more):
    """A record of fields a, b, … of these types."""
    given = [{"name": name, "type": kind} for name, kind in zip("abcdefgh", types, strict=False)]
    return {"type": "record", "name": "R", "fields": given, **more}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def records(*items):
    return st.tuples(*items).map(lambda found: dict(zip("abcdefgh", found, strict=False)))


def timestamps(**more):
    return st.datetimes(**more).map(lambda it: it.replace(microsecond=it.microsecond // 1000 * 1000))


SIXTEEN = {"type": "fixed", "name": "F", "size": 16}
SHORT = {"type": "fixed", "name": "S", "size": 5}
KINDS = {"type": "enum", "name": "K", "symbols": ["A", "B"]}
POINT, NAMED = (
    {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}
    for name, kind in (("Point", "int"), ("Named", "string"))
)
longs, singles = st.integers(-(2**63), 2**63 - 1), st.floats(width=32)
utc = {"timezones": st.just(dt.UTC)}
decimals = st.decimals(-(10**15), 10**15, places=2)
AVRO = {
    "Avro's numbers, promoted": (
        fields("int", "int", "long", "long", "float", {"type": "array", "items": "int"}),
        fields("float", "double", "float", "double", "double", {"type": "array", "items": "double"}),
        records(ints, ints, longs, longs, singles, st.lists(ints, max_size=3)),
    ),
    "Avro's maps": (
        fields({"type": "map", "values": "int"}, {"type": "map", "values": {"type": "map", "values": "int"}}),
        fields({"type": "map", "values": "double"}, {"type": "map", "values": {"type": "map", "values": "long"}}),
        records(
            st.dictionaries(texts, ints, max_size=4),
            st.dictionaries(texts, st.dictionaries(texts, ints, max_size=2), max_size=2),
        ),
    ),
    "Avro's unions": (
        fields(["null", "int", "string", KINDS, "double"], ["null", "bytes"], "long"),
        fields(["string", "double", "null", {**KINDS, "symbols": ["B", "A"]}], ["bytes", "null"], ["null", "long"]),
        records(
            st.none() | ints | texts | st.sampled_from("AB").map(lambda it: ("K", it)) | st.floats(),
            st.none() | st.binary(max_size=3),
            longs,
        ),
    ),
    "unions of records, arrays and maps": (
        fields([POINT, NAMED, {"type": "array", "items": "int"}], ["null", {"type": "map", "values": "int"}]),
        fields(
            [{"type": "array", "items": "long"}, NAMED, {**POINT, "fields": [{"name": "x", "type": "double"}]}],
            ["null", {"type": "map", "values": "float"}],
        ),
        records(
            ints.map(lambda it: ("Point", {"x": it})) | texts.map(lambda it: ("Named", {"x": it})) | st.lists(ints),
            st.none() | st.dictionaries(texts, ints, max_size=3),
        ),
    ),
    "Avro's texts that may be null": (
        fields(["null", "string"], "int", ["string", "null"], "string"),
        fields(["null", "string"], "double", ["string", "null"], "string"),
        records(st.none() | texts | letters, ints, st.none() | letters, texts | letters),
    ),
    "one branch of a union": (["int", "string"], ["null", "long", "string"], ints | texts),
    "logical types that stay": (
        fields(
            "int", logical("int", "date"), logical("int", "time-millis"), logical("long", "time-micros"),
            logical("long", "timestamp-millis"), logical("long", "timestamp-micros"),
            logical("long", "local-timestamp-micros"), logical("long", "timestamp-nanos"),
        ),
        fields(
            "double", logical("int", "date"), logical("int", "time-millis"), logical("long", "time-micros"),
            logical("long", "timestamp-millis"), logical("long", "timestamp-micros"),
            logical("long", "local-timestamp-micros"), "long",
        ),
        records(
            ints, st.dates(), st.times().map(lambda it: it.replace(microsecond=5000)), st.times(), timestamps(**utc),
            st.datetimes(**utc), st.datetimes(), longs,
        ),
    ),
    "finer times, and logical types that come and go": (
        fields(
            logical("long", "timestamp-millis"), logical("int", "time-millis"), logical("long", "timestamp-micros"),
            logical("int", "date"), "long",
        ),
        fields(
            logical("long", "timestamp-micros"), logical("long", "time-micros"), logical("long", "timestamp-nanos"),
            "int", logical("long", "local-timestamp-millis"),
        ),
        records(
            timestamps(**utc), st.times().map(lambda it: it.replace(microsecond=5000)), st.datetimes(**utc),
            st.dates(), longs | st.integers(-(10**13), 10**13),
        ),
    ),
    "numbers with a point, and UUIDs": (
        fields(
            "int", logical("bytes", "decimal", precision=18, scale=2), "bytes", {**SIXTEEN, **logical("fixed", "uuid")},
            logical("string", "uuid"), "string", {**SHORT, **logical("fixed", "decimal", precision=6, scale=2)},
        ),
        fields(
            "float", logical("bytes", "decimal", precision=20, scale=2),
            logical("bytes", "decimal", precision=9, scale=2), SIXTEEN, "string", logical("string", "uuid"), SHORT,
        ),
        records(
            ints, decimals, st.binary(min_size=1, max_size=4), st.uuids(), st.uuids(), st.uuids().map(str) | texts,
            st.decimals(-9999, 9999, places=2),
        ),
    ),
    "wide fixed decimals": (
        fields({**SIXTEEN, **logical("fixed", "decimal", precision=30, scale=2)}, "int"),
        fields({**SIXTEEN, **logical("fixed", "decimal", precision=32, scale=2)}, "float"),
        records(decimals | st.decimals(-(10**25), 10**25, places=2), ints),
    ),
}  # fmt: skip
CASES = {
    "decimals": (
        TupleSerializer((INT, DecimalSerializer())),
        TupleSerializer((LONG, DecimalSerializer())),
        st.tuples(ints, st.decimals(allow_nan=False, allow_infinity=False).filter(lambda it: it or not it.is_signed())),
    ),
    "dates of Java": (
        TupleSerializer((INT, DateSerializer(exact=True), SqlDateSerializer())),
        TupleSerializer((LONG, DateSerializer(exact=True), SqlDateSerializer())),
        st.tuples(ints, ints.map(JavaDate), ints.map(SqlDate)),
    ),
    "integers of any size": (
        TupleSerializer((ByteSerializer(), INT, LONG)),
        TupleSerializer((BigIntSerializer(), BigIntSerializer(), BigIntSerializer())),
        st.tuples(st.integers(-128, 127), st.integers(-1, 10) | ints, st.integers(-300, 300) | longs),
    ),
    "texts that become bytes": (
        TupleSerializer((TEXT, INT)),
        TupleSerializer((BytesSerializer(), INT)),
        st.tuples(characters, ints),
    ),
    "bytes that become texts": (
        TupleSerializer((BytesSerializer(), INT)),
        TupleSerializer((TEXT, INT)),
        st.tuples(characters.map(lambda it: it.encode("utf-8", "surrogatepass")) | st.binary(max_size=4), ints),
    ),
    "lists of texts that become bytes": (ListSerializer(TEXT), ListSerializer(BytesSerializer()), st.lists(characters)),
    "a row's column, widened": (
        ID_AND_TITLE,
        RowSerializer((column("", LONG), column("", TEXT))),
        rows(ints, texts),
    ),
    "a row's columns, required": (
        ID_AND_TITLE,
        RowSerializer((column("", LONG, optional=False), column("", TEXT))),
        rows(ints, texts),
    ),
    "a row's columns, by name: dropped, added, moved": (
        ID_AND_TITLE,
        RowSerializer(
            (
                column("new", INT, default=Default(7)),
                column("gone", TEXT, default=Default(None)),
                column("id", LONG),
            ),
            stored_names=("id", "title"),
        ),
        rows(ints, texts),
    ),
    "a row's columns, by name: only moved, and widened": (
        RowSerializer((column("", INT), column("", TEXT), column("", OptionalSerializer(INT)))),
        RowSerializer(
            (column("c", OptionalSerializer(LONG)), column("b", TEXT), column("a", LONG)),
            stored_names=("a", "b", "c"),
        ),
        rows(ints, texts, st.none() | ints),
    ),
    "rows of before Flink 1.11": (
        attrs.evolve(ID_AND_TITLE, supports_row_kind=False),
        RowSerializer((column("", LONG), column("", TEXT))),
        rows(ints, texts, with_kinds=False),
    ),
    "rows without kinds from now on": (
        ID_AND_TITLE,
        RowSerializer((column("", LONG), column("", TEXT)), supports_row_kind=False),
        rows(ints, texts),
    ),
    "rows with a mask of more than a byte": (
        RowSerializer.of([INT, *[LONG] * 8]),
        WIDE,
        rows(*[ints] * 9),
    ),
    "lists of rows within rows": (
        RowSerializer.of([ListSerializer(ID_AND_TITLE), INT]),
        RowSerializer.of([ListSerializer(RowSerializer.of([LONG, TEXT])), INT]),
        rows(st.lists(rows(ints, texts), max_size=3), ints),
    ),
    "lists within rows, moved": (
        RowSerializer.of([ListSerializer(INT), ListSerializer(TEXT)]),
        RowSerializer(
            (column("b", ListSerializer(TEXT)), column("a", ListSerializer(LONG))), stored_names=("a", "b")
        ),
        rows(st.lists(ints, max_size=3), st.lists(texts, max_size=3)),
    ),
    "values of a map": (
        MapSerializer(TEXT, INT, nullable_values=True),
        MapSerializer(TEXT, LONG, nullable_values=True),
        st.dictionaries(texts, st.none() | ints, max_size=6),
    ),
    "keys of a map": (MapSerializer(INT, TEXT), MapSerializer(LONG, TEXT), st.dictionaries(ints, texts, max_size=6)),
    "a map that stays, beside what does not": (
        TupleSerializer((INT, MapSerializer(TupleSerializer((TEXT, INT)), TEXT))),
        TupleSerializer((LONG, MapSerializer(TupleSerializer((TEXT, INT)), TEXT))),
        st.tuples(ints, st.dictionaries(st.tuples(texts, ints), texts, max_size=6)),
    ),
    "enums as keys": (
        MapSerializer(EnumSerializer(("A", "B", "C"), "K"), INT),
        MapSerializer(EnumSerializer(("C", "A", "B"), "K"), LONG),
        st.dictionaries(st.sampled_from("ABC").map(Symbol), ints),
    ),
    "maps of maps, moved": (
        RowSerializer.of([MapSerializer(INT, MapSerializer(TEXT, INT)), TEXT]),
        RowSerializer(
            (column("b", TEXT), column("a", MapSerializer(LONG, MapSerializer(TEXT, LONG)))), stored_names=("a", "b")
        ),
        rows(st.dictionaries(ints, st.dictionaries(texts, ints, max_size=3), max_size=3), texts),
    ),
    "sets": (SetSerializer(INT), SetSerializer(LONG), st.sets(ints, max_size=6)),
    "numbers beside that may be null": (
        TupleSerializer((OptionalSerializer(LONG), INT)),
        TupleSerializer((OptionalSerializer(LONG), LONG)),
        st.tuples(st.none() | longs, ints),
    ),
    "booleans beside": (
        TupleSerializer((BooleanSerializer(), INT)),
        TupleSerializer((BooleanSerializer(), LONG)),
        st.tuples(st.booleans(), ints),
    ),
    "an either of which one side stays": (
        EitherSerializer(INT, TEXT), EitherSerializer(LONG, TEXT), ints.map(Left) | texts.map(Right),
    ),
    "an either of which the other side stays": (
        EitherSerializer(TEXT, INT), EitherSerializer(TEXT, LONG), texts.map(Left) | ints.map(Right),
    ),
    "floating-point numbers in lists that stay": (
        TupleSerializer((ListSerializer(DOUBLE), INT)),
        TupleSerializer((ListSerializer(DOUBLE), LONG)),
        st.tuples(st.lists(st.floats(allow_nan=False), min_size=1, max_size=3), ints),
    ),
    **{name: (AvroSerializer(old), AvroSerializer(new), values) for name, (old, new, values) in AVRO.items()},
}  # fmt: skip


@st.composite
def damaged(draw, data):
    """Bytes of which one is changed, left out, or doubled."""
    at = draw(st.integers(0, len(data) - 1))
    change = draw(st.sampled_from([b"", b"\0", b"\1", b"\x80", b"\xff", data[at : at + 1] * 2]))
    return data[:at] + change + data[at + 1 :]


def outcome(rewrite, given_block):
    try:
        return rewrite.transcode(given_block)
    except StateShiftError as error:
        return type(error), str(error), error.where


def assert_all_agree(rewrite, given_block):
    for quarantines in (False, True):
        objects = attrs.evolve(rewrite.objects, quarantines=quarantines)
        expected = outcome(objects, given_block)
        by_machine = BlockTranscoder(objects, rewrite.program)
        assert expected == outcome(by_machine, given_block) == outcome(plainly(by_machine), given_block)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_executor_comes_to_what_objects_come_to(case):
    old, new, values = case
    rewrite = transcoder(old, new)
    assert isinstance(rewrite, BlockTranscoder)
    rewritten = set()

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data):
        sound = [written(old, value) for value in data.draw(st.lists(values, min_size=1, max_size=3))]
        assert_all_agree(rewrite, block(*sound))
        rewritten.update(PlainExecutor(rewrite.program).rewrite(block(one), 0).status for one in sound)
        broken = [data.draw(damaged(one)) for one in sound if one]
        assert_all_agree(rewrite, block(*sound, *broken))
        assert_all_agree(rewrite, block(*broken, *sound))

    holds()

    assert DONE in rewritten


@pytest.mark.parametrize("count", [3, 100, ops.MOST_KEYS + 1])
def test_maps_keep_their_order_and_a_duplicate_key_is_reported_as_by_the_object_path(count):
    old, new = MapSerializer(INT, INT), MapSerializer(INT, LONG)
    rewrite = transcoder(old, new)
    entries = [written(INT, (7919 * key) % count) + b"\0" + written(INT, key) for key in range(count)]
    shuffled, twice = (len(some).to_bytes(4, "big") + b"".join(some) for some in (entries, [*entries, entries[1]]))

    assert_all_agree(rewrite, block(shuffled, shuffled))
    assert_all_agree(rewrite, block(shuffled, twice, shuffled))
    expected = DONE if count <= ops.MOST_KEYS else ODD
    assert expected == PlainExecutor(rewrite.program).rewrite(block(shuffled), 0).status


def assert_elements_agree(rewrite, elements):
    for quarantines in (False, True):
        objects = attrs.evolve(rewrite.objects, quarantines=quarantines)
        expected = outcome(objects, elements)
        assert expected == outcome(ElementBlocks(objects, rewrite.program), elements)


@pytest.mark.parametrize("name", ["a row's columns, required", "values of a map", "Avro's unions"])
def test_elements_of_operator_lists_come_to_what_objects_come_to(name):
    old, new, values = CASES[name]
    rewrite = make_element_transcoder(planned(old, new, StateKind.SPLIT_LIST), ExecutorName.NUMBA)
    assert isinstance(rewrite, ElementBlocks)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data):
        sound = [written(old, value) for value in data.draw(st.lists(values, max_size=4))]
        assert_elements_agree(rewrite, sound)
        assert_elements_agree(rewrite, [*sound, *(data.draw(damaged(one)) for one in sound), b"", *sound])

    holds()


@pytest.mark.parametrize("keys", [(TEXT, TEXT), (INT, LONG)], ids=["as it is", "widened"])
def test_the_map_of_a_broadcast_state_comes_to_what_objects_come_to(keys):
    rewrite = make_element_transcoder(planned(INT, LONG, StateKind.BROADCAST, keys), ExecutorName.NUMBA)
    assert isinstance(rewrite, ElementBlocks)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(texts if keys[0] is TEXT else ints, ints), max_size=4), st.data())
    def holds(pairs, data):
        parts = [written(keys[0], key) + written(INT, value) for key, value in pairs]
        stored = len(parts).to_bytes(4, "big") + b"".join(parts)
        assert_elements_agree(rewrite, [stored])
        assert_elements_agree(rewrite, [data.draw(damaged(stored))])

    holds()


@pytest.mark.parametrize("year", [-4, -1, 0, 1, 4, 1900, 1999, 2000, 2023, 2024, 2100, 999_999_999, 10**9])
def test_days_are_those_of_the_calendar(year):
    """By the rule for leap years: Python's own calendar begins with year 1."""
    is_leap = year % 400 == 0 or (year % 4 == 0 and year % 100 != 0)
    lengths = [31, 28 + is_leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] if abs(year) < 10**9 else [0] * 12
    found = {(month, day) for month in range(-1, 15) for day in range(-1, 33) if memory.is_date(year, month, day)}

    assert {(month, day) for month, length in enumerate(lengths, 1) for day in range(1, length + 1)} == found


def test_many_elements_arrive_in_their_order_whether_odd_or_not():
    rewrite = make_element_transcoder(
        planned(TupleSerializer((INT, TEXT)), TupleSerializer((LONG, TEXT)), StateKind.SPLIT_LIST), ExecutorName.NUMBA
    )
    elements = [
        written(INT, place) + (b"\x82\0a" if place % 911 == 7 else written(TEXT, "x" * (place % 4096)))
        for place in range(4000)
    ]

    assert_elements_agree(rewrite, elements)


USER_KEYS = {
    "widened": (MapSerializer(INT, TEXT), MapSerializer(LONG, TEXT), ints, texts),
    "rounded, and so perhaps one": (
        MapSerializer(LONG, INT),
        MapSerializer(FloatSerializer(), LONG),
        st.integers(1 << 60, (1 << 60) + 3) | ints,
        ints,
    ),
    "values may be null": (
        MapSerializer(TEXT, INT, nullable_values=True),
        MapSerializer(OptionalSerializer(TEXT), LONG, nullable_values=True),
        texts,
        st.none() | ints,
    ),
}


@pytest.mark.parametrize("namespace", [ByteSerializer(), TEXT], ids=["fixed", "ambiguous"])
@pytest.mark.parametrize("case", USER_KEYS.values(), ids=USER_KEYS)
def test_user_keys_that_change_come_to_what_objects_come_to(case, namespace):
    old, new, keys, values = case
    framing = entry_framing(StateKind.MAP, key=TEXT, namespace=namespace, max_parallelism=128)
    rewrite = make_transcoder(planned(old, new, StateKind.MAP), framing, ExecutorName.NUMBA)
    assert isinstance(rewrite, BlockTranscoder)
    assert rewrite.needs_whole_run
    rewritten = set()

    def entry(key, user_key, value):
        start = b"\x07" + written(TEXT, key)
        start += (
            b"\0"
            if not framing.keys.is_ambiguous
            else len(start[1:]).to_bytes(1 + (len(key) > 200), "little") + b"\1\1"
        )
        return start + written(old.key, user_key), b"\1" if value is None else b"\0" + written(old.value, value)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.sampled_from(["a", "b" * 300]), keys, values), min_size=1, max_size=4), st.data())
    def holds(drawn, data):
        entries = [entry(*one) for one in drawn]
        assert_all_agree(rewrite, framed(entries))
        rewritten.add(PlainExecutor(rewrite.program).rewrite(framed(entries), 0).status)
        broken = [(data.draw(damaged(key)), data.draw(damaged(value))) for key, value in entries]
        assert_all_agree(rewrite, framed([(entries[0][0], broken[0][1]), *entries]))
        assert_all_agree(rewrite, framed([*entries, (broken[0][0], entries[0][1])]))

    holds()

    assert DONE in rewritten


def framed(entries):
    return b"".join(len(part).to_bytes(4, "big") + part for entry in entries for part in entry)


ONLY_OBJECTS = {
    "a moment in other bytes": (DateSerializer(exact=True), InstantSerializer()),
    "floats as keys": (MapSerializer(DOUBLE, INT), MapSerializer(DOUBLE, LONG)),
    "a decimal with another scale": (
        AvroSerializer(logical("bytes", "decimal", precision=9, scale=2)),
        AvroSerializer(logical("bytes", "decimal", precision=10, scale=3)),
    ),
    "branches that look alike": (AvroSerializer(["int", "long"]), AvroSerializer(["long", "int"])),
    "a schema within itself": (
        AvroSerializer(fields("int", ["null", "R"])),
        AvroSerializer(fields("double", ["null", "R"])),
    ),
}


@pytest.mark.parametrize("pair", ONLY_OBJECTS.values(), ids=ONLY_OBJECTS)
def test_what_needs_objects_has_no_op_list(pair):
    assert isinstance(transcoder(*pair), ObjectTranscoder)
