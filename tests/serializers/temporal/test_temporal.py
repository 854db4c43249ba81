"""Dates and times: Flink's bytes, what Python's own types hold of them, garbage, and the rules TIME-1 to TIME-5."""

import datetime as dt
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    AwareDatetime,
    CorruptSavepoint,
    DataInputView,
    Flag,
    Instant,
    JavaDate,
    LocalDate,
    LocalDateTime,
    LocalTime,
    NaiveDatetime,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StateShiftError,
    ValueNotConvertible,
    Verdict,
    serializer_for,
)
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.temporal.serializers import (
    DateSerializer,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
    TemporalSerializer,
)

INSTANT, DATE, TIME, DATETIME = (
    InstantSerializer(), LocalDateSerializer(), LocalTimeSerializer(), LocalDateTimeSerializer(),
)  # fmt: skip
JAVA_DATE, SQL_DATE, SQL_TIME, TIMESTAMP = (
    DateSerializer(), SqlDateSerializer(), SqlTimeSerializer(), SqlTimestampSerializer(),
)  # fmt: skip
ALL = [INSTANT, DATE, TIME, DATETIME, JAVA_DATE, SQL_DATE, SQL_TIME, TIMESTAMP]
LONG_NULL = "8000000000000000"
every = pytest.mark.parametrize("serializer", ALL, ids=lambda serializer: serializer.describe())


def exact(serializer: TemporalSerializer) -> TemporalSerializer:
    return type(serializer)(exact=True, allow_null=True)


class TestBytes:
    @pytest.mark.parametrize(
        ("serializer", "value", "data"),
        [
            (INSTANT, Instant(1_600_000_000, 123_456_789), "000000005F5E1000 075BCD15"),
            (INSTANT, Instant(-1, 999_999_999), "FFFFFFFFFFFFFFFF 3B9AC9FF"),
            (DATE, LocalDate(2024, 2, 29), "000007E8 02 1D"),
            (DATE, LocalDate(-1, 12, 31), "FFFFFFFF 0C 1F"),
            (TIME, LocalTime(23, 59, 58, 1), "17 3B 3A 00000001"),
            (DATETIME, LocalDateTime(2024, 2, 29, 23, 59, 58, 1), "000007E8 02 1D 17 3B 3A 00000001"),
            (JAVA_DATE, JavaDate(-1), "FFFFFFFFFFFFFFFF"),
            (SQL_DATE, SqlDate(86_400_000), "0000000005265C00"),
            (SQL_TIME, SqlTime(1), "0000000000000001"),
            (TIMESTAMP, SqlTimestamp(1_600_000_000_123, 123_456_789), "00000174876E807B 075BCD15"),
        ],
    )
    def test_exact_values(self, write, read, serializer, value, data):
        assert bytes.fromhex(data) == write(serializer, value)
        assert value == read(exact(serializer), bytes.fromhex(data))

    @pytest.mark.parametrize(
        ("serializer", "data"),
        [
            (INSTANT, LONG_NULL + "80000000"),
            (DATE, "80000000 8000"),
            (TIME, "80 8000 80000000"),
            (DATETIME, "80000000 8000 80 8000 80000000"),
            (JAVA_DATE, LONG_NULL),
            (SQL_DATE, LONG_NULL),
            (SQL_TIME, LONG_NULL),
            (TIMESTAMP, LONG_NULL + "00000000"),
        ],
    )
    def test_null_forms(self, write, read, stored, serializer, data):
        assert read(stored(serializer).restore_serializer(), bytes.fromhex(data)) is None
        with pytest.raises(ValueNotConvertible, match=r"a null is stored where a value of .* is declared") as caught:
            read(ListSerializer(serializer), bytes.fromhex("00000001" + data))
        assert "$[]" == caught.value.where["path"]
        if serializer is not TIMESTAMP:
            assert bytes.fromhex(data) == write(exact(serializer), None)

    def test_the_null_that_flink_reads_back_wrongly_is_not_written(self, write):
        with pytest.raises(ValueNotConvertible, match="Flink reads it back wrongly"):
            write(exact(TIMESTAMP), None)

    @every
    def test_lengths_are_those_that_decide_how_flink_frames_a_key(self, serializer):
        lengths = dict(zip(ALL, [12, 6, 7, 13, 8, 8, 8, 12], strict=True))

        assert lengths[serializer] == serializer.length


