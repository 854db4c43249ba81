"""Sound savepoints are verified, and every kind of damage is found where it is."""

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import attrs
import pytest
from damaging import Places, damage_of

from stateshift import (
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    StateShiftError,
    StorageFailed,
    ValueStateDescriptor,
    record,
    serializer_for,
)
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import InlineBytes, open_stream
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.runner import InProcess
from stateshift.state.savepoint import verify as verifying
from stateshift.state.savepoint.proof_tasks import Proofs, stream_handles, stream_tasks
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.storage.files import Folder
from stateshift.state.storage.prefetch import cores

STORED = Path(__file__).parents[2] / "fixtures" / "stored-data" / "0.1" / "accounts" / "migrated"
JOB = Job(
    [
        Operator(
            "keyed",
            key=str,
            states=[
                ValueStateDescriptor("value", str),
                ListStateDescriptor("list", str),
                MapStateDescriptor("map", str, str),
            ],
        ),
        Operator(
            "other",
            list_states=[ListStateDescriptor("split", str)],
            broadcast_states=[MapStateDescriptor("b", str, str)],
        ),
    ]
)


@pytest.fixture
def written(tmp_path):
    """A sound savepoint of two subtasks, its large streams in files."""
    with SavepointWriter(tmp_path / "sp", JOB, parallelism=2) as writer:
        for i in range(50):
            writer.put("keyed", "value", f"key{i}", f"value{i}" * 200)
            writer.put("keyed", "list", f"key{i}", [f"value{i}"] * 3)
            writer.put("keyed", "map", f"key{i}", {f"value{i}": "x"})
        writer.add("other", "split", "element")
        writer.put_broadcast("other", "b", "rule", "text")
    return tmp_path / "sp"


def failed(folder):
    return [check for check in verify(Savepoint.open(folder)).checks if check.status is Outcome.FAILED]


@pytest.mark.parametrize("phase", ["digests", "streams"])
def test_a_store_that_refuses_is_an_error_and_no_damage(written, phase):
    """Nothing is known then: a failed check would blame the savepoint."""

    class Refused(InProcess):
        def run(self, works, tell):
            if works[0].phase == phase:
                return [StorageFailed("the store rejects the credentials") for _ in works[0].tasks]
            return super().run(works, tell)

    with pytest.raises(StorageFailed, match="the store rejects the credentials"):
        verify(Savepoint.open(written), runner=Refused())


def test_a_quarantine_that_cannot_be_read_is_an_error_too(tmp_path):
    stored = shutil.copytree(STORED, tmp_path / "sp")
    (quarantine,) = stored.glob("*-quarantine-*")
    quarantine.unlink()
    quarantine.mkdir()

    class Trusting(InProcess):
        def run(self, works, tell):
            return [""] * len(works[0].tasks) if works[0].phase == "digests" else super().run(works, tell)

    with pytest.raises(StorageFailed, match="it is a folder, not a regular file"):
        verify(Savepoint.open(stored), runner=Trusting())


def edit(folder, change, *, with_digests=False):
    """Change the parsed `_metadata`; without lineage, as Flink writes it, unless the digests are to stay."""
    if not with_digests:
        (folder / LINEAGE).unlink(missing_ok=True)
    metadata = read_metadata((folder / "_metadata").read_bytes())
    (folder / "_metadata").write_bytes(write_metadata(change(metadata)))


def with_subtask(metadata, uid, index, change):
    """Change one subtask of an operator."""

    def changed(operator):
        subtasks = tuple(change(subtask) if subtask.index == index else subtask for subtask in operator.subtasks)
        return attrs.evolve(operator, subtasks=subtasks)

    operators = tuple(changed(one) if one.uid == uid else one for one in metadata.operators)
    return attrs.evolve(metadata, operators=operators)


