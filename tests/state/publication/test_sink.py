"""A stream stays in memory while it is small, and is one attempt's file otherwise."""

import pytest

from stateshift import StorageFailed
from stateshift.state.publication.lineage import FileDigest
from stateshift.state.publication.sink import StoredBytes, StreamSink
from stateshift.state.storage.files import Folder


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("pieces", [[], [b"ab"], [b"a", b"b", b"cdefgh"], [b"abcdefgh"]])
def test_what_fits_is_kept_in_memory(tmp_path, pieces):
    with StreamSink(Folder.at(tmp_path), "name", inline_bytes=8) as sink:
        for piece in pieces:
            sink.write(piece)
        stored = sink.finish()

    data = b"".join(pieces)
    assert StoredBytes("name", len(data), data=data) == stored
    assert {} == files(tmp_path)


@pytest.mark.parametrize("pieces", [[b"abcdefghi"], [b"abcdefgh", b"i"], [b"a"] * 9, [b"", b"abcdefghi", b""]])
def test_what_does_not_fit_is_a_file_of_this_attempt(tmp_path, pieces):
    with StreamSink(Folder.at(tmp_path), "name", inline_bytes=8) as sink:
        for piece in pieces:
            assert len(piece) == sink.write(piece)
        stored = sink.finish()

    data = b"".join(pieces)
    assert ("name", 9, None, FileDigest.of(data)) == (stored.name, stored.size, stored.data, stored.digest)
    assert stored.attempt.startswith("name.attempt-")
    assert {stored.attempt: data} == files(tmp_path)


def test_two_attempts_have_two_files(tmp_path):
    attempts = []
    for _ in range(2):
        with StreamSink(Folder.at(tmp_path), "name", inline_bytes=0) as sink:
            sink.write(b"a")
            attempts.append(sink.finish().attempt)

    assert sorted(attempts) == sorted(files(tmp_path))
    assert 2 == len(set(attempts))


@pytest.mark.parametrize("size", [1, 100])
def test_a_failing_block_leaves_nothing(tmp_path, size):
    def fail():
        with StreamSink(Folder.at(tmp_path), "name", inline_bytes=8) as sink:
            sink.write(bytes(size))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert {} == files(tmp_path)


def test_a_store_that_fails_is_reported(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    sink = StreamSink(Folder.at(tmp_path / "file"), "name", inline_bytes=0)

    with pytest.raises(StorageFailed), sink:
        sink.write(b"a")


LARGE = [bytes([number]) * 300_000 for number in range(12)]


def test_a_large_stream_is_hashed_and_written_in_its_order(tmp_path):
    with StreamSink(Folder.at(tmp_path), "name") as sink:
        for piece in LARGE:
            sink.write(piece)
            sink.write(memoryview(piece)[:1])
        stored = sink.finish()

    data = b"".join(piece + piece[:1] for piece in LARGE)
    assert (len(data), FileDigest.of(data)) == (stored.size, stored.digest)
    assert {stored.attempt: data} == files(tmp_path)


@pytest.mark.usefixtures("files_of_two_megabytes")
def test_a_failed_write_by_a_thread_is_reported(tmp_path):
    def write():
        with StreamSink(Folder.at(tmp_path), "name") as sink:
            for piece in LARGE:
                sink.write(piece)
            sink.finish()

    with pytest.raises(StorageFailed, match="large"):
        write()
    assert {} == files(tmp_path)
