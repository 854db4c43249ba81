"""Avro: what a present schema says to a stored one, and what becomes of values (harness cases, section F).

Cases that are not here are in `tests/serializers/avro/test_rules.py` and `test_classes.py` there, of the same names.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json

import attrs
import fastavro
import pytest
from avro_schemas import array, enum, field, fixed, map_of, record
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stateshift import AvroSerializer, DataInputView, DataOutputView, StateShiftError, Verdict
from stateshift.serializers.avro.serializers import AvroSnapshot
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

OK, MIGRATE, REFUSE = Verdict.COMPATIBLE, Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE


@attrs.frozen
class Order:
    id: int
    note: str | None = None


ID = field("id", "long")
NOTE = field("note", ["null", "string"], default=None)
ORDER = record("Order", ID, NOTE)


def stored(serializer):
    return snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))


def asked(old, new):
    """What the new schema says to the stored snapshot of the old one."""
    return AvroSerializer(new).ensure_compatibility(stored(AvroSerializer(old)))


def verdict(old, new):
    return asked(old, new).verdict


def write(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def read(serializer, data):
    source = DataInputView(data)
    value = serializer.deserialize(source)
    if source.remaining():
        raise ValueError("bytes are left over")
    return value


def migrated(old, new, value):
    """Written under the old schema, read by what its snapshot restores, converted, and written under the new one."""
    result = asked(old, new)
    found = read(stored(AvroSerializer(old)).restore_serializer(), write(AvroSerializer(old), value))
    resolved = found if result.conversion is None else result.conversion(found)
    return read(AvroSerializer(new), write(AvroSerializer(new), resolved))


def test_same_schema():
    """F01: and one that was parsed from another text."""
    assert OK is verdict(ORDER, ORDER)
    assert OK is verdict(ORDER, json.dumps(ORDER, indent=2))


def test_remove_optional_field():
    """F02: it resolves, in another layout."""
    assert MIGRATE is verdict(ORDER, record("Order", ID))
    assert {"id": 1} == migrated(ORDER, record("Order", ID), {"id": 1, "note": "x"})


def test_add_optional_field():
    """F03: it resolves, in another layout."""
    assert MIGRATE is verdict(record("Order", ID), ORDER)
    assert {"id": 1, "note": None} == migrated(record("Order", ID), ORDER, {"id": 1})


@pytest.mark.parametrize("kind", ["string", ["null", "string"]])
def test_add_required_field(kind):
    """F04: that a field may be null is no default."""
    result = asked(record("Order", ID), record("Order", ID, field("note", kind)))

    assert REFUSE is result.verdict
    assert ["$.note"] == [finding.path for finding in result.findings]


BINDINGS = {
    "generic": AvroSerializer(ORDER),
    "a class with its own schema": AvroSerializer.of(Order),
    "a class bound to a schema": AvroSerializer(ORDER, Order),
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_own_snapshot(binding):
    """F05."""
    serializer = BINDINGS[binding]

    assert OK is serializer.ensure_compatibility(serializer.snapshot_configuration()).verdict


@pytest.mark.parametrize("binding", BINDINGS)
def test_own_snapshot_after_round_trip(binding):
    """F06: dicts, a class, and a class bound to a schema."""
    serializer = BINDINGS[binding]
    result = serializer.ensure_compatibility(stored(serializer))

    assert (OK, ()) == (result.verdict, result.findings)


def test_restored_reader_reads_old_bytes():
    """F08."""
    value = {"id": 2**40, "note": "é"}

    assert value == read(stored(AvroSerializer(ORDER)).restore_serializer(), write(AvroSerializer(ORDER), value))


def test_valid_evolution_end_to_end():
    """F09: the value that is rewritten has the default, kept fields keep theirs."""
    new = record("Order", field("state", enum("NEW", "OLD"), default="OLD"), NOTE, field("id", "double"))

    assert {"state": "OLD", "note": "x", "id": 7.0} == migrated(ORDER, new, {"id": 7, "note": "x"})


@pytest.mark.parametrize("new", [record("Order", field("id", "string"), NOTE), record("Other", ID, NOTE), array(ORDER)])
def test_invalid_evolution(new):
    """F10: another type, another name, another shape; there is nothing to convert with."""
    result = asked(ORDER, new)

    assert (REFUSE, None) == (result.verdict, result.conversion)
    assert result.findings


# A body of each version, as that version wrote it; a new version gets a line, and no line ever changes.
PAST_SNAPSHOTS = {
    1: (
        "000f737461746573686966742f6176726f00000001000000a453dcd7650000008e7b2274797065223a20227265636f726422",
        "2c20226e616d65223a20224f72646572222c20226669656c6473223a205b7b226e616d65223a20226964222c202274797065",
        "223a20226c6f6e67227d2c207b226e616d65223a20226e6f7465222c202274797065223a205b226e756c6c222c2022737472",
        "696e67225d2c202264656661756c74223a206e756c6c7d5d7d001064333363623066333234333661663162",
    ),
}


def test_past_snapshot_versions():
    """F12: every version that is accepted has a snapshot here, which is read and compatible."""
    assert set(AvroSnapshot().get_compatible_versions()) == set(PAST_SNAPSHOTS)
    for version, data in PAST_SNAPSHOTS.items():
        snapshot = snapshot_from_bytes(bytes.fromhex("".join(data)))
        assert version == snapshot.get_read_version()
        assert OK is AvroSerializer(ORDER).ensure_compatibility(snapshot).verdict


# Stored type, new type, where the problem is, what it is called; None for a stored field that there was not.
PROBLEMS = {
    "a": ("int", "string", "$.a", "type_mismatch"),
    "b": (record("One"), record("Two"), "$.b", "name_mismatch"),
    "c": (enum("A", "B"), enum("A"), "$.c", "missing_enum_symbols"),
    "d": (["int", "string"], ["int"], "$.d|1", "missing_union_branch"),
    "e": (fixed(2), fixed(3), "$.e", "fixed_size_mismatch"),
    "f": (None, "int", "$.f", "reader_field_missing_default"),
}


@pytest.mark.parametrize("names", [*PROBLEMS, "abcdef", "fedcba"])
def test_problem_kinds_and_locations(names):
    """F14: each of the six kinds alone, and all together in the order of the new fields."""
    old = record("R", *(field(name, PROBLEMS[name][0]) for name in names if PROBLEMS[name][0] is not None))
    new = record("R", *(field(name, PROBLEMS[name][1]) for name in names))
    result = asked(old, new)

    refused = [(f.path, f.reason.partition(":")[0]) for f in result.findings if f.verdict is REFUSE]
    assert REFUSE is result.verdict
    assert [PROBLEMS[name][2:] for name in names] == refused


def thing(name, **more):
    return record(name, field("a", "int"), **more)


# Each with the alias in ALIAS; the same without it, or with a wrong one, does not resolve.
ALIASED = {
    "a field": (record("R", field("old", "int")), lambda alias: record("R", field("new", "int", aliases=alias))),
    "a record": (thing("old"), lambda alias: thing("new", aliases=alias)),
    "an enum": (enum("A", name="old"), lambda alias: enum("A", name="new", aliases=alias)),
    "a fixed": (fixed(2, "old"), lambda alias: fixed(2, "new", aliases=alias)),
    "nested": (
        record("R", field("f", thing("old"))),
        lambda alias: record("R", field("f", thing("new", aliases=alias))),
    ),
    "in an array": (array(thing("old")), lambda alias: array(thing("new", aliases=alias))),
    "in a map": (map_of(fixed(2, "old")), lambda alias: map_of(fixed(2, "new", aliases=alias))),
    "in a union": (["null", thing("old")], lambda alias: ["null", thing("new", aliases=alias)]),
    "in one namespace": (thing("shop.old"), lambda alias: thing("shop.new", aliases=alias)),
}


@pytest.mark.parametrize("place", ALIASED)
def test_aliases(place):
    """F18: an alias is found in every place; none, or a wrong one, does not do."""
    old, new = ALIASED[place]

    assert OK is verdict(old, new(["old"]))
    assert REFUSE is verdict(old, new([]))
    assert REFUSE is verdict(old, new(["odd"]))


def test_aliases_across_namespaces():
    """F18: a short alias is one of the reader's own namespace; another namespace is written out (AV-2)."""
    assert REFUSE is verdict(thing("shop.old"), thing("bank.new", aliases=["old"]))
    assert OK is verdict(thing("shop.old"), thing("bank.new", aliases=["shop.old"]))
    assert REFUSE is verdict(thing("shop.old"), thing("bank.new", aliases=["post.old"]))