def test_every_savepoint_of_flink_is_verified(canonical):
    report = verify(Savepoint.open(canonical))

    assert [] == [check for check in report.checks if check.status is Outcome.FAILED]
    assert report.ok
    proven = {check.name for check in report.checks if check.status is Outcome.OK}
    has_keys = any(operator.key is not None for operator in Savepoint.open(canonical).operators)
    assert ("key groups" in proven) == has_keys
    assert "structure" in proven


def test_keys_of_native_savepoints_lie_where_they_hash_to(native_heap):
    report = verify(Savepoint.open(native_heap))

    assert report.ok
    assert any(check.name == "key groups" and check.status is Outcome.OK for check in report.checks)


def test_a_written_savepoint_is_proven_in_everything(written):
    report = verify(Savepoint.open(written))

    assert {Outcome.OK} == {check.status for check in report.checks}
    assert {"structure", "digests", "key groups", "values", "elements", "counts"} == {c.name for c in report.checks}


@pytest.mark.parametrize(
    ("count", "lying", "ending"),
    [
        (1, "1 entry is in the key group of its key", "1 element ends where its type requires"),
        (1001, "1,001 entries are in the key group of their key", "1,001 elements end where their types require"),
    ],
)
def test_counts_are_put_as_everywhere(tmp_path, count, lying, ending):
    states = {"states": [ValueStateDescriptor("s", int)], "list_states": [ListStateDescriptor("l", int)]}
    with SavepointWriter(tmp_path / "sp", Job([Operator("o", key=int, **states)])) as writer:
        for number in range(count):
            writer.put("o", "s", number, number)
            writer.add("o", "l", number)

    details = [check.detail for check in verify(Savepoint.open(tmp_path / "sp")).checks]

    assert details[0].endswith("1 operator, 1 with state")
    assert lying in details
    assert ending in details
    assert "2 states have as many entries as recorded" in details


def test_progress_reports_files_and_then_streams(written):
    seen = []
    verify(Savepoint.open(written), progress=seen.append)

    assert ["digests", "streams"] == list(dict.fromkeys(progress.phase for progress in seen))
    for phase in ("digests", "streams"):
        told = [progress for progress in seen if progress.phase == phase]
        assert (0, 0) == (told[0].done, told[0].bytes_done)
        assert (told[-1].total, told[-1].bytes_total) == (told[-1].done, told[-1].bytes_done)
        assert sorted(told, key=lambda progress: (progress.bytes_done, progress.done)) == told


class Stopped(BaseException):
    pass


def test_what_progress_raises_ends_the_look(written):
    def stop(progress):
        if progress.phase == "streams" and progress.bytes_done:
            raise Stopped

    with pytest.raises(Stopped):
        verify(Savepoint.open(written), progress=stop)


def test_threads_that_are_left_do_no_more(tmp_path):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", int)])])
    with SavepointWriter(tmp_path / "sp", job, parallelism=64) as writer:
        for number in range(1000):
            writer.put("o", "s", number, number)
    opened = Savepoint.open(tmp_path / "sp")
    tasks = list(stream_tasks(opened.operators[0], 1 << 20, framing_only=False))
    told = []

    def stop_once(progress):
        told.append(progress)
        time.sleep(0.01)
        if len(told) == 3:
            raise Stopped

    assert 64 == len(tasks)
    with pytest.raises(Stopped):
        InProcess(cores()).run([Proofs.of("streams", tasks, opened.folder)], stop_once)
    assert told[-1].done < 32
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]


@pytest.mark.parametrize(
    "name",
    ["hashmap-zoo-p1-m128", "rocksdb-account-v1", "hashmap-native-long-p2-m128", "rocksdb-string-p1-m200-snappy"],
)
def test_parts_of_streams_prove_what_whole_streams_prove(savepoint_of, monkeypatch, name):
    whole = verify(savepoint_of(name))
    monkeypatch.setattr(verifying, "PART_BYTES", 100)

    parts = [
        task
        for one in Savepoint.open(savepoint_of(name)).operators
        for task in stream_tasks(one, 100, framing_only=False)
    ]

    assert len(parts) > sum(len(list(stream_handles(one))) for one in Savepoint.open(savepoint_of(name)).operators)
    assert whole == verify(savepoint_of(name))


