"""The tasks of a migration run by each executor, and their results: bytes, counts, or an error."""

from __future__ import annotations

import tempfile

import attrs
import pytest

from stateshift import StateShiftError
from stateshift.state import runner
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.executor_choice import VARIABLE, ExecutorName

EXECUTORS = [*ExecutorName]


def by_each_executor(ready):
    """Give for each executor what it makes of the tasks: stream, bad values and result of each, or how it fails.

    Machine code goes through them once more in one thread.
    """
    outcomes = {}
    for name in EXECUTORS:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
            patch.setenv(VARIABLE, name)
            patch.setattr(runner, "cores", lambda: 2)
            folder = Folder.at(place)
            outcomes[name] = [_outcome(task, ready.savepoint.folder, folder) for task in ready.tasks]
            if name is ExecutorName.NUMBA:
                source = ready.savepoint.folder
                outcomes["alone"] = [_outcome(task, source, folder, is_one_of_many=True) for task in ready.tasks]
    return outcomes


def agreed(ready):
    """What all executors come to."""
    outcomes = by_each_executor(ready)
    first = outcomes[EXECUTORS[0]]
    for name, outcome in outcomes.items():
        assert first == outcome, name
    return first


def _outcome(task, source, target, **how):
    try:
        result = perform(task, source, target, **how)
    except StateShiftError as error:
        return type(error), str(error), error.where
    stream, *aside = [target.read(file.attempt) if file.attempt else file.data for file in result.files]
    stored = attrs.evolve(result.stored, attempt="")
    # Blocks of one state may go through together, before those of the next: bad values are found in any order.
    return stream, [sorted(file.splitlines()) for file in aside], attrs.evolve(result, stored=stored, quarantine=None)
