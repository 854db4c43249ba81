"""The serializers that the harness ships: each gives its one answer, and is a whole serializer besides."""

import pytest
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DataInputView, DataOutputView, OldReaderUnavailable, Verdict
from stateshift.compat.testing import (
    V1,
    V2,
    NeedsFallback,
    NeedsReconfig,
    Refuses,
    SerializerContract,
    Unrestorable,
)
from stateshift.serializers.registry import registry
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

C, R, M, MF, I = Verdict  # noqa: E741 - as the harness cases call them
LONGS = st.integers(-(2**63), 2**63 - 1)


def stored(serializer):
    return snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


class TestV1(SerializerContract):
    serializer = V1()
    values = LONGS
    edges = (0, -1)


class TestV2(SerializerContract):
    serializer = V2()
    values = LONGS
    edges = (0, -1)


class TestReconfigured(SerializerContract):
    serializer = NeedsReconfig(reconfigured=True)
    values = LONGS
    edges = (0, -1)


@pytest.mark.parametrize(
    ("new", "from_v1", "from_itself"),
    [
        (V1(), C, C),
        (V2(), M, C),
        (NeedsReconfig(), R, C),
        (NeedsReconfig(reconfigured=True), C, C),
        (Refuses(), I, I),
        (NeedsFallback(), MF, C),
        (Unrestorable(), I, C),
    ],
)
def test_each_gives_its_answer_about_v1_and_about_itself(new, from_v1, from_itself):
    assert [from_v1, from_itself] == [new.ensure_compatibility(stored(old)).verdict for old in (V1(), new)]


def test_what_was_not_reconfigured_cannot_be_used_and_the_copy_reads_v1():
    copy = NeedsReconfig().ensure_compatibility(stored(V1())).reconfigured_serializer

    assert 7 == copy.deserialize(DataInputView(written(V1(), 7)))
    for use in (lambda: written(NeedsReconfig(), 7), lambda: NeedsReconfig().deserialize(DataInputView(bytes(8)))):
        with pytest.raises(AssertionError, match="not the copy that its answer holds"):
            use()


def test_layouts_are_not_taken_for_each_other():
    with pytest.raises(CorruptSavepoint, match="mark of layout two"):
        V2().deserialize(DataInputView(written(V1(), 7)))


@pytest.mark.parametrize("serializer", [NeedsFallback(), Unrestorable()])
def test_what_cannot_be_restored_says_so_and_a_fallback_reads_layout_one(serializer):
    with pytest.raises(OldReaderUnavailable, match=type(serializer).__name__):
        stored(serializer).restore_serializer()

    fallback = NeedsFallback().ensure_compatibility(stored(Unrestorable())).fallback
    assert 7 == fallback.deserialize(DataInputView(written(Unrestorable(), 7)))


def test_a_worker_registers_their_snapshot_without_loading_the_harness():
    assert ["stateshift/harness"] == [name for name in registry.additions().snapshots if name == "stateshift/harness"]
