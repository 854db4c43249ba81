import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift import CorruptSavepoint, SavepointNotFound, StorageFailed
from stateshift.state.formats.flink.handles import AbsoluteFileHandle
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.storage.files import Folder


def test_a_file_is_read_as_it_was_written(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("state", b"0123456789")

    assert folder.read("state") == b"0123456789"
    assert folder.size("state") == 10
    assert folder.names() == ("state",)
    with folder.open_range("state") as reader:
        assert reader.read_at(3, 4) == b"3456"
        assert reader.size == 10


@pytest.mark.parametrize(("offset", "size"), [(8, 3), (11, 0), (-1, 2), (0, -1), (0, 1 << 60)])
def test_a_read_past_the_end_is_refused_before_anything_is_allocated(tmp_path, offset, size):
    folder = Folder.at(tmp_path)
    folder.write("state", b"0123456789")

    with folder.open_range("state") as reader, pytest.raises(CorruptSavepoint, match="are left") as caught:
        reader.read_at(offset, size)

    assert caught.value.where["file"] == "state"


def test_a_missing_file_says_which_one_and_where(tmp_path):
    folder = Folder.at(tmp_path)

    for act in (folder.read, folder.size, lambda name: folder.copy(name, folder)):
        with pytest.raises(SavepointNotFound, match="gone") as caught:
            act("gone")

        assert caught.value.where["savepoint"] == str(tmp_path)
    with pytest.raises(SavepointNotFound, match="the folder does not exist"):
        folder.folder("gone").names()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", ".", "a//b", "a\0b", ".."])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    folder = Folder.at(tmp_path / "inside")
    folder.create()

    for act in (folder.read, folder.delete, folder.folder, lambda bad: folder.write(bad, b"")):
        with pytest.raises(CorruptSavepoint, match="outside the folder"):
            act(name)


def test_the_same_folder_is_reached_by_path_and_by_uri(tmp_path):
    odd = tmp_path / "a b%20#c"
    folder = Folder.at(odd)
    folder.create()
    folder.write("state", b"x")
    escaped = str(odd).replace("%", "%25").replace(" ", "%20").replace("#", "%23")

    assert Folder.at(f"file://{escaped}").read("state") == b"x"
    assert Folder.at(f"file:{escaped}") == folder
    with open_stream(AbsoluteFileHandle(f"file:{escaped}/state", 1), folder) as reader:
        assert reader.read_at(0, 1) == b"x"


def test_an_unknown_store_is_an_error_of_ours():
    with pytest.raises(StorageFailed, match=r"this kind of store is not supported.*ftp"):
        Folder.at("ftp://host/folder").names()


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert Folder.at("x") == Folder.at(tmp_path / "x")


def test_a_folder_pickles_and_opens_again(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("state", b"x")

    assert pickle.loads(pickle.dumps(folder)).read("state") == b"x"


def test_a_write_that_fails_leaves_neither_file_nor_attempt(tmp_path):
    folder = Folder.at(tmp_path)
    (tmp_path / "taken" / "inside").mkdir(parents=True)

    with pytest.raises(StorageFailed):
        folder.write("taken", b"x")

    assert folder.names() == ("taken",)


def test_a_write_replaces_what_was_there(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("state", b"old")
    folder.write("state", b"new")

    assert folder.read("state") == b"new"
    assert folder.names() == ("state",)


def test_a_stream_counts_what_it_wrote(tmp_path):
    folder = Folder.at(tmp_path)
    with folder.output("state") as stream:
        stream.write(b"abc")
        stream.write(b"de")

        assert stream.size == 5

    assert folder.read("state") == b"abcde"


def test_a_copy_has_the_same_bytes(tmp_path):
    data = bytes(range(256)) * 20_000
    source, target = Folder.at(tmp_path / "a"), Folder.at(tmp_path / "b")
    source.create()
    target.create()
    source.write("state", data)

    assert len(data) == source.copy("state", target, "copied")
    assert data == target.read("copied")


def test_files_are_renamed_and_deleted(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("a", b"x")
    folder.rename("a", "b")

    assert not folder.exists("a")
    assert folder.exists("b")

    folder.delete("b")
    folder.delete("b")

    assert folder.names() == ()

    folder.delete_empty()

    assert not folder.exists()


def test_no_two_attempts_share_a_name():
    folder = Folder("/nowhere", run="0123456789ab")
    assert folder.attempt_name("state") != folder.attempt_name("state")
    assert folder.attempt_name("state").startswith("state.attempt-0123456789ab-")


def test_free_space_is_reported_for_a_folder_that_does_not_exist_yet(tmp_path):
    assert Folder.at(tmp_path / "x" / "y").free_space_bytes() > 0
    assert Folder.at("s3://bucket/x").free_space_bytes() is None


def test_importing_the_module_does_not_load_pyarrow(tmp_path):
    code = "import sys, stateshift.state.storage.files; print('pyarrow' in sys.modules)"

    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True) == "False\n"


def test_a_symbolic_link_to_a_savepoint_is_followed(tmp_path):
    folder = Folder.at(tmp_path / "real")
    folder.create()
    folder.write("state", b"x")
    Path(tmp_path / "link").symlink_to(tmp_path / "real")

    assert Folder.at(tmp_path / "link").read("state") == b"x"


@pytest.mark.parametrize("place", ["file:///data/a#b/sp", "file:/data/a#b", "s3://bucket/a#b/sp", "s3a://bucket/#"])
def test_what_is_after_a_fragment_would_be_another_place(place):
    """Of these a store, and Java, take what is before the `#`: the folder `a`."""
    with pytest.raises(StorageFailed, match="has a #, and what follows it is not part of the path") as refused:
        Folder.at(place)

    assert "%23" in refused.value.advice
    assert Folder.at("file:///data/a%23b").place == "/data/a#b"
