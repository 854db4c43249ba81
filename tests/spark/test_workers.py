"""The executor is chosen where entries are read, and a missing one is reported."""

from __future__ import annotations

import pickle

import pytest

from stateshift import Int32, Job, MigrationOptions, Operator, Savepoint, SavepointWriter, ValueStateDescriptor
from stateshift.serializers.registry import Additions
from stateshift.spark.bundles import Bundles
from stateshift.spark.worker import Settings
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run_task import works_of
from stateshift.state.storage.files import Folder
from stateshift.state.transcode import executor_choice as choice


def job_of(item):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", item)])])


@pytest.mark.parametrize(
    ("is_there", "share", "told"), [(False, 1 << 30, True), (False, 1 << 10, False), (True, 1 << 30, False)]
)
def test_a_worker_that_lacks_numba_for_much_state_says_so(tmp_path, monkeypatch, is_there, share, told):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(choice, "has_numba", lambda: is_there)
    monkeypatch.setattr(choice, "is_compiled", lambda: False)
    monkeypatch.setattr(choice, "COMPILING_BYTES", 1 << 40)
    monkeypatch.setattr(Settings, "begin", lambda _: None)
    with SavepointWriter(tmp_path / "old", job_of(Int32)) as writer:
        writer.put("counter", "count", 1, 1)
    ready, target = (
        prepare(Savepoint.open(tmp_path / "old"), job_of(int), MigrationOptions()),
        Folder.at(tmp_path / "new"),
    )
    target.create()
    (work,) = works_of(ready.tasks, ready.savepoint.folder, ready.journal(target))
    bundles = Bundles(work, Settings(Additions(), redacted=False, attempts=1), share, are_even=False)

    ((_, result),) = map(pickle.loads, bundles([[0]]))

    assert told is result.lacks_numba
    assert told is ready.journal(target).finished()[result.stored.name].lacks_numba
