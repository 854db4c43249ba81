"""Types that no fixture has: length, snapshot and bytes are Flink's, both ways (see tests/interop/test_values.py)."""

import json
from decimal import Decimal

import attrs
import pytest

from stateshift import (
    Array,
    Char,
    Either,
    GlobalWindow,
    Int8,
    Int32,
    Left,
    Right,
    Row,
    RowKind,
    record,
    row_of,
    serializer_for,
)
from stateshift.serializers.containers.lists import ArrayListSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.flink.namespaces import GLOBAL_WINDOW
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG = serializer_for(int)


@record(java_class="fx.Values$Bag")
@attrs.frozen
class Bag:
    ids: Array[Int32]
    maybe: Array[Int32 | None]
    n: int
    notes: Array[str] | None


TYPES = {
    "List[]": (Array[list[int] | None], [[[1, 2], None]]),
    "Map[]": (Array[dict[str, int]], [[{"a": 1}]]),
    "BigDecimal[]": (Array[Decimal | None], [[Decimal("12.5"), None]]),
    "Row[]": (Array[Row[int, str | None] | None], [[Row(1, None), None]]),
    "Either[]": (Array[Either[str, int]], [[Left("a"), Right(2)]]),
    "long[][]": (Array[Array[int]], [[[1], []]]),
    "Long[][]": (Array[Array[int | None] | None], [[[1, None], None]]),
    "String[][]": (Array[Array[str]], [[["x"], []]]),
    "byte[][]": (Array[bytes], [[b"\1"]]),
    "Tuple2[]": (Array[tuple[int, str] | None], [[(1, "a"), None]]),
    "Byte[]": (Array[Int8 | None], [[1, None]]),
    "Boolean[]": (Array[bool | None], [[True, None]]),
    "Character[]": (Array[Char | None], [["c", None]]),
    "Bag": (Bag, [Bag([1, 2], [None], 0, None)]),
    "Row": (
        row_of({"id": int | None, "title": str | None}),
        [
            Row(5, "a")._with_kind(RowKind.UPDATE_AFTER),
            Row(None, None)._with_kind(RowKind.DELETE),
            Row(5, None)._with_kind(RowKind.UPDATE_BEFORE),
        ],
    ),
    "Row of nothing": (Row[()], [Row()]),
    "Row of Void": (Row[None], [Row(None)]),
    "Row without kind": (attrs.evolve(RowSerializer.of([LONG]), supports_row_kind=False), [Row(5), Row(None)]),
    "Tuple0": (tuple[()], [()]),
    "Void": (None, [None]),
    "Map of Void": (dict[str, None], [{}, {"a": None}]),
    "padded": (OptionalSerializer(LONG, 8), [7, None]),
    "ArrayList": (ArrayListSerializer(LONG), [[1]]),
    "GlobalWindow": (GlobalWindow, [GLOBAL_WINDOW]),
}


@pytest.fixture(scope="session")
def flinks(root):
    """By name of a type: the declared length, the snapshot, the values."""
    return json.loads((root / "tests" / "fixtures" / "flink-values.json").read_text(encoding="utf-8"))


def test_every_type_of_the_table_is_compared(flinks):
    assert TYPES.keys() == flinks.keys()


@pytest.mark.parametrize("name", TYPES)
def test_length_snapshot_and_values_are_flinks(flinks, write, read, copied, name):
    hint, values = TYPES[name]
    serializer = serializer_for(hint)
    length, snapshot, written = flinks[name]

    assert length == serializer.length
    assert snapshot == snapshot_to_bytes(serializer.snapshot_configuration()).hex()
    assert written == [write(serializer, value).hex() for value in values]
    assert values == [read(serializer, bytes.fromhex(data)) for data in written]
    assert written == [copied(serializer, bytes.fromhex(data)).hex() for data in written]


@pytest.mark.parametrize("name", TYPES)
def test_a_reader_restored_from_flinks_snapshot_reads_and_writes_the_same(flinks, write, read, name):
    _, snapshot, written = flinks[name]
    restored = snapshot_from_bytes(bytes.fromhex(snapshot)).restore_serializer()

    assert written == [write(restored, read(restored, bytes.fromhex(data))).hex() for data in written]
