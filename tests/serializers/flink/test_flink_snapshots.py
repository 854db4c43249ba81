"""Flink's snapshots (format notes, section 6): each is parsed, described and written again, byte for byte."""

import pickle
import pickletools
import re
import sys
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    OldReaderUnavailable,
    SnapshotVersionError,
    StateShiftError,
)
from stateshift.serializers.containers.lists import (
    ArrayListSerializerSnapshot,
    ListSerializerSnapshot,
    MapSerializerSnapshot,
    SetSerializerSnapshot,
)
from stateshift.serializers.containers.object_arrays import GenericArraySerializerSnapshot
from stateshift.serializers.containers.tuples import JavaEitherSerializerSnapshot, TupleSerializerSnapshot
from stateshift.serializers.containers.wrappers import (
    NullableSerializerSnapshot,
    TtlAwareSerializerSnapshot,
    without_ttl_awareness,
)
from stateshift.serializers.enums.serializers import JavaEnumSerializerSnapshot
from stateshift.serializers.flink.namespaces import TimerSerializerSnapshot
from stateshift.serializers.flink.opaque import (
    AvroSerializerSnapshot,
    KryoSerializerSnapshot,
    OptionalEntry,
    OptionalMap,
)
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer, LongSerializerSnapshot
from stateshift.serializers.primitives.text import StringSerializerSnapshot
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot
from stateshift.serializers.registry import registry
from stateshift.serializers.rows.serializers import RowSerializerSnapshot
from stateshift.serializers.snapshot import (
    read_serializer_snapshot,
    read_versioned_snapshot,
    snapshot_from_bytes,
    snapshot_to_bytes,
    write_serializer_snapshot,
)

BASE = "org.apache.flink.api.common.typeutils.base."
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
STATE = "org.apache.flink.runtime.state."
WINDOWS = "org.apache.flink.streaming.api.windowing.windows."

LONG, STRING = LongSerializerSnapshot(), StringSerializerSnapshot()
SCHEMA = '{"type": "record", "name": "Click", "namespace": "shop", "fields": []}'


