"""Namespaces, and the values without content."""

import pytest

from stateshift import CorruptSavepoint, DataInputView, GlobalWindow, TimeWindow, ValueNotConvertible, VoidNamespace
from stateshift.serializers.flink.namespaces import (
    GlobalWindowSerializer,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
    VoidSerializer,
)


def test_the_void_namespace_declares_no_byte_and_is_one(write):
    assert 0 == VoidNamespaceSerializer().length
    assert b"\0" == write(VoidNamespaceSerializer(), VoidNamespace())


def test_a_time_window_is_its_start_and_its_end(write):
    data = bytes.fromhex("FFFFFFFFFFFFFFFF 00000000000003E8")

    assert data == write(TimeWindowSerializer(), TimeWindow(-1, 1000))
    assert TimeWindow(-1, 1000) == TimeWindowSerializer().deserialize(DataInputView(data))


def test_time_windows_sort_by_start_and_then_by_end():
    assert [TimeWindow(0, 9), TimeWindow(1, 2), TimeWindow(1, 3)] == sorted(
        [TimeWindow(1, 3), TimeWindow(1, 2), TimeWindow(0, 9)]
    )


@pytest.mark.parametrize("serializer", [VoidNamespaceSerializer(), GlobalWindowSerializer(), VoidSerializer()])
def test_what_has_no_content_is_the_byte_0_and_no_other(serializer):
    with pytest.raises(CorruptSavepoint, match="must be one byte 0, not 0x2a") as caught:
        serializer.deserialize(DataInputView(b"\x2a"))
    assert 0 == caught.value.where["offset"]


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (VoidNamespaceSerializer(), GlobalWindow()),
        (GlobalWindowSerializer(), VoidNamespace()),
        (TimeWindowSerializer(), (0, 1)),
        (TimeWindowSerializer(), TimeWindow(0, 2**63)),
        (TimeWindowSerializer(), TimeWindow(0.5, 1)),
        (VoidSerializer(), 0),
    ],
)
def test_other_values_are_refused(write, serializer, value):
    with pytest.raises(ValueNotConvertible):
        write(serializer, value)


def test_one_namespace_becomes_no_other():
    result = TimeWindowSerializer().ensure_compatibility(GlobalWindowSerializer().snapshot_configuration())

    assert result.is_incompatible()
    assert [("GlobalWindow", "TimeWindow")] == [(finding.old, finding.new) for finding in result.findings]
