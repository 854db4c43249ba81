"""The contract that every serializer keeps (harness cases, section B), for each built-in that reads values.

A new built-in is one more line in `CASES`.
"""

import datetime as dt
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift.serializers.arrays import BytesSerializer, PrimitiveArraySerializer
from stateshift.serializers.avro import AvroSerializer
from stateshift.serializers.compatibility import Verdict
from stateshift.serializers.containers import ArrayListSerializer, ListSerializer, SetSerializer
from stateshift.serializers.decimals import DecimalSerializer
from stateshift.serializers.either import EitherSerializer, Left, Right
from stateshift.serializers.enums import EnumSerializer, JavaEnumSerializer
from stateshift.serializers.errors import CorruptSavepoint, StateShiftError, ValueNotConvertible
from stateshift.serializers.maps import MapSerializer
from stateshift.serializers.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from stateshift.serializers.object_arrays import GenericArraySerializer, StringArraySerializer
from stateshift.serializers.optional import OptionalSerializer
from stateshift.serializers.pojo import PojoSerializer
from stateshift.serializers.record_fields import RecordField
from stateshift.serializers.record_values import Record
from stateshift.serializers.records import RecordSerializer
from stateshift.serializers.row_values import Row, RowKind
from stateshift.serializers.rows import RowSerializer
from stateshift.serializers.serializer import TypeSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.sql_temporal import (
    DateSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from stateshift.serializers.sql_temporal_values import JavaDate, SqlDate, SqlTime, SqlTimestamp
from stateshift.serializers.symbols import Symbol
from stateshift.serializers.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from stateshift.serializers.temporal_values import Instant, LocalDate, LocalDateTime, LocalTime
from stateshift.serializers.text import CharSerializer, StringSerializer
from stateshift.serializers.timers import Timer, TimerSerializer
from stateshift.serializers.ttl import TtlSerializer, TtlValue
from stateshift.serializers.tuples import TupleSerializer
from stateshift.serializers.views import DataInputView, DataOutputView
from stateshift.serializers.void import VoidSerializer
from stateshift.serializers.windows import (
    GLOBAL_WINDOW,
    VOID_NAMESPACE,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
)


@attrs.frozen
class Case:
    """A serializer, a strategy of its values, and values that must be among those tried."""

    name: str
    serializer: TypeSerializer[Any]
    values: st.SearchStrategy[Any]
    edges: tuple[Any, ...]
    writes_more_than_declared: bool = False
    """Only where the void namespace is: it declares 0 and writes 1, as Flink does."""

    def __str__(self) -> str:
        return self.name


def integers(bits: int) -> tuple[st.SearchStrategy[int], tuple[int, ...]]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.integers(least, most), (least, -1, 0, 1, most)


LONGS = integers(64)[0]
DECIMALS = st.builds(
    lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
    st.integers(-(10**27), 10**27),
    st.integers(-40, 40),
)
WINDOWS = st.builds(TimeWindow, LONGS, LONGS)
LONG, STRING = LongSerializer(), StringSerializer()
LEVELS = ("LOW", "HIGH", "TOP")
SYMBOLS = tuple(Symbol(name, "fx.Level") for name in LEVELS)
FIELDS = (RecordField("name", STRING, optional=True), RecordField("visits", LONG))
RECORDS = st.builds(
    lambda name, visits: Record("fx.Account", {"name": name, "visits": visits}), st.none() | st.text(), LONGS
)
RECORD_EDGES = (
    Record("fx.Account", {"name": None, "visits": 0}),
    Record("fx.Account", {"name": "é", "visits": -1}),
)

PLAIN = [
    Case("boolean", BooleanSerializer(), st.booleans(), (False, True)),
    Case("byte", ByteSerializer(), *integers(8)),
    Case("short", ShortSerializer(), *integers(16)),
    Case("int", IntSerializer(), *integers(32)),
    Case("long", LongSerializer(), *integers(64)),
    Case("float", FloatSerializer(), st.floats(width=32, allow_nan=False), (0.0, -0.0, float("inf"), 2.0**-149)),
    Case("double", DoubleSerializer(), st.floats(allow_nan=False), (0.0, -0.0, float("-inf"), 5e-324)),
    Case("bigint", BigIntSerializer(), st.integers(), (0, 1, 2, 10, -1, 127, 128, -128, -129, 1 << 800)),
    Case("decimal", DecimalSerializer(), DECIMALS, (Decimal(0), Decimal("0.00"), Decimal("1E+9"), Decimal("-12.345"))),
    Case("string", StringSerializer(), st.text(), ("", "\0", "é日", "😀", "\ud800", "a" * 127, "ß" * 20_000)),
    Case("string or null", StringSerializer(allow_null=True), st.none() | st.text(), (None, "")),
    Case("char", CharSerializer(), st.integers(0, 0xFFFF).map(chr), ("a", "\0", "\ud83d", "\uffff")),
    Case("bytes", BytesSerializer(), st.binary(), (b"", b"\0\xff", b"," * 300)),
    Case("void", VoidSerializer(), st.none(), (None,)),
    Case("void namespace", VoidNamespaceSerializer(), st.just(VOID_NAMESPACE), (VOID_NAMESPACE,), True),
    Case("time window", TimeWindowSerializer(), WINDOWS, (TimeWindow(-(2**63), 2**63 - 1),)),
    Case("global window", GlobalWindowSerializer(), st.just(GLOBAL_WINDOW), (GLOBAL_WINDOW,)),
    Case(
        "timer",
        TimerSerializer(LongSerializer(), TimeWindowSerializer()),
        st.builds(Timer, LONGS, LONGS, WINDOWS),
        (Timer(-(2**63), 0, TimeWindow(0, 1)), Timer(2**63 - 1, -1, TimeWindow(0, 1))),
    ),
    Case(
        "timer of strings",
        TimerSerializer(StringSerializer(), VoidNamespaceSerializer()),
        st.builds(Timer, LONGS, st.text(), st.just(VOID_NAMESPACE)),
        (Timer(0, "", VOID_NAMESPACE), Timer(-1, "é", VOID_NAMESPACE)),
    ),
]

NANOS = st.integers(0, 999_999_999)
CHARS = st.integers(0, 0xFFFF).map(chr)
MILLIS = st.integers(-(2**63) + 1, 2**63 - 1)
INSTANTS = st.builds(Instant, st.integers(-31557014167219200, 31556889864403199), NANOS)
DATES = st.builds(LocalDate, st.integers(-999_999_999, 999_999_999), st.integers(1, 12), st.integers(1, 28))
TIMES = st.builds(LocalTime, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), NANOS)
DATETIMES = st.builds(lambda date, time: LocalDateTime(*date.parts, *time.parts), DATES, TIMES)
LEAP_DAY = dt.datetime(2024, 2, 29, 23, 59, 59, 999999)  # noqa: DTZ001 - it is to have none
ANCIENT, LATE = dt.datetime.min, dt.datetime.max  # noqa: DTZ901 - nor have they