@pytest.fixture
def nothing_is_read(monkeypatch):
    """Whoever reads a key or a value fails."""

    def fail(*_):
        raise AssertionError

    for name in ("StreamCheck.of", "prove_elements"):
        monkeypatch.setattr(f"stateshift.state.savepoint.stream_proofs.{name}", fail)


@pytest.mark.usefixtures("nothing_is_read")
def test_digests_stand_for_keys_and_values(written):
    report = verify(Savepoint.open(written), trust_digests=True)

    assert (True, True) == (report.ok, report.by_digests)
    assert ["structure", "digests", "entries", "entries", "counts"] == [check.name for check in report.checks]
    details = [check.detail for check in report.checks if check.name == "entries"]
    assert ["150 entries are as they were written", "3 entries are as they were written"] == [
        detail.partition(",")[0] for detail in details
    ]
    assert all("no keys and values were read" in detail for detail in details)


def test_without_digests_and_where_one_is_wrong_all_is_read(written):
    file = next(f for f in written.iterdir() if f.name.endswith("keyed-1"))
    data = bytearray(file.read_bytes())
    data[data.rindex(b"value") + 2] ^= 1
    file.write_bytes(data)

    one_is_wrong = verify(Savepoint.open(written), trust_digests=True)
    assert {"keyed": {"key groups", "values"}, "other": {"entries"}} == {
        where: {check.name for check in one_is_wrong.checks if check.where == where} for where in ("keyed", "other")
    }

    (written / LINEAGE).unlink()
    without = verify(Savepoint.open(written), trust_digests=True)
    assert not without.by_digests
    assert {"structure", "digests", "key groups", "values", "elements"} == {check.name for check in without.checks}


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_damage_is_reported_alike_whether_digests_are_trusted_or_all_is_read(written, first):
    places = Places(written)
    for seed in range(first, first + 100):
        damage = damage_of(places, seed)
        (written / damage.file).write_bytes(damage.data)

        trusting, reading = (told(written, trust_digests=trust) for trust in (True, False))

        assert reading, f"seed {seed}: {damage.kind} in {damage.file}"
        assert trusting == reading, f"seed {seed}: {damage.kind} in {damage.file}"
        (written / damage.file).write_bytes(places.files[damage.file])


def told(folder, *, trust_digests):
    """What is wrong with a savepoint."""
    try:
        found = verify(Savepoint.open(folder), trust_digests=trust_digests)
    except StateShiftError as error:
        return str(error)
    return [check for check in found.checks if check.status is Outcome.FAILED]


def test_a_flipped_byte_in_an_inline_stream_breaks_the_digest_of_the_metadata(written):
    data = (written / "_metadata").read_bytes()
    at = data.index(b"\x08element")
    (written / "_metadata").write_bytes(data[: at + 1] + b"E" + data[at + 2 :])

    assert [("digests", "_metadata")] == [(check.name, check.where) for check in failed(written)]


def test_a_flipped_byte_in_a_file_breaks_its_digest(written):
    file = next(f for f in written.iterdir() if f.name.endswith("keyed-1"))
    data = bytearray(file.read_bytes())
    data[data.rindex(b"value") + 2] ^= 1
    file.write_bytes(data)

    assert [("digests", file.name)] == [(check.name, check.where) for check in failed(written)]


@pytest.mark.parametrize("with_lineage", [True, False])
def test_a_truncated_file_is_found(written, with_lineage):
    file = next(f for f in written.iterdir() if f.name.endswith("keyed-0"))
    file.write_bytes(file.read_bytes()[:-1])
    if not with_lineage:
        (written / LINEAGE).unlink()

    found = failed(written)
    assert any(f"file {file.name}" in check.where and check.where.startswith("keyed") for check in found)
    assert with_lineage == any(check.name == "digests" for check in found)


