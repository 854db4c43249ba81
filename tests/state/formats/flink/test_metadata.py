import pickle

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DataInputView, DataOutputView, StateShiftError, UnsupportedFormat
from stateshift.compat.description import operator_id_of_uid
from stateshift.state.formats.flink.handles import (
    CANONICAL,
    KEYED_HANDLE,
    NATIVE,
    NATIVE_OLD,
    NO_OFFSET,
    AbsoluteFileHandle,
    DistributionMode,
    InlineHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorStateOffsets,
    RelativeFileHandle,
)
from stateshift.state.formats.flink.metadata import (
    OperatorState,
    SavepointMetadata,
    SubtaskState,
    read_metadata,
    write_metadata,
)
from stateshift.state.formats.flink.properties import (
    CANONICAL_PROPERTIES,
    NATIVE_PROPERTIES,
    check_properties,
    stops_job,
)

streams = st.one_of(
    st.builds(InlineHandle, st.text(max_size=8), st.binary(max_size=20)),
    st.builds(RelativeFileHandle, st.text(max_size=8), st.integers(0, 2**63 - 1)),
    st.builds(AbsoluteFileHandle, st.text(max_size=8), st.integers(0, 2**63 - 1)),
)
offsets = st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)
keyed = st.none() | st.one_of(
    st.builds(KeyGroupsHandle, st.sampled_from([CANONICAL, NATIVE_OLD]), st.integers(0, 60), offsets, streams),
    st.builds(KeyGroupsHandle, st.just(NATIVE), st.integers(0, 60), offsets, streams, st.text(max_size=8)),
)
operator_parts = st.none() | st.builds(
    OperatorStateHandle,
    st.lists(
        st.builds(OperatorStateOffsets, st.text(max_size=5), st.sampled_from(DistributionMode), offsets),
        max_size=3,
        unique_by=lambda state: state.name,
    ).map(tuple),
    streams,
)
subtasks = st.one_of(
    st.builds(SubtaskState, st.integers(0, 7), finished=st.just(value=True)),
    st.builds(
        SubtaskState,
        st.integers(0, 7),
        managed_operator=operator_parts,
        raw_operator=operator_parts,
        managed_keyed=keyed,
        raw_keyed=keyed,
    ),
)


@st.composite
def metadata(draw):
    version = draw(st.integers(3, 6))
    names = st.text(max_size=8) if version >= 5 else st.just("")
    operators = st.one_of(
        st.builds(
            OperatorState,
            st.binary(min_size=16, max_size=16),
            st.just(8),
            st.integers(64, 32768),
            names,
            names,
            coordinator=st.none() | streams,
            subtasks=st.lists(subtasks, max_size=4, unique_by=lambda subtask: subtask.index).map(tuple),
        ),
        st.builds(OperatorState, st.binary(min_size=16, max_size=16), st.just(8), st.just(64), finished=st.just(True)),
    )
    return SavepointMetadata(
        version,
        draw(st.integers(0, 2**63 - 1)),
        draw(st.lists(operators, max_size=3, unique_by=lambda operator: operator.operator_id).map(tuple)),
        draw(st.lists(st.binary(min_size=1, max_size=9), max_size=2).map(tuple)),
        CANONICAL_PROPERTIES if version >= 4 else b"",
    )


def test_every_canonical_metadata_is_written_again_byte_for_byte(canonical):
    data = (canonical / "_metadata").read_bytes()

    assert write_metadata(read_metadata(data)) == data


def test_native_heap_metadata_is_written_again_byte_for_byte(native_heap):
    data = (native_heap / "_metadata").read_bytes()

    assert write_metadata(read_metadata(data)) == data


def test_every_canonical_savepoint_has_the_constant_properties(canonical):
    assert read_metadata((canonical / "_metadata").read_bytes()).properties == CANONICAL_PROPERTIES


@settings(max_examples=60, deadline=None)
@given(metadata())
def test_what_was_written_is_read_again(value):
    assert read_metadata(write_metadata(value)) == value


def test_an_operator_id_is_the_hash_of_the_uid():
    assert operator_id_of_uid("keyed-op").hex() == "b2856b4d021e3d9347447624f34b9a39"


def test_operator_ids_are_the_hashes_of_the_uids_in_the_file(savepoint_of):
    operators = read_metadata((savepoint_of("rocksdb-account-v1") / "_metadata").read_bytes()).operators
    with_uid = [operator for operator in operators if operator.uid]

    assert with_uid
    assert [operator_id_of_uid(operator.uid) for operator in with_uid] == [o.operator_id for o in with_uid]


def test_names_are_known_from_version_5_on(savepoint_of):
    old = read_metadata((savepoint_of("hashmap-account-v1", version="1.20") / "_metadata").read_bytes())
    new = read_metadata((savepoint_of("hashmap-account-v1") / "_metadata").read_bytes())

    assert (old.version, {operator.uid for operator in old.operators}) == (4, {""})
    assert new.version == 6
    assert "account-state" in {operator.uid for operator in new.operators}


def test_files_and_inline_state_are_distinguished(savepoint_of):
    def kinds(name):
        found = read_metadata((savepoint_of(name) / "_metadata").read_bytes())
        parts = [part for o in found.operators for s in o.subtasks for part in (s.managed_keyed, s.managed_operator)]
        return {type(part.stream) for part in parts if part is not None}

    assert kinds("rocksdb-account-v1") == {InlineHandle}
    assert RelativeFileHandle in kinds("rocksdb-long-p2-m200-files")


