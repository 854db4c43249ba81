"""Timers: bytes that sort as the timestamps do, and verdicts composed of key and namespace."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    Timer,
    TimeWindow,
    ValueNotConvertible,
    Verdict,
)
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.flink.namespaces import (
    VOID_NAMESPACE,
    TimerSerializer,
    TimerSerializerSnapshot,
    TimeWindowSerializer,
    VoidNamespaceSerializer,
)
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.snapshot import SkippedSnapshot

OF_INTS = TimerSerializer(IntSerializer(), VoidNamespaceSerializer())
OF_LONGS = TimerSerializer(LongSerializer(), VoidNamespaceSerializer())
OF_STRINGS = TimerSerializer(StringSerializer(), TimeWindowSerializer())
TIMESTAMPS = st.integers(-(2**63), 2**63 - 1)


def test_the_sign_bit_of_the_timestamp_is_flipped(write):
    assert bytes.fromhex("80000000000003E8 0000000000000007 00") == write(OF_LONGS, Timer(1000, 7, VOID_NAMESPACE))
    assert bytes.fromhex("7FFFFFFFFFFFFFFF 0000000000000007 00") == write(OF_LONGS, Timer(-1, 7, VOID_NAMESPACE))


@given(TIMESTAMPS, TIMESTAMPS)
def test_bytes_sort_as_timestamps_do(write, one, other):
    data = [write(OF_LONGS, Timer(timestamp, 0, VOID_NAMESPACE)) for timestamp in (one, other)]

    assert (one < other) == (data[0] < data[1])


@pytest.mark.parametrize(("serializer", "length"), [(OF_LONGS, 16), (OF_INTS, 12), (OF_STRINGS, -1)])
def test_the_declared_length_is_the_sum_of_the_declared_ones(serializer, length):
    assert length == serializer.length


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Timer("soon", "k", TimeWindow(0, 1)), None),
        (Timer(2**63, "k", TimeWindow(0, 1)), None),
        (Timer(0, 5, TimeWindow(0, 1)), "$<key>"),
        (Timer(0, "k", VOID_NAMESPACE), "$<namespace>"),
        ((0, "k", TimeWindow(0, 1)), None),
    ],
)
def test_what_does_not_fit_is_refused_with_its_part(write, value, path):
    with pytest.raises(ValueNotConvertible) as caught:
        write(OF_STRINGS, value)
    assert path == caught.value.where.get("path")


def test_bytes_that_do_not_fit_are_refused_with_their_part():
    with pytest.raises(CorruptSavepoint) as caught:
        OF_LONGS.deserialize(DataInputView(bytes(16) + b"\x07"))
    assert "$<namespace>" == caught.value.where["path"]


def test_equal_parts_are_compatible():
    assert CompatibilityResult.compatible() == OF_LONGS.ensure_compatibility(OF_LONGS.snapshot_configuration())


def test_a_key_that_widens_is_found_at_its_path_and_converted():
    result = OF_LONGS.ensure_compatibility(OF_INTS.snapshot_configuration())

    assert Verdict.REQUIRES_MIGRATION is result.verdict
    assert [("$<key>", "PRIM-2")] == [(finding.path, finding.rule) for finding in result.findings]
    assert result.conversion is None


def test_a_key_that_changes_its_form_is_converted_in_place():
    old = TimerSerializer(StringSerializer(), VoidNamespaceSerializer())
    new = TimerSerializer(BytesSerializer(), VoidNamespaceSerializer())
    result = new.ensure_compatibility(old.snapshot_configuration())

    convert = pickle.loads(pickle.dumps(result.conversion))
    assert Timer(5, b"k", VOID_NAMESPACE) == convert(Timer(5, "k", VOID_NAMESPACE))


def test_every_part_that_does_not_fit_is_found():
    result = OF_LONGS.ensure_compatibility(OF_STRINGS.snapshot_configuration())

    assert result.is_incompatible()
    assert ["$<key>", "$<namespace>"] == [finding.path for finding in result.findings]


def test_checking_restores_nothing():
    unreadable = TimerSerializerSnapshot(
        (SkippedSnapshot("stateshift/gone"), VoidNamespaceSerializer().snapshot_configuration())
    )

    assert OF_LONGS.ensure_compatibility(unreadable).is_incompatible()


def test_timers_become_nothing_else():
    assert LongSerializer().ensure_compatibility(OF_LONGS.snapshot_configuration()).is_incompatible()
    assert OF_LONGS.ensure_compatibility(LongSerializer().snapshot_configuration()).is_incompatible()