@pytest.mark.parametrize("with_lineage", [True, False])
def test_a_missing_file_is_found_and_other_operators_are_still_looked_at(written, with_lineage):
    file = next(f for f in written.iterdir() if f.name.endswith("keyed-0"))
    file.unlink()
    if not with_lineage:
        (written / LINEAGE).unlink()

    found = failed(written)
    assert any("is missing in" in check.detail for check in found)
    assert ["elements"] == [c.name for c in verify(Savepoint.open(written)).checks if c.where == "other"]


@pytest.mark.parametrize("part", ["raw_keyed", "raw_operator"])
def test_a_missing_file_of_raw_state_is_found(written, part):
    def raw(subtask):
        source = subtask.managed_keyed
        handle = attrs.evolve(source, stream=attrs.evolve(source.stream, path="gone")) if part == "raw_keyed" else None
        if handle is None:
            operator = read_metadata((written / "_metadata").read_bytes()).operators
            managed = next(s.managed_operator for o in operator for s in o.subtasks if s.managed_operator)
            handle = attrs.evolve(managed, stream=attrs.evolve(source.stream, path="gone"))
        return attrs.evolve(subtask, **{part: handle})

    edit(written, lambda metadata: with_subtask(metadata, "keyed", 0, raw))

    assert [("structure", "keyed, file gone")] == [(check.name, check.where) for check in failed(written)]


def rewritten(folder, uid, index, blocks_of):
    """Put other blocks into a keyed stream; the stream itself stays well formed."""
    place = Folder.at(folder)

    def change(subtask):
        with open_stream(subtask.managed_keyed.stream, place) as source:
            reader = KeyedStreamReader.open(source, subtask.managed_keyed)
            blocks = list(blocks_of(list(reader.blocks())))
            data, offsets = write_keyed_stream(reader.header, subtask.managed_keyed.key_groups, blocks)
        handle = attrs.evolve(subtask.managed_keyed, offsets=offsets, stream=InlineHandle("new", data))
        return attrs.evolve(subtask, managed_keyed=handle)

    edit(folder, lambda metadata: with_subtask(metadata, uid, index, change))


def moved(blocks):
    """The first entry under the prefix and in the place of the next key group."""
    first = blocks[0]
    group = next(b.key_group for b in blocks if b.key_group != first.key_group)
    for block in blocks:
        if (block.key_group, block.state_id) == (group, first.state_id):
            extra = [(group.to_bytes(1, "big") + key[1:], value) for key, value in first.items()]
            yield Block.of(group, block.state_id, [*block.items(), *extra])
        elif block is not first:
            yield block


def test_an_entry_in_another_key_group_than_its_key_hashes_to_is_found(written):
    rewritten(written, "keyed", 0, moved)

    (found,) = failed(written)
    assert found.name == "key groups"
    assert "Flink would never find it" in found.detail
    assert "key 'key" in found.where


def test_an_entry_whose_prefix_names_another_key_group_is_found(written):
    def wrong(blocks):
        first = blocks[0]
        yield Block.of(first.key_group, first.state_id, [(bytes([127]) + k[1:], v) for k, v in first.items()])
        yield from blocks[1:]

    rewritten(written, "keyed", 0, wrong)

    (found,) = failed(written)
    assert (found.name, "state value" in found.where) == ("key groups", True)


@pytest.mark.parametrize("state", ["value", "list", "map"])
@pytest.mark.parametrize("damage", ["cut", "longer", "endless"])
def test_a_value_that_does_not_end_where_its_type_says_is_found(written, state, damage):
    def change(data):
        endless = data[:1] + b"\xff" * 7
        return {"cut": data[:-1], "longer": data + b"\x09", "endless": endless}[damage]

    def wrong(blocks):
        hit = next(b for b in blocks if ["value", "list", "map"][b.state_id] == state)
        for block in blocks:
            items = [(key, change(value) if block is hit else value) for key, value in block.items()]
            yield Block.of(block.key_group, block.state_id, items)

    rewritten(written, "keyed", 1, wrong)

    (found,) = failed(written)
    assert found.name == "key groups"
    assert f"state {state}" in found.where
    assert "key 'key" in found.where