TEMPORAL = [
    Case(
        "instant",
        InstantSerializer(exact=True),
        INSTANTS,
        (Instant(0), Instant(-1, 999_999_999), Instant(-31557014167219200), Instant(31556889864403199, 999_999_999)),
    ),
    Case("instant or null", InstantSerializer(exact=True, allow_null=True), st.none() | INSTANTS, (None, Instant(0))),
    Case(
        "datetime with a zone",
        InstantSerializer(),
        st.datetimes(timezones=st.just(dt.UTC)),
        tuple(value.replace(tzinfo=dt.UTC) for value in (LEAP_DAY, ANCIENT, LATE)),
    ),
    Case(
        "date",
        LocalDateSerializer(exact=True),
        DATES,
        (LocalDate(0, 2, 29), LocalDate(-999_999_999, 1, 1), LocalDate(999_999_999, 12, 31)),
    ),
    Case("date or null", LocalDateSerializer(exact=True, allow_null=True), st.none() | DATES, (None,)),
    Case("date of Python", LocalDateSerializer(), st.dates(), (ANCIENT.date(), LATE.date())),
    Case("time", LocalTimeSerializer(exact=True), TIMES, (LocalTime(0, 0), LocalTime(23, 59, 59, 999_999_999))),
    Case("time or null", LocalTimeSerializer(exact=True, allow_null=True), st.none() | TIMES, (None,)),
    Case("time of Python", LocalTimeSerializer(), st.times(), (ANCIENT.time(), LATE.time())),
    Case(
        "local datetime",
        LocalDateTimeSerializer(exact=True),
        DATETIMES,
        (LocalDateTime(0, 1, 1), LocalDateTime(-999_999_999, 12, 31, 23, 59, 59, 999_999_999)),
    ),
    Case(
        "local datetime or null", LocalDateTimeSerializer(exact=True, allow_null=True), st.none() | DATETIMES, (None,)
    ),
    Case("datetime without a zone", LocalDateTimeSerializer(), st.datetimes(), (LEAP_DAY, ANCIENT, LATE)),
    Case(
        "java.util.Date", DateSerializer(exact=True), st.builds(JavaDate, MILLIS), (JavaDate(-1), JavaDate(2**63 - 1))
    ),
    Case("java.util.Date or null", DateSerializer(exact=True, allow_null=True), st.none(), (None,)),
    Case("java.sql.Date", SqlDateSerializer(), st.builds(SqlDate, MILLIS), (SqlDate(0), SqlDate(1 - 2**63))),
    Case("java.sql.Date or null", SqlDateSerializer(allow_null=True), st.none(), (None,)),
    Case("java.sql.Time", SqlTimeSerializer(), st.builds(SqlTime, MILLIS), (SqlTime(0), SqlTime(1 - 2**63))),
    Case("java.sql.Time or null", SqlTimeSerializer(allow_null=True), st.none(), (None,)),
    Case(
        "java.sql.Timestamp",
        SqlTimestampSerializer(exact=True),
        st.builds(SqlTimestamp.at, st.integers(-(10**15), 10**15), NANOS),
        (SqlTimestamp(0, 0), SqlTimestamp(-1, 999_999_999), SqlTimestamp(2**63 - 1, 807_000_001)),
    ),
]

