"""Who restores decides: what a check calls `start`, real Flink starts on, and sees the values that we say.

Each case is a change of a type that leaves the bytes and their header alone. Flink gets the unchanged savepoint with
the new classes and descriptors. What we call a migration for Flink alone is carried out first, and then so tried.
"""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated

import attrs
import pytest

from stateshift import (
    Array,
    BigInt,
    Decision,
    Either,
    Field,
    Float32,
    Int8,
    Int16,
    Int32,
    Job,
    Left,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    NaiveDatetime,
    Operator,
    Right,
    Row,
    Savepoint,
    SavepointWriter,
    Target,
    ValueStateDescriptor,
    check,
    enum_options,
    migrate,
    parse_edits,
    record,
    row_of,
)
from stateshift.state.savepoint.json_encoding import tagged_operator

JAVA = {
    "Level": "public enum Level { LOW, MIDDLE, HIGH }",
    "Kept": "public enum Kept { ON, OFF }",
    "Wide": "public enum Wide { A, B, C, D, E, F }",
    "Renamed": "public enum Renamed { OPEN, CLOSED }",
    "MovedEnum": "public enum MovedEnum { X, Y }",
    "Account": "public class Account { public long id; public String name; public int visits; }",
    "Nested": "public class Nested { public Account account; public Level level; }",
    "Boxed": "public class Boxed { public Long id; public String name; }",
    "Reordered": "public class Reordered { public String b; public long a; public double c; }",
    "Base": "public class Base { public long at; }",
    "Click": "public class Click extends Base { public String page; }",
    "Purchase": "public class Purchase extends Base { public long cents; }",
    "Maker": "public class Maker { public String mfr; public long id; }",
    "Moved": "public class Moved { public long id; public String name; }",
    "Gathered": "import java.util.*; public class Gathered { public long id; public List<String> names;"
    " public Map<String, Long> counts; public Set<String> seen; }",
    "Holder": "public class Holder { public Renamed status; public long id; }",
}


def letters(java_class, *symbols, **options):
    made = enum.Enum(java_class, {symbol: symbol for symbol in symbols}, module=__name__)
    return enum_options(java_class=f"started.{java_class}", **options)(made)


def pojo(java_class, /, options=None, **fields):
    made = {
        name: attrs.field(type=given[0], default=given[1]) if isinstance(given, tuple) else attrs.field(type=given)
        for name, given in fields.items()
    }
    cls = attrs.make_class(java_class, made, kw_only=True, frozen=True)
    return record(java_class=f"started.{java_class}", **options or {})(cls)


LEVEL_V1, LEVEL = letters("Level", "LOW", "HIGH"), letters("Level", "LOW", "MIDDLE", "HIGH")
KEPT_V1, KEPT = letters("Kept", "OFF", "ON"), letters("Kept", "ON", "OFF")
WIDE_V1, WIDE = letters("Wide", "F", "C"), letters("Wide", *"ABCDEF")
ACCOUNT_V1 = pojo("Account", id=int, name=str, visits=Int32)
ACCOUNT = pojo("Account", visits=(Int32, 0), name=(str | None, None), id=int)
NESTED_V1 = pojo("Nested", account=ACCOUNT_V1, level=LEVEL_V1)
NESTED = pojo("Nested", account=ACCOUNT, level=LEVEL)
BOXED_V1, BOXED = pojo("Boxed", id=int, name=str), pojo("Boxed", {"retired": ["tag"]}, id=int | None, name=str | None)
REORDERED_V1 = pojo("Reordered", a=int, b=str, c=float)
REORDERED = pojo("Reordered", c=(float, 1.0), b=str, a=int)
AN_ACCOUNT, OLD_ACCOUNT = ACCOUNT(id=7, name="Zoë", visits=3), ACCOUNT_V1(id=7, name="Zoë", visits=3)


def bases(*names):
    """A base class and its subclasses, registered in an order."""
    base = attrs.make_class("Base", {"at": attrs.field(type=int)}, kw_only=True)
    base = record(java_class="started.Base")(base)
    fields = {"Click": ("page", str), "Purchase": ("cents", int)}
    found = {}
    for name in names:
        field, kind = fields[name]
        cls = attrs.make_class(name, {field: attrs.field(type=kind)}, bases=(base,), kw_only=True)
        found[name] = record(java_class=f"started.{name}")(cls)
    return base, found


