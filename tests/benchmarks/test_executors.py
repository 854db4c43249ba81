"""Every shape of the benchmarks is rewritten completely by the chosen executor, and all give the same bytes."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("numba")

from benchmarks.passes import task_of
from benchmarks.shapes import SHAPES, write_savepoint
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.numba_executor import NumbaExecutor, NumbaKeyGroups
from stateshift.state.transcode.objects import ObjectTranscoder

WORKERS = {
    "whole key groups by machine code": (NumbaKeyGroups, "rewrite"),
    "blocks by machine code": (NumbaExecutor, "rewrite"),
    "objects": (ObjectTranscoder, "transcode"),
}
BY = {
    ExecutorName.NUMBA: "whole key groups by machine code",
    ExecutorName.OBJECTS: "objects",
}


@pytest.fixture
def workers(monkeypatch):
    """The executors that did some of the work, and how often; those with no share are left out."""
    done = Counter()

    def watched(name, function):
        def work(*arguments, **options):
            result = function(*arguments, **options)
            done[name] += result is not None
            return result

        return work

    for name, (kind, function) in WORKERS.items():
        monkeypatch.setattr(kind, function, watched(name, getattr(kind, function)))
    return done


@pytest.mark.parametrize("shape", SHAPES)
def test_the_chosen_executor_does_all_of_the_work_and_all_write_the_same(shape, tmp_path, workers):
    write_savepoint(SHAPES[shape], 3000, tmp_path / "old")
    task, written = task_of(tmp_path / "old", SHAPES[shape]), {}
    for executor, name in BY.items():
        workers.clear()

        result = perform(task, Folder.at(tmp_path / "old"), Folder.at(tmp_path), executor)

        stored = result.stored
        written[executor] = stored.data if stored.data is not None else (tmp_path / stored.attempt).read_bytes()
        assert [name] == [*+workers]
    assert 1 == len({*written.values()})
