"""Truncation is always reported as such, with the offset: `_metadata` at every length, streams at many."""

import attrs
import pytest

from stateshift import CorruptSavepoint
from stateshift.state.entry_keys import decode
from stateshift.state.formats.flink.entries import read_broadcast
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.meta_info import KEY_SERIALIZER
from stateshift.state.formats.flink.metadata import read_metadata
from stateshift.state.formats.flink.operator_stream import read_operator_stream
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.storage.files import Folder

EVERY_LENGTH = [
    ("2.3", "hashmap-account-v1"),
    ("2.3", "hashmap-kryo"),
    ("2.3", "hashmap-long-p2-m128-snappy"),
    ("2.3", "hashmap-native-string-snappy"),
    ("2.3", "hashmap-operator-only-p2-m128"),
    ("2.3", "rocksdb-long-p2-m200-files"),
    ("1.20", "hashmap-string-p2-m128-snappy"),
    ("1.20", "rocksdb-tuple-p2-m200-files"),
]
STREAMS = [
    "hashmap-long-p1-m128",
    "hashmap-long-p2-m128-snappy",
    "hashmap-native-string-snappy",
    "hashmap-operator-only-p2-m128",
    "rocksdb-windows-p1-m200",
]
CUTS = 200
"""Streams are cut at about so many places, besides their first and last bytes."""


@pytest.mark.parametrize(("version", "name"), EVERY_LENGTH)
def test_metadata_cut_off_at_any_byte_is_corrupt_and_shows_where(savepoint_of, version, name):
    data = (savepoint_of(name, version=version) / "_metadata").read_bytes()

    for size in range(len(data)):
        with pytest.raises(CorruptSavepoint) as caught:
            read_metadata(data[:size])
        offset = caught.value.where["offset"]
        assert 0 <= offset <= size, (size, str(caught.value))
        assert "_metadata" == caught.value.where["file"]


def lengths(size):
    """Some lengths of a stream: each of the first and last few, where headers and end marks are, and some between."""
    return sorted({*range(min(64, size)), *range(0, size, size // CUTS + 1), *range(max(size - 24, 0), size)})


@pytest.mark.parametrize("name", STREAMS)
def test_a_keyed_stream_that_is_cut_off_is_corrupt_and_shows_where(savepoint_of, keyed_streams_of, tmp_path, name):
    for operator, _, handle, source in keyed_streams_of(savepoint_of(name)):
        data = source.read_at(0, source.size)
        for size in lengths(len(data)):
            cut = attrs.evolve(handle, stream=InlineHandle("cut", data[:size]))
            with (
                pytest.raises(CorruptSavepoint) as caught,
                open_keyed(cut, Folder.at(tmp_path), operator.max_parallelism) as reader,
            ):
                for _ in reader.blocks():
                    pass
            assert 0 <= caught.value.where["offset"] <= size, (size, str(caught.value))


def read_all(source, handle):
    """Decode every element of an operator stream, as framing by offsets does not show that the last one is cut off."""
    stream = read_operator_stream(source, handle)
    for info in stream.header.states:
        value, key = info.value.restore_serializer(), info.snapshot(KEY_SERIALIZER)
        if key is not None:
            read_broadcast(stream.broadcast[info.name], key.restore_serializer(), value)
        for element in stream.elements.get(info.name, ()):
            decode(value, element)


@pytest.mark.parametrize("name", STREAMS)
def test_an_operator_stream_that_is_cut_off_is_corrupt(savepoint_of, operator_streams_of, name):
    for *_, handle, source in operator_streams_of(savepoint_of(name)):
        data = source.read_at(0, source.size)
        read_all(InlineBytes(data), handle)
        for size in lengths(len(data)):
            with pytest.raises(CorruptSavepoint) as caught:
                read_all(InlineBytes(data[:size]), handle)
            assert 0 <= caught.value.where["offset"] <= size, (size, str(caught.value))
