"""Binary rows of Flink SQL: the op list makes of them what objects make, and is taken for what Flink writes."""

from __future__ import annotations

import struct
from decimal import Decimal

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_executor import plainly
from transcoding import block, transcoder, written

from stateshift import StateShiftError
from stateshift.compat.description import StateKind
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.primitives.numeric import IntSerializer
from stateshift.serializers.sql.binary_rows import encode_row, room_of_null
from stateshift.serializers.sql.row_changes import RowColumn
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot
from stateshift.serializers.sql.strategies import values_of
from stateshift.serializers.sql.values import RowData, TimestampData
from stateshift.state.plans.column_types import type_of
from stateshift.state.transcode.block_transcoder import BlockTranscoder
from stateshift.state.transcode.interpreter import DONE
from stateshift.state.transcode.objects import ObjectTranscoder

EXECUTORS = ["machine code", "plain Python"]
WIDER = {
    "TINYINT": ["SMALLINT", "BIGINT", "DECIMAL(5, 2)", "DECIMAL(30, 10)"],
    "SMALLINT": ["INT"],
    "INT": ["BIGINT", "DECIMAL(12, 2)", "DECIMAL(38, 4)"],
    "BIGINT": ["DECIMAL(19, 0)", "DECIMAL(38, 12)"],
    "FLOAT": ["DOUBLE"],
    "DECIMAL(10, 2)": ["DECIMAL(14, 6)", "DECIMAL(24, 2)", "DECIMAL(38, 20)"],
    "DECIMAL(22, 2)": ["DECIMAL(38, 2)", "DECIMAL(38, 6)"],
    "TIMESTAMP(3)": ["TIMESTAMP(6)"],
    "TIMESTAMP(6)": ["TIMESTAMP(9)"],
    "VARCHAR(9)": ["STRING"],
    "VARBINARY(9)": ["VARBINARY(20)"],
    "INT NOT NULL": ["INT"],
}
SAME = (
    "BOOLEAN", "DOUBLE", "DATE", "CHAR(3)", "BINARY(3)", "DECIMAL(38, 2)", "ARRAY<INT>", "ARRAY<STRING>",
    "ARRAY<BOOLEAN>", "ROW<a INT, b STRING>", "ROW<a DECIMAL(20, 2), b ROW<c STRING, d ARRAY<FLOAT>>>",
    "MAP<STRING, INT>", "TIMESTAMP_LTZ(3)", "TIME(3)",
)  # fmt: skip
TYPES = (*WIDER, *SAME)
ALWAYS_TAKEN = [one for one in TYPES if not any(odd in one for odd in ("MAP", "FLOAT", "DECIMAL", "BIGINT", "TINYINT"))]
"""Those without NaN, without digits that need more bytes than are looked at, and without values that grow beyond."""
BEGINNINGS = {
    "BIGINT": [None, 0, -1], "STRING": [None, "", "short", "long enough to lie behind"],
    "DECIMAL(38, 2)": [None, Decimal("-1.50")], "TIMESTAMP(6)": [TimestampData(5, 7)], "BOOLEAN": [True],
}  # fmt: skip


def types_of(names):
    return tuple(type_of(one, "") for one in names)


def rows(names, columns=(), stored=(), *, counted=False):
    return RowDataSerializer(RowDataSerializerSnapshot.of(types_of(names)), columns, stored, counted)


@st.composite
def changes(draw, types=TYPES):
    """The serializers of old rows and of new ones: columns stay, go, come, move and are widened."""
    old = draw(st.lists(st.sampled_from(types), min_size=1, max_size=6))
    kept = draw(st.permutations(range(len(old))))[: draw(st.integers(0, len(old)))]
    made = [
        (draw(st.sampled_from([*WIDER.get(old[at], []), old[at]])), RowColumn(f"c{at}", at, is_exact=False))
        for at in kept
    ]
    for place in range(draw(st.integers(0 if made else 1, 2))):
        name = draw(st.sampled_from(sorted(BEGINNINGS)))
        begins = draw(st.sampled_from(BEGINNINGS[name]))
        made.insert(draw(st.integers(0, len(made))), (name, RowColumn(f"n{place}", begins=begins, why="new")))
    stored = tuple(f"c{at}" for at in range(len(old)))
    return rows(old), rows([name for name, _ in made], tuple(one for _, one in made), stored)


@st.composite
def stored_rows(draw, serializer):
    """The bytes of a row; nulls have one of their two forms."""
    types = serializer.stored.types
    row = draw(st.tuples(*map(values_of, types)).map(lambda items: RowData(*items)))
    reserved = [at for at, of in enumerate(types) if row[at] is None and room_of_null(of) and draw(st.booleans())]
    data = encode_row(row, types, reserved)
    return len(data).to_bytes(4, "big") + data