BASE_V1, SUBCLASSES_V1 = bases("Click")
BASE, _ = bases("Purchase", "Click")
MAPS, MAP_OF_MAPS = {"a": 1, "b": -2}, dict[int, dict[str, int]]
COLUMNS = {"id": attrs.field(type=int), "called": attrs.field(type=Annotated[int, Field(aliases=["was"])])}
CALLED = row_of(attrs.make_class("Columns", COLUMNS), stored=("id", "was"))

# What a type lies in: its hint, its name in Flink, a value of it.
INSIDE = {
    "list": (lambda hint: list[hint], "LIST({})", lambda value: [value, value]),
    "map": (lambda hint: dict[str, hint], "MAP(STRING,{})", lambda value: {"k": value}),
    "tuple": (lambda hint: tuple[hint, int], "TUPLE({},LONG)", lambda value: (value, 1)),
    "row": (lambda hint: Row[hint | None, int], "ROW(a:{},b:LONG)", lambda value: Row(value, 1)),
    "either": (lambda hint: Either[str, hint], "EITHER(STRING,{})", Right),
    "array": (lambda hint: Array[hint], "ARRAY({})", lambda value: [value]),
}


def inside(cases, wrapped):
    """The cases once more, each in everything that a type lies in."""
    return {
        f"{name}-in-{where}": (rule, hint(old), hint(new), flink.format(kind), made(value))
        for name, (rule, old, new, kind, value) in cases.items()
        if name in wrapped
        for where, (hint, flink, made) in INSIDE.items()
    }


