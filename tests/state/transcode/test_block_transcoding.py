"""Blocks through op lists: which types have one, odd entries among others, damage, and the executor."""

from __future__ import annotations

import pytest
from plain_executor import plainly
from transcoding import block, transcoder, written

from stateshift import AvroSerializer, DeclarationError, Record, StateShiftError
from stateshift.compat.description import StateKind
from stateshift.serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.defaults import Default
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.temporal.serializers import InstantSerializer, LocalDateTimeSerializer
from stateshift.state.transcode.block_transcoder import BlockTranscoder
from stateshift.state.transcode.executor_choice import VARIABLE, ExecutorName, choose_executor
from stateshift.state.transcode.frames import survey

INT, LONG, TEXT, DOUBLE = IntSerializer(), LongSerializer(), StringSerializer(), DoubleSerializer()
EXECUTORS = ["machine code", "plain Python"]


def record(**fields):
    """A POJO; a field is a serializer, or one with more said of it."""
    made = [one if isinstance(one, RecordField) else RecordField(name, one) for name, one in fields.items()]
    return PojoSerializer("acme.Account", tuple(sorted(made, key=lambda field: field.name)))


SEEN = RecordField("seen", LONG, optional=True)
SEEN_LATER = RecordField("m", LONG, optional=True, default=Default(None))
S2 = (
    record(id=LONG, balance=INT, name=TEXT, seen=SEEN),
    record(
        id=LONG,
        balance=LONG,
        owner=RecordField("owner", TEXT, aliases=("name",)),
        tags=RecordField("tags", ListSerializer(TEXT), default=Default(factory=list)),
        seen=SEEN,
    ),
)
SHAPES = {
    "S2": S2,
    "tuple": (TupleSerializer((INT, TEXT)), TupleSerializer((LONG, TEXT))),
    "nested": (record(inner=S2[0], other=INT), record(inner=S2[1], other=INT)),
    "list": (ListSerializer(INT), ListSerializer(LONG)),
    "array": (PrimitiveArraySerializer(INT), GenericArraySerializer(LONG)),
    "set": (SetSerializer(INT), SetSerializer(LONG)),
    "map": (MapSerializer(TEXT, INT), MapSerializer(TEXT, LONG)),
    "required to optional": (TEXT, OptionalSerializer(TEXT)),
    "numbers": (TupleSerializer((INT, FloatSerializer())), TupleSerializer((DOUBLE, DOUBLE))),
    "enum": (
        record(kind=EnumSerializer(("A", "B"), "K"), n=INT),
        record(kind=EnumSerializer(("B", "A"), "K"), n=LONG),
    ),
    "times": (
        record(at=InstantSerializer(), n=INT, on=LocalDateTimeSerializer()),
        record(at=InstantSerializer(), n=LONG, on=LocalDateTimeSerializer()),
    ),
    "bytes beside": (
        record(data=BytesSerializer(), flag=BooleanSerializer(), n=INT),
        record(data=BytesSerializer(), flag=BooleanSerializer(), n=LONG),
    ),
}


def by(name, rewrite):
    return plainly(rewrite) if name == "plain Python" else rewrite


def account(key, **more):
    return written(
        S2[0], Record("acme.Account", {"id": key, "balance": -key, "name": f"n° {key}", "seen": None} | more)
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_types_of_every_kind_that_can_be_expressed_as_data_have_an_op_list(shape):
    assert isinstance(transcoder(*shape), BlockTranscoder)


@pytest.mark.parametrize("kind", [StateKind.LIST, StateKind.MAP])
def test_pieces_of_list_and_map_state_have_an_op_list(kind):
    whole = {StateKind.LIST: ListSerializer, StateKind.MAP: lambda value: MapSerializer(LONG, value)}[kind]

    assert isinstance(transcoder(whole(S2[0]), whole(S2[1]), kind), BlockTranscoder)


KEPT = {
    "one widened, one added": (
        record(id=LONG, n=INT, seen=SEEN), record(id=LONG, m=SEEN_LATER, n=LONG, seen=SEEN), True,
    ),
    "one renamed": (record(a=TEXT, n=INT), record(n=INT, z=RecordField("z", TEXT, aliases=("a",))), True),
    "within": (record(inner=record(n=INT), x=DOUBLE), record(inner=record(n=LONG), x=DOUBLE), True),
    "one dropped": (record(id=LONG, n=INT), record(id=LONG), False),
    "one that may be null": (
        record(n=RecordField("n", INT, optional=True)), record(n=RecordField("n", LONG, optional=True)), True,
    ),
    "inexact": (record(n=LONG), record(n=DOUBLE), False),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), KEPT.values(), ids=KEPT)