NAMED = {"record": thing, "enum": lambda name: enum("A", name=name), "fixed": lambda name: fixed(2, name)}


@pytest.mark.parametrize("kind", NAMED)
def test_unqualified_names(kind):
    """F19: namespaces may differ, names may not (AV-2)."""
    make = NAMED[kind]

    assert [OK] * 3 == [verdict(make(o), make(n)) for o, n in (("a.T", "b.T"), ("T", "b.T"), ("a.T", "T"))]
    assert [REFUSE] * 2 == [verdict(make(o), make(n)) for o, n in (("a.T", "a.U"), ("T", "U"))]


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("bytes", "ÿ\u0000", b"\xff\x00"),
        (fixed(2), "ÿa", b"\xffa"),
        ("double", 1, 1.0),
        ("float", 0.1, 0.10000000149011612),
        ({"type": "int", "logicalType": "date"}, 1, dt.date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", decimal.Decimal("0.01")),
        (array("double"), [1], [1.0]),
        (map_of("bytes"), {"k": "ÿ"}, {"k": b"\xff"}),
        (record("In", field("x", "bytes", default="þ"), field("y", "double")), {"y": 1}, {"x": b"\xfe", "y": 1.0}),
    ],
)
def test_default_conversions(kind, default, expected):
    """F21: what JSON can only say as text or number has the field's type, at every depth (AV-9)."""
    found = migrated(record("R"), record("R", field("f", kind, default=default)), {})["f"]

    assert (expected, type(expected)) == (found, type(found))