# name: rule, stored type, new type, the same in Flink, a value.
START = {
    "byte": ("PRIM-1", Int8, Int8, "BYTE", -7),
    "short": ("PRIM-1", Int16, Int16, "SHORT", 300),
    "int": ("PRIM-1", Int32, Int32, "INT", -70_000),
    "long": ("PRIM-1", int, int, "LONG", 2**40),
    "float": ("PRIM-1", Float32, Float32, "FLOAT", 0.5),
    "double": ("PRIM-1", float, float, "DOUBLE", -0.1),
    "boolean": ("PRIM-1", bool, bool, "BOOLEAN", True),
    "string": ("PRIM-1", str, str, "STRING", "grüße 𝄞"),
    "bytes": ("PRIM-1", bytes, bytes, "BYTES", b"\x00\xff"),
    "bigint": ("PRIM-1", BigInt, BigInt, "BIG_INT", -(2**80)),
    "decimal": ("DEC-1", Decimal, Decimal, "BIG_DEC", Decimal("12.50")),
    "instant": ("TIME-1", datetime, datetime, "INSTANT", datetime(2026, 1, 2, 3, tzinfo=UTC)),
    "local-date": ("TIME-1", date, date, "LOCAL_DATE", date(2026, 1, 2)),
    "local-time": ("TIME-1", time, time, "LOCAL_TIME", time(3, 4, 5)),
    "local-datetime": ("TIME-1", NaiveDatetime, NaiveDatetime, "LOCAL_DATE_TIME", datetime(2026, 1, 2, 3)),  # noqa: DTZ001
    "list": ("LIST-1", list[int], list[int], "LIST(LONG)", [1, -1]),
    "list-of-lists": ("LIST-1", list[list[str]], list[list[str]], "LIST(LIST(STRING))", [["a"], []]),
    "array": ("LIST-1", Array[int], Array[int], "LONGARR", [1, 2]),
    "array-of-strings": ("LIST-1", Array[str], Array[str | None], "STRARR", ["a", "b"]),
    "map": ("MAP-1", dict[str, int], dict[str, int], "MAP(STRING,LONG)", MAPS),
    "map-of-nullable": ("OPT-4", dict[str, int], dict[str, int | None], "MAP(STRING,LONG)", MAPS),
    "map-of-maps": ("MAP-1", MAP_OF_MAPS, MAP_OF_MAPS, "MAP(LONG,MAP(STRING,LONG))", {1: MAPS}),
    "tuple": ("TUP-1", tuple[int, str], tuple[int, str], "TUPLE(LONG,STRING)", (1, "a")),
    "tuple-3": ("TUP-1", tuple[bool, int, str], tuple[bool, int, str], "TUPLE(BOOLEAN,LONG,STRING)", (True, 1, "a")),
    "either": ("FAM-4", Either[int, str], Either[int, str], "EITHER(LONG,STRING)", Left(1)),
    "row": ("ROW-7", Row[int, str], row_of({"id": int, "name": str}), "ROW(id:LONG,name:STRING)", Row(1, "a")),
    "row-unnamed": ("ROW-5", Row[int, str | None], Row[int, str | None], "ROW(f:LONG,g:STRING)", Row(1, None)),
    "row-renamed": ("ROW-1", row_of({"id": int, "was": int}), CALLED, "ROW(id:LONG,called:LONG)", Row(1, 2)),
    "row-nullable": ("ROW-1", row_of({"a": int}), row_of({"a": int | None}), "ROW(a:LONG)", Row(5)),
    "enum": ("ENUM-1", LEVEL, LEVEL, "ENUM(started.Level)", LEVEL.HIGH),
    "enum-added-between": ("ENUM-2", LEVEL_V1, LEVEL, "ENUM(started.Level)", LEVEL_V1.HIGH),
    "enum-added-around": ("ENUM-2", WIDE_V1, WIDE, "ENUM(started.Wide)", WIDE_V1.C),
    "enum-reordered": ("ENUM-3", KEPT_V1, KEPT, "ENUM(started.Kept)", KEPT_V1.OFF),
    "pojo": ("REC-1", ACCOUNT_V1, ACCOUNT_V1, "POJO(started.Account)", OLD_ACCOUNT),
    "pojo-defaults-and-order": ("REC-9", ACCOUNT_V1, ACCOUNT, "POJO(started.Account)", OLD_ACCOUNT),
    "pojo-optional": ("REC-10", BOXED_V1, BOXED, "POJO(started.Boxed)", BOXED_V1(id=1, name="a")),
    "pojo-reordered": ("REC-5", REORDERED_V1, REORDERED, "POJO(started.Reordered)", REORDERED_V1(a=1, b="x", c=0.5)),
    "pojo-nested": (
        "ENUM-2",
        NESTED_V1,
        NESTED,
        "POJO(started.Nested)",
        NESTED_V1(account=OLD_ACCOUNT, level=LEVEL_V1.HIGH),
    ),
    "pojo-subclass-added": ("REC-14", BASE_V1, BASE, "POJO(started.Base)", SUBCLASSES_V1["Click"](at=1, page="p")),
}
START |= inside(START, {"enum-added-between", "enum-reordered", "pojo-defaults-and-order"})
START["enums-as-map-keys"] = (
    "ENUM-3", dict[KEPT_V1, int], dict[KEPT, int], "MAP(ENUM(started.Kept),LONG)", {KEPT_V1.ON: 1},
)  # fmt: skip
NAMES, COUNTS, SEEN = list[str | None] | None, dict[str | None, int] | None, set[str] | None
GATHERED = pojo("Gathered", id=int, names=NAMES, counts=COUNTS, seen=SEEN)
ONLY_FLINK_2 = {
    "pojo-gathered": (
        "REC-1",
        GATHERED,
        GATHERED,
        "POJO(started.Gathered)",
        GATHERED(id=1, names=["a"], counts={"k": 5}, seen={"s"}),
    ),
    "set": ("LIST-1", set[int], set[int], "SET(LONG)", {1, 2}),
    "set-of-nullable": ("OPT-4", set[int], set[int | None], "SET(LONG)", {1, 2}),
    "enums-in-set": ("ENUM-3", set[KEPT_V1], set[KEPT], "SET(ENUM(started.Kept))", {KEPT_V1.OFF}),
    "pojos-in-set": ("REC-9", set[ACCOUNT_V1], set[ACCOUNT], "SET(POJO(started.Account))", {OLD_ACCOUNT}),
}

MAKER_V1, MAKER = pojo("Maker", id=int, maker=str), pojo("Maker", id=int, mfr=Annotated[str, Field(aliases=["maker"])])
MOVED_V1, MOVED = pojo("Was", id=int, name=str), pojo("Moved", {"aliases": ["started.Was"]}, id=int, name=str)
RENAMED_V1 = letters("Renamed", "OPEN", "DONE")
RENAMED = letters("Renamed", "OPEN", "CLOSED", symbol_aliases={"CLOSED": ("DONE",)})
MOVED_ENUM_V1, MOVED_ENUM = letters("WasEnum", "X", "Y"), letters("MovedEnum", "X", "Y", aliases=["started.WasEnum"])
HOLDER_V1, HOLDER = pojo("Holder", id=int, status=RENAMED_V1), pojo("Holder", id=int, status=RENAMED)

