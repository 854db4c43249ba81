"""What one task does: entries converted, proven and counted, and a failure reported with its place."""

import threading
import time
from typing import Annotated, Any, ClassVar

import attrs
import pytest

from stateshift import (
    BigInt,
    CorruptSavepoint,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    Operator,
    Savepoint,
    SavepointWriter,
    TypeSerializer,
    UnsupportedFormat,
    ValueNotConvertible,
    ValueStateDescriptor,
    check,
    register_snapshot,
    serializer_for,
)
from stateshift.compat.planner import plan
from stateshift.serializers.primitives.numeric import LongSerializer, LongSerializerSnapshot
from stateshift.state import runner
from stateshift.state.entry_keys import encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import InlineHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.migration.run import split
from stateshift.state.migration.run_task import perform
from stateshift.state.migration.tasks import CopyTask, KeyedTask, OperatorTask
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.publication.publish import INLINE_BYTES
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.numba_executor import NumbaExecutor


def one_state(descriptor, **options):
    return Job([Operator("op", key=int, states=[descriptor], **options)])


def written(folder, job, values, *, parallelism=1):
    with SavepointWriter(folder, job, parallelism=parallelism) as writer:
        for key, value in values.items():
            writer.put("op", "s", key, value)
    return Savepoint.open(folder)


def tasks_for(savepoint, job, **options):
    return split(savepoint, plan(check(savepoint.describe(), job.describe())), **options)


def values_of(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("op").state("s").read_entries()}


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        (
            ValueStateDescriptor("s", Int32),
            ValueStateDescriptor("s", int),
            {1: 5, 2: -(2**31)},
            {1: 5, 2: -(2**31)},
        ),
        (
            ListStateDescriptor("s", Int32),
            ListStateDescriptor("s", BigInt),
            {1: [0x2C, 1], 2: [0x2C2C2C2C]},
            {1: [0x2C, 1], 2: [0x2C2C2C2C]},
        ),
        (
            MapStateDescriptor("s", str, Int32),
            MapStateDescriptor("s", str, float),
            {1: {"a": 5}},
            {1: {"a": 5.0}},
        ),
        (
            MapStateDescriptor("s", Int32, str),
            MapStateDescriptor("s", BigInt, str),
            {1: {5: "a", -6: "b"}},
            {1: {5: "a", -6: "b"}},
        ),
        (
            MapStateDescriptor("s", Int32, Int32, nullable_values=True),
            MapStateDescriptor("s", int, int, nullable_values=True),
            {1: {5: None, -6: 7}},
            {1: {5: None, -6: 7}},
        ),
    ],
)
def test_entries_of_every_kind_are_converted(tmp_path, migrate, old, new, values, expected):
    written(tmp_path / "old", one_state(old), values)

    found = migrate(tmp_path / "old", tmp_path / "new", one_state(new))
    assert expected == values_of(found)


def test_a_state_with_namespaces_keeps_them(tmp_path, migrate):
    old, new = (
        Job([Operator("op", key=str, states=[MapStateDescriptor("s", str, hint, namespace=str)])])
        for hint in (Int32, int)
    )
    with SavepointWriter(tmp_path / "old", old) as writer:
        for key in ("", "k" * 300):
            for space in ("", "n" * 300):
                writer.put("op", "s", key, {"": 1, "u": 2}, namespace=space)
    migrate(tmp_path / "old", tmp_path / "new", new)

    before, after = (
        {
            (e.key, e.namespace): e.value
            for e in Savepoint.open(tmp_path / name).operator("op").state("s").read_entries()
        }
        for name in ("old", "new")
    )
    assert before == after
    assert 4 == len(after)


@pytest.fixture
def task_that_fails(tmp_path):
    """bytes that are no text, to be text: the second key fails."""
    job = one_state(ValueStateDescriptor("s", bytes))
    savepoint = written(tmp_path / "old", job, {1: b"fine", 2: b"\xff\xfe", 3: b"fine"})
    (task,) = tasks_for(savepoint, one_state(ValueStateDescriptor("s", str)))
    return savepoint, task


def test_a_failing_value_is_reported_with_state_key_path_and_rule_run_4(task_that_fails, tmp_path):
    savepoint, task = task_that_fails

    with pytest.raises(ValueNotConvertible) as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    where = caught.value.where
    assert {"operator": "op", "state": "s", "key": "2", "path": "$", "rule": "TEXT-2"} == {
        name: where[name] for name in ("operator", "state", "key", "path", "rule")
    }
    assert where["savepoint"] == savepoint.place
    assert "_metadata" in where["file"]
    assert "offset" not in where  # one within a block would not be a place in the file