class TestGarbage:
    @pytest.mark.parametrize(
        ("serializer", "data", "what"),
        [
            (INSTANT, "0000000000000000 3B9ACA00", "1000000000 is not a valid number of nanoseconds"),
            (INSTANT, "0000000000000000 FFFFFFFF", "-1 is not a valid number of nanoseconds"),
            (INSTANT, "7000000000000000 00000000", "is not a valid second of an Instant"),
            (INSTANT, LONG_NULL + "00000000", "is not a valid second of an Instant"),
            (DATE, "000007E8 0D 01", "13 is not a valid month"),
            (DATE, "000007E8 00 01", "0 is not a valid month"),
            (DATE, "000007E7 02 1D", "29 is not a valid day of the month 2023-02"),
            (DATE, "0000076C 02 1D", "29 is not a valid day of the month 1900-02"),
            (DATE, "000007E8 04 1F", "31 is not a valid day of the month 2024-04"),
            (DATE, "000007E8 01 00", "0 is not a valid day of the month"),
            (DATE, "7FFFFFFF 01 01", "2147483647 is not a valid year"),
            (DATE, "80000000 0101", "-2147483648 is not a valid year"),
            (TIME, "18 00 00 00000000", "24 is not a valid hour"),
            (TIME, "00 3C 00 00000000", "60 is not a valid minute"),
            (TIME, "00 00 3C 00000000", "60 is not a valid second"),
            (TIME, "00 00 00 3B9ACA00", "1000000000 is not a valid number of nanoseconds"),
            (TIME, "80 0000 00000000", "-128 is not a valid hour"),
            (DATETIME, "80000000 8000 00 0000 00000000", "-2147483648 is not a valid year"),
            (DATETIME, "000007E8 021D 80 8000 80000000", "-128 is not a valid hour"),
            (TIMESTAMP, "0000000000000000 3B9ACA00", "1000000000 is not a valid number of nanoseconds"),
            (TIMESTAMP, "0000000000000001 00000000", "1 milliseconds and 0 nanoseconds of the second do not agree"),
            (TIMESTAMP, LONG_NULL + "00000001", "is not a valid number of milliseconds"),
        ],
    )
    def test_impossible_numbers_are_reported_with_their_place(self, serializer, data, what):
        source = DataInputView(b"\0" + bytes.fromhex(data), 1)

        with pytest.raises(CorruptSavepoint, match=what) as caught:
            exact(serializer).deserialize(source)
        assert 1 == caught.value.where["offset"]

    @every
    @given(data=st.binary(min_size=13, max_size=13))
    def test_what_is_read_of_random_bytes_is_written_as_these_bytes(self, write, serializer, data):
        data = data[: serializer.length]
        try:
            value = exact(serializer).deserialize(DataInputView(data))
        except StateShiftError:
            return

        assert data == write(exact(serializer), value)
        assert str(value)


