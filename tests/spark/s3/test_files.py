"""Files of a folder on a real S3-compatible server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stateshift import CorruptSavepoint, SavepointNotFound, StorageFailed
from stateshift.state.storage.files import Folder, read_file


def test_a_folder_is_written_listed_renamed_and_cleared(s3):
    folder = Folder.at(s3.place("files"))
    folder.create()
    folder.write("a", b"0123456789")
    folder.write("a", b"9876543210")
    folder.rename("a", "b")
    with folder.output("c") as stream:
        stream.write(bytes(11 << 20))  # more than one part of an upload

    assert folder.names() == ("b", "c")
    assert folder.read("b") == b"9876543210"
    assert folder.size("c") == 11 << 20
    assert folder.folder("inside").place == s3.place("files/inside")
    assert read_file(s3.place("files/b"), most_bytes=10) == b"9876543210"
    with folder.open_range("b") as reader:
        assert reader.read_at(3, 4) == b"6543"
    with pytest.raises(CorruptSavepoint, match="outside the folder"):
        folder.read("../ready")

    folder.delete("b")
    folder.delete("b")
    folder.delete_empty()  # keeps what has come meanwhile, here a file

    assert folder.names() == ("c",)
    with pytest.raises(SavepointNotFound, match="there is no file b"):
        folder.read("b")


def test_a_file_that_is_written_whole_is_never_seen_under_another_name(s3):
    """There is no rename on such a store: files with an attempt's name would be left behind."""
    folder = Folder.at(s3.place("whole"))
    script = f"""
import os, signal
from stateshift.state.storage.files import Folder, FileOutput

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

FileOutput.close = kill
Folder.at({folder.place!r}).write("_metadata", b"x" * 1000)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)

    assert killed.returncode < 0
    assert not folder.exists("_metadata")
    folder.write("_metadata", b"x" * 1000)
    assert folder.names() == ("_metadata",)


def test_a_large_file_is_renamed_by_copying_it_in_pieces(s3, monkeypatch):
    """A store copies files of up to 5 GiB itself."""
    monkeypatch.setattr("stateshift.state.storage.files._LARGEST_COPY", 1000)
    folder = Folder.at(s3.place("large"))
    data = bytes(range(256)) * 40
    folder.write("a", data)

    folder.rename("a", "b")

    assert folder.names() == ("b",)
    assert folder.read("b") == data


def test_a_bucket_that_is_not_there_is_reported_with_what_to_do(s3):
    folder = Folder.at(s3.place("sp", bucket="nowhere"))

    for act in (folder.names, folder.create, lambda: folder.write("a", b"x")):
        with pytest.raises(StorageFailed, match=r"^the bucket does not exist") as caught:
            act()

        assert "create the bucket first" in caught.value.advice


WRONG = """
import sys
from stateshift.state.storage.files import Folder
from stateshift.serializers.errors import StateShiftError
for act in (lambda folder: folder.names(), lambda folder: folder.read("a"), lambda folder: folder.write("a", b"x")):
    try:
        act(Folder.at(sys.argv[1]))
    except StateShiftError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("key", ["tests-access", "somebody-else"])
def test_wrong_credentials_are_reported_and_not_shown(s3, secret, monkeypatch, key):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-hidden-secret")

    told = subprocess.run(
        [sys.executable, "-c", WRONG, s3.place("files")], capture_output=True, text=True, check=True
    ).stdout

    assert told.count("StorageFailed the store rejects the credentials") == 3
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in told
    assert "hidden-secret" not in told
    assert secret not in told


@pytest.mark.parametrize(
    "uri",
    [
        "s3://access:hidden@bucket/sp",
        "s3://bucket/sp?secret_key=hidden",
        "abfs://account/sp?sas_token=hidden",
        "hdfs://user:hidden@host/sp",
    ],
)
def test_a_uri_with_credentials_is_refused_without_showing_them(uri):
    with pytest.raises(StorageFailed, match="contains credentials") as caught:
        Folder.at(uri)

    assert "hidden" not in str(caught.value)
