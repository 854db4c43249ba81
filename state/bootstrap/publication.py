"""The engine-independent part of a bootstrap: the number of subtasks, and the publication of their streams.

Source: DESIGN, section 4; rules RUN-2, RUN-5.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ... import __version__
from ...serializers.errors import DeclarationError, MigrationFailed
from ..migration.run import subtasks_for
from ..savepoint.handles import CANONICAL, InlineHandle, KeyGroupsHandle, RelativeFileHandle
from ..savepoint.metadata import OperatorState, SavepointMetadata, SubtaskState
from ..savepoint.new_streams import store_operator_state
from ..storage.lineage import FileDigest, Lineage, StateCount
from ..storage.publish import give_name, now, publish
from .report import StateBootstrap
from .streams import NewOperator, StreamResult, write_rowless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compat.targets import Target
    from ..job import Job, Operator
    from ..savepoint.handles import StreamHandle
    from ..storage.files import Folder
    from .sources import ResolvedSource
    from .streams import RowCount


def check_position(position: Any) -> None:
    """Check that a position can be stored in `_stateshift.json`.

    Raises:
        DeclarationError: The position is not JSON-serializable.
    """
    try:
        json.dumps(position)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"the position of the history cannot be kept as JSON: {error}", advice="pass numbers, strings, lists, dicts"
        ) from error


def new_operators(
    job: Job,
    sizes: Mapping[int, int],
    parallelism: int | None,
    max_parallelism: int,
    sources: Sequence[ResolvedSource] = (),
) -> dict[int, NewOperator]:
    """Return the operators with keyed state, by index in the job, with their parallelism.

    The result depends only on the rows and not on the machine, so that a repeated run writes the same files (rule
    RUN-5).

    Args:
        job: The job with all operators.
        sizes: The size of each operator's entries in bytes, by index.
        parallelism: The parallelism of all operators; None for `subtasks_for` their sizes.
        max_parallelism: The number of key groups.
        sources: The states that are written from rows.
    """
    found = {}
    for place, operator in enumerate(job.operators):
        count = parallelism or subtasks_for(sizes.get(place, 0), max_parallelism)
        new = NewOperator.of(operator, count, max_parallelism)
        if new is not None:
            whole = frozenset(one.state_id for one in sources if one.operator == place and one.has_whole_lists)
            found[place] = attrs.evolve(new, whole_lists=whole)
    return found


def publish_bootstrap(
    folder: Folder,
    job: Job,
    operators: Mapping[int, NewOperator],
    results: Sequence[StreamResult],
    encoded: Mapping[tuple[int, int], RowCount],
    *,
    parallelism: int | None,
    max_parallelism: int,
    restore_target: Target,
    position: Any,
    origin: str = "bootstrap",
) -> Lineage:
    """Rename the files to their final names, write the streams without entries, the lineage, and `_metadata` last.

    Args:
        folder: The target.
        job: The job with all operators.
        operators: The operators with keyed state.
        results: The results of all streams that have entries.
        encoded: The count of encoded rows, by operator and state.
        parallelism: The parallelism of operators without keyed state.
        max_parallelism: The number of key groups.
        restore_target: The system that is to restore the savepoint; it determines the version of `_metadata`.
        position: The position of the history, for the lineage.
        origin: The origin of the types as text, for the lineage.

    Raises:
        MigrationFailed: The rows written are not those encoded.
    """
    check_counts(results, encoded)
    by_stream = {(result.operator, result.subtask): result for result in results}
    files: dict[str, FileDigest] = {}
    states = []
    counts: list[StateCount] = []
    for place, operator in enumerate(job.operators):
        new = operators.get(place)
        count = new.parallelism if new is not None else parallelism or 1
        subtasks = []
        for index in range(count):
            keyed = None
            if new is not None:
                result = by_stream.get((place, index)) or write_rowless(new, place, index, folder)
                by_stream[place, index] = result
                keyed = _handle(result, new, folder, files)
            managed, written = store_operator_state(folder, operator, index, {}, {})
            files |= written
            subtasks.append(SubtaskState(index, managed_keyed=keyed, managed_operator=managed))
        identity = bytes.fromhex(operator.id), count, max_parallelism, operator.name, operator.uid
        states.append(OperatorState(*identity, subtasks=tuple(subtasks)))
        counts += _counts(
            operator, [result for (owner, _), result in by_stream.items() if owner == place], encoded, place
        )
    lineage = Lineage(
        stateshift=__version__, created=now(), job=origin, states=tuple(counts), files=files, position=position
    )
    return publish(folder, SavepointMetadata.new(tuple(states)).written_for(restore_target), lineage)


def check_counts(results: Sequence[StreamResult], encoded: Mapping[tuple[int, int], RowCount]) -> None:
    """Check that exactly the encoded rows were written (rule RUN-2).

    Raises:
        MigrationFailed: The rows differ.
    """
    written: dict[tuple[int, int], RowCount] = {}
    streams = set()
    for result in results:
        streams.add((result.operator, result.subtask))
        for state_id, rows in enumerate(result.rows):
            if rows.rows:
                before = written.get((result.operator, state_id))
                written[result.operator, state_id] = rows if before is None else before + rows
    if len(streams) != len(results) or written != {place: rows for place, rows in encoded.items() if rows.rows}:
        raise MigrationFailed(
            f"the rows written differ from those encoded: {written} and {dict(encoded)}",
            advice="make sure that the sources give the same rows each time they are read; if they do, this is a bug "
            "in stateshift",
            rule="RUN-2",
        )


def _handle(
    result: StreamResult, operator: NewOperator, folder: Folder, files: dict[str, FileDigest]
) -> KeyGroupsHandle:
    stored = result.stored
    if stored.data is not None:
        stream: StreamHandle = InlineHandle(stored.name, stored.data)
    else:
        give_name(folder, stored.attempt, stored.name)
        stream = RelativeFileHandle(stored.name, stored.size)
    if stored.digest is not None:
        files[stored.name] = stored.digest
    return KeyGroupsHandle(CANONICAL, operator.key_groups[result.subtask].start, result.offsets, stream)


def _counts(
    operator: Operator, results: Sequence[StreamResult], encoded: Mapping[tuple[int, int], RowCount], place: int
) -> list[StateCount]:
    counts = []
    keyed = 0
    for state in operator.describe().states:
        read = written = 0
        if state.kind.is_keyed:
            rows = encoded.get((place, keyed))
            read = rows.rows if rows is not None else 0
            written = sum(result.entries[keyed] for result in results)
            keyed += 1
        counts.append(StateCount(operator.id, operator.uid, state.name, str(state.kind), "write", read, written))
    return counts


def unknown_to_flink(job: Job) -> tuple[str, ...]:
    """Return the types of a job's states and keys that Flink does not know, such as stateshift's own records."""
    operators = [operator.describe() for operator in job.operators]
    parts = [part for operator in operators for state in operator.states for part in state.serializers()]
    parts += [operator.key for operator in operators if operator.key]
    return tuple(sorted({part.snapshot.describe() for part in parts if not part.snapshot.is_flink}))


def report_states(job: Job, sources: Sequence[ResolvedSource], lineage: Lineage) -> tuple[StateBootstrap, ...]:
    """Return the result of the bootstrap for each state of the job."""
    found = {(source.title, source.state, str(source.description.kind)): source for source in sources}
    states = []
    for operator, count in ((o, c) for o in job.operators for c in lineage.states if c.operator_id == o.id):
        title = operator.uid or operator.id
        source = found.get((title, count.state, count.kind))
        if source is None:
            states.append(StateBootstrap(title, count.state, count.kind))
            continue
        rows = count.read if source.aggregate is None else None
        states.append(StateBootstrap(title, count.state, count.kind, True, rows, count.written, source.defaults))  # noqa: FBT003 - has_source
    return tuple(states)