# What stateshift itself would start on, and Flink only after a migration.
FOR_FLINK = {
    "field-renamed": ("REC-6", MAKER_V1, MAKER, "POJO(started.Maker)", MAKER_V1(id=1, maker="Airbus")),
    "class-moved": ("REC-11", MOVED_V1, MOVED, "POJO(started.Moved)", MOVED_V1(id=1, name="a")),
    "symbol-renamed": ("ENUM-6", RENAMED_V1, RENAMED, "ENUM(started.Renamed)", RENAMED_V1.DONE),
    "enum-moved": ("ENUM-7", MOVED_ENUM_V1, MOVED_ENUM, "ENUM(started.MovedEnum)", MOVED_ENUM_V1.Y),
    "in-pojo": ("ENUM-6", HOLDER_V1, HOLDER, "POJO(started.Holder)", HOLDER_V1(id=1, status=RENAMED_V1.DONE)),
}
FOR_FLINK |= {
    name: case
    for name, case in inside(FOR_FLINK, FOR_FLINK).items()
    if name in {"field-renamed-in-list", "class-moved-in-map", "symbol-renamed-in-row", "enum-moved-in-tuple"}
}
A_B = ("a", "b")
FOR_FLINK |= {
    "columns-swapped": (
        "ROW-2", row_of(dict.fromkeys("ab", int)), row_of(dict.fromkeys("ba", int), stored=A_B),
        "ROW(b:LONG,a:LONG)", Row(1, 2),
    ),
    "columns-moved": (
        "ROW-2", row_of({"a": int, "b": str}), row_of({"b": str, "a": int}, stored=A_B),
        "ROW(b:STRING,a:LONG)", Row(1, "x"),
    ),
}  # fmt: skip


EMPTY = {"names": [], "counts": {}, "seen": set()}


def job(cases, version):
    """The states of the cases, and the same types as elements and user keys' values of other kinds of state."""
    types = {name: case[1 + version] for name, case in cases.items()}
    keyed = [ValueStateDescriptor(name, hint) for name, hint in types.items()]
    for name in set(types) & KINDS:
        keyed += [ListStateDescriptor(f"{name}-list", types[name]), MapStateDescriptor(f"{name}-map", str, types[name])]
    split = [ListStateDescriptor(f"{name}-split", types[name]) for name in sorted(set(types) & KINDS)]
    cast = [MapStateDescriptor(f"{name}-cast", str, types[name]) for name in sorted(set(types) & KINDS)]
    cast += [MapStateDescriptor(f"{name}-keys", types[name], str) for name in sorted(set(types) & KEYS)]
    return Job([Operator("op", key=int, states=keyed, list_states=split, broadcast_states=cast)])


KINDS = {"enum-added-between", "enum-reordered", "pojo-defaults-and-order", "field-renamed", "symbol-renamed"}
KEYS = {"enum-added-between", "enum-reordered", "symbol-renamed"}
"""Tried as keys of broadcast state, too."""


def write(folder, cases, **options):
    with SavepointWriter(folder, job(cases, 0), parallelism=2, **options) as writer:
        for name, case in cases.items():
            for key in range(5):
                writer.put("op", name, key, case[4])
            if name in KINDS:
                writer.put("op", f"{name}-list", 1, [case[4]] * 2)
                writer.put("op", f"{name}-map", 1, {"k": case[4]})
                writer.add("op", f"{name}-split", case[4])
                writer.put_broadcast("op", f"{name}-cast", "k", case[4])
            if name in KEYS:
                writer.put_broadcast("op", f"{name}-keys", case[4], "v")
    return folder


def descriptors(file, cases):
    lines = ["key LONG", *(f"value {name} {case[3]}" for name, case in cases.items())]
    for name in set(cases) & KINDS:
        kind = cases[name][3]
        lines += [f"list {name}-list {kind}", f"map {name}-map STRING {kind}"]
        lines += [f"op {name}-split {kind}", f"bc {name}-cast STRING {kind}"]
    lines += [f"bc {name}-keys {cases[name][3]} STRING" for name in set(cases) & KEYS]
    file.write_text("\n".join(lines), encoding="utf-8")
    return f"@{file}"


def contents(savepoint):
    found = Savepoint.open(savepoint)
    return {"operators": [tagged_operator(operator, operator.states) for operator in found.operators]}


@pytest.fixture(scope="module")
def classes(flink, tmp_path_factory):
    return flink("2.3").compile(
        tmp_path_factory.mktemp("classes"), *(f"package started; {source}" for source in JAVA.values())
    )


