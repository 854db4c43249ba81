"""RUN-4: a value that does not fit ends the run, or lies in quarantine as it was stored, and all is counted (RUN-2)."""

from __future__ import annotations

import cloudpickle
import pytest

from stateshift.compat.plan import BadValues
from stateshift.serializers.errors import (
    ValueNotConvertible,
)
from stateshift.serializers.hints import serializer_for
from stateshift.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from stateshift.state.job import Job, Operator
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.rewrite import perform
from stateshift.state.migration.run import publish_result
from stateshift.state.savepoint.entry_keys import encode
from stateshift.state.savepoint.files import Folder
from stateshift.state.savepoint.publish import prepare_target
from stateshift.state.savepoint.quarantine import read_quarantine
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.writer import SavepointWriter

QUARANTINE = MigrationOptions(bad_values=BadValues.QUARANTINE)
BAD = b"\xff\xfe"


def bytes_and_text(make, **others):
    """Jobs whose state `s` holds bytes, and text: what is no UTF-8 does not fit (TEXT-2)."""
    return [Job([Operator("op", key=int, states=[make(hint)], **others)]) for hint in (bytes, str)]


def written(folder, job, values, *, parallelism=1):
    with SavepointWriter(folder, job, parallelism=parallelism) as writer:
        for key, value in values.items():
            writer.put("op", "s", key, value)
    return Savepoint.open(folder)


def migrate(source, target, job, options=QUARANTINE):
    """Give the savepoint, and what is in its quarantine."""
    prepared, folder = prepare(Savepoint.open(source), job, options), Folder.at(target)
    prepare_target(folder)
    tasks = cloudpickle.loads(cloudpickle.dumps(prepared.tasks))
    results = [perform(task, prepared.savepoint.folder, folder) for task in tasks]
    publish_result(prepared.savepoint, prepared.plan, tasks, results, folder)
    new = Savepoint.open(target)
    return new, list(read_quarantine(new.folder, new.lineage))


def values_of(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("op").state("s").read_entries()}


def counts_of(savepoint):
    """Read, written, dropped and quarantined of the only state."""
    (count,) = savepoint.lineage.states
    return count.read, count.written, count.dropped, count.quarantined


def test_bad_entries_of_value_state_lie_aside_as_they_were_stored_run_4(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD, 3: b"good"})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: "fine", 3: "good"} == values_of(found)
    assert (3, 2, 0, 1) == counts_of(found)
    assert ("op", "s", "value", "2", "$", "TEXT-2") == (
        bad.operator, bad.state, bad.kind, bad.key, bad.path, bad.rule,
    )  # fmt: skip
    assert encode(serializer_for(bytes), BAD) == bad.value_bytes
    assert bad.key_bytes == bytes([bad.key_group]) + encode(serializer_for(int), 2) + bad.key_bytes[9:]
    assert "is not UTF-8" in bad.reason
    assert "UnicodeDecodeError" == bad.cause


def test_without_leave_the_first_bad_value_ends_the_run_run_4(tmp_path):
    old, new = bytes_and_text(lambda hint: ValueStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: b"fine", 2: BAD})

    with pytest.raises(ValueNotConvertible, match=r"key 2, path [$], rule TEXT-2"):
        migrate(tmp_path / "old", tmp_path / "new", new, MigrationOptions())


def test_a_list_is_put_aside_whole_for_a_list_that_lacks_an_element_looks_whole(tmp_path):
    old, new = bytes_and_text(lambda hint: ListStateDescriptor("s", hint))
    written(tmp_path / "old", old, {1: [b"a", b"b"], 2: [b"c", BAD, b"d"]})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: ["a", "b"]} == values_of(found)
    assert ((2, 1, 0, 1), "$[]") == (counts_of(found), bad.path)
    assert b",".join(encode(serializer_for(bytes), each) for each in (b"c", BAD, b"d")) == bad.value_bytes


def test_of_a_map_one_user_key_is_put_aside(tmp_path):
    old, new = bytes_and_text(lambda hint: MapStateDescriptor("s", int, hint))
    written(tmp_path / "old", old, {1: {5: b"a", 6: BAD, 7: b"c"}, 2: {8: b"d"}})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: {5: "a", 7: "c"}, 2: {8: "d"}} == values_of(found)
    assert ((4, 3, 0, 1), "${}", "1") == (counts_of(found), bad.path, bad.key)
    assert bad.key_bytes.endswith(encode(serializer_for(int), 6))


def test_a_user_key_can_be_bad_itself(tmp_path):
    old, new = (Job([Operator("op", key=int, states=[MapStateDescriptor("s", hint, int)])]) for hint in (bytes, str))
    written(tmp_path / "old", old, {1: {b"a": 1, BAD: 2}})

    found, (bad,) = migrate(tmp_path / "old", tmp_path / "new", new)

    assert {1: {"a": 1}} == values_of(found)
    assert ((2, 1, 0, 1), "$<key>") == (counts_of(found), bad.path)