def test_a_failing_task_leaves_no_file(tmp_path):
    job = one_state(ValueStateDescriptor("s", bytes))
    many = dict.fromkeys(range(100), b"x" * 1000) | {1000: b"\xff"}
    savepoint = written(tmp_path / "old", job, many)
    (task,) = tasks_for(savepoint, one_state(ValueStateDescriptor("s", str)))
    target = Folder.at(tmp_path / "new")
    target.create()

    with pytest.raises(ValueNotConvertible):
        perform(task, savepoint.folder, target)
    assert [] == list((tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("old", "new", "value", "path"),
    [
        (ListStateDescriptor("s", bytes), ListStateDescriptor("s", str), [b"a", b"\xff"], "$[]"),
        (MapStateDescriptor("s", str, bytes), MapStateDescriptor("s", str, str), {"a": b"\xff"}, "${}"),
        (MapStateDescriptor("s", bytes, str), MapStateDescriptor("s", str, str), {b"\xff": "a"}, "$<key>"),
    ],
)
def test_the_path_of_a_failing_part_is_reported(tmp_path, old, new, value, path):
    savepoint = written(tmp_path / "old", one_state(old), {7: value})
    (task,) = tasks_for(savepoint, one_state(new))

    with pytest.raises(ValueNotConvertible) as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    assert ("7", path, "TEXT-2") == tuple(caught.value.where[name] for name in ("key", "path", "rule"))


def test_user_keys_that_become_one_abort_and_name_key_and_rule(tmp_path):
    old, new = (Job([Operator("op", key=int, states=[MapStateDescriptor("s", k, int)])]) for k in (int, float))
    # as doubles the two longs are one
    savepoint = written(tmp_path / "old", old, {1: {5: 0}, 7: {2**53: 1, 2**53 + 1: 2}})
    (task,) = tasks_for(savepoint, new)

    with pytest.raises(ValueNotConvertible, match="become the same") as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    where = caught.value.where
    assert ("7", "$<key>", "MAP-3", "s") == tuple(where[name] for name in ("key", "path", "rule", "state"))


def test_keys_that_become_one_in_a_broadcast_map_abort(tmp_path):
    old, new = (Job([Operator("op", broadcast_states=[MapStateDescriptor("b", k, int)])]) for k in (int, float))
    with SavepointWriter(tmp_path / "old", old) as writer:
        writer.put_broadcast("op", "b", 2**53, 1)
        writer.put_broadcast("op", "b", 2**53 + 1, 1)
    savepoint = Savepoint.open(tmp_path / "old")
    (task,) = tasks_for(savepoint, new)

    with pytest.raises(ValueNotConvertible, match="become the same") as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    assert "MAP-3" == caught.value.where["rule"]


def damaged(folder, blocks_of):
    """Put other blocks into the only keyed stream of a savepoint, which has no digests then."""
    (folder / LINEAGE).unlink()
    metadata = read_metadata((folder / "_metadata").read_bytes())
    (operator,) = metadata.operators
    (subtask,) = operator.subtasks
    with open_stream(subtask.managed_keyed.stream, Folder.at(folder)) as source:
        reader = KeyedStreamReader.open(source, subtask.managed_keyed)
        blocks = [Block.of(b.key_group, b.state_id, blocks_of(b)) for b in reader.blocks()]
        data, offsets = write_keyed_stream(reader.header, subtask.managed_keyed.key_groups, blocks)
    handle = attrs.evolve(subtask.managed_keyed, offsets=offsets, stream=InlineHandle("x", data))
    operator = attrs.evolve(operator, subtasks=(attrs.evolve(subtask, managed_keyed=handle),))
    (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=(operator,))))
    return Savepoint.open(folder)


def test_an_entry_of_another_key_group_is_found_where_entries_are_parsed(tmp_path):
    written(tmp_path / "old", one_state(ValueStateDescriptor("s", Int32)), {1: 1})
    savepoint = damaged(tmp_path / "old", lambda block: [(bytes([127]) + k[1:], v) for k, v in block.items()])
    (task,) = tasks_for(savepoint, one_state(ValueStateDescriptor("s", int)))

    with pytest.raises(CorruptSavepoint, match="is stored as belonging to another") as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    assert ("RUN-3", "1", "s") == tuple(caught.value.where[name] for name in ("rule", "key", "state"))


def test_a_value_with_bytes_after_it_is_corrupt(tmp_path):
    written(tmp_path / "old", one_state(ValueStateDescriptor("s", Int32)), {1: 1})
    savepoint = damaged(tmp_path / "old", lambda block: [(k, v + b"!") for k, v in block.items()])
    (task,) = tasks_for(savepoint, one_state(ValueStateDescriptor("s", int)))

    with pytest.raises(CorruptSavepoint, match="1 bytes follow"):
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))