class TestPythonsOwnTypes:
    @given(value=st.datetimes(timezones=st.timezones()))
    def test_a_datetime_with_any_zone_is_the_same_moment_afterwards(self, write, read, value):
        try:
            in_utc = value.astimezone(dt.UTC)
        except OverflowError:  # the zone carries it out of the years of Python
            return

        found = read(INSTANT, write(INSTANT, value))
        assert (in_utc, dt.UTC) == (found, found.tzinfo)

    @given(value=st.datetimes())
    def test_exact_values_and_pythons_are_written_alike(self, write, value):
        moment = value.replace(tzinfo=dt.UTC)

        for serializer, own in ((DATETIME, value), (DATE, value.date()), (TIME, value.time()), (INSTANT, moment)):
            assert write(serializer, serializer.value_class.from_python(own)) == write(serializer, own)
            assert own == serializer.value_class.from_python(own).to_python()
            assert own.isoformat()[:8] == str(serializer.value_class.from_python(own))[:8]

    @pytest.mark.parametrize(
        ("serializer", "value", "why"),
        [
            (INSTANT, Instant(0, 1), "'1970-01-01T00:00:00.000000001Z' has nanoseconds, but Python's datetime"),
            (INSTANT, Instant(253_402_300_800), "is outside the years 1 to 9999 of Python's datetime"),
            (INSTANT, Instant(31556889864403199), "is outside the years 1 to 9999 of Python's datetime"),
            (DATE, LocalDate(10_000, 1, 1), "'\\+10000-01-01' is outside the years 1 to 9999 of Python's date"),
            (DATE, LocalDate(0, 1, 1), "'0000-01-01' is outside the years 1 to 9999 of Python's date"),
            (TIME, LocalTime(1, 2, 3, 4005), "'01:02:03.000004005' has nanoseconds, but Python's time"),
            (DATETIME, LocalDateTime(2024, 1, 1, nanos=1), "has nanoseconds, but Python's datetime"),
            (DATETIME, LocalDateTime(-5, 1, 1), "'-0005-01-01T00:00:00' is outside the years 1 to 9999"),
            (JAVA_DATE, JavaDate(2**62), "is outside the years 1 to 9999"),
            (TIMESTAMP, SqlTimestamp.at(0, 5), "has nanoseconds, but Python's datetime"),
        ],
    )
    def test_what_they_do_not_hold_is_an_error_that_names_the_exact_type(self, write, read, serializer, value, why):
        data = write(ListSerializer(serializer), [value])

        with pytest.raises(ValueNotConvertible, match=why) as caught:
            read(ListSerializer(serializer), data)
        assert "$[]" == caught.value.where["path"]
        assert f"stateshift.{type(value).__name__}, which is exact" in caught.value.advice
        assert [value] == read(ListSerializer(exact(serializer)), data)

    @pytest.mark.parametrize(
        ("serializer", "value", "why"),
        [
            (INSTANT, dt.datetime(2024, 1, 1), "has no time zone"),  # noqa: DTZ001 - it is what must be refused
            (INSTANT, dt.date(2024, 1, 1), "is neither a datetime nor an Instant"),
            (INSTANT, LocalDateTime(2024, 1, 1), "is neither a datetime nor an Instant"),
            (JAVA_DATE, Instant(0, 1), "finer than the milliseconds"),
            (INSTANT, 5, "is neither a datetime nor an Instant"),
            (DATETIME, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "has a time zone"),
            (DATETIME, "2024-01-01", "is neither a datetime nor a LocalDateTime"),
            (DATE, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "is a datetime, but a date is declared"),
            (DATE, 5, "is neither a date nor a LocalDate"),
            (TIME, dt.time(1, tzinfo=dt.UTC), "has a time zone"),
            (TIME, None, "None is neither a time nor a LocalTime"),
            (JAVA_DATE, dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC), "finer than the milliseconds"),
            (SQL_DATE, dt.date(2024, 1, 1), "is not a SqlDate"),
            (SQL_TIME, dt.time(1), "is not a SqlTime"),
        ],
    )
    def test_what_would_be_guessed_or_rounded_is_not_written(self, write, serializer, value, why):
        with pytest.raises(ValueNotConvertible, match=why):
            write(serializer, value)

    @pytest.mark.parametrize("serializer", [INSTANT, JAVA_DATE, TIMESTAMP])
    @pytest.mark.parametrize("value", [Instant(1, 5_000_000), JavaDate(1005), SqlTimestamp(1005, 5_000_000)])
    def test_any_moment_is_written_as_any_other_where_it_fits(self, write, read, serializer, value):
        assert value.moment == read(exact(serializer), write(serializer, value)).moment

    def test_nanoseconds_of_pandas_are_kept(self, write, read):
        pandas = pytest.importorskip("pandas")
        value = pandas.Timestamp("1969-12-31T23:59:59.000001007Z")

        assert Instant(-1, 1007) == read(exact(INSTANT), write(INSTANT, value))
        assert 1007 == read(exact(DATETIME), write(DATETIME, value.tz_localize(None))).nanos
        for serializer in (INSTANT, DATETIME, DATE):
            with pytest.raises(ValueNotConvertible, match="NaT is"):
                write(serializer, pandas.NaT)


