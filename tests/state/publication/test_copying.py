"""A stream that stays as it is arrives byte for byte, with its digest, or leaves nothing."""

import pytest

from stateshift import CorruptSavepoint, StorageFailed
from stateshift.state.formats.flink.handles import RelativeFileHandle
from stateshift.state.formats.flink.sources import InlineBytes, open_stream
from stateshift.state.publication.lineage import FileDigest
from stateshift.state.publication.sink import copied_stream
from stateshift.state.storage.files import Folder

DATA = bytes(range(256)) * 12_000
SIZE = len(DATA)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "stream").write_bytes(DATA)
    return Folder.at(tmp_path / "source")


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    return Folder.at(tmp_path / "target")


def copied(source, target, size=SIZE):
    with open_stream(RelativeFileHandle("stream", size), source) as stream:
        return copied_stream(stream, target, "name")


def test_a_file_is_copied_with_its_digest_under_an_attempts_name(source, target):
    stored = copied(source, target)

    assert ("name", len(DATA), FileDigest.of(DATA)) == (stored.name, stored.size, stored.digest)
    assert stored.attempt.startswith("name.attempt-")
    assert (stored.attempt,) == target.names()
    assert DATA == target.read(stored.attempt)


@pytest.mark.parametrize("data", [b"", b"a", DATA], ids=["empty", "one byte", "pieces"])
def test_what_is_no_file_is_copied_in_pieces(target, data):
    stored = copied_stream(InlineBytes(data), target, "name")

    assert (len(data), FileDigest.of(data) if data else None) == (stored.size, stored.digest)
    assert data == (target.read(stored.attempt) if data else stored.data)


def test_an_empty_file_needs_none(source, target):
    source.write("stream", b"")

    assert b"" == copied(source, target, 0).data


def test_of_a_file_that_grows_meanwhile_what_was_there_is_copied(tmp_path, source, target):
    with open_stream(RelativeFileHandle("stream", len(DATA)), source) as stream:
        with (tmp_path / "source" / "stream").open("ab") as more:
            more.write(b"x")
        stored = copied_stream(stream, target, "name")

    assert (FileDigest.of(DATA), DATA) == (stored.digest, target.read(stored.attempt))


def test_a_file_that_shrinks_meanwhile_is_reported_and_leaves_nothing(tmp_path, source, target):
    with open_stream(RelativeFileHandle("stream", len(DATA)), source) as stream:
        (tmp_path / "source" / "stream").write_bytes(DATA[:-1])
        with pytest.raises(CorruptSavepoint, match="bytes were expected") as caught:
            copied_stream(stream, target, "name")

    assert "stream" == caught.value.where["file"]
    assert () == target.names()


def test_a_folder_that_is_gone_is_a_failure_of_the_store(source, tmp_path):
    with pytest.raises(StorageFailed, match="the folder to write to does not exist"):
        copied(source, Folder.at(tmp_path / "gone"))


@pytest.mark.usefixtures("source", "files_of_two_megabytes")
def test_a_file_that_does_not_fit_is_reported_and_leaves_nothing(source, target):
    with pytest.raises(StorageFailed, match="large"):
        copied(source, target)
    assert () == target.names()
