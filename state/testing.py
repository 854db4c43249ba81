"""A pytest plugin that writes savepoints from values and migrates them in this process; it imports lazily.

It also has the harnesses that run functions with state: `KeyedProcessHarness`, and the others of `state/harness/`.

For example:

    def test_orders_survive(savepoint_builder, migrate_here):
        before = savepoint_builder(old_job, {"shop/open": {"ada": Order(1)}})
        after = migrate_here(before, new_job)
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy

    from .harness.functions import BroadcastHarness as BroadcastHarness  # noqa: PLC0414 - for others to import
    from .harness.functions import KeyedProcessHarness as KeyedProcessHarness  # noqa: PLC0414
    from .harness.functions import ProcessHarness as ProcessHarness  # noqa: PLC0414
    from .harness.functions import SourceHarness as SourceHarness  # noqa: PLC0414
    from .harness.functions import TwoInputHarness as TwoInputHarness  # noqa: PLC0414
    from .harness.mutation_guard import StateMutated as StateMutated  # noqa: PLC0414
    from .harness.subtask import HarnessSnapshot as HarnessSnapshot  # noqa: PLC0414
    from .harness.subtask import snapshot_together as snapshot_together  # noqa: PLC0414
    from .job import Job
    from .migration.options import MigrationOptions
    from .runtime.runtime_context import TaskInfo as TaskInfo  # noqa: PLC0414
    from .savepoint.reader import Savepoint

_HARNESS = {
    "harness.subtask": ("HarnessSnapshot", "snapshot_together"),
    "harness.mutation_guard": ("StateMutated",),
    "runtime.runtime_context": ("TaskInfo",),
    "harness.functions": (
        "BroadcastHarness",
        "KeyedProcessHarness",
        "ProcessHarness",
        "SourceHarness",
        "TwoInputHarness",
    ),
}
"""The names of other modules, by module; each is imported with its first use."""

Contents = Mapping[str, Any]
"""The contents by `UID/STATE`: for keyed state the values by key, for operator lists the elements, for broadcast
state the map.
"""


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _HARNESS.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__package__}.{module}"), name)


def write_savepoint(
    place: Path | str, job: Job, contents: Contents, *, parallelism: int = 1, max_parallelism: int | None = None
) -> Savepoint:
    """Write a savepoint with the given contents of states.

    Args:
        place: A folder that does not exist yet.
        job: The job that declares the states.
        contents: The contents of the states; states that are not named are empty.
        parallelism: The number of subtasks of each operator.
        max_parallelism: The number of key groups; by default that of the job, or 128.

    Raises:
        StateNotFound: The job has no such state.
        ValueNotConvertible: A value does not fit its type.
    """
    from .savepoint.writer import SavepointWriter

    keyed = {f"{operator.uid}/{state.name}" for operator in job.operators for state in operator.states}
    broadcast = {f"{operator.uid}/{state.name}" for operator in job.operators for state in operator.broadcast_states}
    with SavepointWriter(place, job, parallelism=parallelism, max_parallelism=max_parallelism) as writer:
        for name, held in contents.items():
            uid, _, state = name.partition("/")
            if name in keyed:
                for key, value in held.items():
                    writer.put(uid, state, key, value)
            elif name in broadcast:
                for key, value in held.items():
                    writer.put_broadcast(uid, state, key, value)
            else:
                for element in held:
                    writer.add(uid, state, element)
    from .savepoint.reader import Savepoint

    return Savepoint.open(place)


def migrate_in_process(
    source: Savepoint, target: Path | str, job: Job | None = None, options: MigrationOptions | None = None
) -> Savepoint:
    """Migrate a small savepoint without Spark, one task after the other.

    Args:
        source: The savepoint; it is only read.
        target: A folder that is empty or does not exist.
        job: The new types; None: they stay the same.
        options: Further options of the migration.

    Raises:
        IncompatibleState: The compatibility check fails.
        ValueNotConvertible: A value does not fit its new type.
    """
    from .migration.migration import migrate_savepoint
    from .migration.options import MigrationOptions
    from .savepoint.reader import Savepoint

    migrate_savepoint(source, target, job, options or MigrationOptions())
    return Savepoint.open(target)


def jobs(types: SearchStrategy[Any] | None = None) -> SearchStrategy[Job]:
    """Return a strategy of whole jobs: one to three operators, keyed or not, with states of every kind, some with TTL.

    The key types of operators have the same hash in every JVM. Hypothesis is imported when this is called.

    Args:
        types: Draws the types of the states; by default `stateshift.compat.testing.types()`, which documents the
            classes in them.
    """
    from ..compat.testing import strategies
    from . import job_strategies

    return job_strategies.jobs(strategies.types() if types is None else types)


def contents_of(job: Job) -> SearchStrategy[Contents]:
    """Return a strategy of the contents of a job's states, as `write_savepoint` takes them.

    Args:
        job: A drawn job, or your own, as long as `stateshift.compat.testing.values_of` can draw values of its types.
    """
    from . import job_strategies

    return job_strategies.contents_of(job)


@pytest.fixture
def savepoint_builder(tmp_path: Path) -> Callable[..., Savepoint]:
    """`savepoint_builder(job, contents)` writes a savepoint in the test's own folder; see `write_savepoint`."""
    made: list[int] = []

    def build(job: Job, contents: Contents, **shape: int) -> Savepoint:
        made.append(len(made))
        return write_savepoint(tmp_path / f"savepoint-{len(made)}", job, contents, **shape)

    return build


@pytest.fixture
def migrate_here(tmp_path: Path) -> Callable[..., Savepoint]:
    """`migrate_here(savepoint, job)` migrates a savepoint into the test's own folder; see `migrate_in_process`."""
    made: list[int] = []

    def migrate(source: Savepoint, job: Job | None = None, options: MigrationOptions | None = None) -> Savepoint:
        made.append(len(made))
        return migrate_in_process(source, tmp_path / f"migrated-{len(made)}", job, options)

    return migrate