@st.composite
def damaged(draw, data):
    """Bytes with some changed, cut off or added; the size before them is right, or not."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        found[draw(st.integers(0, len(found) - 1))] ^= draw(st.sampled_from([1, 2, 8, 0x80, 0xFF]))
    cut = found[: draw(st.integers(0, len(found)))] if draw(st.booleans()) else found + bytes(draw(st.integers(0, 9)))
    return bytes(cut if draw(st.booleans()) else struct.pack(">i", max(len(cut) - 4, 0)) + cut[4:])


def outcome(rewrite, given):
    try:
        found = rewrite.transcode(given)
    except StateShiftError as error:
        return type(error), str(error), error.where
    return bytes(found.data), found.entries


def by(name, rewrite):
    if isinstance(rewrite, ObjectTranscoder):
        return rewrite
    return plainly(rewrite) if name == "plain Python" else rewrite


def objects_of(rewrite):
    return rewrite if isinstance(rewrite, ObjectTranscoder) else rewrite.objects


def is_changed(old, new):
    return new.ensure_compatibility(old.stored).is_migration_required()


@pytest.mark.parametrize("name", EXECUTORS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(data=st.data())
def test_rows_become_what_objects_make_of_them_byte_for_byte_damaged_ones_too(name, data):
    old, new = data.draw(changes().filter(lambda pair: is_changed(*pair)))
    sound = data.draw(st.lists(stored_rows(old), min_size=1, max_size=4))
    values = [data.draw(damaged(one)) if data.draw(st.integers(0, 3)) == 3 else one for one in sound]
    rewrite = by(name, transcoder(old, new))

    assert outcome(objects_of(rewrite), block(*values)) == outcome(rewrite, block(*values))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(data=st.data())
def test_rows_as_flink_writes_them_are_taken_by_the_op_list(data):
    old, new = data.draw(changes(ALWAYS_TAKEN).filter(lambda pair: is_changed(*pair)))
    values = data.draw(st.lists(stored_rows(old), min_size=1, max_size=4))
    rewrite = plainly(transcoder(old, new))

    done = rewrite._made.rewrite(block(*values), 0)

    assert (DONE, len(values)) == (done.status, done.entries)


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("size", [0, 1, 55, 56, 57, 64, 119, 120, 121])
def test_rows_of_any_number_of_columns_are_rewritten(name, size):
    columns = (RowColumn("n", begins=None, why="new"), *(RowColumn(f"c{at}", at) for at in range(size)))
    old = rows(["STRING"] * size)
    new = rows(["BIGINT"] + ["STRING"] * size, columns, tuple(f"c{at}" for at in range(size)))
    values = [written(old, RowData(*(None if at % 3 == 1 else "x" * at for at in range(size))))] * 3
    rewrite = by(name, transcoder(old, new))

    assert isinstance(rewrite, BlockTranscoder)
    assert rewrite.objects.transcode(block(*values)).data == bytes(rewrite.transcode(block(*values)).data)
    assert DONE == rewrite._rewritten(block(*values), 0, b"").status


def counted(old, new):
    return [MapSerializer(one, IntSerializer()) for one in (old, attrs.evolve(new, counted=True))]


@pytest.mark.parametrize("name", EXECUTORS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(data=st.data())
def test_counted_rows_that_become_equal_are_added_up_as_by_objects(name, data):
    old, new = data.draw(
        changes(("BOOLEAN", "TINYINT", "TIMESTAMP(6)", "STRING")).filter(lambda pair: is_changed(*pair))
    )
    keys = data.draw(st.lists(stored_rows(old), min_size=1, max_size=6, unique=True))
    found = [data.draw(damaged(one)) if data.draw(st.integers(0, 9)) == 9 else one for one in keys]
    entries = ((KEY + one, b"\0" + struct.pack(">i", count)) for count, one in enumerate(found, 1))
    given_ = b"".join(len(part).to_bytes(4, "big") + part for entry in entries for part in entry)
    rewrite = by(name, transcoder(*counted(old, new), StateKind.MAP))

    assert outcome(objects_of(rewrite), given_) == outcome(rewrite, given_)


def test_rows_whose_columns_all_stay_are_known_to_stay_apart():
    assert transcoder(*counted(ROW, WIDE), StateKind.MAP).keeps_apart
    fewer = rows(("BIGINT",), (RowColumn("a", 0),), STORED)
    assert not transcoder(*counted(ROW, fewer), StateKind.MAP).keeps_apart


KEY = b"\x07" + bytes(8) + b"\0"
OLD = ("BIGINT", "INT", "STRING")
COLUMNS = (RowColumn("a", 0), RowColumn("b", 1), RowColumn("c", 2), RowColumn("n", begins=None, why="new"))
STORED = ("a", "b", "c")
ROW, WIDE = rows(OLD), rows(("BIGINT", "BIGINT", "STRING", "BIGINT"), COLUMNS, STORED)


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (lambda row: row, StateKind.VALUE),
        (lambda row: TupleSerializer((row, IntSerializer())), StateKind.VALUE),
        (ListSerializer, StateKind.VALUE),
        (ListSerializer, StateKind.LIST),
        (lambda row: MapSerializer(IntSerializer(), row), StateKind.MAP),
        (lambda row: MapSerializer(IntSerializer(), ListSerializer(row)), StateKind.MAP),
    ],
)  # fmt: skip
def test_rows_within_what_operators_store_have_an_op_list(wrap, kind):
    assert isinstance(transcoder(wrap(ROW), wrap(WIDE), kind), BlockTranscoder)


def test_rows_with_maps_and_wide_decimals_with_other_digits_go_by_objects():
    for old, new in (("MAP<STRING, INT>", "MAP<STRING, INT>"), ("DECIMAL(22, 2)", "DECIMAL(38, 6)")):
        both = rows([old]), rows([new, "INT"], (RowColumn("a", 0), RowColumn("n", why="new")), ("a",))

        assert isinstance(transcoder(*both), ObjectTranscoder)