COMPOSITES = [
    Case(
        "array of chars", PrimitiveArraySerializer(CharSerializer()), st.lists(CHARS), ([], ["a", "\ud83d", "\uffff"])
    ),
    Case("list", ListSerializer(STRING), st.lists(st.text()), ([], [""], ["a", "a", "é"])),
    Case("array list", ArrayListSerializer(LONG), st.lists(LONGS), ([], [1, 2])),
    Case("set", SetSerializer(STRING), st.sets(st.text()), (set(), {""}, set("hash seeds change me"))),
    Case("set with null", SetSerializer(LONG, nullable_elements=True), st.sets(st.none() | LONGS), ({None}, {None, 1})),
    Case(
        "map", MapSerializer(STRING, LONG), st.dictionaries(st.text(), LONGS), ({}, {"": 0}, {"b": 1, "a": 2, "é": 3})
    ),
    Case(
        "map with nulls",
        MapSerializer(LONG, STRING, nullable_values=True),
        st.dictionaries(LONGS, st.none() | st.text()),
        ({}, {1: None}, {2: "", 1: "x"}),
    ),
    Case(
        "map of lists",
        MapSerializer(STRING, ListSerializer(STRING)),
        st.dictionaries(st.text(), st.lists(st.text())),
        ({}, {"b": [], "a": ["x"]}),
    ),
    Case("tuple", TupleSerializer((STRING, LONG)), st.tuples(st.text(), LONGS), (("", 0), ("é", -1))),
    Case("tuple of fixed length", TupleSerializer((LONG, IntSerializer())), st.tuples(LONGS, st.just(1)), ((0, 1),)),
    Case("tuple of nothing", TupleSerializer(()), st.just(()), ((),)),
    Case("optional", OptionalSerializer(STRING), st.none() | st.text(), (None, "", "é")),
    Case("padded optional", OptionalSerializer(LONG, 8), st.none() | LONGS, (None, 0, -1)),
    Case("enum", EnumSerializer(LEVELS, "fx.Level"), st.sampled_from(SYMBOLS), SYMBOLS),
    Case("enum of Java", JavaEnumSerializer(LEVELS, "fx.Level"), st.sampled_from(SYMBOLS), SYMBOLS),
    Case("ttl", TtlSerializer(STRING), st.builds(TtlValue, LONGS, st.text()), (TtlValue(0, ""), TtlValue(-1, "é"))),
    Case("ttl of fixed length", TtlSerializer(LONG), st.builds(TtlValue, LONGS, LONGS), (TtlValue(1, 2),)),
    Case("record", RecordSerializer("fx.Account", FIELDS), RECORDS, RECORD_EDGES),
    Case("pojo", PojoSerializer("fx.Account", FIELDS), RECORDS, RECORD_EDGES),
]