class TestExactValues:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Instant(0), "1970-01-01T00:00:00Z"),
            (Instant(-1, 120_000_000), "1969-12-31T23:59:59.120Z"),
            (Instant(-31557014167219200), "-1000000000-01-01T00:00:00Z"),
            (Instant(31556889864403199, 999_999_999), "+1000000000-12-31T23:59:59.999999999Z"),
            (LocalDate(-1, 2, 3), "-0001-02-03"),
            (LocalDate(12345, 2, 3), "+12345-02-03"),
            (LocalTime(1, 2, 3, 4000), "01:02:03.000004"),
            (LocalDateTime(2024, 2, 29), "2024-02-29T00:00:00"),
            (SqlTimestamp.at(-1, 1), "1969-12-31T23:59:59.000000001Z"),
            (SqlDate(0), "1970-01-01T00:00:00Z"),
        ],
    )
    def test_text_is_that_of_iso_8601(self, value, text):
        assert text == str(value)
        assert value == pickle.loads(pickle.dumps(value))

    @given(days=st.integers(-(10**11), 10**11))
    def test_days_are_those_of_the_calendar(self, days):
        text = str(Instant(days * 86_400)).partition("T")[0]
        year, month, day = map(int, text.lstrip("+-").split("-"))
        cycles, rest = divmod(days, 146_097)  # of 400 years, after which the calendar repeats itself
        known = dt.date(1970, 1, 1) + dt.timedelta(days=rest)

        assert (known.year + 400 * cycles, known.month, known.day) == (-year if text[0] == "-" else year, month, day)

    def test_they_sort_by_time(self):
        assert Instant(-1, 5) < Instant(0, 1) < Instant(0, 2)
        assert LocalDate(-1, 12, 31) < LocalDate(0, 1, 1)
        assert len({Instant(1), Instant(1, 0), Instant(2)}) == 2


class TestHints:
    @pytest.mark.parametrize(
        ("hint", "serializer", "words"),
        [
            (dt.datetime, INSTANT, "instant"),
            (AwareDatetime, INSTANT, "instant"),
            (NaiveDatetime, DATETIME, "local datetime"),
            (dt.date, DATE, "date"),
            (dt.time, TIME, "time"),
            (Instant, exact(INSTANT), "instant"),
            (LocalDate, exact(DATE), "date"),
            (LocalTime, exact(TIME), "time"),
            (LocalDateTime, exact(DATETIME), "local datetime"),
            (JavaDate, exact(JAVA_DATE), "java.util.Date"),
            (SqlDate, exact(SQL_DATE), "java.sql.Date"),
            (SqlTime, exact(SQL_TIME), "java.sql.Time"),
            (SqlTimestamp, exact(TIMESTAMP), "java.sql.Timestamp"),
        ],
    )
    def test_each_type_has_its_hint(self, hint, serializer, words):
        assert serializer == serializer_for(hint)
        assert words == serializer.describe()


WIDENED = [(JAVA_DATE, INSTANT), (JAVA_DATE, TIMESTAMP)]
REGROUPED = [(TIMESTAMP, INSTANT), (INSTANT, TIMESTAMP)]
COARSER = [(INSTANT, JAVA_DATE), (TIMESTAMP, JAVA_DATE)]
MOMENTS = [INSTANT, JAVA_DATE, TIMESTAMP]


