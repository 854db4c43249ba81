"""Types in compiled plans are those that Flink stores."""

import json

import pytest

from stateshift import CorruptFile, UnsupportedFormat
from stateshift.serializers.sql.logical_types import LogicalField, LogicalType
from stateshift.state.plans.column_types import type_of


def types_of_flink(root):
    return json.loads((root / "tests/fixtures/flink-sql-types.json").read_text("utf-8"))


def test_types_are_read_as_flink_spells_them(root):
    found = 0
    for one in types_of_flink(root):
        spelled = one["type"]
        if not any(word in spelled for word in ("*", "'...'", "RAW(", "STRUCTURED<")):
            assert spelled == type_of(spelled, "").describe()
            found += 1
    assert found > 40


@pytest.mark.parametrize(
    ("written", "described"),
    [
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("VARCHAR(2147483647)", "STRING"),
        ("ROW<`a ``b` INT 'it''s', `c` ARRAY<DATE NOT NULL>>", "ROW<`a `b` INT '...', `c` ARRAY<DATE NOT NULL>>"),
        ("INTERVAL DAY(2) TO SECOND(3)", "INTERVAL DAY(2) TO SECOND(3)"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}, "TIMESTAMP(3) *ROWTIME*"),
        ({"type": "ROW", "nullable": False, "fields": [{"name": "x", "fieldType": "INT"}]}, "ROW<`x` INT> NOT NULL"),
        ({"type": "MAP", "keyType": "INT NOT NULL", "valueType": {"type": "DATE"}}, "MAP<INT NOT NULL, DATE>"),
    ],
)  # fmt: skip
def test_further_forms_are_read(written, described):
    assert described == type_of(written, "").describe()


def test_the_description_of_a_field_is_kept():
    assert LogicalType("ROW", fields=(LogicalField("a", type_of("INT", ""), "it's one"),)) == type_of(
        "ROW<`a` INT 'it''s one'>", ""
    )


@pytest.mark.parametrize(
    "written",
    ["", "INT INT", "ROW<`a`>", "ARRAY<INT", "DECIMAL(a)", 7, {"type": "ROW"}, "ARRAY<" * 100 + "INT" + ">" * 100],
)
def test_what_is_no_type_is_named(written):
    with pytest.raises(CorruptFile, match="is no type of a column"):
        type_of(written, "plan.json")


@pytest.mark.parametrize("written", ["RAW('java.lang.Object', 'AAA')", {"type": "STRUCTURED_TYPE"}, "SYMBOL"])
def test_types_that_hold_objects_of_java_are_refused(written):
    with pytest.raises(UnsupportedFormat, match="holds objects of Java"):
        type_of(written, "plan.json")
