"""What verify refuses is refused while it is migrated, however that is done: copied, relabelled, converted, rekeyed."""

from __future__ import annotations

import datetime as dt
import enum
import random
import shutil
from base64 import b85encode

import attrs
import pytest

from stateshift import (
    Compression,
    CorruptSavepoint,
    Edits,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    MigrationReport,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
)
from stateshift.state.formats.flink import keyed_stream
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.storage import files
from stateshift.state.storage.files import Folder
from stateshift.state.testing import migrate_in_process
from stateshift.state.transcode.executor_choice import VARIABLE


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Row:
    day: dt.date
    level: Level
    name: str


def job_of(number):
    return Job([Operator("o", key=str, states=[
        ValueStateDescriptor("row", Row), ValueStateDescriptor("number", number), MapStateDescriptor("map", str, Int32),
    ])])  # fmt: skip


OLD, NEW = job_of(Int32), job_of(int)
WAYS = {
    "copied": (OLD, MigrationOptions()),
    "relabelled": (None, MigrationOptions(edits=Edits(rename_states=(("row", "renamed"),)))),
    "compressed": (None, MigrationOptions(compression=Compression.SNAPPY)),
    "dealt out": (None, MigrationOptions(parallelism=3)),
    "beside": (NEW, MigrationOptions()),
    "rekeyed": (None, MigrationOptions(repartition=Repartition(max_parallelism=24))),
}
ROW, NUMBER, MAP = range(3)


@pytest.fixture
def written(tmp_path):
    """A savepoint of one stream, in a file, and without digests as Flink writes it."""
    chance = random.Random(1)  # noqa: S311 - no secret
    with SavepointWriter(tmp_path / "old", OLD, max_parallelism=8) as writer:
        for number in range(40):
            key, text = f"key{number}", b85encode(chance.randbytes(800)).decode()
            writer.put("o", "row", key, Row(dt.date(2020, 1, 1 + number % 28), Level.HIGH, f"name{text}"))
            writer.put("o", "number", key, number)
            writer.put("o", "map", key, {"a": 1, "b": number})
    (tmp_path / "old" / LINEAGE).unlink()
    return tmp_path / "old"


def edit(folder, change):
    """Put other blocks into the stream; `change` gets the pairs of key bytes and value bytes of each state."""
    metadata = read_metadata((folder / "_metadata").read_bytes())
    (operator,) = metadata.operators
    (subtask,) = operator.subtasks
    handle = subtask.managed_keyed
    with open_stream(handle.stream, Folder.at(folder)) as source:
        reader = KeyedStreamReader.open(source, handle)
        blocks = [Block.of(b.key_group, b.state_id, change(b.state_id, [*b.items()])) for b in reader.blocks()]
        data, offsets = write_keyed_stream(reader.header, handle.key_groups, blocks)
    (folder / handle.stream.path).write_bytes(data)
    stream = RelativeFileHandle(handle.stream.path, len(data))
    subtask = attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, offsets=offsets, stream=stream))
    metadata = attrs.evolve(metadata, operators=(attrs.evolve(operator, subtasks=(subtask,)),))
    (folder / "_metadata").write_bytes(write_metadata(metadata))


def first(wanted, change):
    """Change the first entry of a state of each key group."""
    return lambda state, items: [change(*items[0]), *items[1:]] if state == wanted else items


def put(data, at, more):
    at %= len(data) + 1
    return data[:at] + more + data[at + len(more) :]


DAMAGES = {
    "a void namespace of 1": first(NUMBER, lambda key, value: (put(key, len(key) - 1, b"\1"), value)),
    "day 99": first(ROW, lambda key, value: (key, put(value, 7, b"\x63"))),
    "ordinal 258": first(ROW, lambda key, value: (key, put(value, 9, b"\0\0\1\2"))),
    "a field that may not be null": first(ROW, lambda key, value: (key, put(value, 1, b"\1"))),
    "bytes behind a number": first(NUMBER, lambda key, value: (key, value + b"\0")),
    "a user key cut off": first(MAP, lambda key, value: (key[:-1], value)),
    "a null flag of 2": first(MAP, lambda key, value: (key, put(value, 0, b"\2"))),
    "another key": first(ROW, lambda key, value: (put(key, 4, b"Q"), value)),
    "the key of the next one": lambda _, items: [(items[1][0], items[0][1]), *items[1:]],
    "an entry twice": lambda _, items: [*items, items[0]],
}