class TestRules:
    @every
    def test_time_1_the_same_type_is_compatible(self, ask, serializer):
        assert Verdict.COMPATIBLE is ask(serializer, serializer).verdict
        assert ([], Verdict.COMPATIBLE) == ([*ask(exact(serializer), serializer).findings], Verdict.COMPATIBLE)

    @pytest.mark.parametrize("serializer", [INSTANT, DATE, TIME, DATETIME, JAVA_DATE, TIMESTAMP])
    def test_time_1_a_type_of_python_that_does_not_hold_all_comes_with_a_flag(self, ask, rules, serializer):
        result = ask(serializer, serializer)

        assert [("$", "TIME-1")] == rules(result)
        assert [("$", Flag.MAY_FAIL_PER_VALUE)] == list(result.flags)
        assert f"stateshift.{serializer.value_class.__name__}, which is exact" in str(result.findings[0].ways_out[0])

    @pytest.mark.parametrize(("old", "new"), WIDENED)
    def test_time_2_a_finer_unit_is_migrated_exactly(self, ask, rules, migrate, old, new):
        assert [("$", "TIME-2")] == rules(ask(new, old))
        for millis in (-1, 0, 1_600_000_000_123):
            assert JavaDate(millis).moment == migrate(exact(new), old, JavaDate(millis)).moment

    @pytest.mark.parametrize(("old", "new"), COARSER)
    def test_time_3_a_coarser_unit_is_refused(self, ask, rules, old, new):
        assert ask(new, old).is_incompatible()
        assert [("$", "TIME-3")] == rules(ask(new, old))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            *((DATETIME, moment) for moment in MOMENTS), *((moment, DATETIME) for moment in MOMENTS),
            (DATE, SQL_DATE), (SQL_DATE, DATE), (TIME, SQL_TIME), (SQL_TIME, TIME),
        ],
    )  # fmt: skip
    def test_time_4_a_zone_is_never_assumed(self, ask, rules, old, new):
        (finding,) = ask(new, old).findings

        assert ask(new, old).is_incompatible()
        assert [("$", "TIME-4")] == rules(ask(new, old))
        assert "a zone would have to be assumed" in finding.reason

    def test_time_5_date_and_datetime_and_time_are_no_other(self, ask, rules):
        kinds = [[INSTANT, DATETIME, JAVA_DATE, TIMESTAMP], [DATE, SQL_DATE], [TIME, SQL_TIME]]
        pairs = [(old, new) for one in kinds for other in kinds if one is not other for old in one for new in other]

        assert {("$", "TIME-5")} == {rule for old, new in pairs for rule in rules(ask(new, old))}
        assert all(ask(new, old).is_incompatible() for old, new in pairs)

    @pytest.mark.parametrize(("old", "new"), REGROUPED)
    def test_fam_4_moments_of_one_unit_are_migrated(self, ask, rules, migrate, old, new):
        assert [("$", "FAM-4")] == rules(ask(new, old))
        value = old.value_class.at(-1, 123_456_789)
        assert value.moment == migrate(exact(new), old, value).moment

    def test_fam_4_an_instant_may_be_out_of_the_range_of_a_timestamp(self, ask, migrate):
        assert [("$", Flag.MAY_FAIL_PER_VALUE)] == list(ask(TIMESTAMP, INSTANT).flags)
        assert [] == list(ask(INSTANT, TIMESTAMP).flags)
        with pytest.raises(ValueNotConvertible, match=r"is out of the range of java\.sql\.Timestamp") as caught:
            migrate(TIMESTAMP, INSTANT, Instant(10**16))
        assert "FAM-4" == caught.value.where["rule"]

    @every
    @pytest.mark.parametrize("other", [LongSerializer(), StringSerializer()])
    def test_fam_2_times_are_neither_numbers_nor_text(self, ask, rules, serializer, other):
        assert [("$", "FAM-2")] == rules(ask(serializer, other)) == rules(ask(other, serializer))
        assert ask(serializer, other).is_incompatible()