SHORTS, INTS = integers(16)[0], integers(32)[0]
TEXTS_OR_NONE = st.none() | st.text()
ROWS = st.builds(
    lambda items, kind: Row(*items)._with_kind(kind),
    st.tuples(TEXTS_OR_NONE, st.none() | LONGS),
    st.sampled_from(RowKind),
)
ROW_EDGES = (Row(None, None), Row("é", -1), *(Row("", 0)._with_kind(kind) for kind in RowKind))

ARRAYS_AND_ROWS = [
    *(
        Case(f"array of {element.describe()}", PrimitiveArraySerializer(element), st.lists(values), ([], edge))
        for element, values, edge in (
            (BooleanSerializer(), st.booleans(), [True, False]),
            (ShortSerializer(), SHORTS, [-(2**15), 2**15 - 1]),
            (IntSerializer(), INTS, [-(2**31), 2**31 - 1]),
            (LONG, LONGS, [-(2**63), 2**63 - 1]),
            (FloatSerializer(), st.floats(width=32, allow_nan=False), [0.5, -0.0, float("inf")]),
            (DoubleSerializer(), st.floats(allow_nan=False), [5e-324, -0.0]),
        )
    ),
    Case("array of strings", StringArraySerializer(), st.lists(st.text()), ([], ["", "é"])),
    Case(
        "array of strings or nulls",
        StringArraySerializer(nullable_elements=True),
        st.lists(TEXTS_OR_NONE),
        ([], [None, ""]),
    ),
    Case("array of boxed longs", GenericArraySerializer(LONG), st.lists(LONGS), ([], [0, -1])),
    Case(
        "array of arrays",
        GenericArraySerializer(PrimitiveArraySerializer(IntSerializer()), nullable_elements=True),
        st.lists(st.none() | st.lists(INTS)),
        ([], [None, [], [1, 2]]),
    ),
    Case("row", RowSerializer.of([STRING, LONG]), ROWS, ROW_EDGES),
    Case(
        "row without kind",
        attrs.evolve(RowSerializer.of([STRING] * 9), supports_row_kind=False),
        st.tuples(*[TEXTS_OR_NONE] * 9).map(lambda items: Row(*items)),
        (Row(*[None] * 9), Row(*"abcdefghi")),
    ),
    Case("row of nothing", RowSerializer(()), st.just(Row()), (Row(),)),
    Case(
        "either",
        EitherSerializer(STRING, LONG),
        st.text().map(Left) | LONGS.map(Right),
        (Left(""), Left("é"), Right(0), Right(-1)),
    ),
    Case("tuple of 25", TupleSerializer((LONG,) * 25), st.tuples(*[LONGS] * 25), (tuple(range(25)),)),
]

AVRO = Case(
    "avro",
    AvroSerializer(["null", "long", {"type": "array", "items": "string"}]),
    st.none() | integers(64)[0] | st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    (None, 0, -(2**63), [], ["", "é日"]),
)

CASES = [AVRO, *PLAIN, *TEMPORAL, *COMPOSITES, *ARRAYS_AND_ROWS]

every_case = pytest.mark.parametrize("case", CASES, ids=str)
few = settings(deadline=None, max_examples=25)


def drawn(data: st.DataObject, case: Case) -> list[Any]:
    """Some values, after those that must be tried."""
    return [*case.edges, *data.draw(st.lists(case.values, max_size=5))]


def change_in_place(value: object) -> bool:
    """Empty a mutable value; False where it cannot be changed."""
    if not isinstance(value, list | dict | set | bytearray):
        return False
    value.clear()
    return True


@every_case
def test_snapshot_class_is_instantiable(case):
    snapshot = case.serializer.snapshot_configuration()

    assert snapshot.get_version() == type(snapshot)().get_version()


@every_case
def test_own_snapshot_is_compatible_v_4(case):
    fresh = case.serializer.snapshot_configuration()
    stored = snapshot_from_bytes(snapshot_to_bytes(fresh))

    assert fresh == stored
    assert Verdict.COMPATIBLE is case.serializer.ensure_compatibility(fresh).verdict
    assert Verdict.COMPATIBLE is case.serializer.ensure_compatibility(stored).verdict


@every_case
def test_serializer_restored_from_the_snapshot_reads_and_writes_the_same_bytes(write, read, case):
    restored = snapshot_from_bytes(snapshot_to_bytes(case.serializer.snapshot_configuration())).restore_serializer()

    for value in case.edges:
        data = write(case.serializer, value)
        assert data == write(restored, read(restored, data))


