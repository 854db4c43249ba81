import os

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, SavepointNotFound, UnknownSnapshot
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import read_stream_header
from stateshift.state.formats.flink.snappy import STREAM_HEADER, decompress
from stateshift.state.formats.flink.sources import InlineBytes, open_stream
from stateshift.state.storage.files import Folder


def read_all(handle, folder):
    with open_stream(handle, folder) as source:
        return source.read_at(0, source.size)


def test_a_handle_leads_to_the_bytes_wherever_they_are(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("state", b"bytes")

    assert read_all(InlineHandle("", b"bytes"), folder) == b"bytes"
    assert read_all(RelativeFileHandle("state", 5), folder) == b"bytes"
    assert read_all(AbsoluteFileHandle(f"file:{tmp_path}/state", 5), folder) == b"bytes"


def test_a_file_of_another_size_is_corrupt(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("state", b"byte")

    for handle in (RelativeFileHandle("state", 5), AbsoluteFileHandle(f"file:{tmp_path}/state", 5)):
        with pytest.raises(CorruptSavepoint, match="has 4 bytes and should have 5"):
            read_all(handle, folder)


def test_a_handle_must_not_lead_out_of_the_folder(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    folder = Folder.at(tmp_path / "savepoint")
    folder.create()

    for path in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(CorruptSavepoint, match="outside the folder"):
            read_all(RelativeFileHandle(path, 1), folder)


def test_a_missing_state_file_is_named(savepoint_copy, keyed_streams_of):
    folder = savepoint_copy("rocksdb-long-p2-m200-files")
    for file in folder.iterdir():
        if file.name != "_metadata":
            file.unlink()

    with pytest.raises(SavepointNotFound, match=r"the file .* is missing in "):
        list(keyed_streams_of(folder))


def test_an_unknown_serializer_is_reported_with_its_state(savepoint_of, keyed_streams_of):
    for _, _, handle, source in keyed_streams_of(savepoint_of("rocksdb-account-v1")):
        data = source.read_at(0, source.size)
        strange = InlineBytes(data.replace(b"PojoSerializerSnapshot", b"PojoSerializerSnapshoT"))

        with pytest.raises(UnknownSnapshot, match="PojoSerializerSnapshoT") as caught:
            read_stream_header(strange, handle)
        assert {"file", "state", "offset"} <= set(caught.value.where)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=50), st.integers(0, 5_000))
def test_what_was_compressed_comes_out_in_pieces(part, times):
    data = part * times + b"end"
    framed = bytes(cramjam.snappy.compress(data))
    pieces = list(decompress(InlineBytes(framed), 0, len(framed)))

    assert b"".join(pieces) == data


def test_a_long_stream_comes_in_pieces_of_two_mebibytes():
    framed = bytes(cramjam.snappy.compress(bytes(9 << 20)))
    sizes = [len(piece) for piece in decompress(InlineBytes(framed), 0, len(framed))]

    assert sum(sizes) == 9 << 20
    assert max(sizes) <= 2 << 20


def test_chunks_without_a_stream_header_are_read_as_well():
    framed = bytes(cramjam.snappy.compress(b"state"))[len(STREAM_HEADER) :]

    assert b"".join(decompress(InlineBytes(framed), 0, len(framed))) == b"state"


def test_a_compressed_stream_that_is_cut_off_anywhere_is_corrupt_or_shorter():
    framed = bytes(cramjam.snappy.compress(b"state" * 100))

    for size in range(len(STREAM_HEADER) + 1, len(framed)):
        with pytest.raises(CorruptSavepoint, match="cut off"):
            list(decompress(InlineBytes(framed), 0, size))


def test_a_chunk_that_claims_gigabytes_is_refused():
    raw = b"\xff\xff\xff\xff\x0f" + bytes(10)
    bomb = STREAM_HEADER + b"\0" + (len(raw) + 4).to_bytes(3, "little") + bytes(4) + raw

    with pytest.raises(CorruptSavepoint, match="damaged"):
        list(decompress(InlineBytes(bomb), 0, len(bomb)))


def test_a_local_file_is_gone_through_in_pieces_that_stay_in_a_cache(tmp_path):
    data = bytes(range(256)) * 2_500
    (tmp_path / "stream").write_bytes(data)
    with Folder.at(tmp_path).open_range("stream") as file:
        pieces = [bytes(piece) for piece in file.pieces()]

    assert [1 << 18, 1 << 18, len(data) - (2 << 18)] == [*map(len, pieces)]
    assert data == b"".join(pieces)


def test_a_file_system_that_gives_less_at_once_is_asked_again(tmp_path, monkeypatch):
    data = bytes(range(256)) * 1_000
    (tmp_path / "file").write_bytes(data)
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, at: whole(file, [buffers[0][:10_000]], at))

    with Folder.at(tmp_path).open_range("file") as file:
        assert data == b"".join(bytes(piece) for piece in file.pieces())


def test_pieces_of_a_local_file_take_no_memory_of_their_own(tmp_path):
    (tmp_path / "stream").write_bytes(bytes(range(256)) * 2_500)
    with Folder.at(tmp_path).open_range("stream") as file:
        addresses = {np.frombuffer(piece, np.uint8).ctypes.data for piece in file.pieces()}

    assert 1 == len(addresses)


def test_a_local_file_that_ends_early_is_reported(tmp_path):
    (tmp_path / "stream").write_bytes(bytes(1 << 19))
    with Folder.at(tmp_path).open_range("stream") as file:
        pieces = file.pieces()
        next(pieces)
        (tmp_path / "stream").write_bytes(bytes(300_000))
        with pytest.raises(CorruptSavepoint, match="262144 bytes were expected, but only 37856 are left"):
            next(pieces)