def test_records_that_are_keys_of_a_map_are_known_to_stay_apart(old, new, expected):
    rewrite = transcoder(MapSerializer(old, INT), MapSerializer(new, INT), StateKind.MAP)

    assert expected == getattr(rewrite, "keeps_apart", False)


@pytest.mark.parametrize("name", EXECUTORS)
def test_keys_of_a_map_that_are_records_become_what_objects_make_of_them(name):
    old, new, _ = KEPT["one widened, one added"]
    keys = [{"id": 1, "n": n, "seen": seen} for n in (-1, 0, 7) for seen in (None, 0, 5)]
    parts = [
        (b"\x07" + bytes(8) + b"\0" + written(old, Record("acme.Account", one)), b"\0" + written(INT, place))
        for place, one in enumerate(keys)
    ]
    given = b"".join(len(part).to_bytes(4, "big") + part for pair in parts for part in pair)
    rewrite = by(name, transcoder(MapSerializer(old, INT), MapSerializer(new, INT), StateKind.MAP))

    assert bytes(rewrite.objects.transcode(given).data) == bytes(rewrite.transcode(given).data)


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_odd_entry_goes_through_objects_alone_and_stays_in_its_place(name):
    long_way = account(3, name="abc").replace(b"\4abc", b"\x84\0abc")  # a length in more bytes than it needs
    old = block(account(1), account(2, name="ascii"), long_way, account(4, seen=9))
    rewrite = by(name, transcoder(*S2))

    assert rewrite.objects.transcode(old) == rewrite.transcode(old)


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_value_that_does_not_fit_is_reported_as_by_the_object_path(name):
    null = account(5).replace(b"\0" + written(TEXT, "n° 5"), b"\1")
    rewrite, given = by(name, transcoder(*S2)), block(account(1), null, account(2))

    with pytest.raises(StateShiftError) as slow:
        rewrite.objects.transcode(given)
    with pytest.raises(type(slow.value)) as fast:
        rewrite.transcode(given)

    assert (str(slow.value), slow.value.where) == (str(fast.value), fast.value.where)


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_block_that_is_damaged_anywhere_comes_to_what_objects_make_of_it(name):
    def outcome(rewrite, given):
        try:
            return rewrite.transcode(given)
        except StateShiftError as error:
            return type(error), str(error)

    whole, rewrite = block(account(1), account(2)), by(name, transcoder(*S2))
    cut = [whole[:size] for size in range(len(whole))]
    flipped = [
        whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :] for at in range(len(whole)) for bits in (1, 255)
    ]

    for given in (*cut, *flipped):
        assert outcome(rewrite.objects, given) == outcome(rewrite, given)


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("bits", ["7f800001", "ffc00000", "7f800000"], ids=["signalling", "quiet", "infinite"])
def test_floats_that_are_no_numbers_are_left_to_objects_without_a_warning(name, bits):
    old, new = (TupleSerializer((INT, number)) for number in (FloatSerializer(), DOUBLE))
    given = block(written(old, (1, 0.5)), bytes(4) + bytes.fromhex(bits), written(old, (2, -0.5)))
    rewrite = by(name, transcoder(old, new))

    assert rewrite.objects.transcode(given) == rewrite.transcode(given)