# Properties. A covering list has every branch, every symbol and every size that a writer could write.

NUMBERS, TEXTS = ("int", "long", "float", "double"), ("string", "bytes")
COVERING = {
    "null": [None],
    "boolean": [True, False],
    "int": [0, 1, -3, 2**31 - 1],
    "long": [0, 1, -3, 2**40],
    "float": [0.5, -2.0],
    "double": [0.1, 3.0],
    "bytes": [b"a", b"", b"\xff"],
    "string": ["é", "", "zz"],
}


def covering(schema):
    if isinstance(schema, str):
        return COVERING[schema]
    if isinstance(schema, list):
        return [
            (branch["name"], value) if isinstance(branch, dict) and "name" in branch else value
            for branch in schema
            for value in covering(branch)
        ]
    if schema["type"] == "enum":
        return schema["symbols"]
    if schema["type"] == "fixed":
        return [bytes([number]) * schema["size"] for number in (65, 66)]
    if schema["type"] == "array":
        return [[], covering(schema["items"])]
    if schema["type"] == "map":
        return [{}, {f"k{number}": value for number, value in enumerate(covering(schema["values"]))}]
    columns = [(one["name"], covering(one["type"])) for one in schema["fields"]]
    rows = max((len(values) for _, values in columns), default=1) + 1
    return [  # shifted, so that two fields of one type differ in some row
        {name: values[(row + shift) % len(values)] for shift, (name, values) in enumerate(columns)}
        for row in range(rows)
    ]


@st.composite
def types(draw, name):
    """A type with at least two values: a single value does not show whether it was read or made up."""
    plain = st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string", "enum", "enum", "fixed"])

    def one():
        drawn = draw(plain)
        if drawn == "enum":
            symbols = draw(st.sampled_from([("A", "B"), ("B", "A"), ("A", "B", "C")]))
            return enum(*symbols, name=f"{name}.E", **({"default": "A"} if draw(st.booleans()) else {}))
        return fixed(draw(st.integers(1, 2)), f"{name}.F") if drawn == "fixed" else drawn

    shape = draw(st.sampled_from(["plain", "plain", "plain", "array", "map", "optional", "union"]))
    if shape == "union":
        first = one()
        others = ["null", "string"] if first in NUMBERS else ["null", "int", "string"]  # one takes all Python numbers
        branches = draw(st.permutations(others if first in others else [first, *others]))
        return branches[: draw(st.integers(2, 4))]
    kind = one()
    if shape == "optional":
        return draw(st.permutations(["null", kind]))
    return {"array": array(kind), "map": map_of(kind)}.get(shape, kind)


