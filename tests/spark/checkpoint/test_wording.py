"""What a person reads of a query names nothing that only Spark calls so; what is compared and stored stays as it is."""

import pytest

from stateshift.serializers.compatibility import Finding, Verdict
from stateshift.spark.checkpoint.query import QueryOperator
from stateshift.spark.checkpoint.wording import as_named, as_written, for_people

LONG = "fromType=timestamp, toType=long"
TIME = "fromType=long, toType=timestamp"
AT = f"precisetimestampconversion(ts, {LONG})"
REST = f"(({AT} - 0) % 600000000)"
START = f"(({AT} - casewhen(({REST} < 0), ({REST} + 600000000), {REST}, elseValue={REST})) - 0)"
WINDOW = "window(ts, 10 minutes)"
END_OF_WINDOW = f"precisetimestampconversion(getstructfield({WINDOW}, ordinal=1), {LONG})"
"""Texts that PySpark 4.1 makes of a filter on the bounds of a window, and of `window_time`."""


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (f"(2020 < precisetimestampconversion({START}, {TIME}))", f"(2020 < {WINDOW}.start)"),
        (f"precisetimestampconversion(({START} + 600000000), {TIME}) is not null", f"{WINDOW}.end is not null"),
        (
            f"window(precisetimestampconversion(({END_OF_WINDOW} - 1), {TIME}), 1 hour)",
            f"window(window_time({WINDOW}), 1 hour)",
        ),
        ("knownnullable(session_window(ts, 5 minutes))", "session_window(ts, 5 minutes)"),
        ("the code of transformWithStateUDF is not compared", "the code of the processor is not compared"),
        ("$<left-keyWithIndexToValue>", "$<rows of the left side>"),
        ("precisetimestampconversion(f(')', ts), a=1, b='x, y') + 1", "f(')', ts) + 1"),
        ("precisetimestampconversion(ts", "ts"),
        ("sum(n)", "sum(n)"),
    ],
)
def test_a_text_of_a_plan_is_shown_as_it_was_written(stored, shown):
    assert shown == as_written(stored)


def operator(**columns):
    return QueryOperator(0, "aggregation", {}, columns={"default": columns})


def test_an_expression_stands_for_the_name_that_spark_made_for_it():
    now = operator(**{"key._groupingexpression": "upper(name)"})

    assert "$.key.upper(name)" == as_named("$.key._groupingexpression", (now, None))
    assert "$.key._groupingexpression" == as_named("$.key._groupingexpression", (None, operator()))
    assert "$.key.name" == as_named("$.key.name", (now, None))


def test_a_column_of_a_join_is_shown_with_what_it_is():
    now = operator(**{"key.field0": f"upper(name) = {AT}"})

    assert "$.key.field0 (upper(name) = ts)" == as_named("$.key.field0", (now, None))


def test_ways_out_keep_the_stored_name():
    ways = ("begin anew: stateshift migrate … --fill 0:key._groupingexpression=null",)
    finding = Finding("$.key._groupingexpression", "SPK-5", Verdict.REQUIRES_MIGRATION, "int", "long", "wider", ways)
    shown = for_people(finding, None, operator(**{"key._groupingexpression": "abs(n)"}))

    assert ("$.key.abs(n)", ways) == (shown.path, tuple(map(str, shown.ways_out)))