@every_case
@given(data=st.data())
@few
def test_declared_length_is_true(write, case, data):
    values = drawn(data, case)
    length = case.serializer.length + case.writes_more_than_declared

    if case.serializer.length >= 0:
        assert [length] * len(values) == [len(write(case.serializer, value)) for value in values]


@every_case
def test_values_are_not_shared(write, read, case):
    for edge in case.edges:
        data = write(case.serializer, edge)
        first, second = read(case.serializer, data), read(case.serializer, data)
        if change_in_place(first):
            assert edge == second
            assert data == write(case.serializer, second)


@every_case
@given(data=st.data())
@few
def test_round_trip_one_by_one(write, read, case, data):
    for value in drawn(data, case):
        written = write(case.serializer, value)
        assert len(written) > 0
        assert value == read(case.serializer, written)


@every_case
@given(data=st.data())
@few
def test_round_trip_stream(write, case, data):
    values = drawn(data, case)
    source = DataInputView(write(case.serializer, *values))

    assert values == [case.serializer.deserialize(source) for _ in values]
    assert 0 == source.remaining()


@every_case
@given(data=st.data())
@few
def test_binary_copy_of_one_and_of_a_stream(write, case, data):
    values = drawn(data, case)
    whole = write(case.serializer, *values)
    source, target = DataInputView(whole), DataOutputView()

    for value in values:
        start = len(target)
        case.serializer.copy_bytes(source, target)
        assert write(case.serializer, value) == target.getvalue()[start:]
    assert whole == target.getvalue()


@every_case
def test_serializer_equality_and_shipping(write, case):
    shipped = pickle.loads(pickle.dumps(case.serializer))

    assert case.serializer == shipped
    assert hash(case.serializer) == hash(shipped)
    for value in case.edges:
        assert write(case.serializer, value) == write(shipped, value)


@every_case
def test_nullability_is_declared(write, read, case):
    if None in case.edges:
        assert read(case.serializer, write(case.serializer, None)) is None
    else:
        with pytest.raises(ValueNotConvertible, match=r"None|null"):
            write(case.serializer, None)


@every_case
def test_one_serializer_many_threads(write, read, case):
    expected = [write(case.serializer, value) for value in case.edges]

    def work(_):
        return [write(case.serializer, read(case.serializer, data)) for data in expected * 5]

    with ThreadPoolExecutor(10) as threads:
        results = list(threads.map(work, range(10)))

    assert [expected * 5] * 10 == results


@every_case
def test_repr_of_result_is_sound(write, read, case):
    for value in case.edges:
        assert sorted(repr(value)) == sorted(repr(read(case.serializer, write(case.serializer, value))))


WRITER = """
import pickle, sys
from stateshift.serializers.ttl import TtlSerializer, TtlValue
from stateshift.serializers.tuples import TupleSerializer
from stateshift.serializers.views import DataOutputView
with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
for serializer, values in cases:
    target = DataOutputView()
    for value in values:
        serializer.serialize(value, target)
    print(target.getvalue().hex())
"""


def test_deterministic_bytes(write, tmp_path):
    shipped = tmp_path / "cases.pickle"
    shipped.write_bytes(pickle.dumps([(case.serializer, case.edges) for case in CASES]))

    def written(seed):
        command = [sys.executable, "-c", WRITER, str(shipped)]
        done = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    assert [write(case.serializer, *case.edges).hex() for case in CASES] == written("1") == written("2")


@every_case
def test_every_truncation_is_rejected(write, case):
    for value in case.edges:
        data = write(case.serializer, value)
        for size in range(min(len(data), 50)):
            source, copied = DataInputView(data[:size]), DataInputView(data[:size])
            with pytest.raises(CorruptSavepoint):
                case.serializer.deserialize(source)
            with pytest.raises(CorruptSavepoint):
                case.serializer.copy_bytes(copied, DataOutputView())


@every_case
@given(data=st.data())
@few
def test_flipped_and_random_bytes_give_a_value_or_an_error_of_ours(write, case, data):
    flipped = bytearray(write(case.serializer, data.draw(st.sampled_from(case.edges))))
    flipped[data.draw(st.integers(0, min(len(flipped) - 1, 40)))] ^= data.draw(st.integers(1, 255))
    for garbage in (bytes(flipped), data.draw(st.binary(max_size=40))):
        try:
            value = case.serializer.deserialize(DataInputView(garbage))
        except StateShiftError:
            continue
        repr(value)
