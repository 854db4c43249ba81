"""Places that a stored file names: nobody is contacted there to whom the user has not sent us."""

from __future__ import annotations

import socket
import threading

import attrs
import pytest
from object_store import s3, upload  # noqa: F401 - fixtures
from streaming_batches import BACKENDS
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint
from stateshift.serializers.errors import DeclarationError, UntrustedPlace
from stateshift.spark.streaming.ownership import owned
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.spark.streaming.taken_offsets import TakenOffsets
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.directory.garbage import collect
from stateshift.state.directory.rewind import rewind
from stateshift.state.formats.flink.roots import stored_place
from stateshift.state.formats.spark.commit_log import CheckpointNote, write_note
from stateshift.state.storage.files import Folder

S3, HDFS = "s3://bucket/state?endpoint_override=minio:9000&scheme=http", "hdfs://namenode:8020/state"


@pytest.mark.parametrize(
    ("stored", "typed", "expected"),
    [
        ("/data/checkpoint", "/data/state", "/data/checkpoint"),
        ("/data/checkpoint", S3, "/data/checkpoint"),
        ("file:///data/checkpoint", "/data/state", "/data/checkpoint"),
        ("s3://bucket/ck", S3, "s3://bucket/ck?endpoint_override=minio:9000&scheme=http"),
        ("s3a://other/ck", S3, "s3a://other/ck?endpoint_override=minio:9000&scheme=http"),
        ("s3://bucket/ck?endpoint_override=evil:1", S3, "s3://bucket/ck?endpoint_override=minio:9000&scheme=http"),
        ("s3://bucket/ck?endpoint_override=evil:1", "s3://bucket/state", "s3://bucket/ck"),
        ("hdfs://namenode:8020/ck", HDFS, "hdfs://namenode:8020/ck"),
    ],
)
def test_options_come_from_the_place_that_was_typed(stored, typed, expected):
    assert expected == stored_place(stored, Folder.at(typed)).place


@pytest.mark.parametrize(
    ("stored", "typed"),
    [
        ("s3://bucket/ck?endpoint_override=evil:1", "/data/state"),
        ("hdfs://evil:8020/ck", HDFS),
        ("hdfs://evil:8020/ck", S3),
        ("abfs://c@evil.dfs.core.windows.net/ck", "abfs://c@mine.dfs.core.windows.net/state"),
    ],
)
def test_another_store_is_refused_unless_it_is_allowed(stored, typed):
    folder = Folder.at(typed)
    with pytest.raises(UntrustedPlace, match="which is in another store") as refused:
        stored_place(stored, folder)
    assert "evil:1" not in str(refused.value) or stored.startswith("hdfs")
    root = stored.partition("?")[0].rpartition("/")[0] + "?scheme=http" * stored.startswith("s3")
    allowed = stored_place(stored, attrs.evolve(folder, roots=(root,)))
    assert "evil:1" not in allowed.place
    assert allowed.place.endswith("/ck" + "?scheme=http" * stored.startswith("s3"))


@pytest.fixture
def listener():
    """A server that counts who connects; its address is in what the files of a state directory name."""
    calls, server = [], socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            calls.append(connection.recv(10_000))
            connection.close()

    threading.Thread(target=accept, daemon=True).start()
    yield f"s3://bucket/checkpoint?endpoint_override=127.0.0.1:{server.getsockname()[1]}&scheme=http", calls
    server.close()


def test_a_state_directory_sends_nobody_a_request(tmp_path, listener, monkeypatch):
    place, calls = listener
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    engine = totals(tmp_path / "state", BACKENDS["hashmap"])
    engine.batch(visits(ann=1))
    attrs.evolve(engine.directory, checkpoint=place).write_facts()
    directory = StateDirectory.open(Folder.at(tmp_path / "state"))
    position = {
        "checkpoint": place,
        "batch": 0,
        "offsets": 'v1\n{"conf":{}}\n{"logOffset":0}',
        "sources": ["FileSource[x]"],
    }

    for attempt in (
        lambda: Savepoint.open(tmp_path / "state"),
        lambda: take_savepoint(tmp_path / "state", tmp_path / "savepoint"),
        lambda: collect(directory, older_than_h=0),
        lambda: rewind(tmp_path / "state", tmp_path / "copy", tmp_path / "back"),
    ):
        with pytest.raises(UntrustedPlace, match=r'allow_roots=\["s3://bucket/checkpoint"\]'):
            attempt()
    with pytest.raises(DeclarationError, match="which is in another store"):
        list(TakenOffsets(Folder.at(tmp_path / "new"), position).logs(1))
    state, checkpoint = directory.folder.place, str(engine.checkpoint)
    for note in (CheckpointNote(directory.id, place, checkpoint), CheckpointNote(directory.id, state, place)):
        write_note(Folder.at(checkpoint), note)
        assert directory.id == owned(directory.folder, Folder.at(checkpoint)).id
    assert [] == calls


def test_a_directory_on_a_store_whose_file_names_another_address_of_it_still_opens(tmp_path, upload):  # noqa: F811
    engine = totals(tmp_path / "state", BACKENDS["hashmap"])
    engine.batch(visits(ann=1))
    checkpoint = upload(engine.checkpoint, f"{tmp_path.name}-checkpoint")
    stored = checkpoint.partition("?")[0] + "?endpoint_override=127.0.0.1:1&scheme=http"
    attrs.evolve(engine.directory, checkpoint=stored).write_facts()

    assert {"ann": 1} == totals_in(Savepoint.open(upload(tmp_path / "state", f"{tmp_path.name}-state")))