def utf(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def i32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def snap(name: str, version: int, body: bytes = b"") -> bytes:
    return utf(name) + i32(version) + body


def composite(name: str, outer_version: int, outer: bytes, *nested: bytes) -> bytes:
    return snap(name, 3, i32(911108, outer_version) + outer + i32(1333245, 1, len(nested)) + b"".join(nested))


def optional_map(*entries: bytes) -> bytes:
    return bytes.fromhex("000004F2C69A3D70") + i32(len(entries)) + b"".join(entries)


def part(data: bytes) -> bytes:
    return b"\x01" + i32(len(data)) + data


LONG_BYTES = snap(BASE + "LongSerializer$LongSerializerSnapshot", 3)
STRING_BYTES = snap(BASE + "StringSerializer$StringSerializerSnapshot", 3)
TUPLE2 = "org.apache.flink.api.java.tuple.Tuple2"
ENTRY = OptionalMap((OptionalEntry("fx.Thing", b"\x01\x02", None),))
ENTRY_BYTES = optional_map(utf("fx.Thing") + b"\x01" + i32(2) + b"\x01\x02" + b"\x00")


def simple(name: str) -> str:
    return f"{BASE}{name}Serializer${name}SerializerSnapshot"


def array(name: str) -> str:
    return f"{BASE}array.{name}PrimitiveArraySerializer${name}PrimitiveArraySerializerSnapshot"


PLAIN = {
    simple("Boolean"): "boolean",
    simple("Byte"): "byte",
    simple("Short"): "short",
    simple("Int"): "int",
    simple("Long"): "long",
    simple("Float"): "float",
    simple("Double"): "double",
    simple("Char"): "char",
    simple("String"): "string",
    simple("BigDec"): "decimal",
    simple("BigInt"): "bigint",
    simple("Date"): "java.util.Date",
    simple("SqlDate"): "java.sql.Date",
    simple("SqlTime"): "java.sql.Time",
    simple("SqlTimestamp"): "java.sql.Timestamp",
    simple("LocalDate"): "date",
    simple("LocalTime"): "time",
    simple("LocalDateTime"): "local datetime",
    simple("Instant"): "instant",
    simple("Void"): "void",
    array("Boolean"): "array<boolean>",
    array("Byte"): "bytes",
    array("Char"): "array<char>",
    array("Short"): "array<short>",
    array("Int"): "array<int>",
    array("Long"): "array<long>",
    array("Float"): "array<float>",
    array("Double"): "array<double>",
    BASE + "array.StringArraySerializer$StringArraySerializerSnapshot": "array<string>",
    STATE + "VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": "VoidNamespace",
    WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": "TimeWindow",
    WINDOWS + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": "GlobalWindow",
}

CONFIGURED = [
    (ListSerializerSnapshot((LONG,)), composite(BASE + "ListSerializerSnapshot", 1, b"", LONG_BYTES), "list<long>"),
    (
        ArrayListSerializerSnapshot((LONG,)),
        composite(STATE + "ArrayListSerializerSnapshot", 1, b"", LONG_BYTES),
        "list<long>",
    ),
    (SetSerializerSnapshot((LONG,)), composite(BASE + "SetSerializerSnapshot", 1, b"", LONG_BYTES), "set<long>"),
    (
        MapSerializerSnapshot((STRING, LONG)),
        composite(BASE + "MapSerializerSnapshot", 1, b"", STRING_BYTES, LONG_BYTES),
        "map<string, long>",
    ),
    (
        TupleSerializerSnapshot((STRING, LONG), TUPLE2),
        composite(RUNTIME + "TupleSerializerSnapshot", 2, utf(TUPLE2), STRING_BYTES, LONG_BYTES),
        "tuple<string, long>",
    ),
    (
        NullableSerializerSnapshot((LONG,), 8),
        composite(RUNTIME + "NullableSerializer$NullableSerializerSnapshot", 2, i32(8), LONG_BYTES),
        "optional<long>",
    ),
    (
        JavaEnumSerializerSnapshot("fx.Shop$Level", ("LOW", "HIGH")),
        snap(simple("Enum"), 3, utf("fx.Shop$Level") + i32(2) + utf("LOW") + utf("HIGH")),
        "enum Level",
    ),
    (
        PojoSerializerSnapshot(
            "fx.Account", (PojoField("id", "fx.Account", LONG), PojoField("name", "fx.Account", STRING))
        ),
        snap(
            RUNTIME + "PojoSerializerSnapshot",
            2,
            utf("fx.Account")
            + optional_map(
                utf("id") + part(utf("fx.Account") + utf("id")) + part(LONG_BYTES),
                utf("name") + part(utf("fx.Account") + utf("name")) + part(STRING_BYTES),
            )
            + optional_map()
            + optional_map(),
        ),
        "fx.Account",
    ),
    (
        GenericArraySerializerSnapshot("java.lang.String", (STRING,)),
        composite(BASE + "GenericArraySerializerSnapshot", 1, utf("java.lang.String"), STRING_BYTES),
        "array<string>",
    ),
    (
        RowSerializerSnapshot((LONG, STRING)),
        composite(RUNTIME + "RowSerializer$RowSerializerSnapshot", 4, b"\x01", LONG_BYTES, STRING_BYTES),
        "row<long, string>",
    ),
    (
        JavaEitherSerializerSnapshot((LONG, STRING)),
        composite(RUNTIME + "JavaEitherSerializerSnapshot", 1, b"", LONG_BYTES, STRING_BYTES),
        "either<long, string>",
    ),
    (
        TimerSerializerSnapshot((STRING, LONG)),
        composite("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", 2, b"", STRING_BYTES, LONG_BYTES),
        "timer<string, long>",
    ),
    (
        KryoSerializerSnapshot("fx.Thing", ENTRY, OptionalMap(), ENTRY),
        snap(
            RUNTIME + "kryo.KryoSerializerSnapshot",
            2,
            utf("fx.Thing") + ENTRY_BYTES + optional_map() + ENTRY_BYTES,
        ),
        "kryo<fx.Thing>",
    ),
    (
        TtlAwareSerializerSnapshot(True, LONG),
        snap(STATE + "ttl.TtlAwareSerializerSnapshot", 1, b"\x01" + LONG_BYTES),
        "long",
    ),
    (
        AvroSerializerSnapshot(SCHEMA, "shop.ClickClass"),
        snap(
            "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot",
            3,
            utf("shop.ClickClass") + i32(len(SCHEMA)) + SCHEMA.encode(),
        ),
        "avro<shop.ClickClass>",
    ),
]

ALL = [(registry.snapshot_class(name)(), snap(name, 3), words) for name, words in PLAIN.items()] + CONFIGURED
every_snapshot = pytest.mark.parametrize(
    ("snapshot", "data", "words"), ALL, ids=[type(snapshot).__name__ for snapshot, _, _ in ALL]
)


_NEVER = {simple("Void"), WINDOWS + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot"}
_NOT_IN_1_20 = {WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot"}
NOT_IN_FIXTURES = {"2.3": _NEVER, "1.20": _NEVER | _NOT_IN_1_20}


class TestFlinksSnapshots:
    @every_snapshot
    def test_each_is_written_as_flink_writes_it(self, snapshot, data, words):
        assert data == snapshot_to_bytes(snapshot)

    @every_snapshot
    def test_each_is_read_described_and_written_again(self, snapshot, data, words):
        stored = snapshot_from_bytes(data)

        assert snapshot == stored
        assert words == stored.describe()
        assert data == snapshot_to_bytes(stored)
        assert stored.is_flink

    @every_snapshot
    def test_each_restores_a_serializer_of_its_bytes_or_says_that_values_are_not_read(self, snapshot, data, words):
        try:
            restored = snapshot_from_bytes(data).restore_serializer()
        except OldReaderUnavailable as error:
            assert error.what.startswith(f"values of {words} ")  # noqa: PT017 - both ways are right
        else:
            assert without_ttl_awareness(snapshot) == restored.snapshot_configuration()

    @every_snapshot
    def test_version_written_first(self, snapshot, data, words):
        """J01: after the id by which its class is found."""
        source = DataInputView(snapshot_to_bytes(snapshot))

        assert snapshot.snapshot_id == source.read_utf()
        assert snapshot.get_version() == source.read_int()

    @every_snapshot
    def test_truncated(self, snapshot, data, words):
        for size in range(len(data)):
            with pytest.raises(CorruptSavepoint):
                snapshot_from_bytes(data[:size])

    @every_snapshot
    def test_padded(self, snapshot, data, words):
        with pytest.raises(CorruptSavepoint, match="3 bytes follow the snapshot"):
            snapshot_from_bytes(data + b"\0\0\0")

    @every_snapshot
    @given(position=st.integers(0, 10_000), bits=st.integers(1, 255))
    @settings(deadline=None, max_examples=20)
    def test_corrupted_bytes_give_a_snapshot_or_an_error_of_ours(self, snapshot, data, words, position, bits):
        damaged = bytearray(data)
        damaged[position % len(data)] ^= bits
        try:
            snapshot_from_bytes(bytes(damaged)).describe()
        except StateShiftError:
            return

    @pytest.mark.parametrize("name", PLAIN)
    def test_the_older_version_with_the_class_of_the_serializer_is_read_and_written_as_the_current_one(self, name):
        stored = snapshot_from_bytes(snap(name, 2, utf(name.partition("$")[0])))

        assert registry.snapshot_class(name)() == stored
        assert 2 == stored.get_read_version()
        assert snap(name, 3) == snapshot_to_bytes(stored)

    @pytest.mark.parametrize("version", ["2.3", "1.20"])
    def test_every_snapshot_that_flink_wrote_is_written_again_byte_for_byte(self, root, version):
        marks = re.compile(rb"org\.apache\.flink\.[\w.$]+Snapshot(?=\0\0\0)")
        seen = set()
        for file in sorted((root / "tests" / "fixtures" / f"flink-{version}").glob("*/savepoint/*")):
            data = file.read_bytes()
            for start in (mark.start() - 2 for mark in marks.finditer(data)):
                source = DataInputView(data, start)
                snapshot = read_versioned_snapshot(source)
                assert source.span(start) == snapshot_to_bytes(snapshot), (file, start)
                seen.add(snapshot.snapshot_id)

        assert set(PLAIN) - NOT_IN_FIXTURES[version] <= seen


class TestConfigurations:
    @pytest.mark.parametrize(("outer_version", "with_kind"), [(1, False), (2, False), (3, True)])
    def test_older_rows_are_written_at_the_current_version_with_what_they_meant(self, outer_version, with_kind):
        name = RUNTIME + "RowSerializer$RowSerializerSnapshot"
        stored = snapshot_from_bytes(composite(name, outer_version, b"", LONG_BYTES))

        assert RowSerializerSnapshot((LONG,), supports_row_kind=with_kind) == stored
        assert composite(name, 4, bytes([with_kind]), LONG_BYTES) == snapshot_to_bytes(stored)

    @pytest.mark.parametrize(
        ("version", "body", "words"),
        [
            (1, utf(SCHEMA), "avro<shop.Click>"),
            (2, utf("shop.ClickClass") + utf(SCHEMA), "avro<shop.ClickClass>"),
            (1, utf('"long"'), "avro<long>"),
            (1, utf("{"), "avro<unreadable schema>"),
            (3, utf("a.B") + i32(70_000) + b" " * 70_000, "avro<a.B>"),
        ],
    )
    def test_avro_is_written_at_the_version_it_was_found_in(self, version, body, words):
        data = snap("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", version, body)
        stored = snapshot_from_bytes(data)

        assert words == stored.describe()
        assert data == snapshot_to_bytes(stored)

    def test_ttl_awareness_is_taken_off_at_any_depth(self):
        wrapped = TtlAwareSerializerSnapshot(False, TtlAwareSerializerSnapshot(True, LONG))

        assert LONG == without_ttl_awareness(wrapped)
        assert LONG == without_ttl_awareness(LONG)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (composite(RUNTIME + "JavaEitherSerializerSnapshot", 1, b"", LONG_BYTES), "has 1 nested .* should have 2"),
            (snap(RUNTIME + "JavaEitherSerializerSnapshot", 3, i32(1)), "magic number of a composite"),
            (snap(RUNTIME + "JavaEitherSerializerSnapshot", 3, i32(911108, 1, 7)), "magic number before nested"),
            (
                snap(RUNTIME + "JavaEitherSerializerSnapshot", 3, i32(911108, 1, 1333245, 2)),
                "version of nested snapshots",
            ),
            (
                snap(
                    RUNTIME + "RowSerializer$RowSerializerSnapshot", 3, i32(911108, 4) + b"\1" + i32(1333245, 1, 9**9)
                ),
                "387420489 nested snapshots are declared",
            ),
        ],
    )
    def test_an_invalid_composite_is_refused(self, data, message):
        with pytest.raises(CorruptSavepoint, match=message):
            snapshot_from_bytes(data)

    def test_a_newer_outer_version_says_so(self):
        with pytest.raises(SnapshotVersionError, match="newer release") as caught:
            snapshot_from_bytes(composite(RUNTIME + "RowSerializer$RowSerializerSnapshot", 5, b"\1"))
        assert 5 == caught.value.found

    def test_snapshots_nested_beyond_reason_are_refused_before_the_stack_ends(self):
        data = snap(STATE + "ttl.TtlAwareSerializerSnapshot", 1, b"\1") * 5_000

        with pytest.raises(CorruptSavepoint, match="nested more than 100 deep"):
            snapshot_from_bytes(data)

    @pytest.mark.parametrize("deep", [90, 150, 199])
    def test_lists_within_one_another_are_read_or_refused_however_much_stack_is_used(self, deep):
        within = composite(BASE + "ListSerializerSnapshot", 1, b"", LONG_BYTES).removesuffix(LONG_BYTES)
        data = within * deep + LONG_BYTES

        def outcome(frames):
            if frames:
                return outcome(frames - 1)
            try:
                return snapshot_from_bytes(data).restore_serializer()
            except CorruptSavepoint as error:
                return str(error)

        found = [outcome(frames) for frames in range(0, sys.getrecursionlimit() - 250, 50)]

        assert ("snapshots are nested more than 100 deep" in str(found[0])) == (deep > 100)
        assert "snapshots are nested " in str(found[-1])

    def test_the_frame_of_state_metadata_names_its_version(self):
        target = DataOutputView()
        write_serializer_snapshot(target, LONG)

        assert i32(2) + LONG_BYTES == target.getvalue()
        assert LONG == read_serializer_snapshot(DataInputView(target.getvalue()))
        with pytest.raises(CorruptSavepoint, match="frame"):
            read_serializer_snapshot(DataInputView(i32(1) + LONG_BYTES))


class TestLaws:
    def test_snap_10_an_outer_version_does_not_depend_on_nested_ones(self):
        old = snap(BASE + "LongSerializer$LongSerializerSnapshot", 2, utf("x"))
        name = RUNTIME + "JavaEitherSerializerSnapshot"

        stored = snapshot_from_bytes(composite(name, 1, b"", old, old))

        assert composite(name, 1, b"", LONG_BYTES, LONG_BYTES) == snapshot_to_bytes(stored)

    def test_snap_11_nothing_is_learnt_while_writing(self):
        serializer = LongSerializer()
        before = snapshot_to_bytes(serializer.snapshot_configuration())
        serializer.serialize(5, DataOutputView())

        assert before == snapshot_to_bytes(serializer.snapshot_configuration())
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            IntSerializer().anything = 1

    @every_snapshot
    def test_no_pickle_in_snapshots(self, snapshot, data, words):
        """J14."""
        assert not any(is_pickle(data[start:]) for start in range(len(data)) if data[start] == 0x80)

    def test_the_scan_for_pickles_finds_one(self):
        assert is_pickle(pickle.dumps({"a": 1}) + b"rest")


def is_pickle(data: bytes) -> bool:
    """Whether a stream of pickle opcodes begins here."""
    try:
        opcodes: list[Any] = list(pickletools.genops(data))
    except (ValueError, IndexError):
        return False
    return len(opcodes) > 2