PLACES = [("2.3", "hashmap"), ("2.3", "rocksdb"), ("1.20", "rocksdb")]


@pytest.mark.parametrize(("release", "backend"), PLACES)
def test_flink_starts_on_what_a_check_says_needs_no_migration(
    flink_restore, same_contents, classes, tmp_path, release, backend
):
    cases = START | (ONLY_FLINK_2 if release == "2.3" else {})
    savepoint = write(tmp_path / "savepoint", cases, restore_target=Target(f"flink-{release}"))
    report = check(Savepoint.open(savepoint).describe(), job(cases, 1).describe())

    assert {Decision.START} == {state.decision for _, state in report.states()}, [
        (state.name, state.result) for _, state in report.states() if state.decision is not Decision.START
    ]
    restored = flink_restore(
        savepoint, scenario=descriptors(tmp_path / "job", cases), backend=backend, release=release, classes=classes
    )
    assert same_contents(contents(savepoint), restored) == []


@pytest.mark.parametrize("field", [{"names": list[str]}, {"counts": dict[str, int]}, {"seen": set[str]}], ids=str)
def test_flink_refuses_a_field_of_a_form_that_it_does_not_make_itself(flink_restore, classes, tmp_path, field):
    """Of which a check warns, where the field is new (tests/compat/test_extraction.py)."""
    odd = pojo("Gathered", **{"id": int, "names": NAMES, "counts": COUNTS, "seen": SEEN} | field)
    value = odd(
        id=1,
        **{"names": None, "counts": None, "seen": None}
        | {name: empty for name, empty in EMPTY.items() if name in field},
    )
    case = {"odd": ("REC-1", odd, odd, "POJO(started.Gathered)", value)}
    savepoint = write(tmp_path / "savepoint", case)

    assert "failed" == flink_restore(savepoint, scenario=descriptors(tmp_path / "job", case), classes=classes)["status"]


def test_the_cases_are_many_and_name_their_rule():
    assert len(START | ONLY_FLINK_2) + 4 * len(KINDS & set(START)) >= 60


@pytest.mark.parametrize("name", FOR_FLINK)
def test_what_flink_would_misread_or_refuse_is_no_start(flink_restore, same_contents, classes, spark, tmp_path, name):
    case, edits = {name: FOR_FLINK[name]}, parse_edits(convert=[name])
    savepoint = write(tmp_path / "savepoint", case)
    report = check(edits.apply(Savepoint.open(savepoint).describe()), job(case, 1).describe())
    migrate(savepoint, tmp_path / "target", job(case, 1), MigrationOptions(edits=edits), session=spark)

    assert Decision.MIGRATE is report.decision
    assert case[name][0] in {finding.rule for _, _, finding in report.findings()}
    restored = flink_restore(savepoint, scenario=descriptors(tmp_path / "job", case), classes=classes)
    assert same_contents(contents(tmp_path / "target"), restored) != []


@pytest.mark.parametrize(("release", "backend"), PLACES)
def test_after_the_migration_flink_sees_all_values_those_that_were_copied_too(
    flink_restore, same_contents, classes, spark, tmp_path, release, backend
):
    """In one stream lie states that are converted, relabelled, and copied as they are."""
    changed = FOR_FLINK | {"widened": ("PRIM-2", Int32, int, "LONG", 44)}
    cases = START | (ONLY_FLINK_2 if release == "2.3" else {}) | changed
    source = write(tmp_path / "savepoint", cases, restore_target=Target(f"flink-{release}"))
    target, names = tmp_path / "target", ["columns-swapped", "columns-moved"]
    report = migrate(source, target, job(cases, 1), MigrationOptions(edits=parse_edits(convert=names)), session=spark)

    assert set(changed) <= {count.state for count in report.states if count.action in {"convert", "relabel"}}
    assert set(START) <= {count.state for count in report.states if count.action in {"copy", "relabel"}}
    restored = flink_restore(
        target, scenario=descriptors(tmp_path / "job", cases), backend=backend, release=release, classes=classes
    )
    assert same_contents(contents(target), restored) == []
    keyed = restored["operators"][0]["keyed"]
    values = {name: keyed[name]["entries"][0][1] for name in changed}
    assert {"mfr": "Airbus", "id": 1} == values["field-renamed"]["$pojo"]["fields"]
    assert ([2, 1], ["x", 1]) == tuple(values[name]["$row"]["fields"] for name in names)
    assert "CLOSED" in str(values["symbol-renamed"])
