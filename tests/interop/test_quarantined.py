"""Real Flink restores a savepoint next to which values lie in quarantine (RUN-4): it never looks at those files."""

from __future__ import annotations

import copy

from stateshift import BadValues, Int32, Job, MigrationOptions, Operator, Savepoint, ValueStateDescriptor
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder

NAME = "hashmap-string-p2-m128-files"


def even(count):
    if count % 2:
        raise ValueError(f"{count} is odd")
    return count


def fits(count):
    return count % 2 == 0 and -(1 << 31) <= count < 1 << 31


def test_what_fits_is_restored(flink_restore, same_contents, expected_of, savepoint_of, tmp_path):
    job = Job([Operator("keyed-op", key=str, states=[ValueStateDescriptor("count", Int32, converter=even)])])
    ready = prepare(Savepoint.open(savepoint_of(NAME)), job, MigrationOptions(bad_values=BadValues.QUARANTINE))
    target = Folder.at(tmp_path / "new")
    target.create()
    results = [perform(task, ready.savepoint.folder, target) for task in ready.tasks]
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, target)

    expected = copy.deepcopy(expected_of(NAME))
    (operator,) = [operator for operator in expected["operators"] if operator["uid"] == "keyed-op"]
    counts = operator["keyed"]["count"]["entries"]
    operator["keyed"]["count"]["entries"] = [[key, count] for key, count in counts if fits(count)]

    unfit = [count for _, count in counts if not fits(count)]
    assert unfit
    assert len(unfit) == len(list(Savepoint.open(target.place).quarantine()))
    assert [] == same_contents(expected, flink_restore(target.place))