@pytest.mark.parametrize("name", EXECUTORS)
def test_lists_that_outgrow_the_reserved_memory_are_complete(name):
    old, new = ListSerializer(ByteSerializer()), ListSerializer(LONG)

    result = by(name, transcoder(old, new)).transcode(block(written(old, [1] * 3000), written(old, [-2] * 3000)))

    assert block(written(new, [1] * 3000), written(new, [-2] * 3000)) == result.data


def test_the_environment_chooses_the_executor(monkeypatch):
    for name in ExecutorName:
        monkeypatch.setenv(VARIABLE, name)
        assert name is choose_executor(0)
        assert (name is ExecutorName.NUMBA) == isinstance(transcoder(*S2, executor=choose_executor(0)), BlockTranscoder)

    for other in ("abacus", "plain"):
        monkeypatch.setenv(VARIABLE, other)
        with pytest.raises(DeclarationError, match=rf"'{other}', which is not an executor[^\0]*auto, numba, objects"):
            choose_executor(0)


def test_what_code_of_the_user_decides_has_no_op_list():
    class Doubled(LongSerializer):
        def serialize(self, value, target):
            super().serialize(2 * value, target)

    assert not isinstance(transcoder(INT, Doubled()), BlockTranscoder)
    assert not isinstance(transcoder(record(n=INT), record(n=Doubled())), BlockTranscoder)


def test_a_default_that_may_differ_from_value_to_value_has_no_op_list():
    counter = iter(range(9))
    new = record(n=LONG, m=RecordField("m", LONG, default=Default(factory=counter.__next__)))

    assert not isinstance(transcoder(record(n=LONG), new), BlockTranscoder)


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "tag", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "rest", "type": {"type": "array", "items": ["long", "null"]}},
        {"name": "ratio", "type": "float"},
    ],
}
NEW_AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["B", "C", "A"]}},
        {"name": "tag", "type": ["string", "null"]},
        {"name": "title", "type": "bytes", "aliases": ["name"]},
        {"name": "n", "type": "long"},
        {"name": "rest", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "more", "type": "double", "default": 0.5},
    ],
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_plain_avro_is_rewritten_as_bytes_and_as_objects_where_it_is_written_in_other_ways(name):
    old = AvroSerializer(AVRO)
    rows = [
        {"n": n, "name": f"n° {n}", "tag": tag, "kind": kind, "rest": rest, "ratio": 0.25}
        for n, tag, kind, rest in [
            (0, None, "A", []),
            (-65, "x" * 70, "B", [1, None, -(1 << 63)]),
            (2**31 - 1, "", "A", [None] * 70),
        ]
    ]
    sound = [written(old, row) for row in rows]
    two_blocks = sound[1].replace(b"\6\0\2\2", b"\2\0\2\4\2", 1)
    long_number = b"\x80\0" + sound[0][1:]
    rewrite = by(name, transcoder(old, AvroSerializer(NEW_AVRO)))

    result = rewrite.transcode(block(*sound, two_blocks, long_number))

    assert rewrite.objects.transcode(block(*sound, two_blocks, long_number)) == result
    assert block(*(written(AvroSerializer(NEW_AVRO), expected_of(row)) for row in rows)) in bytes(result.data)


def expected_of(row):
    """A value of `AVRO` as one of `NEW_AVRO`."""
    return {
        "kind": row["kind"], "tag": row["tag"], "title": row["name"].encode(), "n": row["n"], "rest": row["rest"],
        "more": 0.5,
    }  # fmt: skip


def many(count):
    """Accounts of many lengths: some with a length in more bytes than it needs, some whose names are not ASCII."""
    for key in range(count):
        name = "é" if key % 91 == 5 else "abc" if key % 977 == 600 else "x" * (key * key % 300)
        yield account(key, name=name, seen=key if key % 3 else None).replace(b"\4abc", b"\x84\0abc")


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_large_block_with_odd_entries_here_and_there_is_put_together_in_its_order(name):
    given, rewrite = block(*many(3000)), by(name, transcoder(*S2))

    result = rewrite.transcode(given)

    assert rewrite.objects.transcode(given) == result
    assert survey(given, b"").keys == result.keys_read