def test_an_older_version_drops_names_and_properties(savepoint_of):
    new = read_metadata((savepoint_of("hashmap-account-v1") / "_metadata").read_bytes())
    old = read_metadata(write_metadata(attrs.evolve(new, version=3)))

    assert (old.version, old.properties) == (3, b"")
    assert [o.operator_id for o in old.operators] == [o.operator_id for o in new.operators]
    assert {o.uid for o in old.operators} == {""}


def test_a_new_savepoint_has_version_6_and_the_canonical_properties():
    made = SavepointMetadata.new((OperatorState(operator_id_of_uid("a"), 1, 128, uid="a"),))

    assert read_metadata(write_metadata(made)) == made
    assert made.version == 6


def test_metadata_pickles(savepoint_of):
    found = read_metadata((savepoint_of("hashmap-account-v1") / "_metadata").read_bytes())

    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("name", ["hashmap-operator-only-p2-m128", "hashmap-collections"])
def test_metadata_that_is_cut_off_anywhere_is_corrupt(savepoint_of, name):
    data = (savepoint_of(name) / "_metadata").read_bytes()

    for size in range(len(data)):
        with pytest.raises(CorruptSavepoint) as caught:
            read_metadata(data[:size])
        assert caught.value.where["file"] == "_metadata"
        assert 0 <= caught.value.where["offset"] <= size


def test_properties_of_unknown_content_are_kept_as_they_are():
    check_properties(b"\xac\xed\x00\x05\x77\x01\x00")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_flipped_bits_are_an_error_of_ours_or_harmless(savepoint_of, data):
    content = bytearray((savepoint_of("hashmap-operator-only-p2-m128") / "_metadata").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = read_metadata(bytes(content))
    except StateShiftError:
        return

    assert read_metadata(write_metadata(found)) == found


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_after_the_start_are_an_error_of_ours_or_harmless(tail):
    try:
        read_metadata(b"\x49\x60\x67\x2d\0\0\0\6" + tail)
    except StateShiftError as error:
        assert error.where["file"] == "_metadata"  # noqa: PT017 - it may also succeed


@pytest.mark.parametrize("version", [0, 1, 2, 7, -1])
def test_other_versions_are_refused_by_number(version):
    data = b"\x49\x60\x67\x2d" + version.to_bytes(4, "big", signed=True) + bytes(16)

    with pytest.raises(UnsupportedFormat, match=f"version {version}"):
        read_metadata(data)


def test_what_is_no_metadata_is_named_so():
    with pytest.raises(CorruptSavepoint, match="does not start"):
        read_metadata(b"PK\3\4" + bytes(100))


@pytest.mark.parametrize(("tag", "kind"), [(13, "changelog"), (14, "changelog")])
def test_keyed_state_of_other_snapshots_is_refused_by_what_it_is(tag, kind):
    with pytest.raises(UnsupportedFormat, match=kind) as caught:
        KEYED_HANDLE.read(DataInputView(bytes([tag]) + bytes(50)))

    assert "canonical" in caught.value.advice


def test_an_unknown_tag_is_corrupt():
    with pytest.raises(CorruptSavepoint, match="99"):
        KEYED_HANDLE.read(DataInputView(bytes([99]) + bytes(50)))


@pytest.mark.parametrize("parallelism", [(0, 128), (2, 1), (1, 0), (1, 40000), (-1, 128)])
def test_impossible_parallelism_is_corrupt(parallelism):
    with pytest.raises(CorruptSavepoint, match="not possible"):
        read_metadata(write_metadata(SavepointMetadata.new((OperatorState(bytes(16), *parallelism),))))


def test_only_raw_keyed_state_leaves_key_groups_out():
    handle = KeyGroupsHandle(NATIVE, 0, (NO_OFFSET, 0, NO_OFFSET), InlineHandle("", b"raw"))

    def stored(**part):
        operator = OperatorState(bytes(16), 1, 128, subtasks=(SubtaskState(0, **part),))
        return write_metadata(SavepointMetadata.new((operator,)))

    assert handle == read_metadata(stored(raw_keyed=handle)).operators[0].subtasks[0].raw_keyed
    with pytest.raises(CorruptSavepoint, match="-1 is not a position in a stream"):
        read_metadata(stored(managed_keyed=handle))
    with pytest.raises(CorruptSavepoint, match="-2 is not a position in a stream"):
        read_metadata(stored(raw_keyed=attrs.evolve(handle, offsets=(0, -2))))


def test_key_groups_beyond_the_maximum_are_corrupt():
    handle = KeyGroupsHandle(CANONICAL, 120, (0,) * 9, InlineHandle("", b""))
    operator = OperatorState(bytes(16), 1, 128, subtasks=(SubtaskState(0, managed_keyed=handle),))

    with pytest.raises(CorruptSavepoint, match="key groups to 128"):
        read_metadata(write_metadata(SavepointMetadata.new((operator,))))


def test_channel_state_says_that_this_is_no_savepoint():
    operator = OperatorState(bytes(16), 1, 128, subtasks=(SubtaskState(0),))
    written = write_metadata(SavepointMetadata(3, 1, (operator,)))
    target = DataOutputView()
    target.write(written[:-8])
    target.write_int(2)
    target.write_int(0)

    with pytest.raises(UnsupportedFormat, match="2 channel states"):
        read_metadata(target.getvalue())


@pytest.mark.parametrize("action", ["SUSPEND", "TERMINATE"])
def test_whether_a_savepoint_stops_its_job_is_read(action):
    stopped = NATIVE_PROPERTIES.replace(b"\0\x04NONE", len(action).to_bytes(2, "big") + action.encode())

    assert stops_job(stopped)
    assert not any(map(stops_job, (NATIVE_PROPERTIES, CANONICAL_PROPERTIES, stopped[:-1], b"", b"\xac\xed\0\5\x70")))
