import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, TypeSerializer, ValueNotConvertible
from stateshift.compat.description import StateKind
from stateshift.serializers.flink.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.state.entry_keys import EntryKey, EntryKeyFormat, decode, encode
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader
from stateshift.state.formats.flink.meta_info import MetaInfoKind
from stateshift.state.formats.flink.state_kinds import entry_key_format

LONG, STRING, VOID = LongSerializer(), StringSerializer(), VoidNamespaceSerializer()


class UpToBar(TypeSerializer):
    """A user's serializer, whose layout is unknown."""

    def serialize(self, value, target):
        target.write(value.encode() + b"|")

    def deserialize(self, source):
        text = b""
        while (byte := source.read_fully(1)) != b"|":
            text += byte
        return text.decode()

    def snapshot_configuration(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("key", "namespace", "lengths"),
    [(LONG, VOID, 0), (STRING, VOID, 0), (LONG, STRING, 0), (STRING, STRING, 2), (UpToBar(), STRING, 2)],
)
@given(
    group=st.integers(0, 127),
    number=st.integers(-(2**63), 2**63 - 1),
    text=st.text(st.characters(codec="ascii", exclude_characters="|"), max_size=300),
    user_key=st.binary(max_size=5),
)
def test_a_key_is_split_into_the_parts_it_was_joined_of(key, namespace, lengths, group, number, text, user_key):
    def part(serializer, index):
        values = {LONG: number + index if number < 0 else number - index, VOID: None}
        return b"\0" if serializer is VOID else encode(serializer, values.get(serializer, text[index:]))

    form = EntryKeyFormat.of(StateKind.MAP, key, namespace, 128)
    parts = EntryKey(group, part(key, 0), part(namespace, 1), user_key)
    joined = form.join(parts)

    assert form.split(joined) == parts
    if len(text) < 120:
        assert len(joined) == 1 + len(parts.key) + len(parts.namespace) + len(user_key) + lengths


def test_lengths_are_written_lowest_byte_first():
    form = EntryKeyFormat.of(StateKind.VALUE, STRING, STRING, 129)
    key = encode(STRING, "a" * 300)
    joined = form.join(EntryKey(128, key, encode(STRING, ""), b""))

    assert joined == b"\x00\x80" + key + b"\x2e\x01" + b"\x01" + b"\x01"


def test_a_wrong_length_is_corrupt():
    form = EntryKeyFormat.of(StateKind.VALUE, STRING, STRING, 128)
    joined = bytearray(form.join(EntryKey(1, encode(STRING, "ab"), encode(STRING, "c"))))
    joined[4] ^= 1

    with pytest.raises(CorruptSavepoint, match="does not match the bytes"):
        form.split(bytes(joined))


def test_bytes_after_the_namespace_are_corrupt_unless_a_user_key_is_there():
    data = b"\1" + encode(LONG, 7) + b"\0" + b"user"

    assert EntryKeyFormat.of(StateKind.MAP, LONG, VOID, 128).split(data).user_key == b"user"
    with pytest.raises(CorruptSavepoint, match="4 bytes follow"):
        EntryKeyFormat.of(StateKind.VALUE, LONG, VOID, 128).split(data)


@given(st.integers(0, 32767), st.integers(-(2**63), 2**63 - 1), st.text(max_size=9))
def test_a_timer_is_split_into_the_parts_it_was_joined_of(group, timestamp, key):
    form = EntryKeyFormat.of(StateKind.TIMERS, STRING, TimeWindowSerializer(), 32768)
    timer = EntryKey(group, encode(STRING, key), bytes(16), timestamp_ms=timestamp)

    assert form.split(form.join(timer)) == timer


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_timers_sort_by_time_as_bytes(first, second):
    form = EntryKeyFormat.of(StateKind.TIMERS, LONG, VOID, 128)
    keys = [form.join(EntryKey(0, bytes(8), b"\0", timestamp_ms=time)) for time in (first, second)]

    assert (keys[0] < keys[1]) == (first < second)


@pytest.mark.parametrize(("most", "group"), [(128, 128), (129, 32768), (128, -1)])
def test_a_key_group_that_would_hide_the_flag_is_refused(most, group):
    with pytest.raises(ValueNotConvertible, match="key group"):
        EntryKeyFormat.of(StateKind.VALUE, LONG, VOID, most).join(EntryKey(group, bytes(8), b"\0"))


def test_every_entry_that_flink_wrote_is_split_and_joined_to_the_same_bytes(canonical, keyed_streams_of):
    for operator, _, handle, source in keyed_streams_of(canonical):
        reader = KeyedStreamReader.open(source, handle)
        key = reader.header.key_snapshot.restore_serializer()
        for block in reader.blocks():
            info = reader.header.states[block.state_id]
            form = entry_key_format(info, key, operator.max_parallelism)
            for data, value in block.items():
                parts = form.split(data)
                assert form.join(parts) == data
                assert parts.key_group == block.key_group
                assert value == b"" or info.kind is not MetaInfoKind.PRIORITY_QUEUE


@pytest.mark.parametrize("name", ["hashmap-windows-p2-m128", "rocksdb-windows-p1-m200"])
def test_timers_are_those_that_the_job_saw(savepoint_of, expected_of, keyed_streams_of, name):
    found, expected = [], []
    for operator, _, handle, source in keyed_streams_of(savepoint_of(name)):
        reader = KeyedStreamReader.open(source, handle)
        for block in reader.blocks():
            info = reader.header.states[block.state_id]
            if info.name.startswith("_timer_state/"):
                key = reader.header.key_snapshot.restore_serializer()
                form = entry_key_format(info, key, operator.max_parallelism)
                found += [
                    (operator.uid, decode(key, timer.key), timer.timestamp_ms)
                    for timer in (form.split(data) for data, _ in block.items())
                ]
    for operator in expected_of(name)["operators"]:
        for rows in operator.get("timers", {}).values():
            expected += [(operator["uid"], row[0], row[-1]) for row in rows]

    assert found
    assert sorted(found) == sorted(expected)


def test_left_over_bytes_of_a_value_are_corrupt():
    assert decode(IntSerializer(), b"\0\0\0\7") == 7
    with pytest.raises(CorruptSavepoint, match="1 bytes follow"):
        decode(IntSerializer(), bytes(5))
