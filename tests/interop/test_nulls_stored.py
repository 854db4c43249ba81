"""A stored null where the new job has none: what real Flink does with it, kind by kind, and that a scan finds it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pytest

from stateshift import (
    Array,
    Int32,
    Job,
    MapStateDescriptor,
    Operator,
    Row,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
    record,
)
from stateshift.state.migration.scan import scan


def account(name: Any, visits: Any) -> Any:
    made = attrs.make_class(
        "Account",
        {"id": attrs.field(type=int), "name": attrs.field(type=name), "visits": attrs.field(type=visits),
         "obsolete": attrs.field(type=str | None)},
    )  # fmt: skip
    return record(java_class="fx.evo.Account")(made)


OLD, NEW = account(str | None, Int32 | None), account(str, Int32)
READ_AS_NULL = {
    "pojo": (OLD, NEW, "POJO(fx.evo.Account)", OLD(1, None, 3, None)),
    "map": (dict[str, str | None], dict[str, str], "MAP(STRING,STRING)", {"a": None}),
    "set": (set[str | None], set[str], "SET(STRING)", {None}),
    "array": (Array[Decimal | None], Array[Decimal], "ARRAY(BIG_DEC)", [None]),
    "strings": (Array[str | None], Array[str], "STRARR", ["a", None]),
    "row": (Row[int | None, str | None], Row[int, str], "ROW(f0:LONG,f1:STRING)", Row(None, None)),
}
"""Old type, new type, Flink's type, and a value with a null: Flink has no type that forbids these nulls."""


def job_of(at, *, cases):
    states = [ValueStateDescriptor(name, case[at]) for name, case in cases.items()]
    states += [MapStateDescriptor("mapstate", str, (str | None, str)[at])]
    return Job([Operator("op", key=int, states=states)])


def written(place, cases):
    with SavepointWriter(place, job_of(0, cases=cases)) as writer:
        for name, case in cases.items():
            writer.put("op", name, 1, case[3])
        writer.put("op", "mapstate", 1, {"a": None, "b": "b"})
    return place


def scanned(place, cases):
    savepoint = Savepoint.open(place)
    report = check(savepoint.describe(), job_of(1, cases=cases).describe())
    assert "start" == str(report.decision)
    assert report.condition.startswith("if no stored value is null (")
    return {one.state: (one.failing, one.entries) for one in scan(savepoint, report).states}


def test_flink_reads_null_where_its_type_is_a_class(flink_restore, tmp_path):
    place = written(tmp_path / "sp", READ_AS_NULL)
    lines = ["key LONG", *(f"value {name} {case[2]}" for name, case in READ_AS_NULL.items())]
    (tmp_path / "job").write_text("\n".join([*lines, "map mapstate STRING STRING"]), encoding="utf-8")

    restored = flink_restore(place, scenario=f"@{tmp_path / 'job'}")

    assert "restored" == restored["status"], restored
    (operator,) = restored["operators"]
    assert {*READ_AS_NULL, "mapstate"} == operator["keyed"].keys()
    assert all("null" in json_of(one) for one in operator["keyed"].values()), operator["keyed"]
    assert dict.fromkeys(READ_AS_NULL, (1, 1)) | {"mapstate": (1, 2)} == scanned(place, READ_AS_NULL)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_fails_on_a_null_in_a_primitive_field(flink_restore, tmp_path, backend):
    cases = {"pojo": (OLD, NEW, "POJO(fx.evo.Account)", OLD(1, "Ada", None, None))}
    place = written(tmp_path / "sp", cases)
    (tmp_path / "job").write_text("key LONG\nvalue pojo POJO(fx.evo.Account)", encoding="utf-8")

    restored = flink_restore(place, scenario=f"@{tmp_path / 'job'}", backend=backend)

    assert "failed" == restored["status"]
    assert {"pojo": (1, 1), "mapstate": (1, 2)} == scanned(place, cases)


def json_of(state):
    import json

    return json.dumps(state)