def test_a_user_key_that_does_not_end_is_found(written):
    def wrong(blocks):
        for block in blocks:
            extra = b"\x01" if block.state_id == 2 else b""
            yield Block.of(block.key_group, block.state_id, [(key + extra, value) for key, value in block.items()])

    rewritten(written, "keyed", 0, wrong)

    assert ["state map" in check.where for check in failed(written)] == [True]


@pytest.mark.parametrize("text", [b"\x08element", b"\x05rule"])
def test_elements_and_broadcast_maps_that_do_not_end_are_found(written, text):
    (written / LINEAGE).unlink()
    data = (written / "_metadata").read_bytes()
    (written / "_metadata").write_bytes(data.replace(text, bytes([text[0] - 1]) + text[1:]))

    (found,) = failed(written)
    assert (found.name, found.where.split(",")[0]) == ("elements", "other")


def test_a_wrong_range_of_a_subtask_is_found(written):
    def wrong(subtask):
        handle = subtask.managed_keyed
        return attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, first_key_group=1, offsets=handle.offsets))

    edit(written, lambda metadata: with_subtask(metadata, "keyed", 0, wrong))

    (found,) = failed(written)
    assert "subtask 0 has key groups 1 to 64 and should have 0 to 63" in found.detail


def test_a_wrong_range_is_found_where_the_header_cannot_be_read(written):
    def wrong(subtask):
        handle = subtask.managed_keyed
        stream = InlineHandle("x", b"\0\0\0\6\0\0\0\0\2\0\7unknown\0\0\0\1")
        return attrs.evolve(subtask, managed_keyed=attrs.evolve(handle, first_key_group=1, stream=stream))

    edit(written, lambda metadata: with_subtask(metadata, "keyed", 0, wrong))

    assert ["should have 0 to 63" in check.detail for check in failed(written)] == [True]


def test_an_unknown_snapshot_class_is_unproven_and_no_failure(savepoint_copy):
    folder = savepoint_copy("hashmap-account-v1")
    data = (folder / "_metadata").read_bytes()
    (folder / "_metadata").write_bytes(data.replace(b"base.MapSerializerSnapshot", b"base.MapSerializerSnapshoq"))
    report = verify(Savepoint.open(folder))

    assert report.ok
    unproven = [check for check in report.checks if check.status is Outcome.UNPROVEN and check.name == "structure"]
    assert ["account-state"] == [check.where for check in unproven]
    assert "MapSerializerSnapshoq" in unproven[0].detail
    assert any(check.where == "account-state-lists" and check.status is Outcome.OK for check in report.checks)


@pytest.mark.parametrize("trust_digests", [True, False])
@pytest.mark.parametrize("room", ["value", "split_list", "broadcast"])
def test_wrong_counts_are_found(written, room, trust_digests):
    facts = json.loads((written / LINEAGE).read_text())
    wrong = next(count for count in facts["states"] if count["kind"] == room)
    wrong["written"] += 1
    (written / LINEAGE).write_text(json.dumps(facts))

    (found,) = told(written, trust_digests=trust_digests)
    assert found.name == "counts"
    assert f"has {wrong['written']}" in found.detail
    assert found.where == f"{wrong['operator']}, state {wrong['state']}"


def test_a_state_that_the_lineage_lists_and_nothing_holds_is_found(written):
    facts = json.loads((written / LINEAGE).read_text())
    facts["states"].append({**facts["states"][0], "state": "lost", "written": 3})
    (written / LINEAGE).write_text(json.dumps(facts))

    assert ["counts"] == [check.name for check in failed(written)]