@attrs.frozen
class Forgetful(TypeSerializer[int]):
    """Writes a long, and reads another one: RUN-7 must notice."""

    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long() + 1

    def snapshot_configuration(self):
        return ForgetfulSnapshot()

    def ensure_compatibility(self, snapshot):
        return LongSerializer().ensure_compatibility(snapshot)


@register_snapshot
@attrs.define
class ForgetfulSnapshot(LongSerializerSnapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-forgetful"
    version: ClassVar[int] = 1

    def get_compatible_versions(self):
        return (1,)

    def restore_serializer(self) -> TypeSerializer[Any]:
        return Forgetful()


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (ValueStateDescriptor("s", Int32), ValueStateDescriptor("s", Forgetful()), 1),
        (ListStateDescriptor("s", Int32), ListStateDescriptor("s", Forgetful()), [1]),
        (MapStateDescriptor("s", str, Int32), MapStateDescriptor("s", str, Forgetful()), {"a": 1}),
    ],
)
def test_a_serializer_that_does_not_read_what_it_writes_fails_the_proof(tmp_path, old, new, value):
    savepoint = written(tmp_path / "old", one_state(old), {1: value})
    (task,) = tasks_for(savepoint, one_state(attrs.evolve(new, converter=int)))

    with pytest.raises(MigrationFailed, match="does not write the same bytes") as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    assert ("RUN-7", "s") == tuple(caught.value.where[name] for name in ("rule", "state"))


def test_small_streams_stay_in_memory_and_large_ones_are_attempts(tmp_path):
    old, new = (one_state(ValueStateDescriptor("s", tuple[bytes, n])) for n in (Int32, int))
    for name, size in (("small", 10), ("large", INLINE_BYTES)):
        savepoint = written(tmp_path / name, old, {1: (bytes(size), 1)})
        (task,) = tasks_for(savepoint, new)
        assert isinstance(task, KeyedTask)
        target = Folder.at(tmp_path / f"{name}-new")
        target.create()
        results = [perform(task, savepoint.folder, target) for _ in range(2)]
        files = sorted(f.name for f in (tmp_path / f"{name}-new").iterdir())
        if name == "small":
            assert ([], results[0]) == (files, results[1])
            assert results[0].stored.attempt == ""
        else:
            # two attempts of a task never write to one file, and write the same
            assert files == sorted(result.stored.attempt for result in results)
            assert results[0].stored.digest == results[1].stored.digest
            assert all(name.startswith(results[0].stored.name + ".attempt-") for name in files)


def test_tasks_say_how_much_they_read(savepoint_of, accounts):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    tasks = tasks_for(savepoint, accounts(3))

    assert {KeyedTask, OperatorTask} == {type(task) for task in tasks}
    assert [task.size_bytes for task in tasks] == sorted((task.size_bytes for task in tasks), reverse=True)
    assert all(task.size_bytes > 0 for task in tasks)


def test_a_copied_file_is_compared_with_the_digest_that_its_lineage_tells(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_bytes(b"content")
    target = Folder.at(tmp_path / "new")
    target.create()
    stream = RelativeFileHandle("file", 7)
    good = "917e1274274fc195b27a2d2388d9568c"

    result = perform(CopyTask("op", "copied", stream, good), Folder.at(tmp_path / "old"), target)
    assert b"content" == (tmp_path / "new" / result.stored.attempt).read_bytes()
    with pytest.raises(CorruptSavepoint, match="digest differs"):
        perform(CopyTask("op", "copied", stream, "00" * 16), Folder.at(tmp_path / "old"), target)
    assert [result.stored.attempt] == [f.name for f in (tmp_path / "new").iterdir()]


def test_counts_and_checksums_do_not_depend_on_how_entries_are_spread(tmp_path, migrate):
    old, new = (one_state(ValueStateDescriptor("s", hint)) for hint in (Int32, int))
    values = {key: key for key in range(500)}
    found = []
    for parallelism in (1, 3, 16):
        written(tmp_path / f"old{parallelism}", old, values, parallelism=parallelism)
        result = migrate(tmp_path / f"old{parallelism}", tmp_path / f"new{parallelism}", new, parallelism=2)
        (count,) = result.lineage.states
        found.append((count.read, count.written, count.dropped, count.keys))

    assert found[0] == found[1] == found[2]
    assert (500, 500, 0) == found[0][:3]
    assert len(found[0][3]) == 16


def test_streams_that_describe_a_copied_state_differently_do_not_become_one(tmp_path, migrate):
    def job(c, v):
        return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", c), ValueStateDescriptor("kept", v)])])

    # two subtasks whose headers differ in the orphaned state, as subclasses that only one has met make them
    with SavepointWriter(tmp_path / "one", job(Int32, int), parallelism=2) as writer:
        writer.put("op", "kept", 1, 1)
    with SavepointWriter(tmp_path / "two", job(Int32, str), parallelism=2) as writer:
        writer.put("op", "kept", 1, "1")
    metadata, other = (read_metadata((tmp_path / name / "_metadata").read_bytes()) for name in ("one", "two"))
    (tmp_path / "one" / LINEAGE).unlink()
    subtasks = (metadata.operators[0].subtasks[0], other.operators[0].subtasks[1])
    (tmp_path / "one" / "_metadata").write_bytes(
        write_metadata(attrs.evolve(metadata, operators=(attrs.evolve(metadata.operators[0], subtasks=subtasks),)))
    )
    new = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)])])

    assert "differently" in Savepoint.open(tmp_path / "one").operator("op").state("kept").unsupported
    with pytest.raises(UnsupportedFormat, match="describe the state 'kept' differently"):
        migrate(tmp_path / "one", tmp_path / "joined", new, parallelism=1)
    migrate(tmp_path / "one", tmp_path / "kept", new)


