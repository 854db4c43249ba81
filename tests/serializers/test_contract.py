"""The contract that every serializer keeps (harness cases, section B), for each built-in that reads values.

A new built-in is one more line in `CASES`; each becomes a class of tests.
"""

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import attrs
from hypothesis import strategies as st

from stateshift import (
    AvroSerializer,
    Instant,
    JavaDate,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    PickleSerializer,
    Record,
    Right,
    Row,
    RowKind,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    Symbol,
    Timer,
    TimeWindow,
    TtlValue,
    TypeSerializer,
)
from stateshift.compat.testing import SerializerContract
from stateshift.serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from stateshift.serializers.containers.lists import (
    ArrayListSerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from stateshift.serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.enums.serializers import EnumSerializer, JavaEnumSerializer
from stateshift.serializers.flink.namespaces import (
    GLOBAL_WINDOW,
    VOID_NAMESPACE,
    CountWindow,
    CountWindowSerializer,
    GlobalWindowSerializer,
    SqlGlobalWindowSerializer,
    TimerSerializer,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
    VoidSerializer,
)
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
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
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.records.recursive import RecordReference, RecursiveRecordSerializer
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.temporal.serializers import (
    DateSerializer,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
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
    declared: st.SearchStrategy[Any] | None = None
    """Values of the declared type, where not each of them must come back as it was."""

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

LINK_FIELDS = (
    RecordField("back", RecordReference("fx.End"), optional=True),
    RecordField("next", ListSerializer(RecordReference("fx.Link"))),
)
LINKS = st.recursive(
    st.just(Record("fx.Link", {"back": None, "next": []})),
    lambda inner: st.builds(
        lambda back, after: Record(
            "fx.Link", {"back": back and Record("fx.End", {"back": None, "next": [back]}), "next": after}
        ),
        st.none() | inner,
        st.lists(inner, max_size=2),
    ),
    max_leaves=5,
)

PLAIN = [
    Case("boolean", BooleanSerializer(), st.booleans(), (False, True)),
    Case("byte", ByteSerializer(), *integers(8)),
    Case("short", ShortSerializer(), *integers(16)),
    Case("int", IntSerializer(), *integers(32)),
    Case("long", LongSerializer(), *integers(64)),
    Case(
        "float",
        FloatSerializer(),
        st.floats(width=32, allow_nan=False),
        (0.0, -0.0, float("inf"), 2.0**-149),
        declared=st.floats(width=32, allow_nan=False) | st.integers(),
    ),
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
    Case("count window", CountWindowSerializer(), st.builds(CountWindow, LONGS), (CountWindow(0), CountWindow(-1))),
    Case("global window", GlobalWindowSerializer(), st.just(GLOBAL_WINDOW), (GLOBAL_WINDOW,)),
    Case("global window of SQL", SqlGlobalWindowSerializer(), st.just(GLOBAL_WINDOW), (GLOBAL_WINDOW,)),
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
    Case(
        "record that contains itself",
        RecursiveRecordSerializer("fx.Link", LINK_FIELDS, others=(RecordSerializer("fx.End", LINK_FIELDS),)),
        LINKS,
        (Record("fx.Link", {"back": None, "next": []}),),
    ),
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

PICKLE = Case(
    "pickle",
    PickleSerializer(dict),
    st.dictionaries(st.text(), LONGS | st.lists(st.text()) | st.binary()),
    ({}, {"é": [1, None, 2.5]}, {"a": Decimal("1.50"), "b": dt.date(2024, 2, 29)}),
)

CASES = [AVRO, PICKLE, *PLAIN, *TEMPORAL, *COMPOSITES, *ARRAYS_AND_ROWS]


def contract_of(case: Case) -> type:
    """Make the class of tests of a built-in; among them `test_own_snapshot_is_compatible`, which is V-4."""
    facts = {
        "serializer": case.serializer,
        "values": case.values,
        "edges": case.edges,
        "declared": case.declared,
        "bytes_beyond_length": int(case.writes_more_than_declared),
        "__module__": __name__,
    }
    return type("Test_" + re.sub(r"\W", "_", case.name), (SerializerContract,), facts)


globals().update({contract.__name__: contract for contract in map(contract_of, CASES)})


def test_no_case_hides_another():
    assert len(CASES) == sum(name.startswith("Test_") for name in globals())
