"""What a person reads of a query names nothing that only Spark calls so; what is compared and stored stays as it is."""

import pytest

from stateshift.compat.description import Computation, JobDescription
from stateshift.compat.queries.description import describe_query_operator
from stateshift.compat.queries.verdict import judge
from stateshift.compat.queries.wording import as_named, as_written, for_people
from stateshift.serializers.spark_rows.spark_types import StoreSchema, parse_struct

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


TYPE, NAMES = '{"type": "struct", "fields": [{"name": "NAME", "type": "TYPE", "nullable": true}]}', ("integer", "long")


def operator(**columns):
    return Computation(0, "aggregation", columns={"default": columns})


def test_an_expression_stands_for_the_name_that_spark_made_for_it():
    now = operator(**{"key._groupingexpression": "upper(name)"})

    assert "$.key.upper(name)" == as_named("$.key._groupingexpression", (now,))
    assert "$.key._groupingexpression" == as_named("$.key._groupingexpression", (operator(),))
    assert "$.key.name" == as_named("$.key.name", (now,))


def test_a_column_of_a_join_is_shown_with_what_it_is():
    now = operator(**{"key.field0": f"upper(name) = {AT}"})

    assert "$.key.field0 (upper(name) = ts)" == as_named("$.key.field0", (now,))


def test_ways_out_keep_the_stored_name():
    key = {name: parse_struct(TYPE.replace("NAME", "_groupingexpression").replace("TYPE", name)) for name in NAMES}
    value = parse_struct(TYPE.replace("NAME", "sum").replace("TYPE", "long"))
    columns = {"default": {"key._groupingexpression": "abs(n)", "value.sum": "sum(n)"}}
    was, now = (
        JobDescription(
            "a query",
            (
                describe_query_operator(
                    Computation(0, "aggregation", {"default": StoreSchema(of, value)}, columns, source="x")
                ),
            ),
            inputs=(),
        )
        for of in key.values()
    )

    report = judge(was, now, known=was)
    (stored, shown) = (next(of.all_findings()) for of in (report, for_people(report)))

    assert ("$.key._groupingexpression", "$.key.abs(n)") == (stored.path, shown.path)
    assert stored.ways_out == shown.ways_out