VERIFIED_BY = {"day 99": "values", "a field that may not be null": "values"}
"""The checks that find a value which does not match its type, though its bytes end where they should."""


@pytest.mark.parametrize("executor", ["numba", "objects"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_verify_refuses_is_never_migrated(written, tmp_path, monkeypatch, damage, executor):
    if executor == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv(VARIABLE, executor)
    assert verify(Savepoint.open(written)).ok
    edit(written, DAMAGES[damage])

    failed = [check for check in verify(Savepoint.open(written)).checks if check.status is Outcome.FAILED]
    assert [VERIFIED_BY.get(damage, "key groups")] == [check.name for check in failed]
    for way, asked in WAYS.items():
        with pytest.raises(CorruptSavepoint) as caught:
            migrate_in_process(Savepoint.open(written), tmp_path / way, *asked)
        assert {"file", "operator"} <= caught.value.where.keys(), way
        assert not (tmp_path / way / "_metadata").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_key_that_comes_twice_is_found_where_a_key_group_comes_in_pieces(written, tmp_path, monkeypatch, way):
    monkeypatch.setattr(files, "_LOCAL_PIECE_BYTES", 500)
    monkeypatch.setattr(keyed_stream, "_WHOLE_BYTES", 500)
    edit(written, lambda _, items: [*items[1:], items[0]])
    assert migrate_in_process(Savepoint.open(written), tmp_path / "sound", *WAYS[way])
    edit(written, DAMAGES["an entry twice"])

    with pytest.raises(CorruptSavepoint, match=r"same key|two entries where it may have one"):
        migrate_in_process(Savepoint.open(written), tmp_path / "new", *WAYS[way])


def test_what_is_dropped_may_be_damaged(written, tmp_path):
    edit(written, DAMAGES["day 99"])
    options = MigrationOptions(edits=Edits(drop=("row",)))

    assert verify(migrate_in_process(Savepoint.open(written), tmp_path / "new", None, options)).ok


@pytest.mark.parametrize("inline", [True, False])
def test_elements_that_stay_are_read(tmp_path, inline):
    job = Job([Operator("o", list_states=[ListStateDescriptor("l", str), ListStateDescriptor("m", Int32)])])
    with SavepointWriter(tmp_path / "old", job) as writer:
        for number in range(9 if inline else 9000):
            writer.add("o", "l", "some text")
            writer.add("o", "m", number)
    (tmp_path / "old" / LINEAGE).unlink()
    file = next(file for file in (tmp_path / "old").iterdir() if b"some text" in file.read_bytes())
    file.write_bytes(file.read_bytes().replace(b"\x0asome text", b"\x0bsome text", 1))
    drop = MigrationOptions(edits=Edits(drop=("m",)))

    for at, asked in enumerate([(None, MigrationOptions()), (None, drop), (None, MigrationOptions(parallelism=2))]):
        with pytest.raises(CorruptSavepoint):
            migrate_in_process(Savepoint.open(tmp_path / "old"), tmp_path / str(at), *asked)


class TestDigests:
    @pytest.fixture
    def proven(self, written, tmp_path):
        """The same with digests, and where a value lies of which any other would do."""
        migrate_in_process(Savepoint.open(written), tmp_path / "proven", None, MigrationOptions(parallelism=2))
        file = next(file for file in sorted((tmp_path / "proven").iterdir()) if "keyed" in file.name)
        return tmp_path / "proven", file, file.read_bytes().rindex(b"name")

    @pytest.mark.parametrize("way", WAYS)
    def test_another_value_is_refused_however_the_file_is_read(self, proven, tmp_path, way):
        folder, file, at = proven
        sound = file.read_bytes()
        assert migrate_in_process(Savepoint.open(folder), tmp_path / "sound", *WAYS[way])
        file.write_bytes(sound[:at] + b"N" + sound[at + 1 :])

        with pytest.raises(CorruptSavepoint, match="digest differs") as caught:
            migrate_in_process(Savepoint.open(folder), tmp_path / "new", *WAYS[way])
        assert file.name == caught.value.where["file"]
        (folder / LINEAGE).unlink()
        assert verify(migrate_in_process(Savepoint.open(folder), tmp_path / "unseen", *WAYS[way])).ok

    def test_each_file_is_checked_by_one_of_the_tasks_that_read_it(self, proven):
        folder, _, _ = proven
        tasks = prepare(Savepoint.open(folder), None, MigrationOptions(parallelism=5)).tasks

        looked_at = [path for task in tasks for path in task.digests]
        assert len(tasks) == 5
        assert sorted(looked_at) == sorted(file.name for file in folder.iterdir() if "keyed" in file.name)

    @pytest.mark.parametrize("name", ["_metadata", "_serializers.json"])
    def test_another_file_next_to_the_streams_is_refused(self, tmp_path, name):
        job = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", str)])])
        with SavepointWriter(tmp_path / "old", job, store_serializers=True) as writer:
            writer.put("o", "s", 1, "some text")
        file = tmp_path / "old" / name
        file.write_bytes(file.read_bytes().replace(b"some text", b"Some text") if name == "_metadata" else b"{}")

        with pytest.raises(CorruptSavepoint, match="digest differs"):
            migrate_in_process(Savepoint.open(tmp_path / "old"), tmp_path / "new")

    def test_a_file_without_a_digest_in_the_lineage_is_refused(self, proven, tmp_path):
        folder, file, _ = proven
        text = (folder / LINEAGE).read_text()
        (folder / LINEAGE).write_text(text.replace(file.name, file.name + "x"))

        with pytest.raises(CorruptSavepoint, match="but not of"):
            migrate_in_process(Savepoint.open(folder), tmp_path / "new")

    def test_a_report_says_once_what_could_not_be_seen_without(self, proven, written):
        folder, _, _ = proven
        reports = []
        for place in (folder, written):
            ready = prepare(Savepoint.open(place), *WAYS["copied"])
            reports.append(MigrationReport.planned(ready.savepoint, ready.plan, "new", ready.tasks))

        assert "" == reports[0].unseen_damage
        assert reports[0].to_data()["unseen_damage"] is None
        assert "no digests" in reports[1].unseen_damage
        assert reports[1].to_data()["unseen_damage"] == reports[1].unseen_damage


@pytest.mark.parametrize("compressed", [False, True])
def test_a_stream_is_copied_as_it_is_whatever_its_order(written, tmp_path, compressed):
    if compressed:
        migrate_in_process(Savepoint.open(written), tmp_path / "c", *WAYS["compressed"])
        shutil.rmtree(written)
        (tmp_path / "c").rename(written)
        (written / LINEAGE).unlink()
    (task,) = prepare(Savepoint.open(written), *WAYS["copied"]).tasks
    (tmp_path / "new").mkdir()

    for alone in (True, False):
        stored = perform(task, Folder.at(written), Folder.at(tmp_path / "new"), is_one_of_many=alone).stored
        assert (written / task.stream.path).read_bytes() == (tmp_path / "new" / stored.attempt).read_bytes()


@pytest.mark.parametrize("more", [b"x", b"\0", bytes(100)])
def test_bytes_after_the_metadata_are_an_error_that_shows_where(written, more):
    file = written / "_metadata"
    data = file.read_bytes()
    file.write_bytes(data + more)

    with pytest.raises(CorruptSavepoint, match=f"{len(more)} bytes follow") as caught:
        Savepoint.open(written)
    assert (len(data), "_metadata") == (caught.value.where["offset"], caught.value.where["file"])
