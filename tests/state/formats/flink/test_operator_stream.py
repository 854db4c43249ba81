import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    MigrationFailed,
    StateShiftError,
    UnsupportedFormat,
)
from stateshift.serializers.primitives.numeric import IntSerializerSnapshot, LongSerializerSnapshot
from stateshift.state.entry_keys import decode
from stateshift.state.formats.flink.handles import (
    DistributionMode,
    InlineHandle,
    OperatorStateHandle,
    OperatorStateOffsets,
)
from stateshift.state.formats.flink.meta_info import broadcast_state, list_state
from stateshift.state.formats.flink.operator_stream import (
    OperatorStreamHeader,
    read_operator_header,
    read_operator_stream,
    read_operator_stream_header,
    write_operator_header,
    write_operator_stream,
)
from stateshift.state.formats.flink.sources import InlineBytes

LONG = LongSerializerSnapshot()
HEADER = OperatorStreamHeader(
    (list_state("split", "SPLIT_DISTRIBUTE", LONG), list_state("union", "UNION", LONG)),
    (broadcast_state("rules", IntSerializerSnapshot(), LONG),),
)


def header_bytes(header):
    target = DataOutputView()
    write_operator_header(header, target)
    return target.getvalue()


def write(header, elements, broadcast):
    data = bytearray()
    states = write_operator_stream(header, elements, broadcast, data.extend)
    return bytes(data), OperatorStateHandle(states, InlineHandle("", b""))


def test_every_header_is_written_again_byte_for_byte(canonical, operator_streams_of):
    for _, _, handle, source in operator_streams_of(canonical):
        data = header_bytes(read_operator_stream_header(source, handle))

        assert data == source.read_at(0, len(data))


def test_uncompressed_streams_are_written_again_byte_for_byte(canonical, operator_streams_of):
    for _, _, handle, source in operator_streams_of(canonical):
        found = read_operator_stream(source, handle)
        data, again = write(found.header, found.elements, found.broadcast)

        if not found.header.compressed:
            assert data == source.read_at(0, source.size)
            assert sorted(again.states, key=lambda state: state.name) == sorted(
                handle.states, key=lambda state: state.name
            )
        copy = read_operator_stream(InlineBytes(data), again)
        assert (copy.elements, copy.broadcast) == (found.elements, found.broadcast)


def test_native_heap_savepoints_have_the_same_operator_streams(native_heap, operator_streams_of):
    found = [read_operator_stream(source, handle) for _, _, handle, source in operator_streams_of(native_heap)]

    assert any(stream.elements for stream in found)


def test_the_elements_are_those_that_the_job_saw(savepoint_of, expected_of, operator_streams_of):
    [operator] = expected_of("hashmap-operator-only-p2-m128")["operators"]
    found = {name: {} for name in operator["operator"]}
    for _, subtask, handle, source in operator_streams_of(savepoint_of("hashmap-operator-only-p2-m128")):
        stream = read_operator_stream(source, handle)
        for info in stream.header.list_states:
            element = info.value.restore_serializer()
            found[info.name][subtask.index] = [decode(element, data) for data in stream.elements[info.name]]

    assert {name: [found[name][0], found[name][1]] for name in found} == {
        name: state["subtasks"] for name, state in operator["operator"].items()
    }


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6)), st.lists(st.binary(max_size=6)), st.binary(max_size=6))
def test_what_was_written_is_read_again(split, union, rules):
    data, handle = write(HEADER, {"split": split, "union": union}, {"rules": rules})
    found = read_operator_stream(InlineBytes(data), handle)

    assert found.elements == {"split": tuple(split), "union": tuple(union)}
    assert found.broadcast == {"rules": rules}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_streams_are_an_error_of_ours_or_harmless(data):
    written, handle = write(HEADER, {"split": [b"12345678"] * 3, "union": [b"x"]}, {})
    damaged = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read_operator_stream(InlineBytes(bytes(damaged[: data.draw(st.integers(0, len(damaged)))])), handle)
    except StateShiftError as error:
        assert error.where["file"]  # noqa: PT017 - it may also succeed


def test_states_without_elements_leave_a_header_and_an_empty_map():
    data, handle = write(HEADER, {}, {})

    assert data == header_bytes(HEADER) + bytes(4)
    assert [(state.mode.name, len(state.offsets)) for state in handle.states] == [
        ("SPLIT_DISTRIBUTE", 0),
        ("UNION", 0),
        ("BROADCAST", 1),
    ]


def test_a_stream_without_any_state_can_be_read():
    data, handle = write(OperatorStreamHeader(), {}, {})

    assert read_operator_stream(InlineBytes(data), handle).elements == {}


def test_the_older_header_has_no_compression_flag():
    older = attrs.evolve(HEADER, version=5)

    assert read_operator_header(DataInputView(header_bytes(older))) == older
    assert len(header_bytes(older)) == len(header_bytes(HEADER)) - 1


def test_another_version_is_refused():
    with pytest.raises(UnsupportedFormat, match="version 9"):
        read_operator_header(DataInputView((9).to_bytes(4, "big") + header_bytes(HEADER)[4:]))


def test_elements_of_a_state_that_is_not_declared_are_refused():
    with pytest.raises(MigrationFailed, match="other"):
        write(HEADER, {"other": [b""]}, {})


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (OperatorStateOffsets("other", DistributionMode.UNION, ()), "does not have"),
        (OperatorStateOffsets("split", DistributionMode.UNION, (10**6,)), "is listed at byte"),
        (OperatorStateOffsets("split", DistributionMode.UNION, (-1,)), "-1 bytes were expected"),
        (OperatorStateOffsets("rules", DistributionMode.BROADCAST, ()), "should have one"),
        (OperatorStateOffsets("split", DistributionMode.BROADCAST, ()), "disagree on how"),
    ],
)
def test_a_handle_that_does_not_fit_the_stream_is_corrupt(state, problem):
    data, _ = write(attrs.evolve(HEADER, broadcast_states=()), {}, {})
    if state.name == "rules":
        data, _ = write(HEADER, {}, {})
        data = data[:-4]

    with pytest.raises(CorruptSavepoint, match=problem):
        read_operator_stream(InlineBytes(data), OperatorStateHandle((state,), InlineHandle("", b"")))


def test_a_lost_element_is_noticed():
    data, handle = write(HEADER, {"split": [b"a", b"b"]}, {})
    lost = attrs.evolve(handle.states[0], offsets=handle.states[0].offsets[1:])

    with pytest.raises(CorruptSavepoint, match="belong to no state"):
        read_operator_stream(InlineBytes(data), attrs.evolve(handle, states=(lost, *handle.states[1:])))
