"""What PyFlink's coders write; the bytes are those that they wrote, see `coders.json` and tests/interop/pyflink."""

import datetime as dt
import importlib.util
import json
from decimal import Decimal
from pathlib import Path

import pytest

from stateshift import (
    AvroSerializer,
    CorruptSavepoint,
    DeclarationError,
    Instant,
    PickleSerializer,
    Row,
    ValueNotConvertible,
    Verdict,
    serializer_for,
)
from stateshift.pyflink.common import RowKind, Types
from stateshift.serializers.pyflink import coder_for
from stateshift.serializers.pyflink.contents import PyFlinkBytes, PyFlinkElements, PyFlinkKey
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

NOON = dt.datetime(2024, 1, 1, 12)  # noqa: DTZ001 - in no time zone
_PLACE = Path(__file__).parents[2] / "interop" / "pyflink" / "coder_values.py"
_SPEC = importlib.util.spec_from_file_location("coder_values", _PLACE)
VALUES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(VALUES)
PART = PyFlinkBytes(coder_for(int))
EACH = PyFlinkElements(coder_for(str))


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (set[int], "set<long>"),
        (dt.date, "Types.SQL_DATE()"),
        (dt.time, "Types.SQL_TIME()"),
        (tuple[int | None, str], "leave out"),
        (tuple[()], "without items"),
    ],
)
def test_a_type_without_a_coder_is_refused_by_its_name(hint, why):
    with pytest.raises(DeclarationError, match="PyFlink has no coder") as caught:
        coder_for(hint)
    assert why in str(caught.value)


WRITTEN = json.loads((Path(__file__).parent / "coders.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", WRITTEN, ids=lambda one: f"{one['type']} {one['value']}")
def test_the_bytes_are_those_that_pyflink_wrote(read, write, example):
    """Values are not spelled here again: what is read of the bytes is compared with the form of the value."""
    coder, data = coder_for(VALUES.type_of(Types, example["type"])), bytes.fromhex(example["bytes"])
    value = VALUES.taken(example["value"], {"Instant": Instant, "Row": Row, "RowKind": RowKind})

    assert data == write(coder, value)
    assert example["value"] == VALUES.told(read(coder, data))


def test_most_coders_are_serializers_of_flink():
    same = [Types.LONG(), Types.INT(), Types.SHORT(), Types.BYTE(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN()]

    for hint in [*same, Types.PRIMITIVE_ARRAY(Types.INT()), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.INSTANT()]:
        assert serializer_for(hint) == coder_for(hint)
    assert serializer_for(int) == coder_for(Types.BIG_INT())
    assert coder_for(Types.BASIC_ARRAY(Types.INT())) == coder_for(Types.LIST(Types.INT()))


@pytest.mark.parametrize(
    ("hint", "value", "why"),
    [
        (Types.SQL_TIME(), dt.time(1, 2, 3, 4), "finer than milliseconds"),
        (Types.SQL_TIMESTAMP(), NOON.replace(microsecond=1), "finer than milliseconds"),
        (Types.SQL_TIMESTAMP(), NOON.replace(tzinfo=dt.UTC), "time zone"),
        (Types.SQL_DATE(), NOON, "is a datetime"),
        (Types.STRING(), "\ud800", "lone surrogate"),
        (Types.STRING(), b"", "not a string"),
        (Types.BIG_DEC(), 1, "not a Decimal"),
        (Types.BIG_INT(), 1 << 63, "does not fit"),
    ],
)
def test_what_a_coder_would_cut_or_cannot_write_is_refused(write, hint, value, why):
    with pytest.raises(ValueNotConvertible, match=why):
        write(coder_for(hint), value)


def test_the_coder_of_avro_records_is_refused_by_its_name():
    with pytest.raises(DeclarationError, match=r"GenericRecordAvroTypeInfo.*\n.*carried over as bytes"):
        coder_for(AvroSerializer("long"))


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (Types.STRING(), "00000001ff"),
        (Types.STRING(), "000000056161"),
        (Types.BIG_DEC(), "000000023165"),
        (Types.BIG_DEC(), "00000003316532"),
        (Types.SQL_DATE(), "7fffffff"),
        (Types.SQL_TIME(), "05265c00"),
        (Types.SQL_TIMESTAMP(), "7fffffffffffffff"),
    ],
)
def test_what_no_coder_writes_is_damage(read, hint, data):
    with pytest.raises(CorruptSavepoint):
        read(coder_for(hint), bytes.fromhex(data))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dict[str, list[str]], {"a": ["b", None], "c": None}),
        (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.TUPLE([Types.SQL_DATE(), Types.LONG()])]), Row("x", None)),
        (Types.LIST(Types.MAP(Types.STRING(), Types.BIG_DEC())), [{"a": Decimal("1.50"), "b": None}, None]),
    ],
)
def test_coders_are_made_of_coders(write, read, hint, value):
    coder = coder_for(hint)

    assert value == read(coder, write(coder, value))
    assert coder == coder_for(coder)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (Types.STRING(), Types.STRING(), Verdict.COMPATIBLE),
        (Types.STRING(), Types.CHAR(), Verdict.COMPATIBLE),
        (Types.INT(), Types.LONG(), Verdict.REQUIRES_MIGRATION),
        (Types.LONG(), Types.STRING(), Verdict.INCOMPATIBLE),
        (Types.STRING(), Types.BIG_DEC(), Verdict.INCOMPATIBLE),
        (Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Verdict.INCOMPATIBLE),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.STRING(), Verdict.REQUIRES_MIGRATION),
        (Types.LIST(Types.INT()), Types.LIST(Types.LONG()), Verdict.REQUIRES_MIGRATION),
        (Types.PRIMITIVE_ARRAY(Types.INT()), Types.LIST(Types.INT()), Verdict.REQUIRES_MIGRATION),
    ],
)
def test_a_change_of_the_content_is_judged_as_a_change_of_its_type(old, new, verdict):
    for framed in (PyFlinkBytes, PyFlinkKey, PyFlinkElements):
        was, becomes = framed(coder_for(old)), framed(coder_for(new))

        assert verdict == becomes.ensure_compatibility(was.snapshot_configuration()).verdict