def turned(draw, kind):
    """A type that is the same or near: a number becomes another, a branch goes or moves, a symbol comes."""
    if isinstance(kind, list):
        branches = draw(st.permutations([turned(draw, branch) for branch in kind]) | st.just(kind))
        kept = branches[: draw(st.sampled_from([len(branches)] * 3 + [len(branches) - 1]))]
        return kept if len({str(branch) for branch in kept}) == len(kept) else kind
    if isinstance(kind, str):
        group = next((group for group in (NUMBERS, TEXTS) if kind in group), (kind,))
        return draw(st.sampled_from(group))
    if kind["type"] == "enum":
        symbols = draw(st.sampled_from([kind["symbols"], ("A",), ("A", "C", "B"), ("A", "B", "C")]))
        return {**kind, "symbols": list(symbols)}
    if kind["type"] == "fixed":
        return {**kind, "size": draw(st.sampled_from([1, 2, kind["size"]]))}
    inner = {"array": "items", "map": "values"}[kind["type"]]
    return {**kind, inner: turned(draw, kind[inner])}


@st.composite
def pairs(draw):
    """Two records `R` whose fields draw from two names; one field changes, or fields come and go."""
    old = [field(name, draw(types(name))) for name in draw(st.sampled_from(["a", "ab", "ba"]))]
    new = [dict(one) for one in old]
    change = draw(st.sampled_from(["turn"] * 5 + ["redraw", "reorder", "add", "require", "remove"]))
    if change == "turn":
        new[0]["type"] = turned(draw, new[0]["type"])
    if change == "redraw":
        new[0]["type"] = draw(types(new[0]["name"]))
    if change == "reorder":
        new.reverse()
    extra = {"add": [field("n", "int", default=5)], "require": [field("n", "int")]}.get(change, [])
    return record("R", *old), record("R", *(new[1:] if change == "remove" else new), *extra)


def ours(old, new, value):
    """The resolved value, or REFUSE where the conversion or the writer refuses it."""
    try:
        return migrated(old, new, value)
    except StateShiftError:
        return REFUSE


def alone(old, new, value):
    """What the new schema alone makes of the old bytes, or None where it makes nothing."""
    try:
        return read(AvroSerializer(new), write(AvroSerializer(old), value))
    except (StateShiftError, ValueError):
        return None


@given(pairs())
@settings(max_examples=300)
def test_layout_identity(pair):
    """F23: compatible exactly when the new schema alone reads the old bytes to the resolved value (AV-4, AV-5)."""
    old, new = pair
    found = verdict(old, new)
    assume(found is not REFUSE)

    same = all(ours(old, new, value) == alone(old, new, value) for value in covering(old))
    assert (found is OK) == same


def by_fastavro(old, new, value):
    """What fastavro reads, or REFUSE; of bytes that are not UTF-8 it may try a string first, and cannot read them."""
    data = io.BytesIO(write(AvroSerializer(old), value))
    try:
        return fastavro.schemaless_reader(data, fastavro.parse_schema(old), fastavro.parse_schema(new))
    except fastavro.read.SchemaResolutionError:
        return REFUSE
    except UnicodeDecodeError:
        return None


@given(pairs())
@settings(max_examples=300)
def test_checker_agrees_with_reader(pair):
    """F24: what is not refused reads every value, except where it says that a value may fail; else some value fails.

    Two readers are asked: ours, and fastavro, which resolves schemas by code of its own and knows no verdicts.
    """
    old, new = pair
    result, values = asked(old, new), covering(old)
    theirs = [by_fastavro(old, new, value) for value in values]

    assert (result.verdict is REFUSE) == (REFUSE in theirs)
    if result.verdict is not REFUSE and not any(flag == "may_fail_per_value" for _, flag in result.flags):
        assert REFUSE not in [ours(old, new, value) for value in values]