def test_where_an_entry_is_damaged_nothing_is_said_of_the_number_of_those_behind_it(written):
    text = b"value7value7"
    file = next(file for file in written.iterdir() if text in file.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(text) - 1] += 1
    file.write_bytes(data)

    report = verify(Savepoint.open(written))

    assert ["digests", "key groups"] == [check.name for check in report.checks if check.status is Outcome.FAILED]
    counts = [(check.status, check.detail) for check in report.checks if check.name == "counts"]
    assert [
        (Outcome.OK, "2 states have as many entries as recorded"),
        (Outcome.UNPROVEN, "3 states were not read to the end, because of another error there"),
    ] == counts


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "gone"])
def test_a_digest_of_a_file_that_is_not_there_is_a_failure_and_leads_nowhere(written, name):
    facts = json.loads((written / LINEAGE).read_text())
    facts["files"][name] = {"size": 1, "xxh128": "00"}
    (written / LINEAGE).write_text(json.dumps(facts))

    assert [("digests", name)] == [(check.name, check.where) for check in failed(written)]


def test_keys_that_are_records_of_ours_are_unproven(tmp_path):
    job = Job([Operator("op", key=Thing, states=[ValueStateDescriptor("v", Thing)])])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "v", Thing(1), Thing(2))
    report = verify(Savepoint.open(tmp_path / "sp"))

    assert report.ok
    assert [("key groups", Outcome.UNPROVEN)] == [
        (check.name, check.status) for check in report.checks if check.status is not Outcome.OK
    ]


@attrs.frozen
class Thing:
    number: int


@record(java_class="fx.Base")
@attrs.frozen
class Base:
    number: int


def test_a_subclass_that_the_savepoint_does_not_describe_is_unproven(tmp_path):
    # as Flink's heap backend leaves it: flag 4, class name, the whole value
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("v", Base), ValueStateDescriptor("w", int)])])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "v", 1, Base(7))
        writer.put("op", "w", 1, 7)

    def stored_as_subclass(blocks):
        for block in blocks:
            items = [(k, b"\x04\x00\x06fx.Sub" + v if block.state_id == 0 else v) for k, v in block.items()]
            yield Block.of(block.key_group, block.state_id, items)

    rewritten(tmp_path / "sp", "op", 0, stored_as_subclass)
    report = verify(Savepoint.open(tmp_path / "sp"))

    assert report.ok
    (unread,) = [check for check in report.checks if check.name == "values"]
    assert (unread.status, "values of v cannot be read" in unread.detail) == (Outcome.UNPROVEN, True)


PROGRAM = """
import sys
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.verify import verify
report = verify(Savepoint.open(sys.argv[1]))
assert "mine" not in sys.modules
assert "pyspark" not in sys.modules
print(report.ok, sorted({check.name for check in report.checks}))
"""


def test_values_are_checked_without_the_users_code(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import attrs\n@attrs.frozen\nclass Mine:\n    number: int\n    name: str | None = None\n", encoding="utf-8"
    )
    write = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mine\n"
        "from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor\n"
        "job = Job([Operator('op', key=int, states=[ValueStateDescriptor('v', mine.Mine)])])\n"
        "with SavepointWriter(sys.argv[1] + '/sp', job) as writer:\n"
        "    writer.put('op', 'v', 1, mine.Mine(1, 'a'))\n"
    )
    subprocess.run([sys.executable, "-c", write, tmp_path], check=True)

    ran = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "sp"], check=True, capture_output=True, text=True)
    assert "True ['counts', 'digests', 'key groups', 'structure', 'values']" == ran.stdout.strip()


def test_the_helper_of_these_tests_rebuilds_streams_as_they_were(written):
    metadata = (written / "_metadata").read_bytes()
    subtask = next(o for o in read_metadata(metadata).operators if o.uid == "keyed").subtasks[0]
    with open_stream(subtask.managed_keyed.stream, Folder.at(written)) as source:
        before = source.read_at(0, source.size)
        reader = KeyedStreamReader.open(source, subtask.managed_keyed)
        data, _ = write_keyed_stream(reader.header, subtask.managed_keyed.key_groups, list(reader.blocks()))

    assert before == data
    assert InlineBytes(data).size == len(before)
    assert serializer_for(str) == reader.header.key_snapshot.restore_serializer()