def test_a_converter_decides_what_values_become(tmp_path, migrate):
    old = one_state(ValueStateDescriptor("s", str))
    new = one_state(ValueStateDescriptor("s", int, converter=len))
    written(tmp_path / "old", old, {1: "abc", 2: ""})

    found = migrate(tmp_path / "old", tmp_path / "new", new)
    assert {1: 3, 2: 0} == values_of(found)
    (state,) = found.lineage.plan["operators"][0]["states"]
    assert "builtins.len" == state["rewrites"][0]["converter"]


def test_a_converter_is_called_by_one_thread_and_op_lists_are_carried_out_by_two(tmp_path, monkeypatch):
    monkeypatch.setattr("stateshift.state.formats.flink.keyed_readers._BYTES", 1)  # each block is a batch
    monkeypatch.setattr("stateshift.state.migration.stream_rewriter.may_be_whole", lambda _: False)
    monkeypatch.setenv("STATESHIFT_EXECUTOR", "numba")
    seen = []

    def watch():
        seen.append(threading.get_ident())
        if len(seen) < 10:
            time.sleep(0.01)  # another thread has time to come

    def length(text):
        watch()
        return len(text)

    rewrite = NumbaExecutor.rewrite

    def watched(*arguments):
        watch()
        return rewrite(*arguments)

    monkeypatch.setattr(NumbaExecutor, "rewrite", watched)
    monkeypatch.setattr(runner, "cores", lambda: 2)
    threads = []
    for name, old, new, value in (
        ("a", ValueStateDescriptor("s", str), ValueStateDescriptor("s", int, converter=length), "abc"),
        ("b", ValueStateDescriptor("s", Int32), ValueStateDescriptor("s", int), 3),
    ):
        savepoint = written(tmp_path / name, one_state(old), dict.fromkeys(range(200), value))
        (task,) = tasks_for(savepoint, one_state(new))
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
        threads.append(len(set(seen)))
        seen.clear()

    assert [1, 2] == threads


def test_a_converter_that_fails_is_reported_with_the_key(tmp_path):
    savepoint = written(tmp_path / "old", one_state(ValueStateDescriptor("s", str)), {1: "5", 2: "five"})
    (task,) = tasks_for(savepoint, one_state(ValueStateDescriptor("s", int, converter=int)))

    with pytest.raises(ValueNotConvertible, match=r"converter builtins\.int failed on 'five'") as caught:
        perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
    assert "2" == caught.value.where["key"]


@attrs.frozen
class Old:
    tags: set[str]
    level: Int32


@attrs.frozen
class New:
    tags: set[str]
    level: int


def test_sets_within_records_pass_the_proof(tmp_path, migrate):
    name = serializer_for(Old).name
    old = one_state(ValueStateDescriptor("s", Old))
    new = one_state(ValueStateDescriptor("s", attrs.evolve(serializer_for(New), aliases=(name,))))
    tags = {f"tag{i}" for i in range(20)}
    written(tmp_path / "old", old, {1: Old(tags, 1)})

    found = migrate(tmp_path / "old", tmp_path / "new", new)
    assert (tags, 1) == (values_of(found)[1].tags, values_of(found)[1].level)


def test_annotated_serializers_are_taken_as_they_are(tmp_path, migrate):
    new = one_state(ValueStateDescriptor("s", Annotated[int, serializer_for(BigInt)]))
    written(tmp_path / "old", one_state(ValueStateDescriptor("s", int)), {1: 2**62})

    found = migrate(tmp_path / "old", tmp_path / "new", new)
    assert "bigint" == found.operator("op").state("s").description.describe()
    assert {1: 2**62} == values_of(found)
    assert encode(serializer_for(BigInt), 5) != encode(serializer_for(int), 5)
