"""The engine-independent part of a bootstrap: the number of subtasks, and the publication of their streams.

Source: DESIGN, section 4; rules RUN-2, RUN-5.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import is_too_deep
from ...serializers.errors import DeclarationError, MigrationFailed
from ..formats.flink.metadata import SavepointMetadata
from ..migration.run import subtasks_for
from ..publication.commit import Commit
from ..publication.lineage import StateCount
from ..savepoint.new_streams import new_operator, operator_infos, put_operator_state
from .bootstrap import StateBootstrap
from .row_streams import NewOperator, StreamResult, write_rowless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compat.targets import Target
    from ..formats.flink.handles import KeyedHandle
    from ..job import Job, Operator
    from ..publication.lineage import Lineage
    from ..storage.files import Folder
    from .row_sources import ResolvedSource
    from .row_streams import RowCount


_WITHIN = 4
"""The levels of a lineage that contain the position, at most: it also lies in the histories of later savepoints."""


def check_position(position: Any) -> None:
    """Check that a position can be stored in `_stateshift.json`.

    Raises:
        DeclarationError: The position is not JSON-serializable, or nested more deeply than it is read back.
    """
    try:
        json.dumps(position)
        if is_too_deep(position, within=_WITHIN):
            raise ValueError("it is nested too deeply")
    except (TypeError, ValueError, RecursionError) as error:
        raise DeclarationError(
            f"the position of the history cannot be kept as JSON: {error}", advice="pass numbers, strings, lists, dicts"
        ) from error


@attrs.frozen
class NewSavepoint:
    """A savepoint of a job whose keyed state is written from rows, and that has no other state.

    Attributes:
        job: The job with all operators.
        sources: The states that are written from rows.
        max_parallelism: The number of key groups.
        parallelism: The number of subtasks of all operators; None to derive it from the size of their state.
        restore_target: The system that is to restore the savepoint; it determines the version of `_metadata`.
        position: The position of the history, for the lineage.
        origin: The origin of the types as text, for the lineage.
    """

    job: Job
    sources: Sequence[ResolvedSource]
    max_parallelism: int
    parallelism: int | None
    restore_target: Target
    position: Any = None
    origin: str = "bootstrap"

    def operators(self, sizes: Mapping[int, int]) -> dict[int, NewOperator]:
        """Return the operators with keyed state, by index in the job, with their parallelism.

        The result depends only on the rows and not on the machine, so that a repeated run writes the same files (rule
        RUN-5).

        Args:
            sizes: The size of each operator's entries in bytes, by index.
        """
        found = {}
        for place, operator in enumerate(self.job.operators):
            count = self.parallelism or subtasks_for(sizes.get(place, 0), self.max_parallelism)
            new = NewOperator.of(operator, count, self.max_parallelism)
            if new is not None:
                whole = frozenset(one.state_id for one in self.sources if one.operator == place and one.has_whole_lists)
                found[place] = attrs.evolve(new, whole_lists=whole)
        return found

    def publish(
        self,
        folder: Folder,
        operators: Mapping[int, NewOperator],
        results: Sequence[StreamResult],
        encoded: Mapping[tuple[int, int], RowCount],
    ) -> Lineage:
        """Rename the files to their final names, write the streams without entries, the lineage, and `_metadata` last.

        Args:
            folder: The target.
            operators: The operators with keyed state.
            results: The results of all streams that have entries.
            encoded: The count of encoded rows, by operator and state.

        Raises:
            MigrationFailed: The rows written are not those encoded.
        """
        check_counts(results, encoded)
        by_stream = {(result.operator, result.subtask): result for result in results}
        commit, states, counts = Commit(folder), [], list[StateCount]()
        for place, operator in enumerate(self.job.operators):
            new = operators.get(place)
            subtasks = range(new.parallelism if new is not None else self.parallelism or 1)
            streams: list[StreamResult] = []
            if new is not None:
                streams = [by_stream.get((place, at)) or write_rowless(new, place, at, folder) for at in subtasks]
            handles: Sequence[KeyedHandle | None] = [stream.handle(commit) for stream in streams]
            lists = put_operator_state(commit, operator.id, operator_infos(operator), [{}] * len(subtasks), {})
            states.append(new_operator(operator, self.max_parallelism, handles or [None] * len(subtasks), lists))
            counts += _counts(operator, streams, encoded, place)
        metadata = SavepointMetadata.new(tuple(states)).written_for(self.restore_target)
        return commit.publish(metadata, job=self.origin, states=counts, position=self.position)


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