def test_elements_are_converted_one_by_one():
    result = PyFlinkElements(coder_for(str)).ensure_compatibility(
        PyFlinkElements(coder_for(bytes)).snapshot_configuration()
    )

    assert ["a", "bc"] == result.conversion([b"a", b"bc"])


def test_java_types_and_coders_are_two_families(write, read):
    """Thread mode stores Java types, process mode what coders write."""
    java, coder = serializer_for(dict[str, Decimal]), coder_for(dict[str, Decimal])
    there = coder.ensure_compatibility(java.snapshot_configuration())
    back = java.ensure_compatibility(coder.snapshot_configuration())

    assert all("FAM-4" in {finding.rule for finding in one.findings} for one in (there, back))
    assert [Verdict.REQUIRES_MIGRATION] * 2 == [there.verdict, back.verdict]
    value = {"a": Decimal("1.5")}
    assert value == there.conversion(read(java, write(java, value))) == back.conversion(value)


def test_the_savepoint_has_the_snapshot_that_flink_writes():
    for framed in (PART, EACH):
        plain = serializer_for(bytes)

        assert snapshot_to_bytes(plain.snapshot_configuration()) == snapshot_to_bytes(framed.snapshot_configuration())
        assert framed.snapshot_configuration().is_flink


def test_bytes_of_which_nothing_is_known_are_taken_unverified():
    stored = snapshot_from_bytes(snapshot_to_bytes(PART.snapshot_configuration()))
    result = PART.ensure_compatibility(stored)

    assert Verdict.COMPATIBLE == result.verdict
    assert [("PYF-1", ["unverified", "may_fail_per_value"])] == [
        (one.rule, [*map(str, one.flags)]) for one in result.findings
    ]
    assert () == PART.ensure_compatibility(PART.snapshot_configuration()).findings


def test_one_value_and_several_elements_are_two_things():
    result = PyFlinkElements(PART.content).ensure_compatibility(PART.snapshot_configuration())

    assert [("PYF-2", Verdict.INCOMPATIBLE)] == [(one.rule, one.verdict) for one in result.findings]


def test_bytes_of_java_take_any_content():
    assert Verdict.COMPATIBLE == serializer_for(bytes).ensure_compatibility(PART.snapshot_configuration()).verdict


def test_bytes_that_are_left_over_are_an_error(read):
    with pytest.raises(ValueNotConvertible, match="go on after long, by 1 byte"):
        read(PART, bytes.fromhex("00000009 0000000000000005 00"))


@pytest.mark.parametrize("data", ["00000004 00000005", "00000000"])
def test_bytes_that_hold_half_a_value_are_an_error(read, data):
    with pytest.raises(ValueNotConvertible, match="bytes of PyFlink do not hold long"):
        read(PART, bytes.fromhex(data))


def test_an_error_names_the_place_in_the_value(read):
    with pytest.raises(ValueNotConvertible) as caught:
        read(EACH, bytes.fromhex("00000009 00000000 00000001 ff"))

    assert {"path": "$[]", "offset": 8} == caught.value.where


def test_elements_follow_one_another(write, read):
    data = bytes.fromhex("0000000a 00000001 61 00000001 62")

    assert ["a", "b"] == read(EACH, data)
    assert data == write(EACH, ["a", "b"])
    for damaged in ("00000000", "00000008 00000001 61 000000"):
        with pytest.raises(ValueNotConvertible, match="do not hold PyFlink string"):
            read(EACH, bytes.fromhex(damaged))


def test_a_pickle_stays_as_it_is(read):
    """Of a stored pickle, only its bytes are read."""
    coder = coder_for(Types.PICKLED_BYTE_ARRAY())
    hostile = bytes.fromhex("00000004") + b"cos\n"
    stored = snapshot_from_bytes(snapshot_to_bytes(coder.snapshot_configuration())).restore_serializer()

    assert b"cos\n" == read(stored, hostile).data
    assert read(PyFlinkBytes(stored), bytes.fromhex("00000008") + hostile).data == b"cos\n"


class Account:
    id: int


class Customer:
    id: int


def test_pickles_of_a_renamed_class_are_written_anew():
    """PyFlink imports the class by the name in each pickle, and knows no alias."""
    renamed = PickleSerializer(Customer, aliases=[f"{__name__}.Account"])
    of_pyflink = PyFlinkBytes(renamed).ensure_compatibility(
        PyFlinkBytes(PickleSerializer(Account)).snapshot_configuration()
    )
    same = PyFlinkBytes(renamed).ensure_compatibility(PyFlinkBytes(renamed).snapshot_configuration())

    assert [("PKL-3", Verdict.REQUIRES_MIGRATION)] == [(one.rule, one.verdict) for one in of_pyflink.findings]
    assert [f"{__name__}.Account"] == [one.lifted_by for one in of_pyflink.obstacles]
    assert Verdict.COMPATIBLE == same.verdict
