"""Keyed state written as files of a database, and read back from them."""

from __future__ import annotations

from hashlib import sha256

import attrs
import native_snapshots
import pytest

from stateshift import (
    CorruptSavepoint,
    Edits,
    IfTargetExists,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointFormatType,
    SavepointWriter,
    UnsupportedFormat,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from stateshift.state.formats.flink.properties import NATIVE_PROPERTIES
from stateshift.state.migration import migration, outputs
from stateshift.state.rocksdb import table_writer
from stateshift.state.savepoint.verify import verify

NATIVE = MigrationOptions(format=SavepointFormatType.NATIVE)
KEYS = range(2000)


def job(hint):
    return Job(
        [
            Operator(
                "op",
                key=int,
                states=[
                    ValueStateDescriptor("value", hint),
                    ListStateDescriptor("list", hint),
                    MapStateDescriptor("map", hint, str),
                    ValueStateDescriptor("empty", hint),
                ],
            )
        ]
    )


@pytest.fixture(scope="module")
def unordered(tmp_path_factory):
    """A savepoint of two subtasks with entries of several kinds of state, in the order of nothing."""
    place = tmp_path_factory.mktemp("outputs") / "savepoint"
    with SavepointWriter(place, job(Int32), parallelism=2, max_parallelism=4) as writer:
        for key in reversed(KEYS):
            writer.put("op", "value", key, -key)
            writer.put("op", "list", key, [key, 0])
            writer.put("op", "map", key, {-key: sha256(bytes([key % 251, key // 251])).hexdigest(), 5: "b"})
    return place


def contents(place):
    return {
        state.name: sorted(map(repr, state.read_entries()))
        for operator in Savepoint.open(place).operators
        for state in operator.states
        if state.kind.is_keyed
    }


def stored(place):
    return [subtask.managed_keyed for subtask in Savepoint.open(place).operator("op").stored.subtasks]


def test_it_has_the_same_entries_and_may_be_moved(unordered, tmp_path):
    report = migrate(unordered, tmp_path / "made", None, NATIVE)
    (tmp_path / "made").rename(tmp_path / "moved")

    found = Savepoint.open(tmp_path / "moved")
    assert contents(unordered) == contents(found.place)
    assert verify(found).ok
    assert NATIVE_PROPERTIES == found.metadata.properties
    assert report.bytes_written == sum(handle.size for handle in stored(found.place))
    assert any(isinstance(stream, RelativeFileHandle) for handle in stored(found.place) for stream in handle.streams)


def test_no_id_or_name_is_that_of_the_source(tmp_path):
    source = native_snapshots.snapshot("rocksdb-native-long-p2-m200")
    migrate(source, tmp_path / "made", None, MigrationOptions())

    before, after = (native_snapshots.keyed_handles(place) for place in (source, tmp_path / "made"))
    assert before.keys() == after.keys()
    for subtask, handle in after.items():
        assert {handle.backend_id, handle.handle_id}.isdisjoint({before[subtask].backend_id, before[subtask].handle_id})
        assert before[subtask].key_groups == handle.key_groups
    assert 2 * len(after) == len({one for handle in after.values() for one in (handle.backend_id, handle.handle_id)})


def test_what_is_in_no_order_is_sorted_however_little_fits_in_memory(unordered, monkeypatch, tmp_path):
    monkeypatch.setattr(outputs, "_HELD_BYTES", 5000)
    monkeypatch.setattr(table_writer, "_FILE_BYTES", 3_000)
    monkeypatch.setattr(table_writer, "_RUN_BYTES", 1_000)
    migrate(unordered, tmp_path / "made", job(int), NATIVE)

    assert contents(unordered) == contents(tmp_path / "made")
    assert verify(Savepoint.open(tmp_path / "made")).ok
    assert all(len(handle.shared) > 10 for handle in stored(tmp_path / "made"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_back_and_forth_is_what_it_was(unordered, tmp_path, parallelism):
    """Also at another parallelism: a native one keeps its own unless it is told another."""
    migrate(unordered, tmp_path / "native", None, attrs.evolve(NATIVE, parallelism=parallelism))
    migrate(tmp_path / "native", tmp_path / "kept", None)
    migrate(tmp_path / "kept", tmp_path / "back", None, MigrationOptions(format=SavepointFormatType.CANONICAL))

    formats = [Savepoint.open(tmp_path / name).operator("op").keyed_format for name in ("native", "kept", "back")]
    assert ["database", "database", "canonical"] == formats
    assert {parallelism} == {len(stored(tmp_path / name)) for name in ("native", "kept", "back")}
    assert contents(unordered) == contents(tmp_path / "back")


def test_absolute_names_are_of_the_target_and_go_with_it_when_it_is_replaced(unordered, tmp_path):
    absolute = attrs.evolve(NATIVE, absolute=True)
    migrate(unordered, tmp_path / "made", None, absolute)
    before = {path.name for path in (tmp_path / "made").iterdir()}

    named = [one.stream for handle in stored(tmp_path / "made") for one in handle.files]
    uris = {stream.uri for stream in named if isinstance(stream, AbsoluteFileHandle)}
    assert uris
    assert {f"file:{tmp_path}/made"} == {uri.rpartition("/")[0] for uri in uris}
    assert contents(unordered) == contents(tmp_path / "made")
    assert verify(Savepoint.open(tmp_path / "made")).ok

    migrate(unordered, tmp_path / "made", None, absolute, target_exists=IfTargetExists.REPLACE)
    after = {path.name for path in (tmp_path / "made").iterdir()}
    assert (len(before), {"_metadata", "_stateshift.json"}) == (len(after), before & after)
    assert contents(unordered) == contents(tmp_path / "made")


def test_a_failure_leaves_nothing(unordered, monkeypatch, tmp_path):
    monkeypatch.setattr(outputs, "write_manifest", lambda *_: 1 / 0)

    with pytest.raises(MigrationFailed, match="division"):
        migrate(unordered, tmp_path / "made", None, NATIVE)

    assert not (tmp_path / "made").exists()


def test_a_dead_run_is_resumed_with_its_files_and_not_with_damaged_ones(unordered, monkeypatch, tmp_path):
    def die(*_, **__):
        raise MigrationFailed("dies")

    again, resume = (unordered, tmp_path / "made", None, NATIVE), IfTargetExists.RESUME
    with monkeypatch.context() as patch:
        patch.setattr(migration, "publish_result", die)
        with pytest.raises(MigrationFailed):
            migrate(*again, target_exists=resume)
    tables = [path for path in (tmp_path / "made").iterdir() if "-table-" in path.name]
    assert tables
    tables[0].write_bytes(b"x" * tables[0].stat().st_size)

    report = migrate(*again, target_exists=resume)

    assert (1, 1) == (report.resumed, len(report.redone))
    assert contents(unordered) == contents(tmp_path / "made")
    assert {"_metadata", "_stateshift.json"} | {
        stream.path for handle in stored(tmp_path / "made") for stream in handle.streams if hasattr(stream, "path")
    } == {path.name for path in (tmp_path / "made").iterdir()}


def test_damage_of_what_was_written_is_found(unordered, tmp_path):
    migrate(unordered, tmp_path / "made", None, NATIVE)
    table = next(path for path in sorted((tmp_path / "made").iterdir()) if "-table-" in path.name)
    data = bytearray(table.read_bytes())
    data[100] ^= 1
    table.write_bytes(data)

    assert not verify(Savepoint.open(tmp_path / "made")).ok
    with pytest.raises(CorruptSavepoint):
        contents(tmp_path / "made")


def test_files_that_may_only_be_on_level_0_are_refused(tmp_path):
    folder = native_snapshots.copied("rocksdb-native-long-p2-m200", tmp_path / "copy")
    for subtask in (0, 1):
        database = native_snapshots.unpacked(folder, tmp_path / f"database-{subtask}", subtask)
        (options,) = database.glob("OPTIONS-*")
        text = options.read_text(encoding="utf-8").replace("kCompactionStyleLevel", "kCompactionStyleFIFO")
        options.write_text(text, encoding="utf-8")
        native_snapshots.repacked(folder, database, subtask)

    for options in (MigrationOptions(parallelism=3), MigrationOptions(repartition=Repartition(max_parallelism=128))):
        for dry_run in (True, False):
            with pytest.raises(UnsupportedFormat, match="compaction FIFO"):
                migrate(folder, tmp_path / "made", None, options, dry_run=dry_run)
    assert not (tmp_path / "made").exists()
    migrate(folder, tmp_path / "kept", None, MigrationOptions(edits=Edits(drop=("counts",))))
    assert verify(Savepoint.open(tmp_path / "kept")).ok
    migrate(folder, tmp_path / "made", None, MigrationOptions(format=SavepointFormatType.CANONICAL))
